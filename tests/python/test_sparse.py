"""Sparse tensors against PyTorch: making and printing them, products, sums, gradients, and a graph network."""

import numpy as np
import pytest
import torch

import gt

INDICES = [[0, 1, 1, 0, 3], [2, 0, 2, 2, 1]]
VALUES = [3.0, 4.0, 5.0, 1.0, -2.0]


def pair(size=(4, 3), dtype="float32", requires_grad=False):
    return tuple(
        T.sparse_coo_tensor(T.tensor(INDICES), T.tensor(VALUES, dtype=getattr(T, dtype)), size, requires_grad=requires_grad)
        for T in (gt, torch)
    )


def to_gt(x):
    return gt.from_numpy(x.detach().numpy().copy())


def check(actual, expected, tolerance=1e-6):
    if isinstance(actual, gt.sparse.SparseTensor):
        assert expected.is_sparse and actual.is_sparse
        actual, expected = actual.to_dense(), expected.to_dense()
    assert tuple(actual.shape) == tuple(expected.shape) and actual.dtype.name == str(expected.dtype)[6:]
    np.testing.assert_allclose(actual.detach().numpy(), expected.detach().numpy(), rtol=tolerance, atol=tolerance)


def test_what_it_is():
    s, t = pair()
    assert repr(s) == repr(t).replace("torch.", "gt.")
    assert repr(s.coalesce()) == repr(t.coalesce()).replace("torch.", "gt.")
    assert s.shape == tuple(t.shape) and s.size(1) == 3 and s.ndim == 2 and s.numel() == 12
    assert (s._nnz(), s.sparse_dim(), s.dense_dim(), s.is_coalesced()) == (5, 2, 0, False)
    assert s.layout is gt.sparse_coo and gt.ones(2).layout is gt.strided and not gt.ones(2).is_sparse
    assert repr(pair(requires_grad=True)[0]) == repr(pair(requires_grad=True)[1]).replace("torch.", "gt.")
    check(s, t)
    whole = s.coalesce()
    assert whole.indices().tolist() == t.coalesce().indices().tolist()
    assert whole.values().tolist() == t.coalesce().values().tolist()
    assert gt.sparse_coo_tensor(INDICES, VALUES).shape == tuple(torch.sparse_coo_tensor(INDICES, VALUES).shape)
    check(gt.sparse_coo_tensor((2, 3)), torch.sparse_coo_tensor((2, 3)))
    deep = gt.sparse_coo_tensor([[0, 2]], [[1.0, 2.0], [3.0, 4.0]], (3, 2))
    check(deep, torch.sparse_coo_tensor([[0, 2]], [[1.0, 2.0], [3.0, 4.0]], (3, 2)))
    dense = torch.tensor([[0, 1.5, 0], [2, 0, 0]])
    assert repr(to_gt(dense).to_sparse()) == repr(dense.to_sparse()).replace("torch.", "gt.")
    check(s.t(), t.t())
    check(s.T.coalesce(), t.T.coalesce())
    check(s.double(), t.double())


def test_refusals():
    s, _ = pair()
    for call, message in (
        (lambda: s.indices(), "Cannot get indices on an uncoalesced tensor"),
        (lambda: gt.sparse_coo_tensor(INDICES, VALUES[:2], (4, 3)), "must have same nnz"),
        (lambda: s + gt.ones(4, 3), r"add\(sparse, dense\) is not supported"),
        (lambda: gt.sparse.mm(s, gt.ones(2, 2)), "Expected dim 0 size 3, got 2"),
        (lambda: gt.sparse_coo_tensor(INDICES, VALUES, (4, 2), check_invariants=True), "size is inconsistent with indices"),
        (lambda: gt.sparse.mm(s, gt.ones(3, 2, dtype=gt.float64)), "same dtype"),
    ):
        with pytest.raises(RuntimeError, match=message):
            call()
    with pytest.raises(IndexError):
        (gt.sparse_coo_tensor(INDICES, VALUES, (2, 3)) @ gt.ones(3, 1)).sum().item()


def test_elementwise():
    s, t = pair()
    other = torch.arange(12.0).reshape(4, 3)
    check(s * 2, t * 2)
    check(0.5 * s, 0.5 * t)
    check(s / 2, t / 2)
    check(-s, -t)
    check(s + s.t().t() * 3, t + t.t().t() * 3)
    check(s - s * 2, t - t * 2)
    check(s * to_gt(other), t.coalesce() * other)
    check(s * s, t.coalesce() * t.coalesce())
    check(s.coalesce() * gt.ones(4, 3).to_sparse(), t.coalesce() * torch.ones(4, 3).to_sparse())
    check(to_gt(other) + s, other + t)
    check(s.abs(), t.abs())
    check(s.relu(), t.coalesce().relu())


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "complex64"])
def test_products(dtype):
    s, t = pair(dtype=dtype)
    x = torch.arange(6).reshape(3, 2).to(getattr(torch, dtype))
    check(gt.sparse.mm(s, to_gt(x)), t.to_dense() @ x)
    check(s @ to_gt(x), t.to_dense() @ x)
    check(gt.mm(s, to_gt(x)), t.to_dense() @ x)
    check(gt.matmul(s, to_gt(x)), t.to_dense() @ x)
    check(s @ to_gt(x)[:, 1], t.to_dense() @ x[:, 1])
    check(s.t() @ to_gt(torch.ones(4, 3).to(x.dtype)), t.to_dense().t() @ torch.ones(4, 3).to(x.dtype))
    check(to_gt(torch.ones(2, 4).to(x.dtype)) @ s, torch.ones(2, 4).to(x.dtype) @ t.to_dense())
    product = s @ s.t()
    assert product.is_sparse
    check(product.to_dense(), t.to_dense() @ t.to_dense().t())


def test_sums_and_softmax():
    s, t = pair()
    check(gt.sparse.sum(s), torch.sparse.sum(t))
    check(gt.sparse.sum(s, 0), torch.sparse.sum(t, 0))
    check(gt.sparse.sum(s, (0, 1)), torch.sparse.sum(t, (0, 1)))
    for dim in (0, 1):
        check(gt.sparse.softmax(s, dim), torch.sparse.softmax(t, dim))
        check(gt.sparse.log_softmax(s, dim), torch.sparse.log_softmax(t, dim))
    mask = torch.tensor([[1.0, 0, 2], [0, 1, 0]]).to_sparse()
    a, b = torch.randn(2, 5), torch.randn(5, 3)
    expected = mask.to_dense() + (a @ b) * (mask.to_dense() != 0)
    check(gt.sparse.sampled_addmm(gt.tensor([[1.0, 0, 2], [0, 1, 0]]).to_sparse(), to_gt(a), to_gt(b)).to_dense(), expected, 1e-5)
    check(gt.sparse.addmm(gt.ones(4, 2), s, gt.ones(3, 2), beta=2, alpha=3), torch.sparse.addmm(torch.ones(4, 2), t, torch.ones(3, 2), beta=2, alpha=3))


@pytest.mark.parametrize("transposed", [False, True])
def test_gradients(transposed):
    """To the values and to the dense operand, and of these gradients again."""
    results = []
    for T in (gt, torch):
        values = T.tensor(VALUES, dtype=T.float64, requires_grad=True)
        x = T.tensor(np.arange(8.0).reshape(4, 2) if transposed else np.arange(6.0).reshape(3, 2), requires_grad=True)
        s = T.sparse_coo_tensor(T.tensor(INDICES), values, (4, 3))
        s = s.t() if transposed else s
        y = (T.sparse.mm(s, x) ** 2).sum()
        y.backward()
        results.append((values.grad.tolist(), x.grad.tolist()))
    np.testing.assert_allclose(results[0][0], results[1][0])
    np.testing.assert_allclose(results[0][1], results[1][1])
    s, t = pair(requires_grad=True)
    (s @ gt.ones(3, 2)).sum().backward()
    (t @ torch.ones(3, 2)).sum().backward()
    check(s.grad * 1, torch.sparse_coo_tensor(INDICES, [2.0] * 5, (4, 3)))


def test_second_derivative():
    values = gt.tensor(VALUES, dtype=gt.float64, requires_grad=True)
    x = gt.tensor(np.arange(6.0).reshape(3, 2), requires_grad=True)
    y = (gt.sparse.mm(gt.sparse_coo_tensor(INDICES, values, (4, 3)), x) ** 2).sum()
    first = gt.grad(y, x, create_graph=True)[0]
    first.sum().backward()
    v, z = torch.tensor(VALUES, dtype=torch.float64, requires_grad=True), torch.tensor(np.arange(6.0).reshape(3, 2), requires_grad=True)
    dense = torch.zeros(12, dtype=torch.float64).index_add(0, torch.tensor([2, 3, 5, 2, 10]), v).reshape(4, 3)
    again = torch.autograd.grad(((dense @ z) ** 2).sum(), z, create_graph=True)[0]
    again.sum().backward()
    np.testing.assert_allclose(values.grad.numpy(), v.grad.numpy())
    np.testing.assert_allclose(x.grad.numpy(), z.grad.numpy())


def test_graph_network_trains_as_in_torch():
    """Two layers of graph convolution with a normalised adjacency, the same losses."""
    generator = np.random.default_rng(0)
    nodes, edges = 60, 300
    links = generator.integers(0, nodes, (2, edges))
    features, labels = generator.standard_normal((nodes, 8)).astype("f"), generator.integers(0, 3, nodes)
    weights = [generator.standard_normal((8, 16)).astype("f") * 0.3, generator.standard_normal((16, 3)).astype("f") * 0.3]
    losses = []
    for T in (gt, torch):
        index = T.tensor(np.concatenate([links, links[::-1], np.stack([np.arange(nodes)] * 2)], 1))
        adjacency = T.sparse_coo_tensor(index, T.ones(index.shape[1]), (nodes, nodes)).coalesce()
        degree = T.sparse.sum(adjacency, 1).to_dense() ** -0.5
        i = adjacency.indices()
        adjacency = T.sparse_coo_tensor(i, adjacency.values() * degree[i[0]] * degree[i[1]], (nodes, nodes))
        w = [T.tensor(x, requires_grad=True) for x in weights]
        optimizer = T.optim.Adam(w, lr=0.05)
        run = []
        for _ in range(10):
            hidden = T.relu(T.sparse.mm(adjacency, T.tensor(features) @ w[0]))
            loss = T.nn.functional.cross_entropy(T.sparse.mm(adjacency, hidden @ w[1]), T.tensor(labels))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            run.append(loss.item())
        losses.append(run)
    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-4)
    assert losses[0][-1] < losses[0][0]
