"""Deep Q-learning: a replay memory of tensors, masks of final states, a target network, Huber loss, clipped gradient values."""
import random
from collections import deque, namedtuple

import torch
import torch.nn as nn
import torch.optim as optim

from common import array, seeded

Transition = namedtuple('Transition', ('state', 'action', 'next_state', 'reward'))


class ReplayMemory:
    def __init__(self, capacity):
        self.memory = deque([], maxlen=capacity)

    def push(self, *args):
        self.memory.append(Transition(*args))

    def sample(self, batch_size):
        return random.Random(len(self.memory)).sample(list(self.memory), batch_size)


def make():
    return nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2))


def main():
    policy_net, target_net = seeded(make(), 0.3), make()
    target_net.load_state_dict(policy_net.state_dict())
    optimizer = optim.AdamW(policy_net.parameters(), lr=1e-2, amsgrad=True)
    memory = ReplayMemory(100)
    found = []
    state = torch.tensor(array(4), dtype=torch.float32).unsqueeze(0)
    for t in range(20):
        with torch.no_grad():
            action = policy_net(state).max(1).indices.view(1, 1)
        reward = torch.tensor([float(t % 3)])
        next_state = None if t % 5 == 4 else torch.tensor(array(4, seed=t + 1), dtype=torch.float32).unsqueeze(0)
        memory.push(state, action, next_state, reward)
        state = torch.tensor(array(4, seed=50 + t)).unsqueeze(0) if next_state is None else next_state
        if len(memory.memory) < 8:
            continue
        batch = Transition(*zip(*memory.sample(8)))
        non_final_mask = torch.tensor(tuple(map(lambda s: s is not None, batch.next_state)), dtype=torch.bool)
        non_final_next_states = torch.cat([s for s in batch.next_state if s is not None])
        state_batch, action_batch, reward_batch = torch.cat(batch.state), torch.cat(batch.action), torch.cat(batch.reward)
        values = policy_net(state_batch).gather(1, action_batch)
        next_values = torch.zeros(8)
        with torch.no_grad():
            next_values[non_final_mask] = target_net(non_final_next_states).max(1).values
        expected = (next_values * 0.99) + reward_batch
        loss = nn.SmoothL1Loss()(values, expected.unsqueeze(1))
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_value_(policy_net.parameters(), 0.5)
        optimizer.step()
        target, policy = target_net.state_dict(), policy_net.state_dict()
        for key in policy:
            target[key] = policy[key] * 0.05 + target[key] * 0.95
        target_net.load_state_dict(target)
        found.append(loss.item())
    return found
