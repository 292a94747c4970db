"""Memory formats: accepted, and without effect, because GT tensors are always contiguous."""


def convert_conv2d_weight_memory_format(module, memory_format):
    """The module itself."""
    return module


def convert_conv3d_weight_memory_format(module, memory_format):
    """The module itself."""
    return module
