"""Skip-gram with negative sampling: embeddings of a batch, bmm, logsigmoid, sparse-like updates, nearest words."""
import torch
import torch.nn as nn
import torch.nn.functional as F

from common import seeded


class SkipGram(nn.Module):
    def __init__(self, vocab, dim):
        super().__init__()
        self.in_embed, self.out_embed = nn.Embedding(vocab, dim), nn.Embedding(vocab, dim)
        self.in_embed.weight.data.uniform_(-1, 1)
        self.out_embed.weight.data.uniform_(-1, 1)

    def forward(self, centre, context, negative):
        v = self.in_embed(centre).unsqueeze(2)
        positive = F.logsigmoid(torch.bmm(self.out_embed(context), v).squeeze(2)).sum(1)
        noise = F.logsigmoid(torch.bmm(self.out_embed(negative).neg(), v).squeeze(2)).sum(1)
        return -(positive + noise).mean()


def main():
    model = seeded(SkipGram(30, 8), 0.5)
    freq = torch.arange(1, 31).float().pow(0.75)
    drawn = torch.multinomial(freq / freq.sum(), 20, replacement=True)
    assert drawn.shape == (20,) and int(drawn.max()) < 30
    optimizer = torch.optim.Adagrad(model.parameters(), lr=0.5)
    found = []
    for step in range(5):
        centre = torch.LongTensor([(3 * k + step) % 30 for k in range(6)])
        context = torch.LongTensor([[(k + j) % 30 for j in range(1, 5)] for k in range(6)])
        negative = torch.LongTensor([[(7 * k + 11 * j + step) % 30 for j in range(5)] for k in range(6)])
        loss = model(centre, context, negative)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        found.append(loss.item())
    with torch.no_grad():
        w = model.in_embed.weight
        w /= w.norm(dim=1, keepdim=True)
        similarity = torch.mm(w[:3], w.t())
        values, index = similarity.topk(4, dim=1)
    return found + values.flatten().tolist() + index[:, 1:].flatten().tolist()
