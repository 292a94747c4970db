"""Making a module without initial values."""

import inspect

from gt.nn.module import Module


def skip_init(module_cls, *args, **kwargs):
    """A module whose parameters have undefined values. Here they are initialised: that is cheap and takes no time of
    the program.

    >>> layer = nn.utils.skip_init(nn.Linear, 5, 1)
    """
    if not issubclass(module_cls, Module):
        raise RuntimeError(f'Expected a Module; got {module_cls}')
    if 'device' not in inspect.signature(module_cls).parameters:
        raise RuntimeError('Module must support a \'device\' arg to skip initialization')
    return module_cls(*args, **kwargs)
