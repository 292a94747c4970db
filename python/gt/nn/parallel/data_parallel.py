"""DataParallel: the module, under `.module`."""

from gt.nn.module import Module


class DataParallel(Module):
    """Calls its module. Devices are accepted and ignored: the dispatcher decides where tensors live.

    >>> model = nn.DataParallel(model)
    """

    def __init__(self, module, device_ids=None, output_device=None, dim=0):
        super().__init__()
        self.dim, self.device_ids, self.output_device = dim, list(device_ids or []), output_device
        self.module = module

    def forward(self, *inputs, **kwargs):
        """The output of the module."""
        return self.module(*inputs, **kwargs)


def data_parallel(module, inputs, device_ids=None, output_device=None, dim=0, module_kwargs=None):
    """Call a module; devices are accepted and ignored."""
    inputs = inputs if isinstance(inputs, tuple) else (inputs,) if inputs is not None else ()
    return module(*inputs, **(module_kwargs or {}))
