"""Denoising diffusion: a small U-Net with time embeddings, the noise schedule, an exponential moving average, sampling."""
import copy
import math

import torch
import torch.nn as nn
import torch.nn.functional as F

from common import array, seeded


def linear_beta_schedule(timesteps):
    return torch.linspace(0.0001, 0.02, timesteps)


def extract(a, t, x_shape):
    batch_size = t.shape[0]
    out = a.gather(-1, t.cpu())
    return out.reshape(batch_size, *((1,) * (len(x_shape) - 1))).to(t.device)


class SinusoidalPositionEmbeddings(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, time):
        device = time.device
        half_dim = self.dim // 2
        embeddings = math.log(10000) / (half_dim - 1)
        embeddings = torch.exp(torch.arange(half_dim, device=device) * -embeddings)
        embeddings = time[:, None] * embeddings[None, :]
        return torch.cat((embeddings.sin(), embeddings.cos()), dim=-1)


class Block(nn.Module):
    def __init__(self, dim, dim_out, groups=4, time_dim=16):
        super().__init__()
        self.proj = nn.Conv2d(dim, dim_out, 3, padding=1)
        self.norm = nn.GroupNorm(groups, dim_out)
        self.act = nn.SiLU()
        self.mlp = nn.Sequential(nn.SiLU(), nn.Linear(time_dim, dim_out * 2))

    def forward(self, x, t):
        x = self.norm(self.proj(x))
        scale, shift = self.mlp(t)[:, :, None, None].chunk(2, dim=1)
        x = x * (scale + 1) + shift
        return self.act(x)


class Unet(nn.Module):
    def __init__(self, dim=8):
        super().__init__()
        self.time_mlp = nn.Sequential(SinusoidalPositionEmbeddings(16), nn.Linear(16, 16), nn.GELU(), nn.Linear(16, 16))
        self.init = nn.Conv2d(1, dim, 1)
        self.down1, self.down2 = Block(dim, dim), Block(dim, 2 * dim)
        self.pool = nn.Conv2d(dim, dim, 4, 2, 1)
        self.mid = Block(2 * dim, 2 * dim)
        self.up = nn.ConvTranspose2d(2 * dim, dim, 4, 2, 1)
        self.last = Block(2 * dim, dim)
        self.final = nn.Conv2d(dim, 1, 1)

    def forward(self, x, time):
        t = self.time_mlp(time)
        x = self.init(x)
        skip = self.down1(x, t)
        x = self.down2(self.pool(skip), t)
        x = self.mid(x, t)
        x = F.interpolate(x, scale_factor=1.0, mode='nearest')
        x = torch.cat((self.up(x), skip), dim=1)
        return self.final(self.last(x, t))


class EMA:
    def __init__(self, model, beta=0.9):
        self.beta = beta
        self.ema_model = copy.deepcopy(model).eval().requires_grad_(False)

    def step(self, model):
        for current, ema in zip(model.parameters(), self.ema_model.parameters()):
            ema.data = ema.data * self.beta + (1 - self.beta) * current.data


def main():
    timesteps = 20
    betas = linear_beta_schedule(timesteps)
    alphas = 1. - betas
    alphas_cumprod = torch.cumprod(alphas, axis=0)
    alphas_cumprod_prev = F.pad(alphas_cumprod[:-1], (1, 0), value=1.0)
    sqrt_recip_alphas = torch.sqrt(1.0 / alphas)
    sqrt_alphas_cumprod = torch.sqrt(alphas_cumprod)
    sqrt_one_minus_alphas_cumprod = torch.sqrt(1. - alphas_cumprod)
    posterior_variance = betas * (1. - alphas_cumprod_prev) / (1. - alphas_cumprod)

    model = seeded(Unet())
    ema = EMA(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    losses = []
    for step in range(5):
        x_start = torch.from_numpy(array(4, 1, 8, 8, seed=step))
        noise = torch.from_numpy(array(4, 1, 8, 8, seed=100 + step))
        t = torch.tensor([step, 3, 7, 19]).long()
        x_noisy = extract(sqrt_alphas_cumprod, t, x_start.shape) * x_start + extract(
            sqrt_one_minus_alphas_cumprod, t, x_start.shape) * noise
        loss = F.smooth_l1_loss(noise, model(x_noisy, t))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        ema.step(model)
        losses.append(loss.item())

    @torch.no_grad()
    def p_sample(x, t, t_index):
        betas_t = extract(betas, t, x.shape)
        model_mean = extract(sqrt_recip_alphas, t, x.shape) * (
            x - betas_t * ema.ema_model(x, t) / extract(sqrt_one_minus_alphas_cumprod, t, x.shape))
        if t_index == 0:
            return model_mean
        noise = torch.from_numpy(array(*x.shape, seed=t_index))
        return model_mean + torch.sqrt(extract(posterior_variance, t, x.shape)) * noise

    img = torch.from_numpy(array(2, 1, 8, 8, seed=9))
    for i in reversed(range(0, timesteps)):
        img = p_sample(img, torch.full((2,), i, dtype=torch.long), i)
    img = (img.clamp(-1, 1) + 1) * 0.5
    return losses + [img.mean().item(), img.std().item()]
