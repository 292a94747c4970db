"""Versions, as torch.version has them."""

from gt import _help
from gt import __version__  # noqa: F401

debug, cuda, hip, xpu, git_version = False, None, None, None, None

__dir__ = _help.publish(__name__)
