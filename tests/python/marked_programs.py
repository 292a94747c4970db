"""Random programs of functions that may be marked by gt.compile: marked or not, they compute the same bits.

Each function has several branches, which its calls take by lot; some call other functions, wait for values, upload data, return early,
or fail. Inputs come in several shapes, some of which are another one each time. All work is elementwise, so results are equal to the last bit.

    GT_AUTO_COMPILE=0 python tests/python/marked_programs.py --seed 17 --count 10 [--plain] [--show]    # prints a digest of each
"""

import argparse
import hashlib
import random

import numpy as np

UNARY = ["{a}.relu()", "{a}.tanh()", "-{a}", "{a}.abs()", "{a}.clamp(-2, 2)", "({a} * 0.5).exp().clamp(max=4)", "{a}.sigmoid()",
         "{a}.t().contiguous().t()", "{a}.reshape(-1).view({a}.shape)", "{a}.clone()", "{a} * (k % 3)", "{a} + 1"]
BINARY = ["{a} + {b}", "{a} - {b} * 0.5", "({a} * {b}).clamp(-4, 4)", "gt.where({a} > {b}, {a}, {b} * 0.25)", "gt.maximum({a}, {b})",
          "{a} + {b}[:1]", "{a} * {b}[k % {b}.shape[0]]"]
WRITES = ["{a}.mul_(0.5)", "{a}[0] = {b}[-1]", "{a}[k % {a}.shape[0]] += 1", "{a} += {b}.clamp(-1, 1)", "{a}.copy_({b} * 0.75)"]
WAITS = ["seen.append({a}.sum().item() > 0)", "seen.append({a}.reshape(-1)[0].item())", "gt.synchronize()",
         "{a} = {a} + gt.tensor([0.5, k % 2])[k % 2]", "if {a}.reshape(-1)[0].item() > 0.5: {a} = {a} - 0.5"]
FAILS = ["if k % 7 == 3: raise ValueError(k)", "if k % 11 == 5: {a} + gt.ones(17, 3)",
         "if k % 5 == 1: {a} = {a} + gt.ones(3)[gt.tensor(9)]", "if k % 13 == 2: return {a}, {a}"]


class Writer:
    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.lines = []

    def body(self, indent, count, functions):
        """Lines on the tensors a, b and c, which have the same shape."""
        rng, pad = self.rng, "    " * indent
        for _ in range(count):
            a, b = rng.choice("abc"), rng.choice("abc")
            kind, to = rng.random(), rng.choice("abc")
            if kind < 0.4:
                self.lines.append(f"{pad}{to} = {rng.choice(UNARY).format(a=a)}")
            elif kind < 0.75:
                self.lines.append(f"{pad}{to} = {rng.choice(BINARY).format(a=a, b=b)}")
            elif kind < 0.82:
                self.lines.append(f"{pad}{to} = {a}.clone(); {rng.choice(WRITES).format(a=to, b=b)}")
            elif kind < 0.86 and functions:
                self.lines.append(f"{pad}{to}, {rng.choice('abc')} = f{rng.randrange(functions)}({a}, {b}, k, {rng.choice(['way', 'way // 2', '0'])})")
            elif kind < 0.89:
                self.lines.append(f"{pad}{rng.choice(WAITS).format(a=to)}")
            elif kind < 0.91:
                self.lines.append(f"{pad}{rng.choice(FAILS).format(a=to)}")
            elif kind < 0.94:
                self.lines.append(f"{pad}for _ in range({rng.choice([2, 3, 'way + 1'])}): {to} = {a} * 0.5 + {b}.relu()")
            elif kind < 0.97:
                self.lines.append(f"{pad}kept.append({a} - {b}); del kept[:-3]")
            else:
                self.lines.append(f"{pad}{to} = gradient({a}, {b})")

    def function(self, number):
        rng = self.rng
        self.lines += ["@mark", f"def f{number}(a, b, k, way):", "    c = a - b"]
        self.body(1, rng.randrange(6), number)
        for way in range(rng.randrange(2, 7)):
            self.lines.append(f"    {'el' if way else ''}if way == {way}:")
            self.body(2, rng.randrange(1, 8), number)
        self.body(1, rng.randrange(6), number)
        self.lines.append(f"    return {rng.choice('abc')}.clamp(-8, 8), {rng.choice('abc')}.clamp(-8, 8)")

    def program(self):
        rng = self.rng
        for number in range(rng.randrange(1, 4)):
            self.function(number)
        count = number + 1
        self.lines += ["def main():", "    a, b = start(4), start(4) * 0.5"]
        for _ in range(rng.randrange(2, 6)):  # phases
            ways = [rng.randrange(7) for _ in range(rng.choice([1, 2, 2, 3, 7]))]
            rows = rng.choice(["4", "4", "4", "(4, 6)[k % 2]", "6 if k % 10 == 9 else 4", "1 + k % 9"])
            way = rng.choice([f"{ways}[k % {len(ways)}]", f"lot.choice({ways})", f"{ways[-1]} if k % 10 == 9 else {ways[0]}"])
            self.lines += [f"    for k in range({rng.choice([12, 25, 40])}):",
                           f"        a, b = resize(a, {rows}), resize(b, {rows})",
                           "        try:",
                           f"            a, b = f{rng.randrange(count)}(a, b, k, {way})",
                           "        except (ValueError, IndexError, RuntimeError) as error:",
                           "            seen.append(str(error)[:40])",
                           "            a, b = start(4), start(4) * 0.5"]
            if rng.random() < 0.5:
                self.lines.append(f"        if k % {rng.choice([1, 3, 10])} == 0: seen.append((a * 2).numpy().tolist())")
        self.lines.append("    return a, b, *kept")
        return "\n".join(self.lines) + "\n"


def resize(t, rows):
    """As many rows, for another shape."""
    import gt
    return t[:rows] if t.shape[0] >= rows else gt.cat([t, t, t, t, t, t, t, t, t], 0)[:rows]


def run(seed, marked):
    """A digest of all that the program computes and sees."""
    import gt

    def gradient(a, b):
        leaf = a.detach().clamp(-1, 1).requires_grad_()
        (leaf * b.detach() + leaf.tanh()).sum().backward()
        return leaf.grad

    def tolist(value):
        try:
            return value.detach().numpy().tolist()
        except (IndexError, RuntimeError) as error:
            return str(error)[:40]

    seen, kept = [], []
    scope = {"gt": gt, "mark": gt.compile if marked else lambda function: function, "seen": seen, "kept": kept, "resize": resize,
             "start": lambda rows: gt.arange(rows * 3).reshape(rows, 3) / (rows * 2) - 0.7, "gradient": gradient,
             "lot": random.Random(seed)}
    exec(compile(Writer(seed).program(), f"<program {seed}>", "exec"), scope)
    try:
        results = scope["main"]()
    except (IndexError, RuntimeError) as error:  # a failed value that was read
        results, seen = [], seen + [str(error)[:40]]
    text = repr([[tolist(value) for value in results], seen])
    return hashlib.sha256(text.encode()).hexdigest()[:16] + f" {len(seen)}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=1)
    parser.add_argument("--plain", action="store_true", help="do not mark functions")
    parser.add_argument("--show", action="store_true", help="print the programs")
    options = parser.parse_args()
    import gt
    gt.gpu_workers(1)
    for seed in range(options.seed, options.seed + options.count):
        if options.show:
            print(Writer(seed).program())
        print(seed, run(seed, not options.plain), flush=True)
    hotpath = next(iter(gt.debug.get_worker_stats(wait=True).values()))["hotpath"]
    print("hot", hotpath["hot_instructions"], "of", hotpath["total_instructions"], "runs", hotpath["runs"], "misses", hotpath["misses"])


if __name__ == "__main__":
    main()
