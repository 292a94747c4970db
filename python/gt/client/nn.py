"""gt.nn under the path that it had in the prototype."""

from gt.nn import *  # noqa: F401,F403
from gt.optim import SGD, Adagrad, Adam, AdamW, RMSprop  # noqa: F401
