"""torch.backends: settings that scripts make. They are kept as they are set; results do not depend on them.

    gt.backends.cudnn.benchmark = True
"""

from gt import _help
from gt.backends import cpu, cuda, cudnn, mkl, mkldnn, mps, openmp, opt_einsum  # noqa: F401

__dir__ = _help.publish(__name__)
