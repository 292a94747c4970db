"""A training loop with a module of its own, as a user would write it."""

from typing import assert_type

import gt
from gt import Tensor, nn, optim
from gt.nn import functional as F
from gt.utils.data import DataLoader, TensorDataset


class Block(nn.Module):
    def __init__(self, width: int, p: float = 0.1) -> None:
        super().__init__()
        self.layer = nn.Linear(width, width)
        self.norm = nn.LayerNorm(width)
        self.scale = nn.Parameter(gt.ones(width))
        self.p = p

    def forward(self, x: Tensor) -> Tensor:
        y = F.relu(self.layer(self.norm(x)))
        assert_type(self.scale * x, Tensor)
        return x + self.scale * F.dropout(y, self.p, self.training)


def train(steps: int) -> float:
    model = nn.Sequential(nn.Linear(8, 16), Block(16), nn.Linear(16, 1))
    optimizer = optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.01)
    scheduler = optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=steps)
    x = gt.randn(64, 8)
    loader = DataLoader(TensorDataset(x, x.sum(1, keepdim=True)), batch_size=16, shuffle=True)
    loss = gt.zeros(())
    for _ in range(steps):
        for inputs, targets in loader:
            loss = F.mse_loss(model(inputs), targets)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        scheduler.step()
    assert_type(scheduler.get_last_lr(), list[float])
    for name, parameter in model.named_parameters():
        assert_type(name, str)
        assert_type(parameter, nn.Parameter)
    with gt.no_grad():
        prediction = model.eval()(x)
    return float(loss.item()) + float(prediction.sum())
