"""Soft actor-critic: squashed Gaussians with rsample, twin critics, polyak averaging, a learned temperature."""
import copy
import itertools

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.distributions import Normal
from torch.optim import Adam

from common import array, seeded

LOG_STD_MAX, LOG_STD_MIN = 2, -20


def mlp(sizes, activation, output_activation=nn.Identity):
    layers = []
    for j in range(len(sizes) - 1):
        act = activation if j < len(sizes) - 2 else output_activation
        layers += [nn.Linear(sizes[j], sizes[j + 1]), act()]
    return nn.Sequential(*layers)


class Actor(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = mlp([3, 16, 16], nn.ReLU, nn.ReLU)
        self.mu_layer, self.log_std_layer = nn.Linear(16, 2), nn.Linear(16, 2)

    def forward(self, obs, noise):
        out = self.net(obs)
        mu = self.mu_layer(out)
        std = torch.exp(torch.clamp(self.log_std_layer(out), LOG_STD_MIN, LOG_STD_MAX))
        pi_distribution = Normal(mu, std)
        assert pi_distribution.rsample().requires_grad
        pi_action = mu + std * noise
        logp_pi = pi_distribution.log_prob(pi_action).sum(axis=-1)
        logp_pi -= (2 * (np.log(2) - pi_action - F.softplus(-2 * pi_action))).sum(axis=1)
        return torch.tanh(pi_action), logp_pi


class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.q = mlp([5, 16, 1], nn.ReLU)

    def forward(self, obs, act):
        return torch.squeeze(self.q(torch.cat([obs, act], dim=-1)), -1)


class ActorCritic(nn.Module):
    def __init__(self):
        super().__init__()
        self.pi, self.q1, self.q2 = Actor(), Critic(), Critic()


def main():
    ac = seeded(ActorCritic(), 0.3)
    ac_targ = copy.deepcopy(ac)
    for p in ac_targ.parameters():
        p.requires_grad = False
    q_params = itertools.chain(ac.q1.parameters(), ac.q2.parameters())
    log_alpha = torch.zeros(1, requires_grad=True)
    pi_optimizer, q_optimizer = Adam(ac.pi.parameters(), lr=1e-2), Adam(q_params, lr=1e-2)
    alpha_optimizer = Adam([log_alpha], lr=1e-2)
    found = []
    for step in range(4):
        data = {k: torch.as_tensor(array(8, n, seed=step * 10 + n), dtype=torch.float32) for k, n in
                (('obs', 3), ('act', 2))}
        o2, r = torch.as_tensor(array(8, 3, seed=step + 50)), torch.as_tensor(array(8, seed=step + 60))
        d = (r > 1).float()
        noise = torch.as_tensor(array(8, 2, seed=step + 70))
        alpha = log_alpha.exp().item()
        q_optimizer.zero_grad()
        with torch.no_grad():
            a2, logp_a2 = None, None
            with torch.enable_grad():
                a2, logp_a2 = ac.pi(o2, noise)
            a2, logp_a2 = a2.detach(), logp_a2.detach()
            q_pi_targ = torch.min(ac_targ.q1(o2, a2), ac_targ.q2(o2, a2))
            backup = r + 0.99 * (1 - d) * (q_pi_targ - alpha * logp_a2)
        loss_q = ((ac.q1(data['obs'], data['act']) - backup) ** 2).mean() + (
            (ac.q2(data['obs'], data['act']) - backup) ** 2).mean()
        loss_q.backward()
        q_optimizer.step()
        for p in itertools.chain(ac.q1.parameters(), ac.q2.parameters()):
            p.requires_grad = False
        pi_optimizer.zero_grad()
        pi, logp_pi = ac.pi(data['obs'], noise)
        loss_pi = (alpha * logp_pi - torch.min(ac.q1(data['obs'], pi), ac.q2(data['obs'], pi))).mean()
        loss_pi.backward()
        pi_optimizer.step()
        for p in itertools.chain(ac.q1.parameters(), ac.q2.parameters()):
            p.requires_grad = True
        alpha_loss = -(log_alpha * (logp_pi.detach() - 2)).mean()
        alpha_optimizer.zero_grad()
        alpha_loss.backward()
        alpha_optimizer.step()
        with torch.no_grad():
            for p, p_targ in zip(ac.parameters(), ac_targ.parameters()):
                p_targ.data.mul_(0.995)
                p_targ.data.add_((1 - 0.995) * p.data)
        found += [loss_q.item(), loss_pi.item(), log_alpha.item()]
    return found + [sum(p.abs().sum().item() for p in ac_targ.parameters())]
