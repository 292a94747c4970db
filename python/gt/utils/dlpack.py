"""DLPack: exchange tensors with other libraries, as in torch.utils.dlpack."""

from gt import _help
from gt._gt import from_dlpack  # noqa: F401


def to_dlpack(tensor):
    """A DLPack capsule of the tensor's elements, in host memory; waits for them.

        torch.from_dlpack(to_dlpack(gt.ones(3)))
    """
    return tensor.__dlpack__()

__dir__ = _help.publish(__name__, 'from_dlpack')
