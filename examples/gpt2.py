"""Train GPT-2 in bfloat16 on synthetic data: the model with 124 million parameters, or a smaller one by options. The data is one
batch of random tokens, which the model learns by heart. benchmarks/cuda.py measures this model, in GT and in PyTorch."""
import argparse
import time

import gt
from gt import nn


class Block(nn.Module):
    """Causal self-attention, then a two-layer network, each with a residual connection."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(batch, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        mixed = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(nn.functional.gelu(self.up(self.norm2(x)), approximate="tanh"))


def initialise(module):
    """As GPT-2 does: a loss near log(vocabulary) at the beginning."""
    if isinstance(module, (nn.Linear, nn.Embedding)):
        nn.init.normal_(module.weight, std=0.02)
    if isinstance(module, nn.Linear) and module.bias is not None:
        nn.init.zeros_(module.bias)


class GPT(nn.Module):
    """GPT-2. The vocabulary is a multiple of 64, as matrix products like it best: the 50257 tokens of GPT-2, and some unused."""

    def __init__(self, vocabulary=50304, length=1024, layers=12, width=768, heads=12):
        super().__init__()
        self.tokens, self.places = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.blocks = nn.ModuleList([Block(width, heads) for _ in range(layers)])
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)
        self.head.weight = self.tokens.weight
        self.apply(initialise)

    def forward(self, tokens):
        x = self.tokens(tokens) + self.places(gt.arange(tokens.shape[1], device=tokens.device))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def loss_of(logits, labels):
    return nn.functional.cross_entropy(logits.view(-1, logits.shape[-1]), labels.view(-1))


def train(model, tokens, labels, steps):
    optimizer = gt.optim.SGD(model.parameters(), lr=0.3)
    began = time.perf_counter()
    for step in range(1, steps + 1):
        with gt.autocast(tokens.device.type, gt.bfloat16):
            loss = loss_of(model(tokens), labels)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if step % 10 == 0 or step in (1, steps):
            print(f"step {step:4d}   loss {loss.item():.4f}   {time.perf_counter() - began:6.2f} s", flush=True)


def main():
    parser = argparse.ArgumentParser(description="Train GPT-2 in bfloat16 on synthetic data.")
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--length", type=int, default=1024, help="tokens of a sequence")
    parser.add_argument("--vocabulary", type=int, default=50304)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--width", type=int, default=768)
    parser.add_argument("--heads", type=int, default=12)
    parser.add_argument("--server", metavar="HOST:PORT", help="run on this server, not on the embedded one")
    options = parser.parse_args()
    if options.width % options.heads:
        parser.error(f"--width {options.width} is not a multiple of --heads {options.heads}")
    if options.server:
        gt.connect(options.server)

    gt.manual_seed(0)
    gt.set_float32_matmul_precision("high")
    device = "cuda" if gt.cuda.is_available() else "cpu"
    model = GPT(options.vocabulary, options.length, options.layers, options.width, options.heads).to(device)
    tokens, labels = gt.randint(0, options.vocabulary, (2, options.batch, options.length), device=device)
    print(f"{sum(p.numel() for p in model.parameters())} parameters; {tokens.numel()} tokens in a step")
    train(model, tokens, labels, options.steps)
    print(f"on {gt.client_description()}")


if __name__ == "__main__":
    main()
