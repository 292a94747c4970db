"""The dispatcher, as a Python object."""

from gt.dispatcher.dispatcher import Dispatcher  # noqa: F401
