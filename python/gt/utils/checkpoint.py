"""checkpoint: save memory in training by computing a part of the forward pass a second time.

The part is recorded as always, but the values that its operations saved for the backward pass are dropped. When the first
gradient arrives there, the function runs again with the same random numbers and the same autocast, and the recorded operations take the new
values. So every way to compute gradients works, and both values of use_reentrant give the same gradients.
"""

import contextlib
import warnings

from gt import _gt, _help
from gt._gt import Tensor
from gt.amp.autocast_mode import _restored
from gt.autograd import enable_grad, no_grad


class CheckpointError(RuntimeError):
    """The function did something else when it ran again."""


def noop_context_fn():
    """The default of context_fn: two contexts that do nothing."""
    return contextlib.nullcontext(), contextlib.nullcontext()


_DETERMINISM_CHECKS = ('default', 'none')


def _frozen(value):
    """Arguments as they are now, also in lists, tuples and dictionaries."""
    if isinstance(value, Tensor):
        return _gt._frozen(value)
    if type(value) in (list, tuple):
        return type(value)(map(_frozen, value))
    if type(value) is dict:
        return {key: _frozen(item) for key, item in value.items()}
    return value


@contextlib.contextmanager
def _random_numbers_from(state):
    """Draw the random numbers of a state, and go on with the present ones afterwards."""
    if state is None:
        yield
        return
    present = _gt._random_state()
    _gt._set_random_state(*state)
    try:
        yield
    finally:
        _gt._set_random_state(*present)


class _Region:
    """One call of checkpoint(): what is needed to run the function again."""

    def __init__(self, function, args, kwargs, context, preserve_rng_state):
        self.call = function, _frozen(args), _frozen(kwargs), context
        self.state = _gt._random_state() if preserve_rng_state else None
        self.autocast = _gt._autocast()
        self.begin, self.scope = _gt._tape_position()

    def end(self):
        """The forward pass is done: drop the saved values."""
        self.finish, _ = _gt._tape_position()
        if self.finish != self.begin:
            _gt._checkpoint_drop(self.begin, self.recompute)

    def recompute(self):
        """Run the function again, once, and give its values to the recorded operations."""
        if self.call is not None:
            _gt._call_in_scope(self.scope, self._run)
            self.call = None  # frees the arguments

    def _run(self):
        function, args, kwargs, context = self.call
        with enable_grad(), _random_numbers_from(self.state), _restored(self.autocast), context:
            again, _ = _gt._tape_position()
            kept = function(*args, **kwargs)  # keeps the recorded operations until their values are taken
            try:
                _gt._checkpoint_restore(self.begin, self.finish, again)
            except _gt.GtError as error:
                raise CheckpointError(str(error)) from None
        del kept


def checkpoint(function, *args, use_reentrant=None, context_fn=noop_context_fn, determinism_check='default', debug=False,
               early_stop=True, preserve_rng_state=True, **kwargs):
    """Call function(*args, **kwargs) without keeping its intermediate values: backward computes them again.

    use_reentrant: both values compute the same gradients. True has PyTorch's restrictions: no keyword arguments for the
    function, and no gradients unless a tensor among the arguments requires one.
    preserve_rng_state: the second run draws the same random numbers as the first, so that dropout drops the same elements.
    context_fn: returns two context managers, for the first and the second run. debug, early_stop, determinism_check: accepted.

        h = checkpoint(block, h, use_reentrant=False)
    """
    if use_reentrant is None:
        warnings.warn('gt.utils.checkpoint: the use_reentrant parameter should be passed explicitly. use_reentrant=False is '
                      'recommended, but if you need to preserve the current default behavior, you can pass '
                      'use_reentrant=True.', stacklevel=2)
        use_reentrant = True
    if determinism_check not in _DETERMINISM_CHECKS:
        raise ValueError(f'determinism_check should be one of {list(_DETERMINISM_CHECKS)}, but got {determinism_check}')
    if use_reentrant and kwargs:
        raise ValueError('Unexpected keyword arguments: ' + ','.join(kwargs))
    if use_reentrant and (context_fn is not noop_context_fn or debug):
        raise ValueError('Passing `context_fn` or `debug` is only supported when use_reentrant=False.')
    if use_reentrant and not any(isinstance(value, Tensor) and value.requires_grad for value in args):
        warnings.warn('None of the inputs have requires_grad=True. Gradients will be None', stacklevel=2)
        with no_grad():
            return function(*args)
    first, second = context_fn()
    if not _gt.is_grad_enabled():
        with first:
            return function(*args, **kwargs)
    region = _Region(function, args, kwargs, second, preserve_rng_state)
    with first:
        result = function(*args, **kwargs)
    region.end()
    return result


def checkpoint_sequential(functions, segments, input, use_reentrant=None, **kwargs):
    """Call functions one after the other, in `segments` parts of which all but the last are checkpointed.

        y = checkpoint_sequential(nn.Sequential(a, b, c, d), 2, x, use_reentrant=False)
    """
    if use_reentrant is None:
        warnings.warn('gt.utils.checkpoint.checkpoint_sequential: the use_reentrant parameter should be passed explicitly. '
                      'use_reentrant=False is recommended.', stacklevel=2)
        use_reentrant = True
    preserve = kwargs.pop('preserve_rng_state', True)
    if kwargs:
        raise ValueError('Unexpected keyword arguments: ' + ','.join(kwargs))
    functions = list(functions.children()) if hasattr(functions, 'children') else list(functions)

    def part(begin, end):
        def run(value):
            for function in functions[begin:end]:
                value = function(value)
            return value
        return run
    size = len(functions) // segments
    for begin in range(0, size * (segments - 1), size) if size else ():
        input = checkpoint(part(begin, begin + size), input, use_reentrant=use_reentrant, preserve_rng_state=preserve)
    return part(size * (segments - 1), len(functions))(input)


class set_checkpoint_early_stop:
    """A context manager of PyTorch that changes how much is computed again; accepted, without effect."""

    def __init__(self, enable):
        self.enable = enable

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        pass

__dir__ = _help.publish(__name__)
