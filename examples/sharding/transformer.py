"""A small transformer on several workers. The program names its parts with signals; a YAML file beside it says how they are
divided, and the losses are those of one worker:

    python examples/sharding/transformer.py data         # or tensor, pipeline, sequence, expert, mesh
    python examples/sharding/transformer.py data --one   # the same on one worker

docs/sharding.md explains the six files.
"""
import argparse
import pathlib

import numpy

import gt
from gt import nn
from gt.nn import functional as F

VOCABULARY, CONTEXT, WIDTH, HEADS, EXPERTS, MICRO_BATCHES = 24, 16, 32, 4, 4, 4


def placed(layer, signal):
    """A linear layer whose output features (signal 'columns') or input features ('rows') the signal divides."""
    layer.weight.data = gt.signal.tensor(layer.weight, name=signal)
    if signal == 'columns':
        layer.bias.data = gt.signal.tensor(layer.bias, name=signal)
    return layer


class Attention(nn.Module):
    """Of x (batch, tokens, width), or (tokens, batch, width): tokens is that dimension."""

    def __init__(self, tokens):
        super().__init__()
        self.tokens = tokens
        self.query, self.key, self.value = (placed(nn.Linear(WIDTH, WIDTH), 'columns') for _ in range(3))
        self.out = placed(nn.Linear(WIDTH, WIDTH), 'rows')

    def forward(self, x):
        def heads(t):                                    # (batch, heads, tokens, width of a head)
            t = t.reshape(*x.shape[:2], HEADS, WIDTH // HEADS).movedim(self.tokens, 2)
            return gt.signal.tensor(t, name='heads')     # sequence parallel: from parts by tokens to parts by heads

        mixed = F.scaled_dot_product_attention(heads(self.query(x)), heads(self.key(x)), heads(self.value(x)), is_causal=True)
        mixed = gt.signal.tensor(mixed.movedim(2, self.tokens), name='tokens')
        return self.out(mixed.reshape(x.shape))


class Experts(nn.Module):
    """Each token goes to the expert that its gate prefers. An expert takes as many tokens as there are, divided by half the number of
    experts; what is left over passes by."""

    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(WIDTH, EXPERTS)
        scale = WIDTH ** -0.5
        with gt.signal.context('experts'):
            self.up = nn.Parameter(gt.randn(EXPERTS, WIDTH, 2 * WIDTH) * scale)
            self.down = nn.Parameter(gt.randn(EXPERTS, 2 * WIDTH, WIDTH) * scale)

    def forward(self, x):
        tokens = x.reshape(-1, WIDTH)
        weights, chosen = self.gate(tokens).softmax(dim=-1).max(dim=-1)
        mine = F.one_hot(chosen, EXPERTS).T                                    # (experts, tokens): who takes which token
        place = mine.cumsum(dim=1) * mine - 1                                  # its place there; -1: not taken
        room = 2 * tokens.shape[0] // EXPERTS
        sent = (place.unsqueeze(1) == gt.arange(room).reshape(1, room, 1)).float()   # (experts, room, tokens)
        with gt.signal.context('experts'):
            sent = gt.signal.tensor(sent, name='experts')
            out = F.gelu(sent @ tokens @ self.up) @ self.down                  # each worker: its experts, on their tokens
            mixed = (sent.transpose(1, 2) @ out).sum(dim=0)                    # a sum over the experts of all workers
        return (mixed * weights.unsqueeze(1)).reshape(x.shape)


class Block(nn.Module):
    def __init__(self, tokens, experts):
        super().__init__()
        self.norm_1, self.norm_2, self.attention = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH), Attention(tokens)
        self.network = Experts() if experts else nn.Sequential(
            placed(nn.Linear(WIDTH, 4 * WIDTH), 'columns'), nn.GELU(), placed(nn.Linear(4 * WIDTH, WIDTH), 'rows'))

    def forward(self, x):
        x = x + self.attention(self.norm_1(x))
        return x + self.network(self.norm_2(x))


class Embedding(nn.Module):
    def __init__(self, tokens):
        super().__init__()
        self.tokens = tokens
        self.words, self.positions = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(CONTEXT, WIDTH)

    def forward(self, text):
        positions = self.positions(gt.arange(CONTEXT)).unsqueeze(1 - self.tokens)
        return gt.signal.tensor(self.words(text) + positions, name='tokens')


def loss_of(logits, text):
    return F.cross_entropy(logits.reshape(-1, VOCABULARY), text.reshape(-1))


def batches(tokens):
    """Sequences that count up by 1, 2 or 3, in micro-batches: the inputs, and the same shifted by one."""
    rng = numpy.random.default_rng(0)
    while True:
        first, step = rng.integers(0, VOCABULARY, (MICRO_BATCHES, 4, 1)), rng.integers(1, 4, (MICRO_BATCHES, 4, 1))
        text = (first + step * numpy.arange(CONTEXT + 1)) % VOCABULARY
        pairs = [(part[:, :-1], part[:, 1:]) if tokens else (part[:, :-1].T, part[:, 1:].T) for part in text]
        with gt.signal.context('batch'):
            inputs, targets = ([gt.tensor(array.copy()) for array in arrays] for arrays in zip(*pairs))
        yield inputs, targets


def train(steps, tokens=1, experts=False):
    """The losses, and the two stages of the model."""
    gt.manual_seed(0)
    with gt.signal.context('stage_0'):
        first = nn.Sequential(Embedding(tokens), Block(tokens, experts))
    with gt.signal.context('stage_1'):
        last = nn.Sequential(Block(tokens, experts), nn.LayerNorm(WIDTH), nn.Linear(WIDTH, VOCABULARY))
    optimizer = gt.optim.AdamW([*first.parameters(), *last.parameters()], lr=3e-3)
    pipeline = gt.signal.Pipeline({'stage_0': first, 'stage_1': last})
    losses = []
    for _, (x, y) in zip(range(steps), batches(tokens)):
        optimizer.zero_grad()
        loss = pipeline.step(x, y, loss_of)
        optimizer.step()
        losses.append(loss)
    return [loss.item() for loss in losses], [first, last]


MODES = {'data': 4, 'tensor': 4, 'pipeline': 2, 'sequence': 4, 'expert': 4, 'mesh': 4}  # and their workers


def settings(mode):
    """Parts of a sequence are whole rows if the tokens are the first dimension."""
    return {'tokens': 0} if mode == 'sequence' else {'experts': True} if mode == 'expert' else {}


def main():
    parser = argparse.ArgumentParser(description='Train a small transformer in parallel.')
    parser.add_argument('mode', choices=MODES)
    parser.add_argument('--steps', type=int, default=40)
    parser.add_argument('--one', action='store_true', help='the same on one worker')
    arguments = parser.parse_args()
    gt.gpu_workers(1 if arguments.one else MODES[arguments.mode])
    if not arguments.one:
        gt.load_config(pathlib.Path(__file__).with_name(f'{arguments.mode}.yaml'))
    losses, _ = train(arguments.steps, **settings(arguments.mode))
    for step in sorted({0, arguments.steps // 2, arguments.steps - 1}):
        print(f'step {step + 1:3d}   loss {losses[step]:.4f}')
    for worker in gt.debug.get_worker_stats(wait=True).values():
        print(f"worker {worker['index']}: {worker['instructions']} instructions, {worker['collectives']} collectives, "
              f"{worker['moves']} moves, {worker['gathers']} gathers")


if __name__ == '__main__':
    main()
