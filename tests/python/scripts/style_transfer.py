"""Style transfer: Gram matrices of features, an image as the parameter, L-BFGS with a closure, clamped in place."""
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim

from common import array, seeded


class ContentLoss(nn.Module):
    def __init__(self, target):
        super(ContentLoss, self).__init__()
        self.target = target.detach()

    def forward(self, input):
        self.loss = F.mse_loss(input, self.target)
        return input


def gram_matrix(input):
    a, b, c, d = input.size()
    features = input.view(a * b, c * d)
    G = torch.mm(features, features.t())
    return G.div(a * b * c * d)


class StyleLoss(nn.Module):
    def __init__(self, target_feature):
        super(StyleLoss, self).__init__()
        self.target = gram_matrix(target_feature).detach()

    def forward(self, input):
        self.loss = F.mse_loss(gram_matrix(input), self.target)
        return input


class Normalization(nn.Module):
    def __init__(self, mean, std):
        super(Normalization, self).__init__()
        self.mean = torch.tensor(mean).view(-1, 1, 1)
        self.std = torch.tensor(std).view(-1, 1, 1)

    def forward(self, img):
        return (img - self.mean) / self.std


def main():
    content, style = torch.from_numpy(array(1, 3, 12, 12)).sigmoid(), torch.from_numpy(array(1, 3, 12, 12, seed=1)).sigmoid()
    convs = seeded(nn.ModuleList([nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 8, 3, padding=1)]), 0.3)
    model = nn.Sequential(Normalization([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]))
    losses = []
    for i, conv in enumerate(convs):
        model.add_module(f'conv_{i}', conv)
        target = StyleLoss(model(style))
        model.add_module(f'style_{i}', target)
        losses.append((target, 1e3))
        model.add_module(f'relu_{i}', nn.ReLU(inplace=False))
    target = ContentLoss(model(content))
    model.add_module('content', target)
    losses.append((target, 1.0))
    image = content.clone()
    image.requires_grad_(True)
    model.eval()
    model.requires_grad_(False)
    optimizer = optim.LBFGS([image], max_iter=5)
    found = []
    for _ in range(2):
        def closure():
            with torch.no_grad():
                image.clamp_(0, 1)
            optimizer.zero_grad()
            model(image)
            loss = sum(weight * layer.loss for layer, weight in losses)
            loss.backward()
            found.append(loss.item())
            return loss
        optimizer.step(closure)
    with torch.no_grad():
        image.clamp_(0, 1)
    return found[:6] + [image.mean().item()]
