"""Train a small character-level GPT and generate text. The training text is generated here: sentences of a small
grammar. The model has to learn spelling, word order and agreement in number."""
import argparse
import time

import numpy

import gt
from gt import nn
from gt.nn import functional as F

SUBJECTS = {"the old miller": "s", "a small river": "s", "the youngest sister": "s", "every bird": "s",
            "the wolves": "", "three brothers": "", "the hills": "", "some travellers": ""}
VERBS = ["know", "follow", "remember", "leave", "meet", "paint"]
OBJECTS = ["the long road", "a green door", "the north wind", "an empty house", "the sea", "many stories"]
ENDINGS = ["at dawn", "in winter", "without a word", "once more", "when it rains", "for a song"]


def make_text(sentences, seed=0):
    rng = numpy.random.default_rng(seed)
    lines = []
    for _ in range(sentences):
        subject = rng.choice(list(SUBJECTS))
        line = f"{subject} {rng.choice(VERBS)}{SUBJECTS[subject]} {rng.choice(OBJECTS)} {rng.choice(ENDINGS)}."
        lines.append(line[0].upper() + line[1:])
    return "\n".join(lines) + "\n"


class Block(nn.Module):
    """Causal self-attention, then a two-layer network, each with a residual connection."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm_1, self.norm_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention, self.projection = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        batch, length, width = x.shape
        parts = self.attention(self.norm_1(x)).split(width, dim=2)
        q, k, v = [part.reshape(batch, length, self.heads, width // self.heads).transpose(1, 2) for part in parts]
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.projection(mixed.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(F.gelu(self.up(self.norm_2(x))))


class Gpt(nn.Module):
    def __init__(self, vocabulary, context, width, heads, depth):
        super().__init__()
        self.context = context
        self.tokens, self.positions = nn.Embedding(vocabulary, width), nn.Embedding(context, width)
        self.blocks = nn.Sequential(*[Block(width, heads) for _ in range(depth)])
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)

    def forward(self, text):
        x = self.tokens(text) + self.positions(gt.arange(text.shape[1]))
        return self.head(self.norm(self.blocks(x)))


@gt.no_grad()
def write(model, start, length):
    """Continue `start` (a list of character numbers) by sampling from the model."""
    text = list(start)
    for _ in range(length):
        logits = model(gt.tensor([text[-model.context:]]))[0, -1]
        text.append(gt.multinomial(F.softmax(logits / 0.7, dim=-1), 1).item())
    return text


def batches(data, context, batch, seed):
    """Endless random windows of the text, and the same windows shifted by one character."""
    rng = numpy.random.default_rng(seed)
    while True:
        starts = rng.integers(0, len(data) - context - 1, batch)
        windows = data[starts[:, None] + numpy.arange(context + 1)]
        yield gt.from_numpy(windows[:, :-1].copy()), gt.from_numpy(windows[:, 1:].copy())


def train(model, data, steps, batch):
    optimizer = gt.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.01)
    schedule = gt.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=2e-3, total_steps=steps)
    begin = time.perf_counter()
    for step, (x, y) in zip(range(1, steps + 1), batches(data, model.context, batch, seed=1)):
        logits = model(x)
        loss = F.cross_entropy(logits.reshape(-1, logits.shape[-1]), y.reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        if step % 25 == 0 or step == 1:
            print(f"step {step:4d}   loss {loss.item():.4f}   {time.perf_counter() - begin:5.1f} s", flush=True)


def main():
    parser = argparse.ArgumentParser(description="Train a character-level GPT on text made here.")
    parser.add_argument("--steps", type=int, default=250)
    parser.add_argument("--server", metavar="HOST:PORT", help="run on this server, not on the embedded one")
    arguments = parser.parse_args()
    if arguments.server:
        gt.connect(arguments.server)

    gt.manual_seed(0)
    text = make_text(4000)
    characters = sorted(set(text))
    numbers = {character: number for number, character in enumerate(characters)}
    data = numpy.array([numbers[character] for character in text])
    model = Gpt(len(characters), context=64, width=128, heads=4, depth=4)
    print(f"{len(text)} characters of text, {sum(p.numel() for p in model.parameters())} parameters")
    train(model, data, arguments.steps, batch=16)
    print("".join(characters[number] for number in write(model, [numbers["\n"]], 240)))
    print(f"on {gt.client_description()}")


if __name__ == "__main__":
    main()
