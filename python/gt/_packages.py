"""Packages that must be told of GT's tensors: NumPy and einops; and where NVIDIA's packages are.

NumPy's functions call the method of the same name, with NumPy's keywords; where a method does not know them, array_function
computes on arrays. einops finds the library of a tensor among the subclasses of its AbstractBackend. So GT defines one, as soon as a program
imports einops, before or after gt. einops.layers.gt has the layers, beside einops.layers.torch. Without einops this costs
one look at each name that is imported.
"""

import glob
import importlib.machinery
import importlib.util
import os
import sys

from gt._gt import Tensor


def _arrays(value):
    """Arguments of a NumPy function with arrays in place of tensors."""
    if isinstance(value, Tensor):
        return value.detach().numpy()
    if isinstance(value, (list, tuple)) and not hasattr(value, '_fields'):
        return type(value)(map(_arrays, value))
    return value


def array_function(self, function, types, args, keywords):
    """np.mean(tensor) and the like: NumPy's implementation on the tensor, or else on an array of it."""
    try:
        return function._implementation(*args, **keywords)
    except (AttributeError, TypeError):
        return function(*map(_arrays, args), **{key: _arrays(value) for key, value in keywords.items()})


class _Registering:
    """Loads a module with its own loader, and registers the backend in it."""

    def __init__(self, loader):
        self.loader = loader

    def create_module(self, spec):
        return self.loader.create_module(spec)

    def exec_module(self, module):
        self.loader.exec_module(module)
        register(module)


class _Finder:
    def find_spec(self, name, path=None, target=None):
        if name == 'einops.layers.gt':
            folder = os.path.dirname(os.path.abspath(__file__))
            return importlib.util.spec_from_file_location(name, os.path.join(folder, '_einops_layers.py'))
        if name != 'einops._backends':
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _Registering(spec.loader)
        return spec


def register(backends):
    """Define GT's backend in einops._backends."""
    class GtBackend(backends.AbstractBackend):
        framework_name = 'gt'

        def __init__(self):
            import gt
            self.gt = gt

        def is_appropriate_type(self, tensor):
            return isinstance(tensor, self.gt.Tensor)

        def from_numpy(self, x):
            tensor = self.gt.from_numpy(x)
            return tensor.requires_grad_() if tensor.is_floating_point() else tensor

        def to_numpy(self, x):
            return x.detach().numpy()

        def arange(self, start, stop):
            return self.gt.arange(start, stop)

        def reduce(self, x, operation, reduced_axes):
            if operation in ('any', 'all', 'prod'):
                for axis in sorted(reduced_axes, reverse=True):
                    x = getattr(x, operation)(dim=axis)
                return x
            return getattr(x, {'min': 'amin', 'max': 'amax'}.get(operation, operation))(dim=reduced_axes)

        def transpose(self, x, axes):
            return x.permute(axes)

        def stack_on_zeroth_dimension(self, tensors):
            return self.gt.stack(tensors)

        def add_axes(self, x, n_axes, pos2len):
            sizes = [-1] * n_axes
            for position, length in pos2len.items():
                x = x.unsqueeze(position)
                sizes[position] = length
            return x.expand(sizes)

        def add_axis(self, x, new_position):
            return x.unsqueeze(new_position)

        def tile(self, x, repeats):
            return x.repeat(repeats)

        def concat(self, tensors, axis):
            return self.gt.cat(tensors, axis)

        def is_float_type(self, x):
            return x.is_floating_point()

        def layers(self):
            return importlib.import_module('einops.layers.gt')

        def einsum(self, pattern, *x):
            return self.gt.einsum(pattern, *x)

    backends.GtBackend = GtBackend  # einops finds it by a weak reference


def _tell_of_nvidia_libraries():
    """Libraries that pip installed, as PyTorch's cuDNN, are where the linker does not look: GT_CUDA_PATH tells the cuda engine."""
    if 'GT_CUDA_PATH' not in os.environ:
        folders = [folder for path in sys.path if os.path.isdir(os.path.join(path, 'nvidia'))
                   for folder in sorted(glob.glob(os.path.join(glob.escape(path), 'nvidia', '*', 'lib')))]
        if folders:
            os.environ['GT_CUDA_PATH'] = ':'.join(folders)


def install():
    """Register with packages that are loaded, and wait for the others."""
    _tell_of_nvidia_libraries()
    Tensor.__array_function__ = array_function
    if 'einops._backends' in sys.modules:
        register(sys.modules['einops._backends'])
    sys.meta_path.insert(0, _Finder())
