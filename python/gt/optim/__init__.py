"""Optimisers and learning rate schedules, with PyTorch's names. Read optimizer.py first."""

from gt.optim import lr_scheduler  # noqa: F401
from gt.optim.adagrad import Adagrad  # noqa: F401
from gt.optim.adam import Adam, AdamW  # noqa: F401
from gt.optim.optimizer import Optimizer  # noqa: F401
from gt.optim.rmsprop import RMSprop  # noqa: F401
from gt.optim.sgd import SGD  # noqa: F401
