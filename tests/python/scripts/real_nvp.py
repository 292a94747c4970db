"""A normalising flow: coupling layers with masks, log-determinants, a base distribution, inversion."""
import torch
from torch import distributions, nn

from common import array, seeded


class RealNVP(nn.Module):
    def __init__(self, masks, prior):
        super().__init__()
        self.prior = prior
        self.mask = nn.Parameter(masks, requires_grad=False)
        self.t = torch.nn.ModuleList([nn.Sequential(nn.Linear(2, 16), nn.LeakyReLU(), nn.Linear(16, 2)) for _ in range(len(masks))])
        self.s = torch.nn.ModuleList([nn.Sequential(nn.Linear(2, 16), nn.LeakyReLU(), nn.Linear(16, 2), nn.Tanh())
                                      for _ in range(len(masks))])

    def g(self, z):
        x = z
        for i in range(len(self.t)):
            x_ = x * self.mask[i]
            s = self.s[i](x_) * (1 - self.mask[i])
            t = self.t[i](x_) * (1 - self.mask[i])
            x = x_ + (1 - self.mask[i]) * (x * torch.exp(s) + t)
        return x

    def f(self, x):
        log_det_J, z = x.new_zeros(x.shape[0]), x
        for i in reversed(range(len(self.t))):
            z_ = self.mask[i] * z
            s = self.s[i](z_) * (1 - self.mask[i])
            t = self.t[i](z_) * (1 - self.mask[i])
            z = (1 - self.mask[i]) * (z - t) * torch.exp(-s) + z_
            log_det_J -= s.sum(dim=1)
        return z, log_det_J

    def log_prob(self, x):
        z, logp = self.f(x)
        return self.prior.log_prob(z) + logp


def main():
    masks = torch.tensor([[0, 1], [1, 0]] * 2, dtype=torch.float32)
    prior = distributions.MultivariateNormal(torch.zeros(2), torch.eye(2))
    flow = RealNVP(masks, prior)
    for name, p in flow.named_parameters():
        if p.requires_grad:
            p.data.copy_(torch.from_numpy(array(*p.shape, seed=len(name) + p.numel(), scale=0.3)))
    optimizer = torch.optim.Adam([p for p in flow.parameters() if p.requires_grad is True], lr=1e-2)
    found = []
    for step in range(5):
        x = torch.from_numpy(array(32, 2, seed=step)) * torch.tensor([2.0, 0.5]) + 1
        loss = -flow.log_prob(x).mean()
        optimizer.zero_grad()
        loss.backward(retain_graph=True)
        optimizer.step()
        found.append(loss.item())
    z, _ = flow.f(x)
    found.append((flow.g(z) - x).abs().max().item() < 1e-4)
    samples = flow.g(prior.sample((50,)))
    found.append(float(samples.shape[0]))
    kl = distributions.kl_divergence(distributions.Normal(torch.zeros(3), torch.ones(3)),
                                     distributions.Normal(torch.tensor([1., 0., 2.]), torch.tensor([1., 2., 3.])))
    return found + kl.tolist()
