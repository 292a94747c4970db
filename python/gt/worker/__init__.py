"""The worker, as a Python object; `python -m gt.worker` is the program."""

from gt.worker.worker import Worker  # noqa: F401
