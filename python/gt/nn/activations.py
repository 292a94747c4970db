"""Activation functions as modules. An activation's options are those of its function, with the same names."""

import inspect
import warnings

import gt
from gt.nn import functional as F
from gt.nn.module import Module
from gt.nn.parameter import Parameter


class Activation(Module):
    """Calls `function` with the input and the options given to the constructor."""

    _gt_function, _gt_options = None, {}  # options: names and defaults

    def __init_subclass__(cls):
        super().__init_subclass__()
        cls._gt_accepted = inspect.Signature([inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD,
                                                             default=default) for name, default in cls._gt_options.items()])
        if '__init__' not in cls.__dict__:
            cls.__signature__ = cls._gt_accepted

    def __init__(self, *args, **kwargs):
        super().__init__()
        try:
            given = self._gt_accepted.bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(f'{type(self).__name__}.__init__() {error}') from None
        given.apply_defaults()
        for name, value in given.arguments.items():
            setattr(self, name, value)

    def forward(self, input):
        """The activation of each element."""
        return getattr(F, self._gt_function)(input, *[getattr(self, name) for name in self._gt_options])

    def extra_repr(self):
        shown = {name: getattr(self, name) for name in self._gt_options}
        return ', '.join(f'{name}={value!r}' for name, value in shown.items() if name != 'inplace' or value)


_REQUIRED = inspect.Parameter.empty
_relu = F.relu


class ReLU(Activation):
    """max(x, 0)."""

    _gt_options = {'inplace': False}

    def forward(self, input):
        if F.relu is not _relu:  # the program has put another function there
            return F.relu(input, inplace=self.inplace)
        try:
            return input.relu_() if self.inplace else input.relu()
        except AttributeError:
            F._refuse_input('relu', input)


class Sigmoid(Activation):
    """1 / (1 + exp(-x))."""

    def forward(self, input):
        try:
            return input.sigmoid()
        except AttributeError:
            F._refuse_input('sigmoid', input)


class Tanh(Activation):
    """The hyperbolic tangent."""

    def forward(self, input):
        try:
            return input.tanh()
        except AttributeError:
            F._refuse_input('tanh', input)


class Threshold(Activation):
    """x where larger than the threshold, else the value."""

    _gt_function, _gt_options = 'threshold', {'threshold': _REQUIRED, 'value': _REQUIRED, 'inplace': False}


class _Shrink(Activation):
    """Shows its option without a name."""

    def extra_repr(self):
        return str(self.lambd)


class Hardshrink(_Shrink):
    """0 between ±lambd, else x."""

    _gt_function, _gt_options = 'hardshrink', {'lambd': 0.5}


class Softshrink(_Shrink):
    """x, moved towards 0 by lambd, and 0 between ±lambd."""

    _gt_function, _gt_options = 'softshrink', {'lambd': 0.5}


class Tanhshrink(Activation):
    """x - tanh(x)."""

    _gt_function = 'tanhshrink'


class LeakyReLU(Activation):
    """x where positive, else negative_slope * x."""

    _gt_function, _gt_options = 'leaky_relu', {'negative_slope': 0.01, 'inplace': False}


class ELU(Activation):
    """x where positive, else alpha * (exp(x) - 1)."""

    _gt_function, _gt_options = 'elu', {'alpha': 1.0, 'inplace': False}


class CELU(Activation):
    """x where positive, else alpha * (exp(x / alpha) - 1)."""

    _gt_function, _gt_options = 'celu', {'alpha': 1.0, 'inplace': False}


class SELU(Activation):
    """elu, scaled so that activations keep mean 0 and variance 1."""

    _gt_function, _gt_options = 'selu', {'inplace': False}


class GELU(Activation):
    """x times the normal distribution function of x."""

    _gt_function, _gt_options = 'gelu', {'approximate': 'none'}


class SiLU(Activation):
    """x * sigmoid(x)."""

    _gt_function, _gt_options = 'silu', {'inplace': False}


class Mish(Activation):
    """x * tanh(softplus(x))."""

    _gt_function, _gt_options = 'mish', {'inplace': False}


class Softplus(Activation):
    """log(1 + exp(beta * x)) / beta."""

    _gt_function, _gt_options = 'softplus', {'beta': 1.0, 'threshold': 20.0}


class Softsign(Activation):
    """x / (1 + |x|)."""

    _gt_function = 'softsign'


class LogSigmoid(Activation):
    """log(sigmoid(x))."""

    _gt_function = 'logsigmoid'


class Hardtanh(Activation):
    """x, kept between min_val and max_val."""

    _gt_function, _gt_options = 'hardtanh', {'min_val': -1.0, 'max_val': 1.0, 'inplace': False}

    def __init__(self, min_val=-1.0, max_val=1.0, inplace=False, min_value=None, max_value=None):
        for name, old in (('min', min_value), ('max', max_value)):
            if old is not None:
                warnings.warn(f'keyword argument `{name}_value` is deprecated and renamed to `{name}_val`', FutureWarning,
                              stacklevel=2)
        min_val, max_val = min_val if min_value is None else min_value, max_val if max_value is None else max_value
        super().__init__(min_val, max_val, inplace)
        if not self.max_val > self.min_val:
            raise AssertionError(f'max_val must be larger than min_val, got {min_val} and {max_val}')


class ReLU6(Hardtanh):
    """min(max(x, 0), 6)."""

    def __init__(self, inplace=False):
        super().__init__(0.0, 6.0, inplace)

    def extra_repr(self):
        return 'inplace=True' if self.inplace else ''


class Hardsigmoid(Activation):
    """min(max(x / 6 + 1/2, 0), 1)."""

    _gt_function, _gt_options = 'hardsigmoid', {'inplace': False}


class Hardswish(Activation):
    """x * hardsigmoid(x)."""

    _gt_function, _gt_options = 'hardswish', {'inplace': False}


class GLU(Activation):
    """The first half of a dimension times the sigmoid of the second."""

    _gt_function, _gt_options = 'glu', {'dim': -1}


class Softmax(Activation):
    """exp(x), normalised to sum 1 along a dimension."""

    _gt_function, _gt_options = 'softmax', {'dim': None}


class LogSoftmax(Activation):
    """The logarithm of softmax."""

    _gt_function, _gt_options = 'log_softmax', {'dim': None}


class Softmin(Activation):
    """softmax(-x)."""

    _gt_function, _gt_options = 'softmin', {'dim': None}


class Softmax2d(Activation):
    """softmax over the channels of (N, C, H, W) or (C, H, W)."""

    def forward(self, input):
        """The input, normalised to sum 1 over the channels."""
        if input.ndim not in (3, 4):
            raise ValueError(f'Softmax2d: expected input to be 3D or 4D, got {input.ndim}D instead')
        return F.softmax(input, -3)


class RReLU(Activation):
    """LeakyReLU with slopes drawn between two bounds in training, else with their mean."""

    _gt_options = {'lower': 1.0 / 8, 'upper': 1.0 / 3, 'inplace': False}

    def forward(self, input):
        """The activation of each element."""
        return F.rrelu(input, self.lower, self.upper, self.training, self.inplace)


class PReLU(Module):
    """LeakyReLU with a trained slope, one for all channels or one for each."""

    def __init__(self, num_parameters=1, init=0.25, device=None, dtype=None):
        super().__init__()
        self.num_parameters, self.init = num_parameters, init
        self.weight = Parameter(gt.empty(num_parameters, dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self):
        """All slopes to `init`."""
        with gt.no_grad():
            self.weight.fill_(self.init)

    def forward(self, input):
        return F.prelu(input, self.weight)

    def extra_repr(self):
        return f'num_parameters={self.num_parameters}'
