"""Weight normalisation by hooks: weight = weight_g * weight_v / |weight_v|, computed before every forward().

parametrizations.weight_norm does the same by a parametrisation.
"""

import warnings

from gt.nn.parameter import Parameter


def norm_except(v, dim, power=2):
    """The norm of v over all dimensions but one, which keeps its place; over all of them if dim is None."""
    if dim is None:
        return v.norm(power)
    rest = [axis for axis in range(v.ndim) if axis != dim % v.ndim]
    return v.norm(power, rest, True) if rest else v.abs()


def weight_of(g, v, dim):
    """g * v / |v|."""
    return v * (g / norm_except(v, dim))


def refuse_second_hook(module, kind, name, title):
    """Raise if a weight of a module has a hook of this kind already."""
    for hook in module._forward_pre_hooks.values():
        if isinstance(hook, kind) and hook.name == name:
            raise RuntimeError(f'Cannot register two {title} hooks on the same parameter {name}')


def remove_hook(module, kind, name, title):
    """Remove the hook of this kind from a weight of a module."""
    for number, hook in module._forward_pre_hooks.items():
        if isinstance(hook, kind) and hook.name == name:
            hook.remove(module)
            del module._forward_pre_hooks[number]
            return module
    raise ValueError(f"{title} of '{name}' not found in {module}")


class WeightNorm:
    """The hook, which belongs to one weight of a module."""

    def __init__(self, name, dim):
        self.name, self.dim = name, dim

    def compute_weight(self, module):
        """The weight from its length and direction."""
        return weight_of(getattr(module, self.name + '_g'), getattr(module, self.name + '_v'), self.dim)

    @staticmethod
    def apply(module, name, dim):
        """Replace a weight by its length and direction."""
        warnings.warn('`gt.nn.utils.weight_norm` is deprecated in favor of '
                      '`gt.nn.utils.parametrizations.weight_norm`.', FutureWarning, stacklevel=3)
        refuse_second_hook(module, WeightNorm, name, 'weight_norm')
        hook, weight = WeightNorm(name, dim), getattr(module, name)
        del module._parameters[name]
        module.register_parameter(name + '_g', Parameter(norm_except(weight, dim).detach()))
        module.register_parameter(name + '_v', Parameter(weight.detach()))
        setattr(module, name, hook.compute_weight(module))
        module.register_forward_pre_hook(hook)
        return hook

    def remove(self, module):
        """Make the weight a parameter again."""
        weight = self.compute_weight(module)
        delattr(module, self.name)
        del module._parameters[self.name + '_g'], module._parameters[self.name + '_v']
        setattr(module, self.name, Parameter(weight.detach()))

    def __call__(self, module, inputs):
        setattr(module, self.name, self.compute_weight(module))


def weight_norm(module, name='weight', dim=0):
    """Normalise a weight of a module: its length (over all dimensions but dim) and direction become parameters.

    >>> layer = nn.utils.weight_norm(nn.Linear(20, 40))
    """
    WeightNorm.apply(module, name, dim)
    return module


def remove_weight_norm(module, name='weight'):
    """Undo weight_norm()."""
    return remove_hook(module, WeightNorm, name, 'weight_norm')
