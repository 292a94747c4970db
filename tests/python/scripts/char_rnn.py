"""A character LSTM with truncated backpropagation: hidden states detached between chunks, one-hot inputs, perplexity."""
import math

import numpy as np
import torch
import torch.nn as nn

from common import seeded

TEXT = "the quick brown fox jumps over the lazy dog and runs away from the small red hen " * 4


class CharRNN(nn.Module):
    def __init__(self, tokens, n_hidden=24, n_layers=2):
        super().__init__()
        self.n_layers, self.n_hidden = n_layers, n_hidden
        self.chars = tokens
        self.lstm = nn.LSTM(len(tokens), n_hidden, n_layers, dropout=0.0, batch_first=True)
        self.dropout = nn.Dropout(0.0)
        self.fc = nn.Linear(n_hidden, len(tokens))

    def forward(self, x, hidden):
        r_output, hidden = self.lstm(x, hidden)
        out = self.dropout(r_output).contiguous().view(-1, self.n_hidden)
        return self.fc(out), hidden

    def init_hidden(self, batch_size):
        weight = next(self.parameters()).data
        return (weight.new(self.n_layers, batch_size, self.n_hidden).zero_(),
                weight.new(self.n_layers, batch_size, self.n_hidden).zero_())


def one_hot_encode(arr, n_labels):
    one_hot = np.zeros((arr.size, n_labels), dtype=np.float32)
    one_hot[np.arange(one_hot.shape[0]), arr.flatten()] = 1.
    return one_hot.reshape((*arr.shape, n_labels))


def main():
    chars = tuple(sorted(set(TEXT)))
    char2int = {ch: ii for ii, ch in enumerate(chars)}
    encoded = np.array([char2int[ch] for ch in TEXT])
    batch, seq = 4, 16
    usable = encoded[:len(encoded) // (batch * seq) * batch * seq].reshape(batch, -1)
    net = seeded(CharRNN(chars), 0.2)
    opt = torch.optim.RMSprop(net.parameters(), lr=0.002)
    criterion = nn.CrossEntropyLoss()
    h = net.init_hidden(batch)
    found = []
    for n in range(0, usable.shape[1] - seq, seq):
        x, y = usable[:, n:n + seq], usable[:, n + 1:n + seq + 1]
        inputs, targets = torch.from_numpy(one_hot_encode(x, len(chars))), torch.from_numpy(y)
        h = tuple([each.data for each in h])
        net.zero_grad()
        output, h = net(inputs, h)
        loss = criterion(output, targets.reshape(batch * seq).long())
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 5)
        opt.step()
        found.append(loss.item())
    found.append(math.exp(found[-1]))
    net.eval()
    with torch.no_grad():
        h = net.init_hidden(1)
        ch = 't'
        for _ in range(5):
            p, h = net(torch.from_numpy(one_hot_encode(np.array([[char2int[ch]]]), len(chars))), h)
            p = torch.nn.functional.softmax(p, dim=1).data
            p, top_ch = p.topk(3)
            ch = chars[top_ch.numpy().squeeze()[0]]
            found.append(p.numpy().squeeze()[0].item())
    return found
