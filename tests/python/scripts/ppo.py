"""Proximal policy optimisation: categorical actions, generalised advantages, clipped losses, minibatches of shuffled indices."""
import numpy as np
import torch
import torch.nn as nn
import torch.optim as optim
from torch.distributions.categorical import Categorical

from common import seeded


def layer_init(layer, std=np.sqrt(2), bias_const=0.0):
    torch.nn.init.orthogonal_(layer.weight, std)
    torch.nn.init.constant_(layer.bias, bias_const)
    return layer


class Agent(nn.Module):
    def __init__(self):
        super().__init__()
        self.critic = nn.Sequential(layer_init(nn.Linear(4, 16)), nn.Tanh(), layer_init(nn.Linear(16, 1), std=1.0))
        self.actor = nn.Sequential(layer_init(nn.Linear(4, 16)), nn.Tanh(), layer_init(nn.Linear(16, 3), std=0.01))

    def get_value(self, x):
        return self.critic(x)

    def get_action_and_value(self, x, action=None):
        probs = Categorical(logits=self.actor(x))
        if action is None:
            action = probs.sample()
        return action, probs.log_prob(action), probs.entropy(), self.critic(x)


def main():
    rng = np.random.default_rng(0)
    device = torch.device("cpu")
    num_steps, num_envs, minibatch = 8, 4, 16
    agent = seeded(Agent(), 0.5).to(device)
    optimizer = optim.Adam(agent.parameters(), lr=2.5e-3, eps=1e-5)
    obs = torch.zeros((num_steps, num_envs, 4)).to(device)
    actions = torch.zeros((num_steps, num_envs), dtype=torch.long).to(device)
    logprobs = torch.zeros((num_steps, num_envs)).to(device)
    rewards = torch.zeros((num_steps, num_envs)).to(device)
    dones = torch.zeros((num_steps, num_envs)).to(device)
    values = torch.zeros((num_steps, num_envs)).to(device)
    found = []
    for _update in range(2):
        next_obs = torch.Tensor(rng.standard_normal((num_envs, 4))).to(device)
        next_done = torch.zeros(num_envs).to(device)
        for step in range(0, num_steps):
            obs[step] = next_obs
            dones[step] = next_done
            with torch.no_grad():
                given = torch.tensor(rng.integers(0, 3, num_envs))
                action, logprob, _, value = agent.get_action_and_value(next_obs, given)
                values[step] = value.flatten()
            actions[step] = action
            logprobs[step] = logprob
            rewards[step] = torch.tensor(rng.standard_normal(num_envs)).to(device).view(-1)
            next_obs = torch.Tensor(rng.standard_normal((num_envs, 4)))
            next_done = torch.Tensor(rng.integers(0, 2, num_envs))
        with torch.no_grad():
            next_value = agent.get_value(next_obs).reshape(1, -1)
            advantages = torch.zeros_like(rewards).to(device)
            lastgaelam = 0
            for t in reversed(range(num_steps)):
                nextnonterminal = 1.0 - (next_done if t == num_steps - 1 else dones[t + 1])
                nextvalues = next_value if t == num_steps - 1 else values[t + 1]
                delta = rewards[t] + 0.99 * nextvalues * nextnonterminal - values[t]
                advantages[t] = lastgaelam = delta + 0.99 * 0.95 * nextnonterminal * lastgaelam
            returns = advantages + values
        b_obs = obs.reshape((-1, 4))
        b_logprobs, b_actions = logprobs.reshape(-1), actions.reshape(-1)
        b_advantages, b_returns, b_values = advantages.reshape(-1), returns.reshape(-1), values.reshape(-1)
        b_inds = np.arange(num_steps * num_envs)
        for _epoch in range(2):
            rng.shuffle(b_inds)
            for start in range(0, len(b_inds), minibatch):
                mb_inds = b_inds[start:start + minibatch]
                _, newlogprob, entropy, newvalue = agent.get_action_and_value(b_obs[mb_inds], b_actions.long()[mb_inds])
                logratio = newlogprob - b_logprobs[mb_inds]
                ratio = logratio.exp()
                with torch.no_grad():
                    approx_kl = ((ratio - 1) - logratio).mean()
                    clipfrac = ((ratio - 1.0).abs() > 0.2).float().mean().item()
                mb_advantages = b_advantages[mb_inds]
                mb_advantages = (mb_advantages - mb_advantages.mean()) / (mb_advantages.std() + 1e-8)
                pg_loss = torch.max(-mb_advantages * ratio, -mb_advantages * torch.clamp(ratio, 1 - 0.2, 1 + 0.2)).mean()
                newvalue = newvalue.view(-1)
                v_clipped = b_values[mb_inds] + torch.clamp(newvalue - b_values[mb_inds], -0.2, 0.2)
                v_loss = 0.5 * torch.max((newvalue - b_returns[mb_inds]) ** 2, (v_clipped - b_returns[mb_inds]) ** 2).mean()
                loss = pg_loss - 0.01 * entropy.mean() + v_loss * 0.5
                optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
                optimizer.step()
                found += [loss.item(), approx_kl.item(), clipfrac]
        y_pred, y_true = b_values.cpu().numpy(), b_returns.cpu().numpy()
        found.append(float(1 - np.var(y_true - y_pred) / np.var(y_true)))
    action, logprob, entropy, value = agent.get_action_and_value(b_obs)
    assert action.shape == (32,) and int(action.max()) < 3 and logprob.shape == (32,)
    return found
