"""torch.__config__: how GT was built."""

import platform


def show() -> str:
    """A line about the build."""
    from gt import __version__
    return f'GT {__version__}, Python {platform.python_version()}, {platform.machine()}, OpenBLAS'


def parallel_info() -> str:
    """A line about threads."""
    import gt
    return f'threads of an embedded worker: {gt.get_num_threads()}'
