"""The client: tensors, and connections to a server."""

from gt.client.client import Client  # noqa: F401
from gt.client.tensor import Tensor  # noqa: F401
