"""PyTorch's paths to modules that are elsewhere here, such as optim.adamw."""

import sys
import types


def path(name: str, **names: object) -> types.ModuleType:
    """Make a module that `import` finds under this name; names: what is in it. Its parent must call this while it is imported.

        path('gt.optim.adamw', AdamW=AdamW)
    """
    module = sys.modules[name] = types.ModuleType(name, f'PyTorch\'s path to {", ".join(names)}.')
    vars(module).update(names)
    return module
