"""A Wasserstein GAN with gradient penalty: gradients of gradients, two optimisers, detached samples."""
import torch
import torch.autograd as autograd
import torch.nn as nn
from torch.autograd import Variable

from common import array, seeded


class Generator(nn.Module):
    def __init__(self):
        super().__init__()

        def block(in_feat, out_feat, normalize=True):
            layers = [nn.Linear(in_feat, out_feat)]
            if normalize:
                layers.append(nn.BatchNorm1d(out_feat, 0.8))
            layers.append(nn.LeakyReLU(0.2, inplace=True))
            return layers

        self.model = nn.Sequential(*block(10, 16, normalize=False), *block(16, 32), nn.Linear(32, 64), nn.Tanh())

    def forward(self, z):
        return self.model(z).view(z.shape[0], *(1, 8, 8))


class Discriminator(nn.Module):
    def __init__(self):
        super().__init__()
        self.model = nn.Sequential(nn.Linear(64, 32), nn.LeakyReLU(0.2, inplace=True), nn.Linear(32, 1))

    def forward(self, img):
        return self.model(img.view(img.shape[0], -1))


def compute_gradient_penalty(D, real_samples, fake_samples, step):
    alpha = torch.from_numpy(abs(array(real_samples.size(0), 1, 1, 1, seed=step)) % 1)
    interpolates = (alpha * real_samples + ((1 - alpha) * fake_samples)).requires_grad_(True)
    d_interpolates = D(interpolates)
    fake = Variable(torch.Tensor(real_samples.shape[0], 1).fill_(1.0), requires_grad=False)
    gradients = autograd.grad(outputs=d_interpolates, inputs=interpolates, grad_outputs=fake, create_graph=True,
                              retain_graph=True, only_inputs=True)[0]
    gradients = gradients.view(gradients.size(0), -1)
    return ((gradients.norm(2, dim=1) - 1) ** 2).mean()


def main():
    generator, discriminator = seeded(Generator(), 0.3), seeded(Discriminator(), 0.3)
    optimizer_G = torch.optim.Adam(generator.parameters(), lr=2e-3, betas=(0.5, 0.999))
    optimizer_D = torch.optim.Adam(discriminator.parameters(), lr=2e-3, betas=(0.5, 0.999))
    found = []
    for step in range(4):
        real_imgs = Variable(torch.from_numpy(array(8, 1, 8, 8, seed=step)))
        optimizer_D.zero_grad()
        z = Variable(torch.Tensor(array(8, 10, seed=50 + step)))
        fake_imgs = generator(z)
        gradient_penalty = compute_gradient_penalty(discriminator, real_imgs.data, fake_imgs.data, step)
        d_loss = -torch.mean(discriminator(real_imgs)) + torch.mean(discriminator(fake_imgs)) + 10 * gradient_penalty
        d_loss.backward()
        optimizer_D.step()
        optimizer_G.zero_grad()
        if step % 2 == 0:
            g_loss = -torch.mean(discriminator(generator(z)))
            g_loss.backward()
            optimizer_G.step()
        found += [d_loss.item(), g_loss.item(), gradient_penalty.item()]
    return found
