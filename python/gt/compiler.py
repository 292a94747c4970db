"""gt.compile and torch.compiler: hints. The dispatcher sees the instructions of every program and needs no compilation."""

import functools

from gt import _help


def compile(model=None, *, fullgraph=False, dynamic=None, backend='inductor', mode=None, options=None, disable=False):
    """The function or module itself, marked as a hot path; also a decorator.

    The mark (attribute _gt_compiled) is a hint; results are those of the function.

        model = gt.compile(model)

        @gt.compile(mode='reduce-overhead')
        def step(x): ...
    """
    if mode is not None and options is not None:
        raise RuntimeError('Either mode or options can be specified, but both can\'t be specified at the same time.')
    if model is None:
        return functools.partial(compile, fullgraph=fullgraph, dynamic=dynamic, backend=backend, mode=mode, options=options,
                                 disable=disable)
    if not callable(model):
        raise RuntimeError(f'gt.compile: expected a function or a module, not {type(model).__name__}')
    if not disable:
        try:
            model._gt_compiled = True
        except (AttributeError, TypeError):
            pass  # a builtin has no attributes; there is nothing to hint
    return model


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
