"""A vision transformer: patches by unfold, class token, nn.MultiheadAttention, label smoothing, warm-up, mixed precision."""
import torch
from torch import nn
from torch.nn.init import trunc_normal_

from common import array, seeded


class PatchEmbed(nn.Module):
    def __init__(self, p=4, dim=32):
        super().__init__()
        self.p = p
        self.proj = nn.Linear(3 * p * p, dim)

    def forward(self, x):
        b = x.shape[0]
        patches = x.unfold(2, self.p, self.p).unfold(3, self.p, self.p)
        patches = patches.permute(0, 2, 3, 1, 4, 5).reshape(b, -1, 3 * self.p * self.p)
        return self.proj(patches)


class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.attn = nn.MultiheadAttention(dim, heads, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(approximate='tanh'), nn.Linear(2 * dim, dim))

    def forward(self, x):
        h = self.norm1(x)
        x = x + self.attn(h, h, h, need_weights=False)[0]
        return x + self.mlp(self.norm2(x))


class ViT(nn.Module):
    def __init__(self, dim=32, depth=2, classes=5):
        super().__init__()
        self.patch_embed = PatchEmbed(dim=dim)
        self.cls_token = nn.Parameter(torch.zeros(1, 1, dim))
        self.pos_embed = nn.Parameter(torch.zeros(1, 17, dim))
        self.blocks = nn.Sequential(*[Block(dim, 4) for _ in range(depth)])
        self.norm = nn.LayerNorm(dim, eps=1e-6)
        self.head = nn.Linear(dim, classes)
        trunc_normal_(self.pos_embed, std=.02)
        trunc_normal_(self.cls_token, std=.02)

    @torch.jit.ignore
    def no_weight_decay(self):
        return {'pos_embed', 'cls_token'}

    def forward(self, x):
        x = self.patch_embed(x)
        x = torch.cat((self.cls_token.expand(x.shape[0], -1, -1), x), dim=1) + self.pos_embed
        return self.head(self.norm(self.blocks(x))[:, 0])


def main():
    model = seeded(ViT())
    skip = model.no_weight_decay()
    groups = [{'params': [p for n, p in model.named_parameters() if n not in skip], 'weight_decay': 0.05},
              {'params': [p for n, p in model.named_parameters() if n in skip], 'weight_decay': 0.}]
    optimizer = torch.optim.AdamW(groups, lr=1e-3)
    warm = torch.optim.lr_scheduler.LinearLR(optimizer, start_factor=0.1, total_iters=2)
    cosine = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=4)
    scheduler = torch.optim.lr_scheduler.SequentialLR(optimizer, [warm, cosine], milestones=[2])
    criterion = nn.CrossEntropyLoss(label_smoothing=0.1)
    found = []
    for step in range(5):
        x, y = torch.from_numpy(array(6, 3, 16, 16, seed=step)), torch.arange(6) % 5
        lam = 0.7
        index = torch.tensor([3, 1, 0, 5, 4, 2])
        mixed = lam * x + (1 - lam) * x[index]
        out = model(mixed)
        loss = lam * criterion(out, y) + (1 - lam) * criterion(out, y[index])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
        found += [loss.item(), optimizer.param_groups[0]['lr']]
    with torch.autocast(device_type='cpu', dtype=torch.bfloat16):
        low = model(x)
    found.append(str(low.dtype).endswith('bfloat16'))
    found.append((low.float() - model(x)).abs().max().item() < 0.1)
    return found
