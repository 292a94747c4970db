"""gt.special: PyTorch's torch.special.

    gt.special.gammaln(gt.tensor([5.0]))                # log(4!)
    gt.special.hermite_polynomial_h(gt.tensor([0.5]), 3)

Results and gradients are PyTorch's. The functions are elementwise, and the two operands of one broadcast.
"""

import gt
from gt import _help
from gt._gt import Tensor
from gt.client import special as _special
from gt.client.outputs import published_all as _published_all

_ROWS = {  # names here: methods of Tensor
    'digamma': 'digamma', 'entr': 'entr', 'erf': 'erf', 'erfc': 'erfc', 'erfcx': 'erfcx', 'erfinv': 'erfinv',
    'exp2': 'exp2', 'expit': 'sigmoid', 'expm1': 'expm1', 'gammainc': 'igamma', 'gammaincc': 'igammac',
    'gammaln': 'lgamma', 'i0': 'i0', 'i0e': 'i0e', 'i1': 'i1', 'i1e': 'i1e', 'log1p': 'log1p', 'log_ndtr': 'log_ndtr',
    'logit': 'logit', 'logsumexp': 'logsumexp', 'modified_bessel_i0': 'i0', 'modified_bessel_i1': 'i1',
    'multigammaln': 'mvlgamma', 'ndtr': 'ndtr', 'ndtri': 'ndtri', 'psi': 'digamma', 'round': 'round', 'sinc': 'sinc'}
_FUNCTIONS = ('polygamma', 'xlog1py', 'xlogy', 'zeta')  # of the package

globals().update({name: getattr(Tensor, row) for name, row in _ROWS.items()})
globals().update({name: getattr(gt, name) for name in _FUNCTIONS})
globals().update({name: _special.bessel_function(name) for name in _special.BESSEL})
globals().update({name: _special.polynomial_function(name) for name in _special.POLYNOMIALS})


def softmax(input, dim, *, dtype=None):
    """softmax(input, dim, *, dtype=None): exp(x) over its sum along dim."""
    return input.softmax(dim, dtype=dtype) if dtype is not None else input.softmax(dim)


def log_softmax(input, dim, *, dtype=None):
    """log_softmax(input, dim, *, dtype=None): the logarithm of softmax."""
    return input.log_softmax(dim, dtype=dtype) if dtype is not None else input.log_softmax(dim)


__all__ = sorted([*_ROWS, *_FUNCTIONS, *_special.BESSEL, *_special.POLYNOMIALS, 'softmax', 'log_softmax'])

# They take out=, as in PyTorch. Those that are functions of gt do already.
globals().update(_published_all({name: globals()[name] for name in __all__
                                 if not isinstance(globals()[name], gt._gt.Function)}, 'gt.special'))

__dir__ = _help.publish(__name__, *_FUNCTIONS)
