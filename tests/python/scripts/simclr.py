"""Contrastive learning: normalised features, a similarity matrix without its diagonal, EMA of a momentum encoder, SWA."""
import copy

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.optim.swa_utils import SWALR, AveragedModel

from common import array, seeded


def info_nce_loss(features, n_views=2, temperature=0.5):
    n = features.shape[0] // n_views
    labels = torch.cat([torch.arange(n) for i in range(n_views)], dim=0)
    labels = (labels.unsqueeze(0) == labels.unsqueeze(1)).float()
    features = F.normalize(features, dim=1)
    similarity = torch.matmul(features, features.T)
    mask = torch.eye(labels.shape[0], dtype=torch.bool)
    labels = labels[~mask].view(labels.shape[0], -1)
    similarity = similarity[~mask].view(similarity.shape[0], -1)
    positives = similarity[labels.bool()].view(labels.shape[0], -1)
    negatives = similarity[~labels.bool()].view(similarity.shape[0], -1)
    logits = torch.cat([positives, negatives], dim=1) / temperature
    return F.cross_entropy(logits, torch.zeros(logits.shape[0], dtype=torch.long))


@torch.no_grad()
def momentum_update(online, target, m=0.9):
    for q, k in zip(online.parameters(), target.parameters()):
        k.data = k.data * m + q.data * (1. - m)


def main():
    model = seeded(nn.Sequential(nn.Linear(20, 32), nn.ReLU(), nn.Linear(32, 8)), 0.3)
    target = copy.deepcopy(model)
    swa_model = AveragedModel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    swa_scheduler = SWALR(optimizer, swa_lr=0.05, anneal_epochs=2)
    queue = F.normalize(torch.from_numpy(array(16, 8, seed=99)), dim=1)
    pointer, found = 0, []
    for step in range(5):
        x = torch.from_numpy(array(4, 20, seed=step))
        views = torch.cat([x + 0.1, x - 0.1], dim=0)
        z = model(views)
        with torch.no_grad():
            keys = F.normalize(target(views[:4]), dim=1)
        moco = torch.cat([(F.normalize(z[:4], dim=1) * keys).sum(1, keepdim=True),
                          F.normalize(z[:4], dim=1) @ queue.clone().detach().t()], dim=1) / 0.2
        loss = info_nce_loss(z) + F.cross_entropy(moco, torch.zeros(4, dtype=torch.long))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        momentum_update(model, target)
        queue[pointer:pointer + 4, :] = keys
        pointer = (pointer + 4) % 16
        swa_model.update_parameters(model)
        swa_scheduler.step()
        found += [loss.item(), optimizer.param_groups[0]['lr']]
    torch.optim.swa_utils.update_bn([x], swa_model)
    found += [p.abs().sum().item() for p in swa_model.module.parameters()]
    return found + [queue.sum().item()]
