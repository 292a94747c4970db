"""Masked language modelling with nn.TransformerEncoder, padding masks, bfloat16 autocast, a gradient scaler, accumulation."""
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.cuda.amp import GradScaler

from common import seeded


class Bert(nn.Module):
    def __init__(self, vocab=40, dim=16):
        super().__init__()
        self.token = nn.Embedding(vocab, dim, padding_idx=0)
        self.register_buffer('position_ids', torch.arange(32).expand((1, -1)), persistent=False)
        self.position = nn.Embedding(32, dim)
        layer = nn.TransformerEncoderLayer(dim, 2, 32, dropout=0.0, activation='gelu', batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, num_layers=2, enable_nested_tensor=False)
        self.norm = nn.LayerNorm(dim)
        self.decoder = nn.Linear(dim, vocab)
        self.decoder.weight = self.token.weight

    def forward(self, ids, attention_mask):
        x = self.token(ids) + self.position(self.position_ids[:, :ids.size(1)])
        x = self.encoder(x, src_key_padding_mask=~attention_mask)
        return self.decoder(self.norm(x))


def mask_tokens(inputs, step):
    labels = inputs.clone()
    masked = (inputs + step) % 4 == 0
    masked &= inputs != 0
    labels[~masked] = -100
    inputs = inputs.clone()
    inputs[masked] = 39
    return inputs, labels


def main():
    model = seeded(Bert(), 0.2)
    ids = torch.tensor([[5, 8, 12, 16, 20, 3, 0, 0], [4, 7, 9, 32, 28, 24, 2, 1]])
    no_decay = ['bias', 'norm.weight']
    groups = [{'params': [p for n, p in model.named_parameters() if not any(nd in n for nd in no_decay)], 'weight_decay': .01},
              {'params': [p for n, p in model.named_parameters() if any(nd in n for nd in no_decay)], 'weight_decay': 0.}]
    optimizer = torch.optim.AdamW(groups, lr=5e-3)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda s: max(0.0, 1 - s / 10))
    scaler = GradScaler(enabled=False)
    found = []
    for step in range(6):
        inputs, labels = mask_tokens(ids, step)
        logits = model(inputs, attention_mask=inputs != 0)
        loss = F.cross_entropy(logits.view(-1, 40), labels.view(-1)) / 2
        scaler.scale(loss).backward()
        found.append(loss.item())
        if (step + 1) % 2 == 0:
            scaler.unscale_(optimizer)
            found.append(torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0).item())
            scaler.step(optimizer)
            scaler.update()
            scheduler.step()
            optimizer.zero_grad(set_to_none=True)
    return found
