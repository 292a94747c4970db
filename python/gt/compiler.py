"""gt.compile and torch.compiler: which parts of a program should run as one.

GT finds loops by itself (docs/compilation.md). gt.compile marks a function or module by hand: what it issues between call and
return is one path from the third call on that takes the same branch.
"""

import functools
import inspect
import warnings

from gt import _gt, _help


def _region(function):
    """The function, each call of which is a region of the stream."""
    from gt.nn.hooks import regions
    number, enter, leave = next(regions), _gt._region_enter, _gt._region_leave

    def compiled(*args, **keywords):
        entered = enter(number)
        try:
            return function(*args, **keywords)
        finally:
            leave(entered)
    return compiled


def compile(model=None, *, fullgraph=False, dynamic=None, backend='inductor', mode=None, options=None, disable=False):
    """The function, or the module itself, as a hot path; also a decorator.

    What two calls have issued alike is sent to the server as one instruction from then on, and the worker runs it as one program.
    There may be several such branches. A call that takes another one runs as if it were not compiled. Values that the function
    only keeps for itself are never stored where the engine can avoid it. The other arguments are PyTorch's; they have no effect,
    except disable.

        model = gt.compile(model)

        @gt.compile
        def step(x, y):
            loss = gt.nn.functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
    """
    if mode is not None and options is not None:
        raise RuntimeError('Either mode or options can be specified, but both can\'t be specified at the same time.')
    if model is None:
        return functools.partial(compile, fullgraph=fullgraph, dynamic=dynamic, backend=backend, mode=mode, options=options,
                                 disable=disable)
    if not callable(model):
        raise RuntimeError(f'gt.compile: expected a function or a module, not {type(model).__name__}')
    if disable:
        return model
    from gt.nn import Module
    if isinstance(model, Module):
        model.compile(fullgraph=fullgraph, dynamic=dynamic, backend=backend, mode=mode, options=options)
        return model
    if inspect.isgeneratorfunction(model) or inspect.iscoroutinefunction(model) or inspect.isasyncgenfunction(model):
        warnings.warn(f'gt.compile: {model.__qualname__} is a generator or a coroutine, whose calls issue nothing before they return; '
                      'it stays as it is, so mark the functions that it calls', stacklevel=2)
        return model
    compiled = functools.wraps(model)(_region(model))
    compiled._gt_compiled = True
    return compiled


def disable(fn=None, recursive=True, **options):
    """The function itself; also a decorator."""
    return fn if fn is not None else functools.partial(disable, recursive=recursive)


def is_compiling() -> bool:
    """False."""
    return False


is_dynamo_compiling = is_compiling


def reset() -> None:
    """Does nothing."""


def cudagraph_mark_step_begin() -> None:
    """Does nothing."""


def allow_in_graph(fn):
    """The function itself."""
    return fn


assume_constant_result = allow_in_graph

__dir__ = _help.publish(__name__)
