"""device: what PyTorch scripts say and ask about where tensors live.

The dispatcher places tensors, so a device that is given is checked and has no other effect. A tensor's device says what the
workers compute on: cuda:0 if one of them has a GPU, as gt.cuda.is_available() does, else cpu.
"""

import json
import os

from gt import _gt

_KINDS = ('cpu', 'cuda', 'gt', 'ipu', 'xpu', 'mkldnn', 'opengl', 'opencl', 'ideep', 'hip', 've', 'fpga', 'maia', 'xla', 'lazy', 'vulkan',
          'mps', 'meta', 'hpu', 'mtia', 'privateuseone')

default = []  # set_default_device()'s, and those of `with device(...):` inside it


def _parsed(text, index):
    """The type and the index that a text and an index name."""
    kind, colon, number = text.partition(':')
    if not text:
        raise RuntimeError('Device string must not be empty')
    if kind not in _KINDS:
        raise RuntimeError(f"Expected one of {', '.join(_KINDS)} device type at start of device string: {kind}")
    if colon and index is not None:
        raise RuntimeError(f'type (string) must not include an index because index was passed explicitly: {text}')
    if colon and not (number.isdecimal() and str(int(number)) == number):
        raise RuntimeError(f"Invalid device string: '{text}'")
    return kind, int(number) if colon else index


class device:
    """device('cuda:1'), device('cuda', 1) or device(1): a type and an index.

    As a context it is what get_default_device() returns. Two devices are equal if both type and index are.
    """

    __slots__ = ('type', 'index')

    def __new__(cls, type, index=None):
        if isinstance(type, int) and not isinstance(type, bool) and index is None:
            type, index = 'cuda', type
        elif hasattr(type, 'type') and hasattr(type, 'index') and index is None:  # a device, also one of torch
            type, index = type.type, type.index
        if not isinstance(type, str) or not (index is None or isinstance(index, int)):
            given = type.__class__.__name__ + ('' if index is None else f', {index.__class__.__name__}')
            raise TypeError(f'device() received an invalid combination of arguments - got ({given}), but expected one of: (device), '
                            '(str type, int index = -1), (int index)')
        if index is not None and index < 0:
            raise RuntimeError('Device index must not be negative')
        self = super().__new__(cls)
        self.type, self.index = _parsed(type, index)
        return self

    def __str__(self):
        return self.type if self.index is None else f'{self.type}:{self.index}'

    def __repr__(self):
        return f"device(type='{self.type}'" + (')' if self.index is None else f', index={self.index})')

    def __eq__(self, other):
        return self.type == other.type and self.index == other.index if isinstance(other, device) else NotImplemented

    def __hash__(self):
        return hash((self.type, self.index))

    def __enter__(self):
        default.append(self)
        return self

    def __exit__(self, *exception):
        default.pop()

    def __call__(self, function):
        """As a decorator: the function runs in this context."""
        import functools

        @functools.wraps(function)
        def call(*arguments, **options):
            with self:
                return function(*arguments, **options)
        return call

    def __reduce__(self):
        return device, (self.type,) if self.index is None else (self.type, self.index)


def gpu_workers(reported=False):
    """Statistics of the workers with a GPU; if `reported`, once all workers reported. Before the first tensor there is no server: GT_BACKEND says what it will be, and
    without it a GPU of this machine (engines/engine.c)."""
    if _gt.current() is None:
        backend = os.environ.get('GT_BACKEND')
        if backend != 'cuda' and (backend or not os.path.exists('/dev/nvidiactl')):
            return []
        _gt.tensor(0)
    return [worker for worker in json.loads(_gt.stats(reported))['workers'] if worker['engine'] == 'cuda']


_CPU, _GPU = device('cpu'), device('cuda', 0)


def of_tensors(tensor=None):
    """The device of this thread's tensors. The first call for a connection asks the dispatcher; GPUs that join later are not seen."""
    connection = _gt.current()
    if connection is None:
        return _GPU if gpu_workers() else _CPU
    if connection._device is None:
        connection._device = _GPU if gpu_workers() else _CPU
    return connection._device


_gt.Tensor.device = property(of_tensors, doc='The device of all tensors: cuda:0 if a worker has a GPU, else cpu.')
_gt.Tensor.is_cuda = property(lambda self: of_tensors() is _GPU, doc='Whether a worker has a GPU.')
_gt.Tensor.is_cpu = property(lambda self: of_tensors() is _CPU, doc='Whether no worker has a GPU.')
