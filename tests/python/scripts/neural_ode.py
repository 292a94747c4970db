"""A neural ODE: a Runge-Kutta solver, the adjoint method as a custom autograd function, a trajectory fit."""
import torch
import torch.nn as nn

from common import seeded


class ODEFunc(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 2))
        for m in self.net.modules():
            if isinstance(m, nn.Linear):
                nn.init.normal_(m.weight, mean=0, std=0.1)
                nn.init.constant_(m.bias, val=0)

    def forward(self, t, y):
        return self.net(y ** 3)


def rk4_step(func, t, dt, y):
    k1 = func(t, y)
    k2 = func(t + dt / 2, y + dt * k1 / 2)
    k3 = func(t + dt / 2, y + dt * k2 / 2)
    k4 = func(t + dt, y + dt * k3)
    return y + dt * (k1 + 2 * k2 + 2 * k3 + k4) / 6


def odeint(func, y0, t):
    ys = [y0]
    for t0, t1 in zip(t[:-1], t[1:]):
        ys.append(rk4_step(func, t0, t1 - t0, ys[-1]))
    return torch.stack(ys)


class Adjoint(torch.autograd.Function):
    @staticmethod
    def forward(ctx, func, y0, t, *params):
        ctx.func = func
        with torch.no_grad():
            ys = odeint(func, y0, t)
        ctx.save_for_backward(t, ys)
        return ys

    @staticmethod
    def backward(ctx, grad_ys):
        t, ys = ctx.saved_tensors
        params = tuple(ctx.func.parameters())
        a = grad_ys[-1].clone()
        grads = [torch.zeros_like(p) for p in params]
        for i in range(len(t) - 1, 0, -1):
            with torch.enable_grad():
                y = ys[i - 1].detach().requires_grad_(True)
                nxt = rk4_step(ctx.func, t[i - 1], t[i] - t[i - 1], y)
                found = torch.autograd.grad(nxt, (y,) + params, a, allow_unused=True)
            a = found[0] + grad_ys[i - 1]
            for g, f in zip(grads, found[1:]):
                if f is not None:
                    g += f
        return (None, a, None, *grads)


def main():
    true_y0 = torch.tensor([[2., 0.]])
    t = torch.linspace(0., 1., 8)
    true_A = torch.tensor([[-0.1, 2.0], [-2.0, -0.1]])

    class Lambda(nn.Module):
        def forward(self, t, y):
            return torch.mm(y ** 3, true_A)

    with torch.no_grad():
        true_y = odeint(Lambda(), true_y0, t * 0.1)
    func = seeded(ODEFunc(), 0.2)
    optimizer = torch.optim.RMSprop(func.parameters(), lr=1e-2)
    found = []
    for step in range(4):
        optimizer.zero_grad()
        if step % 2:
            pred = Adjoint.apply(func, true_y0, t * 0.1, *func.parameters())
        else:
            pred = odeint(func, true_y0, t * 0.1)
        loss = torch.mean(torch.abs(pred - true_y))
        loss.backward()
        optimizer.step()
        found.append(loss.item())
    direct = torch.autograd.grad(odeint(func, true_y0, t).sum(), list(func.parameters()))
    adjoint = torch.autograd.grad(Adjoint.apply(func, true_y0, t, *func.parameters()).sum(), list(func.parameters()))
    found.append(max((a - b).abs().max().item() for a, b in zip(direct, adjoint)) < 1e-4)
    return found
