"""Pruning: masks on parameters. name becomes name_orig (the parameter), name_mask (a buffer) and their product."""

import numbers
from abc import ABC, abstractmethod

import gt
from gt import _help


class BasePruningMethod(ABC):
    """The base of pruning methods: compute_mask() says which elements stay. It is a hook before forward()."""

    PRUNING_TYPE = 'unstructured'

    def __call__(self, module, inputs):
        setattr(module, self._tensor_name, self.apply_mask(module))

    @abstractmethod
    def compute_mask(self, t, default_mask):
        """The mask of a tensor, from the mask that it has already."""

    def apply_mask(self, module):
        """The parameter times its mask."""
        if not hasattr(self, '_tensor_name'):
            raise AssertionError(f'Module {module} has to be pruned')
        mask, original = getattr(module, self._tensor_name + '_mask'), getattr(module, self._tensor_name + '_orig')
        return mask.to(original.dtype) * original

    @classmethod
    def _combined(cls, module, name, args, kwargs):
        """This method, or a container of it and the one that the parameter has already."""
        old = None
        for number, hook in list(module._forward_pre_hooks.items()):
            if isinstance(hook, BasePruningMethod) and hook._tensor_name == name:
                if old is not None:
                    raise AssertionError(f'Avoid adding multiple pruning hooks to the same tensor {name} of module {module}. '
                                         'Use a PruningContainer.')
                old = hook
                del module._forward_pre_hooks[number]
        method = cls(*args, **kwargs)
        method._tensor_name = name
        if old is None:
            return method, False
        if not isinstance(old, PruningContainer):
            container = PruningContainer(old)
            container._tensor_name = name
        else:
            container = old
        container.add_pruning_method(method)
        return container, True

    @classmethod
    def apply(cls, module, name, *args, importance_scores=None, **kwargs):
        """Prune a parameter of a module by this method; importance_scores take the place of its values."""
        method, again = cls._combined(module, name, args, kwargs)
        original = getattr(module, name + '_orig') if again else getattr(module, name)
        if importance_scores is None:
            importance_scores = original
        elif importance_scores.shape != original.shape:
            raise AssertionError(f'importance_scores should have the same shape as parameter                     {name} '
                                 f'of {module}')
        try:
            with gt.no_grad():
                default = getattr(module, name + '_mask').detach().clone() if again else gt.ones_like(original)
                mask = method.compute_mask(importance_scores.detach(), default_mask=default)
        except Exception:
            if not again:
                raise
            module.register_forward_pre_hook(method)
            raise
        if not again:
            del module._parameters[name]
            module.register_parameter(name + '_orig', original)
        module.register_buffer(name + '_mask', mask)
        setattr(module, name, method.apply_mask(module))
        module.register_forward_pre_hook(method)
        return method

    def prune(self, t, default_mask=None, importance_scores=None):
        """The pruned tensor, without a module."""
        scores = t if importance_scores is None else importance_scores
        if scores.shape != t.shape:
            raise AssertionError('importance_scores should have the same shape as tensor t')
        default_mask = gt.ones_like(t) if default_mask is None else default_mask
        return t * self.compute_mask(scores, default_mask=default_mask)

    def remove(self, module):
        """Make the pruned value the parameter."""
        if self._tensor_name is None:
            raise AssertionError(f'Module {module} has to be pruned            before pruning can be removed')
        weight = self.apply_mask(module)
        if hasattr(module, self._tensor_name):
            delattr(module, self._tensor_name)
        original = module._parameters[self._tensor_name + '_orig']
        original.data = weight.detach()
        del module._parameters[self._tensor_name + '_orig']
        del module._buffers[self._tensor_name + '_mask']
        setattr(module, self._tensor_name, original)


class PruningContainer(BasePruningMethod):
    """Several methods on one parameter, each on what the ones before have left."""

    def __init__(self, *args):
        self._pruning_methods = ()
        self._tensor_name = args[0]._tensor_name if args and isinstance(args[0], BasePruningMethod) else None
        for method in args:
            self.add_pruning_method(method)

    def add_pruning_method(self, method):
        """Add a method of the same parameter."""
        if not isinstance(method, BasePruningMethod) and method is not None:
            raise TypeError(f'{type(method)} is not a BasePruningMethod subclass')
        if method is not None and self._tensor_name != method._tensor_name:
            raise ValueError("Can only add pruning methods acting on the parameter named "
                             f"'{self._tensor_name}' to PruningContainer {self}. Found '{method._tensor_name}'")
        self._pruning_methods += (method,)

    def __len__(self):
        return len(self._pruning_methods)

    def __iter__(self):
        return iter(self._pruning_methods)

    def __getitem__(self, idx):
        return self._pruning_methods[idx]

    def compute_mask(self, t, default_mask):
        """The mask of the last method on what is left, and the mask so far."""
        method, mask = self._pruning_methods[-1], default_mask.to(t.dtype)
        if method.PRUNING_TYPE == 'unstructured':
            # Only the elements that are left: the mask of the rest stays.
            place = mask.flatten().nonzero().squeeze(1)
            left = t.flatten()[place]
            partial = method.compute_mask(left, default_mask=gt.ones_like(left))
            return mask.flatten().scatter(0, place, partial.to(mask.dtype)).reshape(mask.shape)
        if method.PRUNING_TYPE == 'structured':
            # Only the channels that are not wholly pruned.
            axis = method.dim % t.ndim
            rest = [d for d in range(t.ndim) if d != axis]
            place = (mask.sum(rest) != 0).nonzero().squeeze(1)
            left = t.index_select(axis, place)
            partial = method.compute_mask(left, default_mask=gt.ones_like(left))
            kept = gt.zeros_like(mask).index_copy(axis, place, partial.to(mask.dtype))
            return mask * kept
        if method.PRUNING_TYPE == 'global':
            return mask * method.compute_mask(t, default_mask=gt.ones_like(t)).to(mask.dtype)
        raise ValueError(f'Unrecognized PRUNING_TYPE {method.PRUNING_TYPE}')


# ---- how many ------------------------------------------------------------------------------------------------


def _check_amount(amount):
    if not isinstance(amount, numbers.Real):
        raise TypeError(f'Invalid type for amount: {amount}. Must be int or float.')
    whole = isinstance(amount, numbers.Integral)
    if (whole and amount < 0) or (not whole and not 0.0 <= float(amount) <= 1.0):
        raise ValueError(f'amount={amount} should either be a float in the range [0, 1] or a non-negative integer')


def _count(amount, size):
    """How many of `size` elements an amount is: a number of them, or a fraction."""
    if isinstance(amount, numbers.Integral):
        if amount > size:
            raise ValueError(f'amount={amount} should be smaller than the number of parameters to prune={size}')
        return amount
    return round(amount * size)


def _check_structured(t, dim):
    if t.ndim <= 1:
        raise ValueError(f'Structured pruning can only be applied to multidimensional tensors. Found tensor of shape '
                         f'{t.shape} with {t.ndim} dims')
    if not -t.ndim <= dim < t.ndim:
        raise IndexError(f'Invalid index {dim} for tensor of size {t.shape}')


# ---- methods -------------------------------------------------------------------------------------------------


class Identity(BasePruningMethod):
    """Prunes nothing."""

    def compute_mask(self, t, default_mask):
        """The mask as it is."""
        return default_mask


class _Unstructured(BasePruningMethod):
    """Prunes single elements: an int counts them, a float is a fraction."""

    def __init__(self, amount):
        _check_amount(amount)
        self.amount = amount

    def _scores(self, t):
        """The elements with the smallest scores are pruned."""
        raise NotImplementedError

    def compute_mask(self, t, default_mask):
        """The mask without `amount` elements."""
        count = _count(self.amount, t.numel())
        if not count:
            return default_mask.clone()
        place = self._scores(t).flatten().topk(count, largest=False)[1]
        return default_mask.flatten().scatter(0, place, 0.0).reshape(t.shape)


class RandomUnstructured(_Unstructured):
    """Prunes elements at random."""

    def _scores(self, t):
        return gt.rand(t.shape)


class L1Unstructured(_Unstructured):
    """Prunes the elements with the smallest absolute values."""

    def _scores(self, t):
        return t.abs()


class _Structured(BasePruningMethod):
    """Prunes whole channels along a dimension."""

    PRUNING_TYPE = 'structured'

    def _kept(self, t, channels):
        """1 for the channels in the index, else 0, in the shape of t."""
        axis = self.dim % t.ndim
        kept = gt.zeros(t.shape[axis], dtype=t.dtype).scatter(0, channels, 1.0)
        shape = [1] * t.ndim
        shape[axis] = -1
        return kept.reshape(shape).expand(t.shape)


class RandomStructured(_Structured):
    """Prunes whole channels along a dimension at random."""

    def __init__(self, amount, dim=-1):
        _check_amount(amount)
        self.amount, self.dim = amount, dim

    def compute_mask(self, t, default_mask):
        """The mask without `amount` channels."""
        _check_structured(t, self.dim)
        channels = t.shape[self.dim]
        count = _count(self.amount, channels)
        if not count:
            return default_mask
        return default_mask * self._kept(t, gt.rand(channels).topk(channels - count)[1]).to(default_mask.dtype)


class LnStructured(_Structured):
    """Prunes whole channels along a dimension with the smallest n-norms."""

    def __init__(self, amount, n, dim=-1):
        _check_amount(amount)
        self.amount, self.n, self.dim = amount, n, dim

    def compute_mask(self, t, default_mask):
        """The mask without `amount` channels."""
        _check_structured(t, self.dim)
        axis = self.dim % t.ndim
        count = _count(self.amount, t.shape[axis])
        if not count:
            return default_mask
        norms = t.norm(self.n, [d for d in range(t.ndim) if d != axis])
        return default_mask * self._kept(t, norms.topk(t.shape[axis] - count)[1]).to(default_mask.dtype)


class CustomFromMask(BasePruningMethod):
    """Prunes by a given mask."""

    PRUNING_TYPE = 'global'

    def __init__(self, mask):
        self.mask = mask

    def compute_mask(self, t, default_mask):
        """Both masks."""
        if default_mask.shape != self.mask.shape:
            raise AssertionError('default_mask and the mask must have the same shape')
        return default_mask * self.mask.to(default_mask.dtype)


# ---- functions -----------------------------------------------------------------------------------------------


def identity(module, name):
    """Give a parameter a mask of ones; returns the module."""
    Identity.apply(module, name)
    return module


def random_unstructured(module, name, amount):
    """Prune elements of a parameter at random; returns the module."""
    RandomUnstructured.apply(module, name, amount)
    return module


def l1_unstructured(module, name, amount, importance_scores=None):
    """Prune the elements of a parameter with the smallest absolute values; returns the module.

    >>> nn.utils.prune.l1_unstructured(nn.Linear(2, 3), 'weight', amount=0.5)
    """
    L1Unstructured.apply(module, name, amount=amount, importance_scores=importance_scores)
    return module


def random_structured(module, name, amount, dim):
    """Prune whole channels of a parameter at random; returns the module."""
    RandomStructured.apply(module, name, amount, dim)
    return module


def ln_structured(module, name, amount, n, dim, importance_scores=None):
    """Prune the whole channels of a parameter with the smallest n-norms; returns the module."""
    LnStructured.apply(module, name, amount, n, dim, importance_scores=importance_scores)
    return module


def custom_from_mask(module, name, mask):
    """Prune a parameter by a mask; returns the module."""
    CustomFromMask.apply(module, name, mask)
    return module


def global_unstructured(parameters, pruning_method, importance_scores=None, **kwargs):
    """Prune the elements of several parameters [(module, name), ...] as if they were one."""
    if not hasattr(parameters, '__iter__'):
        raise TypeError('global_unstructured(): parameters is not an Iterable')
    parameters, scores = list(parameters), {} if importance_scores is None else importance_scores
    if not isinstance(scores, dict):
        raise TypeError('global_unstructured(): importance_scores must be of type dict')
    values = [getattr(module, name) for module, name in parameters]
    flat = gt.cat([scores.get(key, value).detach().flatten() for key, value in zip(parameters, values)])
    masks = gt.cat([getattr(module, name + '_mask', gt.ones_like(value)).flatten()
                    for (module, name), value in zip(parameters, values)])
    container = PruningContainer()
    container._tensor_name = 'temp'
    method = pruning_method(**kwargs)
    method._tensor_name = 'temp'
    container.add_pruning_method(method)
    if method.PRUNING_TYPE != 'unstructured':
        raise TypeError(f'Only "unstructured" PRUNING_TYPE supported for the `pruning_method`. Found method '
                        f'{pruning_method} of type {method.PRUNING_TYPE}')
    final, start = container.compute_mask(flat, masks), 0
    for (module, name), value in zip(parameters, values):
        custom_from_mask(module, name, final[start:start + value.numel()].reshape(value.shape))
        start += value.numel()


def remove(module, name):
    """Make the pruned value of a parameter permanent; returns the module."""
    for number, hook in list(module._forward_pre_hooks.items()):
        if isinstance(hook, BasePruningMethod) and hook._tensor_name == name:
            hook.remove(module)
            del module._forward_pre_hooks[number]
            return module
    raise ValueError(f"Parameter '{name}' of module {module} has to be pruned before pruning can be removed")


def is_pruned(module):
    """Whether a module or one below it is pruned."""
    return any(isinstance(hook, BasePruningMethod) for _, submodule in module.named_modules()
               for hook in submodule._forward_pre_hooks.values())

__dir__ = _help.publish(__name__)
