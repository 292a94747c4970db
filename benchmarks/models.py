"""Models written once and built from either library's `nn`, as a PyTorch user would write them.

lib is the module gt or torch. Used by training.py and by tests that train a model in both libraries.
"""

import numpy


def mlp(lib, sizes=(784, 256, 10)):
    nn = lib.nn
    layers = []
    for inputs, outputs in zip(sizes, sizes[1:]):
        layers += [nn.Linear(inputs, outputs), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def cnn(lib):
    """Two convolutions, each with a ReLU and a pooling, and a linear layer: images of 28 by 28 pixels to ten classes."""
    nn = lib.nn
    return nn.Sequential(nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
                         nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
                         nn.Flatten(), nn.Linear(32 * 7 * 7, 10))


def gpt(lib, vocabulary, context, width, heads, depth):
    """A GPT: token and position embeddings, blocks of causal attention and a two-layer network, a head."""
    nn = lib.nn
    functional = nn.functional

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm_1 = nn.LayerNorm(width)
            self.attention = nn.Linear(width, 3 * width)
            self.projection = nn.Linear(width, width)
            self.norm_2 = nn.LayerNorm(width)
            self.up = nn.Linear(width, 4 * width)
            self.down = nn.Linear(4 * width, width)

        def forward(self, x):
            batch, length, _ = x.shape
            parts = self.attention(self.norm_1(x)).split(width, dim=2)
            q, k, v = [part.reshape(batch, length, heads, width // heads).transpose(1, 2) for part in parts]
            mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.projection(mixed.transpose(1, 2).reshape(batch, length, width))
            return x + self.down(functional.gelu(self.up(self.norm_2(x))))

    class Gpt(nn.Module):
        def __init__(self):
            super().__init__()
            self.tokens = nn.Embedding(vocabulary, width)
            self.positions = nn.Embedding(context, width)
            self.blocks = nn.ModuleList([Block() for _ in range(depth)])
            self.norm = nn.LayerNorm(width)
            self.head = nn.Linear(width, vocabulary, bias=False)

        def forward(self, text):
            x = self.tokens(text) + self.positions(lib.arange(text.shape[1]))
            for block in self.blocks:
                x = block(x)
            return self.head(self.norm(x))

    return Gpt()


def same_weights(lib, model, seed=0, scale=0.05):
    """Set weights that do not depend on the library: norms keep ones and zeros, NumPy draws the rest."""
    generator = numpy.random.default_rng(seed)
    with lib.no_grad():
        for name, parameter in model.named_parameters():
            if "norm" not in name:
                drawn = generator.standard_normal(tuple(parameter.shape), dtype=numpy.float32) * scale
                parameter.copy_(lib.from_numpy(drawn))
    return model
