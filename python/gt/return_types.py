"""Named tuples that functions with several results return, as in torch.return_types.

All elements are computed. The values of max, sort and the like are gathered by their indices, so the indices cost
nothing extra, and gradients go to the selected elements, as in PyTorch.
"""

from collections import namedtuple

from gt import _help


def _named(name, *fields):
    def __repr__(self):
        return f'gt.return_types.{name}(\n' + ',\n'.join(f'{f}={v!r}' for f, v in zip(fields, self)) + ')'
    base = namedtuple(name, fields)
    return type(name, (base,), {'__slots__': (), '__repr__': __repr__, '__module__': __name__})


max = _named('max', 'values', 'indices')
min = _named('min', 'values', 'indices')
sort = _named('sort', 'values', 'indices')
topk = _named('topk', 'values', 'indices')
kthvalue = _named('kthvalue', 'values', 'indices')
median = _named('median', 'values', 'indices')
nanmedian = _named('nanmedian', 'values', 'indices')
mode = _named('mode', 'values', 'indices')
cummax = _named('cummax', 'values', 'indices')
cummin = _named('cummin', 'values', 'indices')
aminmax = _named('aminmax', 'min', 'max')
frexp = _named('frexp', 'mantissa', 'exponent')
histogram = _named('histogram', 'hist', 'bin_edges')
histogramdd = _named('histogramdd', 'hist', 'bin_edges')

__dir__ = _help.publish(__name__)
