"""nn.Transformer from end to end: causal and padding masks, Noam schedule, label smoothing by KL divergence, greedy decoding."""
import math

import torch
import torch.nn as nn
from torch import Tensor

from common import seeded


class PositionalEncoding(nn.Module):
    def __init__(self, emb_size: int, dropout: float, maxlen: int = 50):
        super(PositionalEncoding, self).__init__()
        den = torch.exp(- torch.arange(0, emb_size, 2) * math.log(10000) / emb_size)
        pos = torch.arange(0, maxlen).reshape(maxlen, 1)
        pos_embedding = torch.zeros((maxlen, emb_size))
        pos_embedding[:, 0::2] = torch.sin(pos * den)
        pos_embedding[:, 1::2] = torch.cos(pos * den)
        self.dropout = nn.Dropout(dropout)
        self.register_buffer('pos_embedding', pos_embedding.unsqueeze(-2))

    def forward(self, token_embedding: Tensor):
        return self.dropout(token_embedding + self.pos_embedding[:token_embedding.size(0), :])


class Seq2SeqTransformer(nn.Module):
    def __init__(self, emb=16, vocab=20):
        super().__init__()
        self.emb = emb
        self.transformer = nn.Transformer(d_model=emb, nhead=2, num_encoder_layers=1, num_decoder_layers=1, dim_feedforward=32,
                                          dropout=0.0)
        self.generator = nn.Linear(emb, vocab)
        self.src_tok_emb, self.tgt_tok_emb = nn.Embedding(vocab, emb), nn.Embedding(vocab, emb)
        self.positional_encoding = PositionalEncoding(emb, dropout=0.0)
        for p in self.parameters():
            if p.dim() > 1:
                nn.init.xavier_uniform_(p)

    def forward(self, src, trg, src_mask, tgt_mask, src_padding_mask, tgt_padding_mask, memory_key_padding_mask):
        src_emb = self.positional_encoding(self.src_tok_emb(src.long()) * math.sqrt(self.emb))
        tgt_emb = self.positional_encoding(self.tgt_tok_emb(trg.long()) * math.sqrt(self.emb))
        outs = self.transformer(src_emb, tgt_emb, src_mask, tgt_mask, None, src_padding_mask, tgt_padding_mask,
                                memory_key_padding_mask)
        return self.generator(outs)


def generate_square_subsequent_mask(sz):
    mask = (torch.triu(torch.ones((sz, sz))) == 1).transpose(0, 1)
    return mask.float().masked_fill(mask == 0, float('-inf')).masked_fill(mask == 1, float(0.0))


def main():
    model = seeded(Seq2SeqTransformer(), 0.2)
    optimizer = torch.optim.Adam(model.parameters(), lr=1.0, betas=(0.9, 0.98), eps=1e-9)
    noam = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda s: 16 ** -0.5 * min((s + 1) ** -0.5, (s + 1) * 4 ** -1.5) * 0.05)
    src = torch.tensor([[3, 4], [5, 6], [7, 2], [2, 1]])
    tgt = torch.tensor([[9, 9], [10, 12], [11, 13], [2, 14], [1, 2]])
    found = []
    for _ in range(4):
        tgt_input, tgt_out = tgt[:-1, :], tgt[1:, :]
        tgt_mask = generate_square_subsequent_mask(tgt_input.shape[0])
        src_mask = torch.zeros((4, 4)).type(torch.bool)
        src_pad, tgt_pad = (src == 1).transpose(0, 1), torch.zeros(2, 4, dtype=torch.bool)
        logits = model(src, tgt_input, src_mask, tgt_mask, src_pad, tgt_pad, src_pad)
        smooth = torch.full((8, 20), 0.1 / 18)
        smooth.scatter_(1, tgt_out.reshape(-1).unsqueeze(1), 0.9)
        loss = nn.KLDivLoss(reduction='batchmean')(logits.reshape(-1, 20).log_softmax(-1), smooth)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        noam.step()
        found.append(loss.item())
    model.eval()
    memory = model.transformer.encoder(model.positional_encoding(model.src_tok_emb(src[:, :1]) * 4))
    ys = torch.ones(1, 1).fill_(9).type(torch.long)
    for _ in range(3):
        out = model.transformer.decoder(model.positional_encoding(model.tgt_tok_emb(ys) * 4), memory,
                                        generate_square_subsequent_mask(ys.size(0)))
        prob = model.generator(out.transpose(0, 1)[:, -1])
        _, next_word = torch.max(prob, dim=1)
        ys = torch.cat([ys, torch.ones(1, 1).type_as(ys.data).fill_(next_word.item())], dim=0)
        found.append(prob.max().item())
    return found
