"""Run one function with torch and with gt, and compare: values, shapes, dtypes; errors by type and, where told, by text."""

import numpy as np
import torch

import gt


def leaves(value):
    """The tensors and numbers of nested containers, in order."""
    if isinstance(value, (tuple, list)):
        return [leaf for item in value for leaf in leaves(item)]
    if isinstance(value, dict):
        return [leaf for item in value.values() for leaf in leaves(item)]
    return [value]


def array(value):
    """A NumPy array of a tensor; bfloat16 as float32."""
    value = value.detach()
    return (value.float() if 'bfloat16' in str(value.dtype) else value).numpy()


def same(ours, theirs, rtol=1e-4, atol=1e-5):
    """Compare results of gt and torch."""
    ours, theirs = leaves(ours), leaves(theirs)
    assert len(ours) == len(theirs)
    for one, other in zip(ours, theirs):
        if not isinstance(other, torch.Tensor):
            assert one == other
            continue
        assert str(one.dtype).rpartition('.')[2] == str(other.dtype).rpartition('.')[2]
        assert tuple(one.shape) == tuple(other.shape)
        np.testing.assert_allclose(array(one), array(other), rtol=rtol, atol=atol)


def both(function, *arrays, rtol=1e-4, atol=1e-5):
    """function(library, *tensors) with torch and with gt gives the same; returns gt's result."""
    ours = function(gt, *(gt.tensor(x) for x in arrays))
    same(ours, function(torch, *(torch.tensor(x) for x in arrays)), rtol, atol)
    return ours


def outcome(function, library):
    """The result of function(library), or the exception it raises."""
    try:
        return function(library)
    except Exception as error:
        return error


def same_error(function, text=None):
    """function(library) raises the same type in both; `text` is in both messages."""
    ours, theirs = outcome(function, gt), outcome(function, torch)
    assert isinstance(theirs, Exception), 'torch raises nothing'
    assert type(ours).__mro__[:-1] and isinstance(ours, type(theirs)), f'{ours!r} instead of {theirs!r}'
    if text is not None:
        assert text in str(theirs), str(theirs)
        assert text in str(ours), str(ours)
