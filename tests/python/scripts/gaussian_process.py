"""Gaussian process regression: a Cholesky factor, triangular solves, hyperparameters by gradient of the marginal likelihood."""
import math

import torch

from common import array


def rbf(x1, x2, length, scale):
    return scale.exp() * torch.exp(-0.5 * torch.cdist(x1 / length.exp(), x2 / length.exp()).pow(2))


def main():
    torch.set_default_dtype(torch.float64)
    try:
        x = torch.linspace(-2, 2, 12).unsqueeze(-1)
        y = torch.sin(2 * x).squeeze(-1) + 0.1 * torch.from_numpy(array(12)).to(torch.float64)
        length = torch.nn.Parameter(torch.zeros(1))
        scale, noise = torch.zeros(1, requires_grad=True), torch.full((1,), -2.0, requires_grad=True)
        optimizer = torch.optim.LBFGS([length, scale, noise], lr=0.1, max_iter=4, line_search_fn='strong_wolfe')
        found = []

        def closure():
            optimizer.zero_grad()
            K = rbf(x + 1e-9, x, length, scale) + noise.exp() * torch.eye(12)
            L = torch.linalg.cholesky(K)
            alpha = torch.cholesky_solve(y.unsqueeze(-1), L)
            nll = 0.5 * y @ alpha.squeeze(-1) + L.diagonal().log().sum() + 6 * math.log(2 * math.pi)
            nll.backward()
            return nll

        for _ in range(3):
            found.append(optimizer.step(closure).item())
        with torch.no_grad():
            test = torch.linspace(-1, 1, 5)[:, None]
            K = rbf(x, x, length, scale) + noise.exp() * torch.eye(12)
            L = torch.linalg.cholesky(K)
            k = rbf(x, test, length, scale)
            mean = k.T @ torch.cholesky_solve(y[:, None], L)
            v = torch.linalg.solve_triangular(L, k, upper=False)
            var = rbf(test, test, length, scale).diagonal() - (v ** 2).sum(0)
        return found + mean.flatten().tolist() + var.tolist()
    finally:
        torch.set_default_dtype(torch.float32)
