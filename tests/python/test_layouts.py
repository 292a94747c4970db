"""Results of operations on permuted tensors lie in memory as in PyTorch: strides, is_contiguous(), which view() is refused."""

import random

import pytest
import torch

import gt


def names(n):
    return {"n": n, "F": n.nn.functional, "x": n.arange(12.0).reshape(3, 4) + 1, "y": n.ones(4, 3), "c": n.ones(2, 3, 4),
            "i": n.tensor([0, 2]), "image": n.ones(2, 3, 4, 5)}


def places(t):
    return tuple(t.shape), t.is_contiguous(), [stride for size, stride in zip(t.shape, t.stride()) if size > 1]


EXPRESSIONS = """
x.t() + 1; x.t() * 2.; x.t() + y; y + x.t(); x.t() + x.t(); x.t() + n.ones(3); n.ones(3) + x.t(); 1 - x.t(); x.t().exp(); x.t() > 0
n.where(x.t() > 0, x.t(), y); n.where(y > 0, x.t(), 0.); x.t().double(); x.t().to(n.float64); x.t().bool(); x.t().clone(); -x.t()
n.zeros_like(x.t()); n.empty_like(x.t()); n.ones_like(c.permute(2, 0, 1)); n.full_like(x.t(), 2); n.rand_like(x.t()); abs(x.t())
c.permute(2, 0, 1) + 1; c.transpose(0, 1)[:, :, 1:] + 1; c[:, :, ::2] + 1; c.transpose(0, 1)[:, ::2] * 2; x.t()[1:] + 1; x.t()[:, 1:] + 1
x.t() + c.permute(0, 2, 1); x.t().unsqueeze(1) * y.unsqueeze(0); c.permute(1, 0, 2) * c.permute(1, 0, 2)[:, :1]; x.expand(2, 3, 4) + 1
x[:1].expand(3, 4).clone(); x[:1].expand(3, 4) * 2; x.t().unsqueeze(0) + 1; x.t().diagonal() + 1; x.t() == y; ~(x.t() > 0); x.t() ** 2
x.t().clamp(0, 1); x.t().pow(2); x.t().addcmul(y, y); x.t().lerp(y, 0.5); x.t().masked_fill(x.t() > 3, 0); x.t().maximum(y); x.t().sigmoid()
F.relu(x.t()); F.gelu(x.t()); F.dropout(x.t(), 0.5); F.silu(x.t()); F.softplus(x.t()); F.leaky_relu(x.t()); F.elu(x.t()); x.t().nan_to_num()
x.t().sum(0, keepdim=True); c.permute(2, 0, 1).sum(1); x.t().softmax(-1); x.t().cumsum(0); x.t().flip(0); x.t().sort(0)[0]; x.t().roll(1, 0)
n.cat([x.t(), x.t()]); n.stack([x.t(), x.t()]); x.t() @ x; x.t().triu(); x.t().index_select(0, i); x.t().repeat(1, 2); x.t().contiguous()
F.layer_norm(x.t(), (3,)); n.addmm(x.t(), y, n.ones(3, 3)); F.pad(x.t(), (1, 1)); x.t().new_zeros(4, 3); x.t().rot90(0); n.transpose_copy(x, 0, 1)
c.permute(2, 1, 0)[i]; c.permute(2, 0, 1)[:, :, i]; x.t()[i]; x[:, i]; c.permute(1, 2, 0)[i, :, 0]; c.permute(2, 1, 0)[i, i]; x.t()[x.t() > 3]
(x.t() + 1)[1:]; (x.t() + 1).t(); (x.t() + 1).t().view(-1); (x.t() + 1).reshape(-1); (c.permute(2, 0, 1) * 2).transpose(0, 1); (x.t() + 1).detach()
image.contiguous(memory_format=n.channels_last); image.to(memory_format=n.channels_last) * 2; image.clone(memory_format=n.channels_last)
n.zeros_like(image, memory_format=n.channels_last); n.zeros_like(x.t(), memory_format=n.contiguous_format); x.t().clone(memory_format=n.contiguous_format)
image.to(n.float64, memory_format=n.channels_last); image.contiguous(memory_format=n.channels_last).contiguous()
"""


@pytest.mark.parametrize("expression", [part.strip() for part in EXPRESSIONS.replace("\n", ";").split(";") if part.strip()])
def test_strides_of_results(expression):
    ours, theirs = (eval(expression, names(n)) for n in (gt, torch))
    assert places(ours) == places(theirs)


def test_which_views_are_refused():
    for n in (gt, torch):
        x = names(n)["x"]
        with pytest.raises(RuntimeError, match="view size is not compatible"):
            (x.t() + 1).view(-1)
        assert (x.t() + 1).t().view(-1).tolist() == [float(k) for k in range(2, 14)]
        assert (x.t() + 1).is_contiguous() is False and (y := (x + 1)).contiguous() is y
        image = names(n)["image"].contiguous(memory_format=n.channels_last)
        assert image.is_contiguous(memory_format=n.channels_last) and not image.is_contiguous()
        assert image.contiguous(memory_format=n.channels_last) is image
        with pytest.raises(RuntimeError, match="required rank 4 tensor to use channels_last format"):
            x.contiguous(memory_format=n.channels_last)


WRITES = ["p[0] = 7", "p.t()[1] = 5", "p.t().view(-1)[2:7] = 3", "p.t().view(-1)[::5].mul_(-1)", "p.t().reshape(-1)[3] = 9", "p[:, 1] += 2",
          "p.diagonal().zero_()", "p += 1", "p.copy_(y)", "p.t().copy_(x)", "p[i] = 4", "p[1:][i, i] = 6", "p[p > 5] = 0", "p.as_strided((2, 2), (1, 4)).fill_(8)",
          "p.t().view(2, 6)[1, 1:4] = 2", "p.view(2, 2, 3)[1, :, 0] = 5", "p.flatten()[0] = 3", "p.t().flatten().mul_(2)", "p.index_fill_(0, i, 5.)",
          "p.masked_fill_(p > 4, 1)", "p.data.t()[0, 1:] = 1", "p.detach()[1] = 2", "p[::2, 1:].sub_(1)", "p.t().view(-1).view(4, 3)[1] = 3",
          "p.unfold(0, 2, 2)[:, 0].add_(3)", "p.expand(2, 4, 3)[0, 1].fill_(2)", "p.unsqueeze_(0)", "p.scatter_(0, n.tensor([[1, 0, 2]]), 9.)"]


@pytest.mark.parametrize("line", WRITES)
@pytest.mark.parametrize("tracked", [False, True])
def test_writes_to_permuted_results(line, tracked):
    results = []
    for n in (gt, torch):
        values = names(n)
        w = values["x"].clone().requires_grad_(tracked)
        p = values["p"] = w.t() * 2
        v, m = p[1:], p.t()
        exec(line, values)
        p = values["p"]
        if tracked:
            (p * p).sum().backward()
        results.append([p.tolist(), v.tolist(), m.tolist(), w.grad.tolist() if tracked else None, places(p)])
    assert results[0] == results[1]


def test_index_tensors_on_permuted_tensors():
    rng = random.Random(3)
    for _ in range(300):
        shape = [rng.choice([2, 3, 4]) for _ in range(rng.choice([2, 3, 4]))]
        order = rng.sample(range(len(shape)), len(shape))
        key = [rng.choice([f"n.tensor([{rng.randrange(shape[k])}, 0])", str(rng.randrange(shape[k])), "::2", ":", ":"]) for k in order]
        expression = f"n.zeros({shape}).permute({order})[{', '.join(key)}]"
        ours, theirs = (eval(expression, {"n": n}) for n in (gt, torch))
        assert places(ours) == places(theirs), expression
