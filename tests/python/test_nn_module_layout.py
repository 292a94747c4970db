"""nn.Module as libraries use it: its dictionaries, hooks, copies, overrides and errors, each program in GT and in PyTorch."""

import pytest
import torch

import gt
from tests.python import twin_programs  # noqa: F401
