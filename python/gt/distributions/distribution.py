"""Distribution, the base class, and ExponentialFamily.

Validation never waits unless it is asked to. Without validate_args, parameters given as Python numbers and the shapes of
values are checked; the elements of tensors are not, because reading them would wait for the server. With
validate_args=True, or after Distribution.set_default_validate_args(True), they are checked as in PyTorch, and each check
waits. With False nothing is checked.
"""

import math
import numbers

import gt
from gt.distributions import constraints
from gt.distributions.utils import lazy_property


class Distribution:
    """A probability distribution over tensors: batch_shape independent ones, each over tensors of event_shape.

    Subclasses define rsample (or sample), log_prob, support, arg_constraints and what else they have.
    """

    has_rsample = False
    has_enumerate_support = False
    _validate_args = None  # None: what is known without waiting; True: everything; False: nothing

    @staticmethod
    def set_default_validate_args(value):
        """set_default_validate_args(value): what distributions do that are made without validate_args."""
        if value not in (True, False):
            raise ValueError
        Distribution._validate_args = value

    def __init__(self, batch_shape=(), event_shape=(), validate_args=None):
        self._batch_shape, self._event_shape = gt.Size(batch_shape), gt.Size(event_shape)
        if validate_args is not None:
            self._validate_args = validate_args
        if self._validate_args:
            self._validate_parameters()
        super().__init__()

    def _validate_parameters(self):
        for name, constraint in self.arg_constraints.items():
            if constraints.is_dependent(constraint):
                continue
            if name not in self.__dict__ and isinstance(getattr(type(self), name, None), lazy_property):
                continue  # not given, but computed from others
            value = getattr(self, name)
            if not constraint.check(value).all():
                self._refuse_parameter(name, value, constraint)

    def _refuse_parameter(self, name, value, constraint):
        raise ValueError(f'Expected parameter {name} ({type(value).__name__} of shape {tuple(value.shape)}) of distribution '
                         f'{self!r} to satisfy the constraint {constraint!r}, but found invalid values:\n{value}')

    def _check_numbers(self, validate_args, **parameters):
        """Check the parameters that are Python numbers."""
        if validate_args is False or (validate_args is None and self._validate_args is False):
            return
        for name, value in parameters.items():
            constraint = self.arg_constraints.get(name)
            if isinstance(value, numbers.Number) and constraint and not constraints.is_dependent(constraint):
                if not constraint.check(value):
                    raise ValueError(f'Expected parameter {name} of distribution {type(self).__name__} to satisfy the '
                                     f'constraint {constraint!r}, but found invalid values:\n{value}')

    def expand(self, batch_shape, _instance=None):
        """expand(batch_shape): the same distribution with a larger batch shape."""
        raise NotImplementedError

    def _expanded(self, _instance, batch_shape, event_shape, **fields):
        """A new instance with these fields, without validation: the last step of expand()."""
        new = self._get_checked_instance(self._class_of_expand(), _instance)
        for name, value in fields.items():
            setattr(new, name, value)
        Distribution.__init__(new, batch_shape, event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    def _class_of_expand(self):
        """The class that defines the expand() in use."""
        return next(cls for cls in type(self).__mro__ if 'expand' in cls.__dict__)

    def _get_checked_instance(self, cls, _instance=None):
        if _instance is None and type(self).__init__ != cls.__init__:
            raise NotImplementedError(f'Subclass {self.__class__.__name__} of {cls.__name__} that defines a custom __init__ '
                                      'method must also define a custom .expand() method.')
        return self.__new__(type(self)) if _instance is None else _instance

    @property
    def batch_shape(self):
        """The shape of independent distributions."""
        return self._batch_shape

    @property
    def event_shape(self):
        """The shape of one value."""
        return self._event_shape

    @property
    def arg_constraints(self):
        """The constraints of the parameters, by name."""
        raise NotImplementedError

    @property
    def support(self):
        """The constraint that values satisfy."""
        raise NotImplementedError

    @property
    def mean(self):
        """The mean."""
        raise NotImplementedError

    @property
    def mode(self):
        """The most likely value."""
        raise NotImplementedError(f'{self.__class__} does not implement mode')

    @property
    def variance(self):
        """The variance."""
        raise NotImplementedError

    @property
    def stddev(self):
        """The square root of the variance."""
        return self.variance.sqrt()

    def sample(self, sample_shape=()):
        """sample(sample_shape=()): values, without gradients."""
        with gt.no_grad():
            return self.rsample(sample_shape)

    def rsample(self, sample_shape=()):
        """rsample(sample_shape=()): values with gradients by the parameters."""
        raise NotImplementedError

    def sample_n(self, n):
        """sample_n(n): n values."""
        return self.sample((n,))

    def log_prob(self, value):
        """log_prob(value): the logarithm of the density or probability."""
        raise NotImplementedError

    def cdf(self, value):
        """cdf(value): the probability of values up to this one."""
        raise NotImplementedError

    def icdf(self, value):
        """icdf(value): the inverse of cdf."""
        raise NotImplementedError

    def enumerate_support(self, expand=True):
        """enumerate_support(expand=True): all values, along a new first dimension."""
        raise NotImplementedError

    def entropy(self):
        """entropy(): the entropy, in nats."""
        raise NotImplementedError

    def perplexity(self):
        """perplexity(): exp(entropy)."""
        return self.entropy().exp()

    def _extended_shape(self, sample_shape=()):
        sample_shape = (sample_shape,) if isinstance(sample_shape, int) else tuple(sample_shape)
        return sample_shape + self._batch_shape + self._event_shape

    def _validate_sample(self, value):
        """The shape of a value and, if validate_args is True, whether it is in the support."""
        if self._validate_args is False:
            return
        if not isinstance(value, gt.Tensor):
            raise ValueError('The value argument to log_prob must be a Tensor')
        start = value.ndim - len(self._event_shape)
        if tuple(value.shape[max(start, 0):]) != self._event_shape:
            raise ValueError('The right-most size of value must match event_shape: '
                             f'{tuple(value.shape)} vs {self._event_shape}.')
        expected = self._batch_shape + self._event_shape
        for i, j in zip(reversed(value.shape), reversed(expected)):
            if i != 1 and j != 1 and i != j:
                raise ValueError('Value is not broadcastable with batch_shape+event_shape: '
                                 f'{tuple(value.shape)} vs {expected}.')
        if self._validate_args:
            self._validate_support(value)

    def _validate_support(self, value):
        try:
            support = self.support
        except NotImplementedError:
            return
        if not support.check(value).all():
            raise ValueError(f'Expected value argument ({type(value).__name__} of shape {tuple(value.shape)}) to be within '
                             f'the support ({support!r}) of the distribution {self!r}, but found invalid values:\n{value}')

    def __repr__(self):
        names = [name for name in self.arg_constraints if name in self.__dict__]
        values = [self.__dict__[name] for name in names]
        parts = [f'{n}: {v if not isinstance(v, gt.Tensor) or v.numel() == 1 else v.shape}'
                 for n, v in zip(names, values)]
        return f'{self.__class__.__name__}({", ".join(parts)})'


class ExponentialFamily(Distribution):
    """Distributions whose density is exp(t(x) . theta - F(theta) + k(x)); the entropy follows from F by its gradient."""

    @property
    def _natural_params(self):
        raise NotImplementedError

    def _log_normalizer(self, *natural_params):
        raise NotImplementedError

    @property
    def _mean_carrier_measure(self):
        raise NotImplementedError

    def entropy(self):
        """entropy(): by the gradient of the log normaliser (Bregman divergence)."""
        parameters = [p.detach().clone().requires_grad_() for p in self._natural_params]
        with gt.enable_grad():
            normalizer = self._log_normalizer(*parameters)
            gradients = gt.grad(normalizer.sum(), parameters, create_graph=True)
        result = normalizer - self._mean_carrier_measure
        for parameter, gradient in zip(parameters, gradients):
            term = (parameter * gradient).reshape(*self._batch_shape, math.prod(self._event_shape))
            result = result - term.sum(-1)
        return result
