"""Rows about complex numbers, Fourier transforms and sparse products, in the dtypes they take and those they refuse.

test_complex.py, test_fft.py and test_sparse.py have the values; here each row meets every dtype of the table once.
"""

import torch

import gt
from support import raises, to_gt, values


def refused(cases, function):
    cases.true("a refusal with a reason", bool(raises((RuntimeError, TypeError), function)))


def check_view_as_real(name, types, dtype, cases):
    x = values((3, 4), dtype, 1)
    refused(cases, lambda: gt.view_as_real(to_gt(x)))
    if dtype in ("float32", "float64"):
        z = torch.complex(x, x + 1)
        cases.true("view_as_real", gt.view_as_real(gt.complex(to_gt(x), to_gt(x + 1))).tolist() == torch.view_as_real(z).tolist())


def check_view_as_complex(name, types, dtype, cases):
    x = values((5, 2), dtype, 1)
    if dtype not in ("float32", "float64"):
        refused(cases, lambda: gt.view_as_complex(to_gt(x)))
        return
    cases.true("view_as_complex", gt.view_as_complex(to_gt(x)).tolist() == torch.view_as_complex(x).tolist())
    raises(RuntimeError, lambda: gt.view_as_complex(to_gt(x.t())))


def check_fft(name, types, dtype, cases):
    x = values((3, 8), dtype, 1)
    if dtype in ("float16", "bfloat16"):
        refused(cases, lambda: gt.fft.fft(to_gt(x)))
        return
    finite = torch.nan_to_num(x.double(), 1, 2, 3).clamp(-100, 100).to(x.dtype)
    expected = torch.view_as_real(torch.fft.fft(finite))
    cases.same("fft", lambda: gt.view_as_real(gt.fft.fft(to_gt(finite))), expected, rtol=1e-4, atol=1e-2)


def check_attention(name, types, dtype, cases):
    """Both rows: that of the backward pass through gradients."""
    arrays = [values(shape, dtype, k) for k, shape in enumerate([(2, 3, 4), (2, 5, 4), (2, 5, 2)])]
    if dtype not in ("float16", "bfloat16", "float32", "float64"):
        refused(cases, lambda: gt._gt._attention(*(to_gt(x) for x in arrays), 0.5, 0))
        return
    arrays = [torch.nan_to_num(x.double(), 1, 2, 3).clamp(-2, 2).to(x.dtype) for x in arrays]
    rtol, atol = {"float16": (1e-2, 1e-2), "bfloat16": (5e-2, 5e-2), "float32": (1e-4, 1e-5), "float64": (1e-7, 1e-8)}[dtype]
    for causal in (False, True):
        ours, theirs = [to_gt(x).requires_grad_() for x in arrays], [x.clone().requires_grad_() for x in arrays]
        result = gt._gt._attention(*ours, 0.5, 3 if causal else 0)
        expected = torch.nn.functional.scaled_dot_product_attention(*theirs, scale=0.5, is_causal=causal)
        cases.same(f"attention, causal {causal}", lambda: result.detach(), expected.detach(), rtol=rtol, atol=atol)
        result.square().sum().backward()
        expected.square().sum().backward()
        for got, wanted in zip(ours, theirs):
            cases.same("gradient", lambda: got.grad, wanted.grad, rtol=rtol, atol=atol)


def check_sparse(name, types, dtype, cases):
    x = values((4, 3), dtype, 1)
    indices = torch.tensor([[0, 2, 4, 0], [1, 3, 3, 1]])
    entries = torch.tensor([1, 2, 3, 4]).to(x.dtype)
    if dtype not in ("float32", "float64"):
        refused(cases, lambda: gt._gt._sparse_mm(to_gt(indices), to_gt(entries), to_gt(x), 5, False))
        return
    dense = torch.sparse_coo_tensor(indices, entries, (5, 4)).to_dense()
    finite = torch.nan_to_num(x, 1, 2, 3)
    if name == "sparse_mm":
        cases.same("sparse_mm", lambda: gt._gt._sparse_mm(to_gt(indices), to_gt(entries), to_gt(finite), 5, False), dense @ finite)
        raises(IndexError, lambda: gt._gt._sparse_mm(to_gt(indices), to_gt(entries), to_gt(finite), 3, False).sum().item())
        return
    left = torch.ones(5, 3, dtype=x.dtype)
    expected = (left @ finite.T)[indices[0], indices[1]]
    cases.same("sampled_mm", lambda: gt._gt._sampled_mm(to_gt(indices), to_gt(left), to_gt(finite)), expected)


CHECKS = {
    "view_as_real": check_view_as_real,
    "view_as_complex": check_view_as_complex,
    "fft": check_fft,
    "attention": check_attention,
    "attention_backward": check_attention,
    "sparse_mm": check_sparse,
    "sampled_mm": check_sparse,
}
