"""Graph networks on an edge list and on a sparse adjacency matrix: GCN with normalisation, GAT with a segment softmax."""
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

from common import array, seeded


def normalised_adjacency(edge_index, n):
    loops = torch.arange(n)
    index = torch.cat([edge_index, torch.stack([loops, loops])], dim=1)
    deg = torch.zeros(n).index_add_(0, index[0], torch.ones(index.size(1)))
    d = deg.pow(-0.5)
    d[d == float('inf')] = 0
    values = d[index[0]] * d[index[1]]
    return torch.sparse_coo_tensor(index, values, (n, n)).coalesce()


class GCN(nn.Module):
    def __init__(self, i, h, o):
        super().__init__()
        self.w1, self.w2 = nn.Linear(i, h), nn.Linear(h, o)

    def forward(self, x, adj):
        x = F.relu(torch.sparse.mm(adj, self.w1(x)))
        return F.log_softmax(torch.sparse.mm(adj, self.w2(x)), dim=1)


def segment_softmax(scores, index, n):
    top = torch.full((n,), -1e9).scatter_reduce(0, index, scores.detach(), reduce='amax')
    e = torch.exp(scores - top[index])
    total = torch.zeros(n).scatter_add(0, index, e)
    return e / (total[index] + 1e-16)


class GAT(nn.Module):
    def __init__(self, i, o):
        super().__init__()
        self.lin = nn.Linear(i, o, bias=False)
        self.att_src, self.att_dst = nn.Parameter(torch.empty(o)), nn.Parameter(torch.empty(o))

    def forward(self, x, edge_index):
        src, dst = edge_index
        h = self.lin(x)
        scores = F.leaky_relu((h * self.att_src).sum(-1)[src] + (h * self.att_dst).sum(-1)[dst], 0.2)
        alpha = segment_softmax(scores, dst, x.size(0))
        out = torch.zeros_like(h)
        return out.index_add(0, dst, alpha.unsqueeze(-1) * h[src])


def main():
    rng = np.random.default_rng(0)
    n = 30
    edge_index = torch.from_numpy(rng.integers(0, n, (2, 90)))
    edge_index = torch.unique(edge_index, dim=1)
    x, y = torch.from_numpy(array(n, 8)), torch.arange(n) % 4
    train_mask = torch.zeros(n, dtype=torch.bool)
    train_mask[:20] = True
    adj = normalised_adjacency(edge_index, n)
    gcn, gat = seeded(GCN(8, 16, 4), 0.3), seeded(GAT(8, 4), 0.3)
    optimizer = torch.optim.Adam([{'params': gcn.w1.parameters(), 'weight_decay': 5e-4},
                                  {'params': list(gcn.w2.parameters()) + list(gat.parameters())}], lr=0.01)
    found = []
    for _ in range(4):
        optimizer.zero_grad()
        out = gcn(x, adj)
        loss = F.nll_loss(out[train_mask], y[train_mask]) + F.cross_entropy(gat(x, edge_index)[train_mask], y[train_mask])
        loss.backward()
        optimizer.step()
        found.append(loss.item())
    pred = out.argmax(dim=1)
    found.append(int((pred[~train_mask] == y[~train_mask]).sum()) / int((~train_mask).sum()))
    found.append(adj.to_dense().sum().item())
    return found
