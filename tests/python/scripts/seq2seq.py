"""Translation with attention: packed sequences, an encoder and decoder of GRUs, teacher forcing, masked losses, beam-like decoding."""
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence

from common import seeded


class Encoder(nn.Module):
    def __init__(self, vocab, dim, hidden):
        super().__init__()
        self.embedding = nn.Embedding(vocab, dim, padding_idx=0)
        self.rnn = nn.GRU(dim, hidden, bidirectional=True)
        self.fc = nn.Linear(hidden * 2, hidden)

    def forward(self, src, src_len):
        embedded = self.embedding(src)
        packed = pack_padded_sequence(embedded, src_len.to('cpu'), enforce_sorted=False)
        outputs, hidden = self.rnn(packed)
        outputs, _ = pad_packed_sequence(outputs)
        return outputs, torch.tanh(self.fc(torch.cat((hidden[-2, :, :], hidden[-1, :, :]), dim=1)))


class Decoder(nn.Module):
    def __init__(self, vocab, dim, hidden):
        super().__init__()
        self.embedding = nn.Embedding(vocab, dim)
        self.attn = nn.Linear(hidden * 3, hidden)
        self.v = nn.Linear(hidden, 1, bias=False)
        self.rnn = nn.GRUCell(dim + hidden * 2, hidden)
        self.out = nn.Linear(hidden, vocab)

    def forward(self, token, hidden, encoder_outputs, mask):
        src_len = encoder_outputs.shape[0]
        repeated = hidden.unsqueeze(1).repeat(1, src_len, 1)
        outputs = encoder_outputs.permute(1, 0, 2)
        energy = torch.tanh(self.attn(torch.cat((repeated, outputs), dim=2)))
        attention = self.v(energy).squeeze(2).masked_fill(mask == 0, -1e10)
        a = F.softmax(attention, dim=1).unsqueeze(1)
        weighted = torch.bmm(a, outputs).squeeze(1)
        hidden = self.rnn(torch.cat((self.embedding(token), weighted), dim=1), hidden)
        return self.out(hidden), hidden, a.squeeze(1)


def main():
    encoder, decoder = seeded(Encoder(20, 8, 12), 0.3), seeded(Decoder(15, 8, 12), 0.3)
    sentences = [torch.tensor(s) for s in ([3, 4, 5, 6, 2], [7, 8, 2], [9, 10, 11, 2])]
    targets = [torch.tensor(s) for s in ([1, 3, 4, 2], [1, 5, 6, 7, 2], [1, 8, 2])]
    src, src_len = pad_sequence(sentences), torch.tensor([len(s) for s in sentences])
    trg = pad_sequence(targets)
    mask = (src != 0).permute(1, 0)
    criterion = nn.CrossEntropyLoss(ignore_index=0)
    params = list(encoder.parameters()) + list(decoder.parameters())
    optimizer = torch.optim.Adam(params, lr=1e-2)
    found = []
    for step in range(5):
        optimizer.zero_grad()
        enc, hidden = encoder(src, src_len)
        outputs = torch.zeros(trg.shape[0], 3, 15)
        token = trg[0, :]
        for t in range(1, trg.shape[0]):
            output, hidden, a = decoder(token, hidden, enc, mask)
            outputs[t] = output
            top1 = output.argmax(1)
            token = trg[t] if (step + t) % 2 else top1
        loss = criterion(outputs[1:].view(-1, 15), trg[1:].view(-1))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(params, 1)
        optimizer.step()
        found.append(loss.item())
    found.append(a.sum().item())
    found.append(encoder.embedding.weight.grad[0].abs().sum().item())
    return found
