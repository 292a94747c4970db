"""DistributedDataParallel: the module, under `.module`."""

import contextlib

from gt.nn.module import Module


class DistributedDataParallel(Module):
    """Calls its module. There is one program, so gradients need no averaging and options of communication no effect."""

    def __init__(self, module, device_ids=None, output_device=None, dim=0, broadcast_buffers=True, init_sync=True,
                 process_group=None, bucket_cap_mb=None, find_unused_parameters=False, check_reduction=False,
                 gradient_as_bucket_view=False, static_graph=False, delay_all_reduce_named_params=None,
                 param_to_hook_all_reduce=None, mixed_precision=None, device_mesh=None, skip_all_reduce_unused_params=False):
        super().__init__()
        if mixed_precision is not None:
            raise NotImplementedError('DistributedDataParallel: mixed_precision is not supported; use autocast')
        self.dim, self.device_ids, self.output_device = dim, device_ids, output_device
        self.find_unused_parameters, self.static_graph = find_unused_parameters, static_graph
        self.module = module

    def forward(self, *inputs, **kwargs):
        """The output of the module."""
        return self.module(*inputs, **kwargs)

    @contextlib.contextmanager
    def no_sync(self):
        """Accepted: there is nothing to synchronise."""
        yield

    @contextlib.contextmanager
    def join(self, divide_by_initial_world_size=True, enable=True, throw_on_early_termination=False):
        """Accepted: there is one program."""
        yield self
