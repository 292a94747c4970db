"""Optimisers and learning rate schedules, with PyTorch's names. Read optimizer.py first."""

from gt import _gt, _help, _paths
from gt.optim import lr_scheduler, optimizer, swa_utils  # noqa: F401
from gt.optim.adafactor import Adafactor, Muon  # noqa: F401
from gt.optim.adagrad import Adadelta, Adagrad  # noqa: F401
from gt.optim.adam import Adam, Adamax, AdamW, NAdam, RAdam, SparseAdam  # noqa: F401
from gt.optim.lbfgs import LBFGS  # noqa: F401
from gt.optim.optimizer import Optimizer, required  # noqa: F401
from gt.optim.rmsprop import RMSprop, Rprop  # noqa: F401
from gt.optim.sgd import ASGD, SGD  # noqa: F401

_gt._updates(SGD._gt_update, Adam._gt_update, optimizer._global_optimizer_pre_hooks,
             optimizer._global_optimizer_post_hooks)

for _class in Adadelta, Adamax, AdamW, ASGD, NAdam, RAdam, Rprop:
    _paths.path(f'{__name__}.{_class.__name__.lower()}', **{_class.__name__: _class})
_paths.path(f'{__name__}.sparse_adam', SparseAdam=SparseAdam)

__dir__ = _help.publish(__name__)
