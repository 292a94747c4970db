"""Spectral normalisation by hooks: weight = weight_orig / its largest singular value, found by power iterations.

parametrizations.spectral_norm does the same by a parametrisation.
"""

import gt
from gt.nn import functional as F
from gt.nn.parameter import Parameter
from gt.nn.utils.weight_norm import refuse_second_hook, remove_hook


class SpectralNorm:
    """The hook, which belongs to one weight of a module."""

    _version = 1

    def __init__(self, name='weight', n_power_iterations=1, dim=0, eps=1e-12):
        if n_power_iterations <= 0:
            raise ValueError(f'Expected n_power_iterations to be positive, but got n_power_iterations={n_power_iterations}')
        self.name, self.dim, self.n_power_iterations, self.eps = name, dim, n_power_iterations, eps

    def reshape_weight_to_matrix(self, weight):
        """(size of dim, everything else)."""
        return weight.movedim(self.dim, 0).flatten(1) if weight.ndim > 1 else weight.reshape(-1, 1)

    def compute_weight(self, module, do_power_iteration):
        """The weight divided by its largest singular value."""
        weight, u, v = (getattr(module, self.name + suffix) for suffix in ('_orig', '_u', '_v'))
        matrix = self.reshape_weight_to_matrix(weight)
        if do_power_iteration:
            with gt.no_grad():
                for _ in range(self.n_power_iterations):
                    new_v = F.normalize(matrix.t().mv(u), dim=0, eps=self.eps)
                    new_u = F.normalize(matrix.mv(new_v), dim=0, eps=self.eps)
                    u, v = u.copy_(new_u), v.copy_(new_v)
                u, v = u.clone(), v.clone()
        return weight / u.dot(matrix.mv(v))

    def remove(self, module):
        """Make the weight a parameter again."""
        with gt.no_grad():
            weight = self.compute_weight(module, do_power_iteration=False)
        delattr(module, self.name)
        for suffix in ('_u', '_v', '_orig'):
            delattr(module, self.name + suffix)
        module.register_parameter(self.name, Parameter(weight.detach()))

    def __call__(self, module, inputs):
        setattr(module, self.name, self.compute_weight(module, do_power_iteration=module.training))

    @staticmethod
    def apply(module, name, n_power_iterations, dim, eps):
        """Replace a weight by the normalised one."""
        refuse_second_hook(module, SpectralNorm, name, 'spectral_norm')
        hook, weight = SpectralNorm(name, n_power_iterations, dim, eps), module._parameters.get(name)
        if weight is None:
            raise ValueError(f'`SpectralNorm` cannot be applied as parameter `{name}` is None')
        with gt.no_grad():
            height, width = hook.reshape_weight_to_matrix(weight).shape
            u = F.normalize(gt.randn(height, dtype=weight.dtype), dim=0, eps=eps)
            v = F.normalize(gt.randn(width, dtype=weight.dtype), dim=0, eps=eps)
        delattr(module, name)
        module.register_parameter(name + '_orig', weight)
        setattr(module, name, weight.detach())
        module.register_buffer(name + '_u', u)
        module.register_buffer(name + '_v', v)
        module.register_forward_pre_hook(hook)
        return hook


def spectral_norm(module, name='weight', n_power_iterations=1, eps=1e-12, dim=None):
    """Divide a weight of a module by its largest singular value, which each forward() in training improves.

    >>> layer = nn.utils.spectral_norm(nn.Linear(20, 40))
    """
    if dim is None:
        transposed = type(module).__name__ in ('ConvTranspose1d', 'ConvTranspose2d', 'ConvTranspose3d')
        dim = 1 if transposed else 0
    SpectralNorm.apply(module, name, n_power_iterations, dim, eps)
    return module


def remove_spectral_norm(module, name='weight'):
    """Undo spectral_norm()."""
    return remove_hook(module, SpectralNorm, name, 'spectral_norm')
