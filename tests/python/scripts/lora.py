"""Low-rank adaptation of a frozen network: replaced layers, parameters that stay, merging into the weights."""
import math

import torch
import torch.nn as nn

from common import array, seeded


class LoRALinear(nn.Module):
    def __init__(self, base: nn.Linear, r=4, alpha=8):
        super().__init__()
        self.base = base
        for p in self.base.parameters():
            p.requires_grad = False
        self.lora_A = nn.Parameter(base.weight.new_zeros(r, base.in_features))
        self.lora_B = nn.Parameter(base.weight.new_zeros(base.out_features, r))
        nn.init.kaiming_uniform_(self.lora_A, a=math.sqrt(5))
        self.scaling = alpha / r
        self.merged = False

    def forward(self, x):
        out = self.base(x)
        if not self.merged:
            out = out + (x @ self.lora_A.T @ self.lora_B.T) * self.scaling
        return out

    def merge(self):
        self.base.weight.data += (self.lora_B @ self.lora_A) * self.scaling
        self.merged = True


def inject(module):
    for name, child in module.named_children():
        if isinstance(child, nn.Linear):
            setattr(module, name, LoRALinear(child))
        else:
            inject(child)


def main():
    model = nn.Sequential(nn.Linear(10, 20), nn.Tanh(), nn.Sequential(nn.Linear(20, 20), nn.ReLU()), nn.Linear(20, 3))
    seeded(model)
    inject(model)
    seeded(nn.ModuleList([m for m in model.modules() if isinstance(m, LoRALinear)]), 0.05)
    for m in model.modules():
        if isinstance(m, LoRALinear):
            m.lora_B.data.zero_()
    trainable = [p for p in model.parameters() if p.requires_grad]
    before = {k: v.clone() for k, v in model.state_dict().items() if 'base' in k}
    optimizer = torch.optim.AdamW(trainable, lr=1e-2)
    x, y = torch.from_numpy(array(16, 10)), torch.arange(16) % 3
    found = []
    for _ in range(6):
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        found.append(loss.item())
    assert all(torch.equal(v, before[k]) for k, v in model.state_dict().items() if k in before)
    out = model(x)
    for m in model.modules():
        if isinstance(m, LoRALinear):
            m.merge()
    found.append((out - model(x)).abs().max().item() < 1e-5)
    found.append(len(trainable))
    lora_state = {k: v for k, v in model.state_dict().items() if 'lora_' in k}
    missing = model.load_state_dict(lora_state, strict=False).missing_keys
    found.append(len(missing))
    return found
