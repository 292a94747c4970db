"""The public names of the package: what its users see, and what the stubs, the docstrings and the tests cover."""

import functools
import importlib
import inspect
import pkgutil

# Modules that users import. The others are where these find what they offer.
PUBLIC = (
    'gt', 'gt.amp', 'gt.amp.autocast_mode', 'gt.autograd', 'gt.autograd.forward_ad', 'gt.autograd.function',
    'gt.autograd.functional', 'gt.autograd.grad_mode', 'gt.autograd.gradcheck', 'gt.autograd.graph',
    'gt.autograd.profiler', 'gt.backends', 'gt.backends.cpu', 'gt.backends.cuda', 'gt.backends.cudnn',
    'gt.backends.mkl', 'gt.backends.mkldnn', 'gt.backends.mps', 'gt.backends.openmp', 'gt.backends.opt_einsum',
    'gt.compiler', 'gt.config', 'gt.cuda', 'gt.cuda.amp', 'gt.debug', 'gt.distributed', 'gt.distributions',
    'gt.distributions.constraints', 'gt.distributions.transforms', 'gt.fft', 'gt.func', 'gt.hub', 'gt.jit',
    'gt.linalg', 'gt.masked', 'gt.modifier', 'gt.mps', 'gt.multiprocessing', 'gt.nn', 'gt.nn.attention', 'gt.nn.functional',
    'gt.nn.grad', 'gt.nn.init', 'gt.nn.parallel', 'gt.nn.utils', 'gt.nn.utils.parametrizations',
    'gt.nn.utils.parametrize', 'gt.nn.utils.prune', 'gt.nn.utils.rnn', 'gt.nn.utils.stateless', 'gt.optim',
    'gt.optim.lr_scheduler', 'gt.optim.swa_utils', 'gt.profiler', 'gt.random', 'gt.return_types', 'gt.serialization', 'gt.signal',
    'gt.sparse', 'gt.special', 'gt.testing', 'gt.utils', 'gt.utils.checkpoint', 'gt.utils.data', 'gt.utils.dlpack',
    'gt.utils.hooks', 'gt.version', 'gt.xpu')


def module(name):
    """A module of the package."""
    return importlib.import_module(name)


def public_names(holder):
    """The names of a module or class that users see, sorted."""
    return [name for name in dir(holder) if not name.startswith('_')]


def home_name(value):
    """The name of the module that an object says it comes from."""
    where = getattr(value, '__module__', None)
    return where if isinstance(where, str) else None


def members(name):
    """(name, object) of each public function and class of a public module, in alphabetical order."""
    holder = module(name)
    for member in public_names(holder):
        value = getattr(holder, member)
        if (inspect.isroutine(value) or isinstance(value, type)) and (home_name(value) or '').startswith('gt'):
            yield member, value


def tensor_methods():
    """(name, object) of each public method of Tensor."""
    tensor = module('gt').Tensor
    for name in public_names(tensor):
        value = getattr(tensor, name)
        if callable(value):
            yield name, value


def home(name, value):
    """The public module that documents an object: the most specific one that it comes from, or else `name`."""
    where = home_name(value) or name
    if where.startswith('gt.nn.') and getattr(module('gt.nn.functional'), getattr(value, '__name__', ''), None) is value:
        return 'gt.nn.functional'
    while where and where not in PUBLIC:
        where = where.rpartition('.')[0]
    if where and getattr(module(where), getattr(value, '__name__', ''), None) is value:
        return where
    return name


def all_members():
    """(module, name, object) of each public callable once, where home() says."""
    seen = set()
    for holder in PUBLIC:
        for name, value in members(holder):
            if home(holder, value) == holder and id(value) not in seen:
                seen.add(id(value))
                yield holder, name, value
    for holder in PUBLIC:  # objects whose home has them under another name
        for name, value in members(holder):
            if id(value) not in seen:
                seen.add(id(value))
                yield holder, name, value


@functools.cache
def all_modules():
    """Names of the modules that get a stub."""
    package = module('gt')
    names = ['gt']
    for found in pkgutil.walk_packages(package.__path__, 'gt.'):
        parts = found.name.split('.')
        program = parts[1] in ('scripts', 'server', 'worker', 'dispatcher', '_documents') or parts[-1] == '__main__'
        needs_torch = found.name.startswith('gt.engines.torch_')  # which may not be installed, or be installed during the build
        if not program and not needs_torch and '-' not in found.name:
            names.append(found.name)
    return names


def signature(value):
    """inspect.signature, or None."""
    try:
        return inspect.signature(value)
    except (TypeError, ValueError):
        return None
