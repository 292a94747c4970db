"""torch.backends: settings that scripts make. They are kept as they are set; results do not depend on them.

    gt.backends.cudnn.benchmark = True
"""

from gt.backends import cpu, cuda, cudnn, mkl, mkldnn, mps, openmp, opt_einsum  # noqa: F401
