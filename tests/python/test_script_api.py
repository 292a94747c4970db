"""What scripts ask of the package besides operations: settings, printing, typed tensors, device modules, jit, compile."""

import copy
import inspect
import os
import pickle
import subprocess
import sys
import textwrap

import numpy as np
import pytest
import torch

import gt
from both import both, same_error


# ---- default dtype ---------------------------------------------------------------------------------------------------


@pytest.fixture
def doubles():
    gt.set_default_dtype(gt.float64)
    torch.set_default_dtype(torch.float64)
    yield
    gt.set_default_dtype(gt.float32)
    torch.set_default_dtype(torch.float32)


DEFAULT_DTYPE = [
    lambda m: m.tensor([1.0, 2.0]), lambda m: m.tensor(1.5), lambda m: m.zeros(2), lambda m: m.ones(2), lambda m: m.eye(2),
    lambda m: m.full((2,), 1.5), lambda m: m.full((2,), 1), lambda m: m.arange(3.0), lambda m: m.arange(3),
    lambda m: m.linspace(0, 1, 3), lambda m: m.tensor([1, 2]) / 2, lambda m: m.tensor([1, 2]) * 1.5,
    lambda m: m.tensor([1, 2]).exp(), lambda m: m.tensor([True]) * 1.5, lambda m: m.tensor([1, 2]) + m.tensor([1, 2]) / 3,
    lambda m: m.where(m.tensor([True, False]), m.tensor([1, 2]), 1.5), lambda m: m.Tensor([1, 2]),
    lambda m: m.tensor([1, 2], dtype=m.float32) * 2.5, lambda m: m.tensor([1, 2]).float() / 3, lambda m: m.tensor([3, 4]) ** 0.5,
    lambda m: m.nn.functional.linear(m.ones(1, 2), m.ones(2, 2)), lambda m: m.tensor(np.float32([1.5]))]


@pytest.mark.parametrize('number', range(len(DEFAULT_DTYPE)))
def test_default_dtype(doubles, number):
    both(DEFAULT_DTYPE[number])
    assert repr(gt.ones(1)) == 'tensor([1.])' and repr(gt.ones(1, dtype=gt.float32)) == 'tensor([1.], dtype=gt.float32)'
    assert gt.rand(2).dtype == gt.float64 and gt.nn.Linear(2, 2).weight.dtype == gt.float64


def test_default_dtype_errors():
    same_error(lambda m: m.set_default_dtype(m.int64), 'only floating-point types are supported as the default type')
    same_error(lambda m: m.set_default_dtype('float64'), 'invalid dtype object')
    gt.set_default_tensor_type(gt.DoubleTensor)
    assert gt.get_default_dtype() == gt.float64
    gt.set_default_tensor_type('torch.FloatTensor')
    assert gt.get_default_dtype() == gt.float32


# ---- printing --------------------------------------------------------------------------------------------------------

PRINTED = [
    np.linspace(-1, 1, 7, dtype='float32'), np.array([1e-6, 1.0], dtype='float32'), np.array([1.0, 2.0, 3.0], dtype='float32'),
    np.arange(2000, dtype='float32'), np.arange(24, dtype='int64').reshape(2, 3, 4), np.array([[True, False]]),
    np.array([np.nan, np.inf, 1.5], dtype='float32'), np.arange(40, dtype='float32').reshape(2, 20) / 7]
OPTIONS = [
    dict(), dict(precision=2), dict(precision=8), dict(threshold=5), dict(threshold=5, edgeitems=1), dict(edgeitems=1, threshold=1),
    dict(linewidth=30), dict(sci_mode=True), dict(sci_mode=False), dict(profile='short'), dict(profile='full'),
    dict(profile='full', precision=1), dict(edgeitems=0, threshold=3)]


@pytest.mark.parametrize('options', OPTIONS, ids=str)
def test_print_options(options):
    try:
        gt.set_printoptions(**options)
        torch.set_printoptions(**options)
        for x in PRINTED:
            assert repr(gt.tensor(x)) == repr(torch.tensor(x)).replace('torch.', 'gt.')
    finally:
        gt.set_printoptions(profile='default')
        torch.set_printoptions(profile='default')


def test_tensors_with_a_gradient_print_their_operation():
    for make in (lambda m: m.ones(2, requires_grad=True), lambda m: m.ones(2, requires_grad=True) * 2,
                 lambda m: m.ones(2, dtype=m.float64, requires_grad=True).exp(),
                 lambda m: m.arange(20.0).requires_grad_().sin()):
        assert repr(make(gt)) == repr(make(torch)).replace('torch.', 'gt.')


# ---- types -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize('call', [
    lambda m: m.LongTensor([1, 2]), lambda m: m.FloatTensor([1, 2]), lambda m: m.ByteTensor([[1], [2]]),
    lambda m: m.DoubleTensor(np.ones((2, 2))), lambda m: m.BoolTensor([True, False]), lambda m: m.FloatTensor(2, 3) * 0,
    lambda m: m.IntTensor(2).fill_(3), lambda m: m.ones(2).type(m.int64), lambda m: m.ones(2).type(m.LongTensor),
    lambda m: m.ones(2).type('torch.DoubleTensor'), lambda m: m.ones(2, dtype=m.int64).new([1, 2]),
    lambda m: m.ones(2).new(2, 3).fill_(1), lambda m: m.ones(2).new_tensor([1, 2]), lambda m: m.ones(2).new_zeros(2, 3),
    lambda m: m.ones(2).new_full((2,), 3), lambda m: m.arange(6)[range(2)], lambda m: m.arange(6)[[0, 2]],
    lambda m: m.add(input=m.ones(2), other=m.ones(2)), lambda m: m.sum(input=m.ones(2, 2), dim=1),
    lambda m: m.softmax(input=m.ones(2, 2), dim=0), lambda m: m.reshape(input=m.ones(4), shape=(2, 2)),
    lambda m: m.cat(tensors=[m.ones(2)], dim=0), lambda m: m.where(m.tensor([True]), input=m.ones(1), other=m.zeros(1)),
    lambda m: m.result_type(m.ones(2), 3), lambda m: m.can_cast(m.float64, m.float32), lambda m: m.can_cast(m.float32, m.int64),
    lambda m: m.is_tensor(m.ones(2)), lambda m: m.is_floating_point(m.ones(2)), lambda m: m.is_storage(3),
    lambda m: isinstance(m.ones(2), m.FloatTensor), lambda m: isinstance(m.ones(2), m.LongTensor),
    lambda m: m.finfo(m.bfloat16).max, lambda m: m.iinfo(m.int32).min, lambda m: tuple(m.Size([2, 3])), lambda m: m.ones(2, 3).shape.numel(),
    lambda m: tuple(m.ones(2, 3).shape[1:] + (4,)), lambda m: m.typename(3), lambda m: m.ones(2, 3).size().numel()])
def test_types(call):
    def run(m):
        value = call(m)
        return str(value).rpartition('.')[2] if type(value).__name__ == 'dtype' else value
    both(run)


def test_names_of_types():
    assert gt.ones(2).type() == 'gt.FloatTensor' and gt.typename(gt.ones(2, dtype=gt.int64)) == 'gt.LongTensor'
    assert repr(gt.ones(2, 3).shape) == 'gt.Size([2, 3])' and gt.ones(2, 3).shape == (2, 3)
    size = gt.ones(2, 3).shape
    assert pickle.loads(pickle.dumps(size)) == copy.deepcopy(size) == size and isinstance(copy.copy(size), gt.Size)
    same_error(lambda m: m.Size([1.5]), None)


def test_attributes_on_tensors():
    x = gt.ones(2)
    x.note = {'a': 1}
    assert x.note == {'a': 1} and isinstance(x, gt.Tensor) and (x + 1).tolist() == [2, 2]
    x += 1
    assert x.note == {'a': 1} and x.__dict__ == {'note': {'a': 1}}
    del x.note
    with pytest.raises(AttributeError):
        x.note
    with pytest.raises(AttributeError):
        x.shape = (3,)
    assert not hasattr(gt.ones(2), 'note')


# ---- modules of settings -----------------------------------------------------------------------------------------------


def test_settings():
    with pytest.warns(UserWarning, match="low is not one of 'highest', 'high', or 'medium'"):
        gt.set_float32_matmul_precision('low')
    gt.set_float32_matmul_precision('high')
    assert gt.get_float32_matmul_precision() == 'high'
    gt.set_float32_matmul_precision('highest')
    gt.use_deterministic_algorithms(True, warn_only=True)
    assert gt.are_deterministic_algorithms_enabled() and gt.get_deterministic_debug_mode() == 1
    gt.use_deterministic_algorithms(False)
    assert gt.get_num_threads() >= 1
    same_error(lambda m: m.set_num_threads(0), 'expects a positive integer')
    gt.set_default_device('cuda')
    assert gt.get_default_device() == gt.device('cuda')
    gt.set_default_device(None)
    with gt.device('cuda:1'):
        assert gt.ones(2).sum().item() == 2


def test_backends():
    import gt.backends.cudnn as cudnn
    cudnn.benchmark = True
    assert gt.backends.cudnn.benchmark
    with cudnn.flags(enabled=True, deterministic=True):
        assert cudnn.deterministic and not cudnn.benchmark
    assert cudnn.benchmark and not cudnn.deterministic
    cudnn.benchmark = False
    gt.backends.cuda.matmul.allow_tf32 = True
    assert gt.backends.cuda.matmul.allow_tf32 and not gt.backends.mps.is_available()
    gt.backends.cuda.matmul.allow_tf32 = False
    with gt.backends.cuda.sdp_kernel(enable_flash=False):
        assert not gt.backends.cuda.flash_sdp_enabled()
    assert gt.backends.cuda.flash_sdp_enabled()


def test_cuda_without_a_gpu():
    device = 'cuda' if gt.cuda.is_available() else 'cpu'
    x = gt.ones(100, 100).to(device)
    assert gt.cuda.device_count() == (1 if device == 'cuda' else 0) and gt.cuda.current_device() == 0
    gt.cuda.manual_seed_all(3)
    gt.cuda.empty_cache()
    before = gt.cuda.memory_allocated()
    kept = x.repeat(50, 1) * 2
    gt.cuda.synchronize()
    assert gt.cuda.memory_allocated() >= before + kept.nbytes and gt.cuda.max_memory_allocated() >= gt.cuda.memory_allocated()
    start, end = gt.cuda.Event(enable_timing=True), gt.cuda.Event(enable_timing=True)
    with gt.cuda.stream(gt.cuda.Stream()):
        start.record()
        x @ x
        end.record()
    end.synchronize()
    assert start.elapsed_time(end) > 0
    with pytest.raises(AssertionError, match='Invalid device id'):
        gt.cuda.get_device_name(7)


def test_compile_and_jit():
    @gt.compile(mode='reduce-overhead')
    def f(x):
        return x + 1

    @gt.jit.script
    def g(x):
        return x + 1

    @gt.jit.ignore
    def h(x):
        return x + 1
    model = gt.nn.Linear(2, 2)
    assert gt.compile(model) is model and list(model.state_dict()) == ['weight', 'bias']
    assert all(k(gt.ones(1)).item() == 2 for k in (f, g, h)) and f.__name__ == 'f'
    assert gt.jit.trace(model, gt.ones(1, 2)) is model and not gt.jit.is_scripting() and gt.jit.annotate(int, 3) == 3
    with pytest.raises(NotImplementedError, match='state_dict'):
        gt.jit.save(model, 'file')
    with pytest.raises(NotImplementedError, match='download'):
        gt.hub.load('pytorch/vision', 'resnet18')


def test_other_modules():
    assert not gt.distributed.is_available() and not gt.distributed.is_initialized()
    assert gt.version.cuda is None and gt.version.__version__ == gt.__version__ and 'GT' in gt.__config__.show()
    assert not gt.mps.is_available() and not gt.xpu.is_available()
    import multiprocessing
    assert gt.multiprocessing.Queue == multiprocessing.Queue
    from gt import Tensor, nn  # noqa: F401
    import gt.nn.functional as F  # noqa: F401
    assert {'vmap', 'autocast', 'func', 'compile', 'conv2d', 'LongTensor'} <= set(dir(gt))
    assert inspect.signature(gt.vmap).parameters['in_dims'].default == 0
    with pytest.raises(AttributeError):
        gt.nothing_of_this_name


def test_fork_rng():
    gt.manual_seed(1)
    with gt.random.fork_rng():
        gt.manual_seed(2)
        gt.rand(3)
    first = gt.rand(3)
    gt.manual_seed(1)
    assert gt.rand(3).equal(first) and gt.random.initial_seed() == 1


# ---- failures ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize('call, text', [
    (lambda m: m.nn.functional.binary_cross_entropy(m.tensor([1.5]), m.tensor([1.0])), 'all elements of input should be between'),
    (lambda m: m.nn.functional.binary_cross_entropy(m.tensor([0.5]), m.tensor([-1.0])), 'all elements of target should be'),
    (lambda m: m.nn.functional.binary_cross_entropy(m.tensor([float('nan')]), m.tensor([1.0])), 'all elements of input'),
    (lambda m: m.nn.functional.binary_cross_entropy(m.tensor([0.5]), m.tensor([1])), 'Found dtype Long but expected Float'),
    (lambda m: m.nn.functional.cross_entropy(m.ones(2, 3), m.tensor([1.0, 2.0])), 'expected scalar type Long but found Float'),
    (lambda m: m.nn.functional.nll_loss(m.ones(2, 3), m.tensor([1.0, 2.0])), 'expected scalar type Long but found Float'),
    (lambda m: m.nn.functional.cross_entropy(m.ones(2, 3), m.ones(2, 3, dtype=m.int64)), 'Expected floating point type for'),
])
def test_losses_refuse(call, text):
    same_error(call, text)


def test_gradient_of_bce_at_saturation():
    def run(m, p, y):
        p.requires_grad_()
        loss = m.nn.functional.binary_cross_entropy(p, y, reduction='none')
        return loss, m.autograd.grad(loss.sum(), p)
    points = np.float32([0, 1, 1e-13, 1 - 1e-7, 0.3])
    both(run, np.repeat(points, 3), np.tile(np.float32([0, 1, 0.5]), 5))


def test_gt_sync_raises_at_the_line_of_the_operation():
    program = textwrap.dedent('''
        import gt
        bad = gt.arange(3) * gt.arange(3) * 5  # bounds of a product of two tensors are not known
        for k in range(2):
            try:
                picked = gt.ones(4).gather(0, bad)  # fails on the worker
                reached = True
            except Exception as error:
                print(type(error).__name__, 'program.py:6' in str(error))
        print((gt.ones(2) + 1).sum().item(), 'reached' in globals())
    ''')
    path = os.path.join(os.environ['XDG_RUNTIME_DIR'], 'program.py')
    with open(path, 'w') as file:
        file.write(program)

    def run(setting):
        environment = {**os.environ, 'GT_SYNC': setting}
        done = subprocess.run([sys.executable, path], env=environment, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()
    assert run('1')[-1] == '4.0 False' and len(run('1')) == 3
    assert run('0') == ['4.0 True']


def test_memory_formats_and_layouts_are_one_of_each():
    assert isinstance(gt.channels_last, gt.memory_format) and repr(gt.channels_last) == 'gt.channels_last'
    assert pickle.loads(pickle.dumps(gt.channels_last)) is gt.channels_last
    assert gt.ones(2).layout is gt.strided and isinstance(gt.strided, gt.layout)
    assert gt.eye(2).to_sparse().layout is gt.sparse_coo
