"""The functions written in Python, by family, against torch: values, and gradients if differentiable.

Each call is a function of a namespace n (gt or torch) and of its operands; floats among these are differentiated too.
"""

import pytest
import torch

import gt
from support import difference, raises, to_gt, values

X = values((3, 4, 5), "float64", 1)
Y = values((3, 4, 5), "float64", 2)
SQUARE = values((4, 4), "float64", 3)
VECTOR, OTHER = values((5,), "float64", 4), values((4,), "float64", 5)
ZEROS = torch.tensor([[1.0, 0.0, 2.0, 0.0], [0.0, 3.0, 4.0, 5.0]], dtype=torch.float64)
NANS = torch.tensor([[1.0, float("nan"), 3.0, 2.0], [4.0, 0.5, float("nan"), float("nan")]], dtype=torch.float64)
WHOLE = torch.tensor([[3, 1, 2, 3], [1, 1, 3, 0], [3, 1, 2, 3]])
FLAT = torch.tensor([5, 3, 3, 0, 5, 5, 1])
MASK = values((4, 5), "bool", 6)
INDEX = torch.tensor([2, 0, 2])
inf = float("inf")

FAMILIES = {
    "ordering": [
        (lambda n, x: n.max(x, 1), X), (lambda n, x: n.max(x, -1, keepdim=True), X), (lambda n, x: n.min(x, 0), ZEROS),
        (lambda n, x: x.max(), X), (lambda n, x, y: n.max(x, y), X, Y), (lambda n, x: n.aminmax(x.detach(), dim=1), X),
        (lambda n, x: n.aminmax(x.detach()), X), (lambda n, x: n.cummax(x, 1), ZEROS), (lambda n, x: n.cummin(x, 0), ZEROS),
        (lambda n, x: n.sort(x, 1, descending=True), X), (lambda n, x: n.sort(x, stable=True, dim=0), ZEROS),
        (lambda n, x: n.argsort(x, 1, descending=True), X), (lambda n, x: n.msort(x), X),
        (lambda n, x: n.topk(x, 2, 1), X), (lambda n, x: n.topk(x, 3, largest=False), X),
        (lambda n, x: n.kthvalue(x, 2), X), (lambda n, x: n.kthvalue(x, 3, 0, True), X), (lambda n, x: n.median(x), X),
        (lambda n, x: n.median(x, 1), X), (lambda n, x: n.median(x, 0, True), X), (lambda n, x: n.median(x, 1)[0], NANS),
        (lambda n, x: n.median(x), WHOLE), (lambda n, x: n.nanmedian(x, 1), NANS), (lambda n, x: n.nanmedian(x), NANS),
        (lambda n, x: n.mode(x, 1)[0], WHOLE), (lambda n, x: n.mode(x, 0, True)[0], WHOLE),
        (lambda n, x: n.quantile(x, 0.3, 1), X), (lambda n, x, q: n.quantile(x, q, -1, keepdim=True), X, OTHER.abs() % 1),
        (lambda n, x: n.quantile(x, 0.5), X), (lambda n, x: n.quantile(x, 0.7, 0, interpolation="lower"), X),
        (lambda n, x: n.quantile(x, 0.7, 0, interpolation="nearest"), X),
        (lambda n, x: n.quantile(x, 0.7, 0, interpolation="midpoint"), X),
        (lambda n, x: n.unique(x), WHOLE), (lambda n, x: n.unique(x, return_inverse=True, return_counts=True), WHOLE),
        (lambda n, x: n.unique(x, dim=0, return_inverse=True, return_counts=True), WHOLE),
        (lambda n, x: n.unique(x, dim=1, return_counts=True), WHOLE), (lambda n, x: n.unique(x), WHOLE[:0]),
        (lambda n, x: n.unique(x), ZEROS.bool()),
        (lambda n, x: n.unique_consecutive(x, return_inverse=True, return_counts=True), FLAT),
        (lambda n, x: n.unique_consecutive(x, dim=1), WHOLE),
        (lambda n, x: n.isin(x, n.tensor([3, 0])), WHOLE), (lambda n, x: n.isin(x, n.tensor([3]), invert=True), WHOLE),
        (lambda n, b, x: n.bucketize(x, b), OTHER.sort().values, X),
        (lambda n, b, x: n.bucketize(x, b, right=True, out_int32=True), OTHER.sort().values, X),
        (lambda n, b, x: n.searchsorted(b, x, side="right"), OTHER.sort().values, X),
        (lambda n, b, x, s: n.searchsorted(b, x, sorter=s), OTHER, X, OTHER.argsort()),
        (lambda n, b: n.searchsorted(b, 0.25), OTHER.sort().values),
    ],
    "picking": [
        (lambda n, x, m: n.masked_select(x, m), X, MASK), (lambda n, x, m: n.masked_fill(x, m, 2.0), X, MASK),
        (lambda n, x, m, s: n.masked_scatter(x, m, s), X, MASK, Y), (lambda n, x: n.nonzero(x), WHOLE),
        (lambda n, x: n.nonzero(x, as_tuple=True), WHOLE), (lambda n, x: n.nonzero(n.tensor(5)), WHOLE),
        (lambda n, x: n.argwhere(x), ZEROS), (lambda n, x: n.count_nonzero(x, dim=(0, 1)), WHOLE),
        (lambda n, x, i, s: n.index_add(x, 1, i, s), X, INDEX, Y[:, :3]),
        (lambda n, x, i, s: n.index_add(x, 0, i, s, alpha=2), X, INDEX, Y),
        (lambda n, x, i, s: n.index_copy(x, 2, i[:2], s), X, INDEX, Y[..., :2]),
        (lambda n, x, i: n.index_fill(x, 1, i, 3.5), X, INDEX),
        (lambda n, x, i, s: x.index_reduce(1, i, s, "amax"), X, INDEX, Y[:, :3]),
        (lambda n, x, i, s: n.index_put(x, (i, i), s), X, INDEX[:2], Y[:2, 0]),
        (lambda n, x, i, s: n.index_put(x, (i,), s, accumulate=True), X, INDEX, Y),
        (lambda n, x, i, s: n.index_put(x, (i, i + 1), s, accumulate=True), X, INDEX, VECTOR),
        (lambda n, x, i, s: x.put(i, s), X, INDEX[:2], VECTOR[:2]),
        (lambda n, x, i, s: x.put(i, s, accumulate=True), X, INDEX, VECTOR[:3]),
        (lambda n, x, i: n.take_along_dim(x, i, 1), X, WHOLE.T[:, :1, None].contiguous()[:3]),
        (lambda n, x: n.bincount(x), FLAT), (lambda n, x: n.bincount(x, minlength=9), FLAT),
        (lambda n, x, w: n.bincount(x, w.detach()), FLAT, values((7,), "float32", 1)), (lambda n, x: n.bincount(x), FLAT[:0]),
        (lambda n, x: n.histc(x, 4, -2, 2), X.float()), (lambda n, x: n.histc(x, 5), VECTOR.float()),
        (lambda n, x: n.tril_indices(3, 4, 1), FLAT), (lambda n, x: n.triu_indices(4, 3, -1), FLAT),
        (lambda n, x: n.combinations(x), VECTOR), (lambda n, x: n.combinations(x, 3, True), VECTOR),
        *((lambda n, x, r=r, again=again, few=few: n.combinations(x[:few], r, again), VECTOR)
          for r in (1, 2, 3, 5, 9) for again in (False, True) for few in (0, 1, 5)),
        (lambda n, x, y: n.cartesian_prod(x, y), VECTOR, OTHER),
        (lambda n, x, i: n.nn.functional.one_hot(i, 4), X, INDEX), (lambda n, i: n.nn.functional.one_hot(i), WHOLE),
    ],
    "arrangement": [
        (lambda n, x: n.split(x, [1, 3], 1), X), (lambda n, x: n.tensor_split(x, 3, 2), X),
        (lambda n, x: n.tensor_split(x, (1, 3), 1), X), (lambda n, x: n.hsplit(x, 2), X),
        (lambda n, x: n.vsplit(x, [1]), X), (lambda n, x: n.dsplit(x, 5), X), (lambda n, x: n.unbind(x, 2), X),
        (lambda n, x, y: n.hstack([x, y]), X, Y), (lambda n, x, y: n.hstack([x, y]), VECTOR, OTHER),
        (lambda n, x, y: n.vstack([x, y]), VECTOR, VECTOR + 1), (lambda n, x, y: n.dstack([x, y]), SQUARE, SQUARE + 1),
        (lambda n, x, y: n.column_stack([x, y]), VECTOR, VECTOR + 1), (lambda n, x, y: n.block_diag(x, y), SQUARE, VECTOR),
        (lambda n, x: n.atleast_1d(x[0, 0, 0]), X), (lambda n, x: n.atleast_2d(x), VECTOR),
        (lambda n, x, y: n.atleast_3d(x, y), VECTOR, SQUARE), (lambda n, x: n.unflatten(x, 1, (2, -1)), X),
        (lambda n, x: n.rot90(x), X), (lambda n, x: n.rot90(x, -1, (1, 2)), X), (lambda n, x: n.rot90(x, 2), X),
        (lambda n, x: n.fliplr(x), X), (lambda n, x: n.flipud(x), X), (lambda n, x: n.roll(x, (1, -2), (0, 2)), X),
        (lambda n, x: n.roll(x, 7), X), (lambda n, x, y: n.meshgrid(x, y, indexing="ij"), VECTOR, OTHER),
        (lambda n, x, y: n.meshgrid(x, y, indexing="xy"), VECTOR, OTHER),
        (lambda n, x, y: n.broadcast_tensors(x, y), VECTOR, OTHER[:, None]),
        (lambda n, x, r: n.repeat_interleave(x, r, 0), X, INDEX), (lambda n, x: n.repeat_interleave(x, 2, 1), X),
        (lambda n, x, r: n.repeat_interleave(x, r, 0, output_size=4), X, INDEX), (lambda n, x: n.repeat_interleave(x, 3), X),
        (lambda n, x: n.tile(x, (2, 3)), X), (lambda n, x: n.diag(x), VECTOR), (lambda n, x: n.diag(x, -1), VECTOR),
        (lambda n, x: n.diag(x, 1), SQUARE), (lambda n, x: n.diag_embed(x), X), (lambda n, x: n.diag_embed(x, 1, 0, 2), X),
        (lambda n, x: n.diag_embed(x, -2), SQUARE), (lambda n, x: n.diagflat(x, 1), SQUARE), (lambda n, x: n.trace(x), SQUARE),
        (lambda n, x: n.diagonal(x, 1, 2, 0), X), (lambda n, x: x.unfold(1, 2, 1), X),
        (lambda n, x: x.unfold(2, 3, 2).unfold(0, 2, 1), X),
        (lambda n, x: n.nn.functional.pad(x, (1, 2)), X), (lambda n, x: n.nn.functional.pad(x, (1, -1, 0, 2), value=3.0), X),
        (lambda n, x: n.nn.functional.pad(x, (-2, -1, 1, 0, 0, 1)), X),
        (lambda n, x: n.nn.functional.pad(x, (2, 3), mode="reflect"), X),
        (lambda n, x: n.nn.functional.pad(x[None], (2, 3, 1, 2), mode="reflect"), X),
        (lambda n, x: n.nn.functional.pad(x[None], (7, 1, 0, 5), mode="replicate"), X),
        (lambda n, x: n.nn.functional.pad(x[None], (5, 2, 3, 0), mode="circular"), X),
    ],
    "products": [
        (lambda n, x, y: n.einsum("ij,jk->ik", x, y), SQUARE, SQUARE + 1), (lambda n, x: n.einsum("ii", x), SQUARE),
        (lambda n, x: n.einsum("ii->i", x), SQUARE), (lambda n, x: n.einsum("ij->ji", x), SQUARE),
        (lambda n, x: n.einsum("abc->b", x), X), (lambda n, x, y: n.einsum("abc,abc->", x, y), X, Y),
        (lambda n, x, y: n.einsum("abc,abd->acd", x, y), X, Y), (lambda n, x, y: n.einsum("i,j", x, y), VECTOR, OTHER),
        (lambda n, x, y: n.einsum("...c,c->...", x, y), X, VECTOR), (lambda n, x, y: n.einsum("...bc,...dc", x, y), X, Y),
        (lambda n, x, y: n.einsum("...bc,...dc->...bd", x, y[:1]), X, Y), (lambda n, x, y: n.einsum("b...,b...->...", x, y), X, Y),
        (lambda n, x, y, z: n.einsum("ab,bc,cd->ad", x, y, z), SQUARE, SQUARE + 1, SQUARE - 1),
        (lambda n, x, y, z: n.einsum("abc,b,c->a", x, y, z), X, OTHER, VECTOR),
        (lambda n, x, y, z: n.einsum("abc,b,c->cab", x, y, z), X, OTHER, VECTOR),
        (lambda n, x, y: n.einsum("bij,jj->bi", x[:, :, :4], y), X, SQUARE), (lambda n, x: n.einsum("aab->ab", x), X[:, :3]),
        (lambda n, x: n.einsum("...ii->...i", x), X[:, :, :4]), (lambda n, x, y: n.einsum("ab,ab->ab", x, y), SQUARE, SQUARE + 1),
        (lambda n, x, y: n.einsum(x, [0, 1, 2], y, [2], [1, 0]), X, VECTOR),
        (lambda n, x, y: n.einsum(" a b , b -> a ", x, y), SQUARE, OTHER),
        (lambda n, x, y: n.tensordot(x, y, 1), SQUARE, SQUARE + 1), (lambda n, x, y: n.tensordot(x, y, ([1, 2], [1, 2])), X, Y),
        (lambda n, x, y: n.tensordot(x, y, 0), VECTOR, OTHER), (lambda n, x, y: n.outer(x, y), VECTOR, OTHER),
        (lambda n, x, y: n.inner(x, y), X, Y), (lambda n, x, y: n.dot(x, y), VECTOR, VECTOR + 1),
        (lambda n, x, y: n.mv(x, y), SQUARE, OTHER), (lambda n, x, y: n.mm(x, y), SQUARE, SQUARE),
        (lambda n, x, y: n.bmm(x, y.transpose(1, 2)), X, Y),
        (lambda n, x, y: n.addmm(y, x, x, beta=0.5, alpha=2), SQUARE, OTHER), (lambda n, x, y: n.addmv(y, x, y, alpha=3), SQUARE, OTHER),
        (lambda n, x, y: n.addr(x, y, y), SQUARE, OTHER), (lambda n, x, y: n.baddbmm(x[:, :, :4], x, y.transpose(1, 2), beta=2), X, Y),
        (lambda n, x, y: n.addbmm(x[0, :, :4], x, y.transpose(1, 2)), X, Y), (lambda n, x, y: n.addcmul(x, x, y, value=0.5), X, Y),
        (lambda n, x, y: n.addcdiv(x, x, y, value=2), X, Y), (lambda n, x, y: n.cross(x[..., :3], y[..., :3], dim=-1), X, Y),
        (lambda n, x, y: n.kron(x, y), SQUARE, SQUARE[:2, :3]), (lambda n, x, y: n.cdist(x, y), X, Y),
        (lambda n, x, y: n.cdist(x, y, p=1), X, Y), (lambda n, x, y: n.chain_matmul(x, y, x), SQUARE, SQUARE + 1),
    ],
    "statistics": [
        (lambda n, x: n.norm(x), X), (lambda n, x: n.norm(x, 1, 1), X), (lambda n, x: n.norm(x, inf, (0, 2), True), X),
        (lambda n, x: n.norm(x, -inf), X), (lambda n, x: n.norm(x, 0, 1), ZEROS), (lambda n, x: n.norm(x, 3.5, -1), X),
        (lambda n, x: n.norm(x, "fro", (0, 1)), X), (lambda n, x: n.norm(x * 0, dim=1), X), (lambda n, x: x.norm(p=2, dim=(1, 2)), X),
        (lambda n, x, y: n.dist(x, y), X, Y), (lambda n, x: n.renorm(x, 2, 1, 3.0), X),
        (lambda n, x: n.var_mean(x, 1), X), (lambda n, x: n.std_mean(x), X), (lambda n, x: n.std_mean(x, 1, correction=0, keepdim=True), X),
        (lambda n, x: n.nansum(x, 1), NANS), (lambda n, x: n.nansum(x), NANS), (lambda n, x: n.nanmean(x, 1), NANS),
        (lambda n, x: n.cov(x), SQUARE), (lambda n, x: n.cov(x), VECTOR), (lambda n, x: n.cov(x, correction=0), SQUARE),
        (lambda n, x, w: n.cov(x, fweights=w), SQUARE, torch.tensor([1, 2, 1, 3])),
        (lambda n, x, w: n.cov(x, aweights=w), SQUARE, OTHER.abs()), (lambda n, x: n.corrcoef(x), SQUARE),
        (lambda n, x: n.diff(x), X), (lambda n, x: n.diff(x, 2, 1), X), (lambda n, x, y: n.diff(x, dim=0, prepend=y), X, Y[:1]),
        (lambda n, x: n.diff(x), MASK), (lambda n, x: n.trapezoid(x, dx=0.5), X), (lambda n, x, y: n.trapezoid(x, y), X, VECTOR),
        (lambda n, x: n.cumsum(x, 1), WHOLE), (lambda n, x: n.cumsum(x, 1, dtype=n.float64), WHOLE), (lambda n, x: n.cumprod(x, 1), ZEROS),
        (lambda n, x: n.cumprod(x, 0), X), (lambda n, x: n.logcumsumexp(x, 1), X), (lambda n, x: n.logsumexp(x, (0, 2)), X),
        (lambda n, x: n.logsumexp(x, 1, keepdim=True), X), (lambda n, x: n.nn.functional.softmin(x, 1), X),
        (lambda n, x: n.nn.functional.normalize(x), X), (lambda n, x: n.nn.functional.normalize(x, 1, -1), X),
        (lambda n, x, y: n.cosine_similarity(x, y, 2), X, Y), (lambda n, x: n.all(x, 1), MASK), (lambda n, x: n.any(x, 0, True), MASK),
        (lambda n, x, i, s: n.scatter_reduce(x, 1, i, s, "prod"), ZEROS, WHOLE[:2] % 2, ZEROS.flip(1)),
        # without ties: torch counts a tie with an excluded self
        (lambda n, x, i, s: n.scatter_reduce(x, 1, i, s, "amax", include_self=False), ZEROS + 0.5, WHOLE[:2] % 2, ZEROS.flip(1)),
    ],
}  # fmt: skip


def listed(result):
    """Every tensor of a result."""
    return [t for part in result for t in listed(part)] if isinstance(result, (tuple, list)) else [result]


def leaf(x):
    t = to_gt(x)
    if x.is_floating_point():
        t.requires_grad = True
    return t


@pytest.mark.parametrize("family, number", [(f, k) for f in FAMILIES for k in range(len(FAMILIES[f]))])
def test_call(family, number):
    call, *operands = FAMILIES[family][number]
    theirs = [x.clone().requires_grad_(x.is_floating_point()) for x in operands]
    ours = [leaf(x) for x in operands]
    expected, got = listed(call(torch, *theirs)), listed(call(gt, *ours))
    assert len(got) == len(expected)
    for t, x in zip(got, expected):
        problem = difference(t.detach(), x.detach())
        assert problem is None, problem
    differentiable = [k for k, x in enumerate(expected) if x.requires_grad]
    if not differentiable:
        return
    weights = [values(tuple(expected[k].shape), "float64", k).to(expected[k].dtype) for k in differentiable]
    sum((expected[k] * w).sum() for k, w in zip(differentiable, weights)).backward()
    sum((got[k] * to_gt(w)).sum() for k, w in zip(differentiable, weights)).backward()
    for t, x in zip(ours, theirs):
        if x.grad is not None:
            problem = difference(t.grad, x.grad, rtol=1e-8, atol=1e-9)
            assert problem is None, f"gradient: {problem}"


def test_several_results_are_tuples_with_names():
    t = to_gt(X)
    for result in (t.max(1), t.min(0), t.sort(), t.topk(2), t.median(1), t.cummax(0), t.kthvalue(1), t.mode()):
        found, places = result
        assert isinstance(result, tuple) and result.values is found and result.indices is places is result[1]
        assert repr(result).startswith(f"gt.return_types.{type(result).__name__}(\nvalues=tensor(")
    assert t.aminmax().min.item() == X.min().item()


def test_in_place_methods_keep_gradients():
    for name, arguments in [("masked_fill", (MASK, 2.0)), ("index_add", (1, INDEX, Y[:, :3])), ("index_fill", (0, INDEX, 1.0)),
                            ("scatter_add", (0, INDEX.reshape(3, 1, 1), Y)), ("addcmul", (X, Y)),
                            ("index_put", ((INDEX,), Y))]:  # fmt: skip
        x, t = X.clone().requires_grad_(True), leaf(X)

        def converted(a):
            return to_gt(a) if isinstance(a, torch.Tensor) else tuple(map(to_gt, a)) if isinstance(a, tuple) else a

        y, s = x * 2, t * 2
        getattr(y, name + "_")(*arguments)
        assert getattr(s, name + "_")(*map(converted, arguments)) is s
        (y * Y).sum().backward()
        (s * to_gt(Y)).sum().backward()
        assert difference(s.detach(), y.detach()) is None and difference(t.grad, x.grad) is None, name


@pytest.mark.parametrize("heads, shared", [(6, 2), (4, 4), (4, 1)])
@pytest.mark.parametrize("causal", [False, True])
def test_attention_with_grouped_queries(heads, shared, causal):
    q, k, v = values((2, heads, 5, 8), "float64", 1), values((2, shared, 7, 8), "float64", 2), values((2, shared, 7, 3), "float64", 3)
    attention = torch.nn.functional.scaled_dot_product_attention
    theirs = [x.clone().requires_grad_(True) for x in (q, k, v)]
    ours = [leaf(x) for x in (q, k, v)]
    expected = attention(*theirs, is_causal=causal, enable_gqa=True)
    got = gt.nn.functional.scaled_dot_product_attention(*ours, is_causal=causal, enable_gqa=True)
    assert difference(got.detach(), expected.detach()) is None
    (expected * expected).sum().backward()
    (got * got).sum().backward()
    for t, x in zip(ours, theirs):
        assert difference(t.grad, x.grad, rtol=1e-9, atol=1e-9) is None


def test_errors():
    t, whole = to_gt(X), to_gt(WHOLE)
    raises(RuntimeError, lambda: gt.stack([gt.zeros(2, 3), gt.zeros(2, 4)]), "stack expects each tensor to be equal size, but got [2, 3] at entry 0 and [2, 4] at entry 1")
    raises(TypeError, lambda: gt.tensor([1, "a"]), "invalid data type 'str'")
    raises(RuntimeError, lambda: gt.einsum("ij,jk", t, t), "subscripts")
    raises(RuntimeError, lambda: gt.einsum("ij,jk->il", gt.zeros(2, 2), gt.zeros(2, 2)), "output subscript l")
    raises(RuntimeError, lambda: gt.einsum("ij,jk", gt.zeros(2, 2), gt.zeros(3, 2)), "broadcast")
    raises(RuntimeError, lambda: gt.bincount(gt.tensor([1, -1])), "non-negative")
    raises(RuntimeError, lambda: t.scatter_reduce(0, whole, t, "median"), "reduce argument")
    raises((ValueError, RuntimeError), lambda: t.unfold(1, 9, 1), "maximum size for tensor at dimension 1 is 4")
    raises((ValueError, RuntimeError), lambda: t.diagonal(0, 1, 1), "identical")
    raises(RuntimeError, lambda: gt.nn.functional.pad(t, (1,)), "divisible by 2")
    raises(RuntimeError, lambda: gt.nn.functional.pad(t, (5, 0), mode="reflect"), "Padding size")
    raises(IndexError, lambda: gt.nn.functional.one_hot(gt.tensor([0, 5]), 3).numpy(), "smaller than num_classes")
    raises(RuntimeError, lambda: t.kthvalue(9, 1), "out of range")
    raises(IndexError, lambda: t.softmax(5), "Dimension out of range")
    raises(TypeError, lambda: t.softmax(), "dim")
    raises((ValueError, IndexError, RuntimeError), lambda: gt.norm(gt.zeros(0), inf), "non-zero size")
