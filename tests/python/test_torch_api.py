"""Names and keywords of PyTorch that scripts use beside the operations, compared with torch where it has the same."""

import collections
import io
import re

import numpy as np
import pytest
import torch
import torch.nn.functional as TF
import torch.utils._pytree  # noqa: F401

import gt
from both import both, same, same_error
from gt import nn


# ---- keywords and results --------------------------------------------------------------------------------------------


def test_names_of_first_operands():
    both(lambda L, a, b: L.cdist(x1=a, x2=b), np.ones((2, 3), np.float32), np.zeros((4, 3), np.float32))
    both(lambda L, a: L.split(tensor=a, split_size_or_sections=2), np.arange(5))
    both(lambda L, a, b: L.searchsorted(sorted_sequence=a, input=b), np.array([1, 3, 5]), np.array([2, 4]))
    both(lambda L, a: L.lu(A=a)[0], np.eye(3, dtype=np.float32) * 2)
    for library in (gt, torch):
        assert type(library.ones(2, 3).stride()) is tuple and library.ones(2, 3).stride() == (3, 1)


@pytest.mark.parametrize('reduce', ['amax', 'amin', 'mean', 'prod', 'sum'])
@pytest.mark.parametrize('include_self', [True, False])
def test_gradients_of_scatter_reduce(reduce, include_self):
    def gradients(library):
        x, src = (library.tensor(v, requires_grad=True) for v in ([3., 1., 5., 2.], [3., 3., 2., 1.]))
        index = library.tensor([0, 0, 1, 1])
        x.scatter_reduce(0, index, src, reduce, include_self=include_self).backward(library.tensor([1., 2., 3., 4.]))
        return x.grad, src.grad
    same(gradients(gt), gradients(torch))


def test_values_leave_autograd_by_detach_only():
    x = gt.ones(2, requires_grad=True)
    for call in (lambda: x.numpy(), lambda: np.asarray(x), lambda: (x * 2).numpy(), lambda: np.exp(x)):
        with pytest.raises(RuntimeError, match=re.escape("Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy()")):
            call()
    assert x.numpy(force=True).tolist() == x.detach().numpy().tolist() == x.data.numpy().tolist() == [1, 1] and x.tolist() == [1, 1]
    with pytest.raises(BufferError, match="Can't export tensors that require gradient"):
        x.__dlpack__()


def test_functions_name_what_is_not_a_tensor():
    for call in (lambda L: L.exp(1.5), lambda L: L.maximum(L.ones(1), 2), lambda L: L.mm(L.ones(1, 1), 2), lambda L: L.cat(L.ones(2))):
        same_error(call, 'must be')
    same_error(lambda L: L.exp(), 'exp() missing 1 required positional arguments: "input"')


# ---- names -----------------------------------------------------------------------------------------------------------


def test_missing_names_say_so():
    for name, advice in (('uint16', 'int32'), ('uint64', 'int32'), ('float8_e4m3fn', 'bfloat16'), ('quantize_per_tensor', 'quantised'),
                         ('sparse_csr_tensor', 'sparse_coo_tensor'), ('UntypedStorage', 'workers'), ('no_such_name', '')):
        with pytest.raises(AttributeError, match=f"module 'gt' has no attribute '{name}'.*{advice}"):
            getattr(gt, name)


def test_short_names():
    assert gt.newaxis is None and gt.ones(2)[:, gt.newaxis].shape == (2, 1) and gt.GradScaler is gt.amp.GradScaler
    assert gt.cuda.FloatTensor is gt.FloatTensor and gt.cuda.LongTensor([1, 2]).tolist() == [1, 2]
    assert issubclass(gt.cuda.OutOfMemoryError, RuntimeError) and gt.OutOfMemoryError is gt.cuda.OutOfMemoryError
    with pytest.raises(gt.OutOfMemoryError, match='too large'):
        gt.empty(2 ** 60)
    both(lambda L: L.frombuffer(b'\x01\x02\x03\x04', dtype=L.int16))
    both(lambda L: L.frombuffer(bytearray(8), dtype=L.float32, count=1, offset=4))
    same_error(lambda L: L.frombuffer(b'ab', dtype=L.float32))
    both(lambda L, x: (L.nuclear_norm(x), L.frobenius_norm(x, [0, 1]), L.norm_except_dim(x, 2, 0)), np.arange(6, dtype=np.float32).reshape(2, 3))
    both(lambda L, x: (L.pixel_shuffle(x, 2), L.threshold(x, 3., 7.), L.hardshrink(x)), np.arange(16, dtype=np.float32).reshape(1, 4, 2, 2))
    both(lambda L, x: L.clip_(L.arcsin_(x), max=0.3), np.array([0.1, 0.5], np.float32))


def test_retained_gradients_and_subclasses():
    for library in (gt, torch):
        x = library.ones(2, requires_grad=True)
        y = x * 2
        assert not x.retains_grad and not y.retains_grad
        y.retain_grad()
        x.retain_grad()
        assert y.retains_grad and not x.retains_grad
    assert gt.ones(2).as_subclass(gt.Tensor).tolist() == [1, 1]
    with pytest.raises(NotImplementedError, match='__torch_function__'):
        type('Logged', (gt.Tensor,), {'__torch_function__': classmethod(lambda *arguments: None)})
    assert not gt.overrides.has_torch_function((gt.ones(1),)) and gt.overrides.is_tensor_like(gt.ones(1))
    both(lambda L, x, y: x.map_(y, lambda a, b: a + 2 * b), np.array([1., 2.], np.float32), np.array([3., 4.], np.float32))


def test_accelerator():
    found = gt.accelerator.current_accelerator()
    assert (found is None) == (not gt.accelerator.is_available()) == (not gt.cuda.is_available())
    gt.accelerator.synchronize()


# ---- modules ---------------------------------------------------------------------------------------------------------

Point = collections.namedtuple('Point', 'x y')
TREE = {'a': [1, (2, 3)], 'b': Point(4, {'c': 5}), 'd': collections.OrderedDict(e=6), 'f': collections.deque([7], 3), 'g': None}


def test_pytrees():
    ours, theirs = gt.utils._pytree, torch.utils._pytree
    for module in (ours, theirs):
        leaves, spec = module.tree_flatten(TREE)
        assert leaves == [1, 2, 3, 4, 5, 6, 7, None] and spec.num_leaves == 8
        assert module.tree_unflatten(leaves, spec) == TREE and module.tree_structure(TREE) == spec
        assert module.tree_map(lambda x, y: (x, y), [1, {'a': 2}], [3, {'a': [4]}]) == [(1, 3), {'a': (2, [4])}]
        assert module.tree_map_only(int, lambda x: -x, TREE)['a'] == [-1, (-2, -3)]
        assert module.tree_leaves(TREE, is_leaf=lambda x: isinstance(x, tuple))[:2] == [1, (2, 3)]
        assert module.tree_any(lambda x: x == 5, TREE) and not module.tree_all_only(int, lambda x: x < 7, TREE)
        with pytest.raises(ValueError):
            module.tree_unflatten([1], spec)
        with pytest.raises(ValueError):
            module.tree_map(lambda x, y: x, [1, 2], [1])

    class Pair:
        def __init__(self, *items):
            self.items = items
    for module in (ours, theirs):
        module.register_pytree_node(Pair, lambda p: (list(p.items), None), lambda items, context: Pair(*items))
        assert module.tree_map(lambda x: x + 1, [Pair(1, 2)])[0].items == (2, 3)


def test_benchmark():
    from gt.utils import benchmark
    timer = benchmark.Timer('y = x + x', setup='x = gt.ones(n)', globals={'n': 10}, label='add', sub_label='small', description='gt')
    measured = timer.timeit(5)
    assert measured.number_per_run == 5 and len(measured.times) == 1 and measured.median > 0 and 'add: small' in repr(measured)
    seen = []
    many = timer.blocked_autorange(lambda number, seconds: seen.append(number), min_run_time=0.01)
    assert sum(many.raw_times) >= 0.01 and len(seen) == len(many.raw_times) and set(seen) == {many.number_per_run}
    assert timer.adaptive_autorange(max_run_time=0.02).mean > 0
    table = str(benchmark.Compare([measured, many]))
    assert 'add' in table and 'small' in table and 'Times are in' in table
    with pytest.raises(NotImplementedError):
        benchmark.Timer('x', language='cpp')


def test_hooks_and_types():
    from gt.nn.common_types import _size_2_t  # noqa: F401
    from gt.types import Device, Number  # noqa: F401
    from gt.utils.hooks import RemovableHandle, unserializable_hook
    layer = nn.Linear(1, 1)
    handle = layer.register_forward_hook(unserializable_hook(lambda *arguments: None))
    assert isinstance(handle, RemovableHandle)
    handle.remove()


def test_batch_norms_without_running_statistics():
    for library in (gt, torch):
        model = library.nn.Sequential(library.nn.BatchNorm1d(2), library.nn.Linear(2, 2))
        assert library.func.replace_all_batch_norm_modules_(model) is model
        assert model[0].running_mean is None and not model[0].track_running_stats


@pytest.mark.parametrize('dtype', ['float32', 'bfloat16', 'int64', 'uint8', 'bool', 'complex64'])
def test_make_tensor(dtype):
    for library in (gt, torch):
        made = library.testing.make_tensor((20, 30), dtype=getattr(library, dtype), device='cpu', exclude_zero=True)
        assert str(made.dtype).endswith(dtype) and tuple(made.shape) == (20, 30) and not bool((made == 0).any())
        part = library.testing.make_tensor(4, 6, dtype=getattr(library, dtype), device='cpu', noncontiguous=True)
        assert tuple(part.shape) == (4, 6) and not part.is_contiguous()
    bounded = gt.testing.make_tensor(1000, dtype=gt.float32, low=2, high=3)
    assert 2 <= bounded.min().item() and bounded.max().item() <= 3


def test_plain_pickles_are_refused():
    import pickle
    for library in (gt, torch):
        with pytest.raises(pickle.UnpicklingError, match='Weights only load failed'):
            library.load(io.BytesIO(pickle.dumps({'a': 1})))


def test_targets_of_losses():
    scores, target = torch.randn(4, 3, 5), torch.randint(0, 3, (4, 5))
    same(nn.functional.cross_entropy(gt.tensor(scores), gt.tensor(target)), TF.cross_entropy(scores, target))
