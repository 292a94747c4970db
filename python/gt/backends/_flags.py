"""flags(): a context in which settings of a module are others."""

import contextlib


def flags_of(module, **defaults):
    """The function flags(name=value, ...) of a settings module: a context that sets attributes and puts them back."""
    @contextlib.contextmanager
    def flags(**settings):
        unknown = settings.keys() - defaults.keys()
        if unknown:
            raise TypeError(f"flags() got an unexpected keyword argument '{unknown.pop()}'")
        new = {name: settings.get(name, value) for name, value in defaults.items()}
        before = {name: module[name] for name in new}
        module.update(new)
        try:
            yield
        finally:
            module.update(before)
    flags.__doc__ = f'flags({", ".join(f"{k}={v}" for k, v in defaults.items())}): a context with these settings.'
    return flags
