"""A GAN with spectral norm and weight norm, hinge losses, EMA of the generator, an exponential schedule, a fixed noise grid."""
import torch
import torch.nn as nn
from torch.nn.utils import parameters_to_vector, spectral_norm, weight_norm

from common import array, seeded


class G(nn.Module):
    def __init__(self):
        super().__init__()
        self.main = nn.Sequential(nn.ConvTranspose2d(6, 8, 4, 1, 0, bias=False), nn.BatchNorm2d(8), nn.ReLU(True),
                                  nn.ConvTranspose2d(8, 1, 4, 2, 1, bias=False), nn.Tanh())

    def forward(self, input):
        return self.main(input)


def weights_init(m):
    classname = m.__class__.__name__
    if classname.find('Conv') != -1:
        nn.init.normal_(m.weight.data, 0.0, 0.02)
    elif classname.find('BatchNorm') != -1:
        nn.init.normal_(m.weight.data, 1.0, 0.02)
        nn.init.constant_(m.bias.data, 0)


def main():
    netG = G()
    netG.apply(weights_init)
    seeded(netG, 0.3)
    plain = seeded(nn.ModuleList([nn.Conv2d(1, 8, 4, 2, 1), nn.Linear(8 * 16, 1)]), 0.3)
    conv = spectral_norm(plain[0])
    conv.weight_u.copy_(torch.ones(8) / 8 ** 0.5)
    netD = nn.Sequential(conv, nn.LeakyReLU(0.2), nn.Flatten(), weight_norm(plain[1], name='weight'))
    optG = torch.optim.Adam(netG.parameters(), lr=2e-3, betas=(0.0, 0.9))
    optD = torch.optim.Adam(filter(lambda p: p.requires_grad, netD.parameters()), lr=2e-3, betas=(0.0, 0.9))
    decay = torch.optim.lr_scheduler.ExponentialLR(optD, gamma=0.99)
    found = []
    for step in range(4):
        real = torch.from_numpy(array(4, 1, 8, 8, seed=step))
        z = torch.from_numpy(array(4, 6, 1, 1, seed=50 + step))
        netD.zero_grad()
        fake = netG(z)
        d_loss = nn.ReLU()(1.0 - netD(real)).mean() + nn.ReLU()(1.0 + netD(fake.detach())).mean()
        d_loss.backward()
        optD.step()
        netG.zero_grad()
        g_loss = -netD(fake).mean()
        g_loss.backward()
        optG.step()
        decay.step()
        found += [d_loss.item(), g_loss.item()]
    vector = parameters_to_vector(netG.parameters())
    return found + [vector.abs().sum().item(), vector.numel(), conv.weight.norm().item()]
