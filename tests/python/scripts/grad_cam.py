"""GradCAM, guided backpropagation and an adversarial example: forward and backward hooks, gradients with respect to inputs."""
import torch
import torch.nn as nn
import torch.nn.functional as F

from common import array, seeded


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 16, 3, padding=1),
                                      nn.ReLU())
        self.classifier = nn.Linear(16, 4)

    def forward(self, x):
        return self.classifier(F.adaptive_avg_pool2d(self.features(x), 1).flatten(1))


class GradCAM:
    def __init__(self, model, layer):
        self.model, self.gradients, self.activations = model, None, None
        self.handles = [layer.register_forward_hook(self.save_activation),
                        layer.register_full_backward_hook(self.save_gradient)]

    def save_activation(self, module, input, output):
        self.activations = output.detach()

    def save_gradient(self, module, grad_input, grad_output):
        self.gradients = grad_output[0].detach()

    def __call__(self, x, index=None):
        output = self.model(x)
        index = output.argmax(dim=1) if index is None else index
        one_hot = torch.zeros_like(output)
        one_hot[torch.arange(len(x)), index] = 1
        self.model.zero_grad()
        output.backward(gradient=one_hot, retain_graph=True)
        weights = self.gradients.mean(dim=(2, 3), keepdim=True)
        cam = F.relu((weights * self.activations).sum(dim=1, keepdim=True))
        cam = F.interpolate(cam, size=x.shape[2:], mode='bilinear', align_corners=False)
        cam -= cam.amin(dim=(2, 3), keepdim=True)
        return cam / (cam.amax(dim=(2, 3), keepdim=True) + 1e-7)

    def remove(self):
        for handle in self.handles:
            handle.remove()


def main():
    model = seeded(Net(), 0.3).eval()
    x = torch.from_numpy(array(2, 3, 16, 16))
    cam = GradCAM(model, model.features[3])
    heat = cam(x)
    cam.remove()
    found = [heat.mean().item(), heat.max().item()]

    def guided(module, grad_in, grad_out):
        return (torch.clamp(grad_in[0], min=0.0),)

    handles = [m.register_full_backward_hook(guided) for m in model.modules() if isinstance(m, nn.ReLU)]
    image = x.clone().requires_grad_()
    model(image)[:, 1].sum().backward()
    found.append(image.grad.abs().sum().item())
    for h in handles:
        h.remove()

    data = x.clone()
    data.requires_grad = True
    loss = F.nll_loss(F.log_softmax(model(data), dim=1), torch.tensor([1, 2]))
    model.zero_grad()
    loss.backward()
    perturbed = torch.clamp(data + 0.1 * data.grad.data.sign(), -3, 3)
    found += [loss.item(), F.nll_loss(F.log_softmax(model(perturbed), dim=1), torch.tensor([1, 2])).item()]

    activations = {}
    hook = model.features[0].register_forward_hook(lambda m, i, o: activations.__setitem__('conv', o))
    out = model(x)
    hook.remove()
    activations['conv'].retain_grad()
    grads = torch.autograd.grad(out.sum(), activations['conv'])[0]
    found.append(grads.abs().sum().item())
    return found
