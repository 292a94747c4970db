"""gt.testing: assert_close, which compares tensors, numbers and containers of them as torch.testing does."""

from collections.abc import Mapping, Sequence

import numpy as np

from gt import _gt, _help

# (rtol, atol) of each dtype, as in PyTorch; other dtypes must be equal.
_TOLERANCES = {
    _gt.float16: (1e-3, 1e-5), _gt.bfloat16: (1.6e-2, 1e-5), _gt.float32: (1.3e-6, 1e-5), _gt.float64: (1e-7, 1e-7),
    _gt.complex64: (1.3e-6, 1e-5), _gt.complex128: (1e-7, 1e-7)}
_EXACT = (0.0, 0.0)


def _tensor(value):
    """The value as a tensor, or None if it is not one number or tensor."""
    if isinstance(value, _gt.Tensor):
        return value
    if isinstance(value, (bool, int, float, complex, np.ndarray, np.generic)):
        return _gt.tensor(value, dtype=_gt.complex128 if isinstance(value, complex) else
                          _gt.float64 if isinstance(value, float) else None)
    return None


def _numbers(tensor):
    """The elements, in a dtype wide enough to compare."""
    if tensor.dtype == _gt.bfloat16:
        tensor = tensor.float()
    elements = tensor.detach().numpy()
    return elements.astype(np.complex128 if elements.dtype.kind == 'c' else np.float64 if elements.dtype.kind == 'f' else
                           elements.dtype)


def _difference(actual, expected, rtol, atol, equal_nan):
    """How many elements differ, and by how much: the text of the error; None if they are close."""
    a, b = np.atleast_1d(_numbers(actual)), np.atleast_1d(_numbers(expected))
    with np.errstate(invalid='ignore', over='ignore'):
        same = (a == b) | (np.abs(a.astype(np.result_type(a, b, np.float64)) - b) <= atol + rtol * np.abs(b)) & np.isfinite(b)
        if equal_nan:
            same |= (a != a) & (b != b)
        if same.all():
            return None
        error = np.where(same, 0.0, np.abs(a.astype(np.result_type(a, b, np.float64)) - b))
        share = error / np.abs(b)
    if not actual.ndim:
        return (f'Expected {expected.item()} but got {actual.item()}.\n\nAbsolute difference: {error.max()} (up to {atol} '
                f'allowed)\nRelative difference: {share.max()} (up to {rtol} allowed)')
    share = np.where(same, 0.0, share)
    most, widest = (np.unravel_index(int(np.nanargmax(np.where(same, -1.0, x))), a.shape) for x in (error, share))
    wrong = int((~same).sum())
    return (f'Mismatched elements: {wrong} / {a.size} ({wrong / a.size:.1%})\n'
            f'Greatest absolute difference: {error[most]} at index {tuple(map(int, most))} (up to {atol} allowed)\n'
            f'Greatest relative difference: {share[widest]} at index {tuple(map(int, widest))} (up to {rtol} allowed)')


def _compare(actual, expected, where, options):
    """Raise AssertionError unless both are close; where: the path of container items that led here."""
    if isinstance(expected, Mapping) and isinstance(actual, Mapping):
        if actual.keys() != expected.keys():
            raise AssertionError(f'The keys of the mappings do not match: {sorted(actual)} and {sorted(expected)}{where}')
        for key in expected:
            _compare(actual[key], expected[key], f'{where}[{key!r}]', options)
        return
    if all(isinstance(x, Sequence) and not isinstance(x, str) for x in (actual, expected)):
        if len(actual) != len(expected):
            raise AssertionError(f'The length of the sequences mismatch: {len(actual)} != {len(expected)}{where}')
        for k, (a, b) in enumerate(zip(actual, expected)):
            _compare(a, b, f'{where}[{k}]', options)
        return
    if actual is None and expected is None:
        return
    a, b = _tensor(actual), _tensor(expected)
    if a is None or b is None:
        raise TypeError(f'No comparison pair was able to handle inputs of type {type(actual)} and {type(expected)}.')
    _compare_tensors(a, b, f'\n\nThe failure occurred for item {where}' if where else '', options)


def _compare_tensors(a, b, where, options):
    if a.shape != b.shape:
        raise AssertionError(f"The values for attribute 'shape' do not match: {a.shape} != {b.shape}.{where}")
    if options['check_dtype'] and a.dtype != b.dtype:
        raise AssertionError(f"The values for attribute 'dtype' do not match: {a.dtype} != {b.dtype}.{where}")
    if options['check_stride'] and a.stride() != b.stride():
        raise AssertionError(f"The values for attribute 'stride()' do not match: {a.stride()} != {b.stride()}.{where}")
    rtol, atol = options['rtol'], options['atol']
    if rtol is None:
        rtol, atol = (max(pair) for pair in zip(_TOLERANCES.get(a.dtype, _EXACT), _TOLERANCES.get(b.dtype, _EXACT)))
    problem = _difference(a, b, rtol, atol, options['equal_nan'])
    if problem:
        kind = 'Scalars' if not a.ndim else 'Tensor-likes'
        text = f'{kind} are not {"close" if rtol or atol else "equal"}!\n\n{problem}{where}'
        msg = options['msg']
        raise AssertionError(msg(text) if callable(msg) else msg or text)


def assert_close(actual, expected, *, allow_subclasses=True, rtol=None, atol=None, equal_nan=False, check_device=True,
                 check_dtype=True, check_layout=True, check_stride=False, msg=None):
    """Raise AssertionError unless actual and expected are close: |actual - expected| <= atol + rtol * |expected|.

    Both may be tensors, numbers, arrays, and sequences or mappings of them. rtol and atol, given both or none, depend on the
    dtype by default, as in PyTorch. Waits for the values.
    """
    if (rtol is None) != (atol is None):
        raise ValueError(f"Both 'rtol' and 'atol' must be either specified or unspecified, but got no "
                         f"{'rtol' if rtol is None else 'atol'} instead")
    _compare(actual, expected, '', dict(rtol=rtol, atol=atol, equal_nan=equal_nan, check_dtype=check_dtype,
                                        check_stride=check_stride, msg=msg))


def _bounds(dtype, low, high):
    """The range of make_tensor: PyTorch's defaults, and integers for integers."""
    if dtype == _gt.bool:
        return (0 if low is None else low), (2 if high is None else high)
    if dtype == _gt.uint8:
        return (0 if low is None else low), (10 if high is None else high)
    return (-9 if low is None else low), ((10 if not (dtype.is_floating_point or dtype.is_complex) else 9) if high is None else high)


def make_tensor(*shape, dtype, device=None, low=None, high=None, requires_grad=False, noncontiguous=False, exclude_zero=False,
                memory_format=None):
    """A tensor of random numbers from low to below high: by default -9 to 9, for bool and uint8 0 to 2 and 10.

    noncontiguous: every other element of a larger tensor; exclude_zero: zeros become the smallest positive number.

        gt.testing.make_tensor((2, 3), dtype=gt.float32)
    """
    import gt
    shape = tuple(shape[0]) if len(shape) == 1 and isinstance(shape[0], Sequence) else shape
    if noncontiguous and memory_format is not None:
        raise ValueError(f'The parameters `noncontiguous` and `memory_format` are mutually exclusive, but got {noncontiguous=} and '
                         f'{memory_format=}')
    if requires_grad and not (dtype.is_floating_point or dtype.is_complex):
        raise ValueError(f'`requires_grad=True` is not supported for boolean and integral dtypes, but got {dtype=}')
    low, high = _bounds(dtype, low, high)
    if low >= high:
        raise ValueError(f"`low` must be less than `high`, but got {low} >= {high}")
    wider = (*shape[:-1], shape[-1] * 2) if noncontiguous and shape else shape
    if dtype.is_floating_point or dtype.is_complex:
        made = gt.rand(wider, dtype=_gt.float64) * (high - low) + low
        if dtype.is_complex:
            made = gt.complex(made, gt.rand(wider, dtype=_gt.float64) * (high - low) + low)
        made = made.to(dtype)
    else:
        made = gt.randint(int(-(-low // 1)), int(-(-high // 1)), wider).to(dtype)
    if exclude_zero:
        least = gt.finfo(dtype).tiny if dtype.is_floating_point or dtype.is_complex else 1
        made = gt.where(made == 0, gt.tensor(least, dtype=dtype), made)
    made = made[..., ::2] if noncontiguous and shape else made
    made = made if memory_format is None else made.clone(memory_format=memory_format)
    return made.requires_grad_() if requires_grad else made


def assert_allclose(actual, expected, rtol=None, atol=None, equal_nan=True, msg=''):
    """assert_close with PyTorch's older tolerances, without comparing dtypes."""
    if (rtol is None) != (atol is None):
        raise ValueError('rtol and atol must both be specified or both be unspecified')
    given = {} if rtol is None else dict(rtol=rtol, atol=atol)
    assert_close(actual, expected, equal_nan=equal_nan, check_dtype=False, msg=msg or None, **given)


__dir__ = _help.publish(__name__)
