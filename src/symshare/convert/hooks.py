"""Code of others that runs with a module's forward pass."""

from typing import Any

__all__ = ["observed"]


def observed(module: Any) -> bool:
    """Whether hooks see, and may change, what goes into a module or comes out of it.

    >>> import torch
    >>> observed(torch.nn.ReLU())
    False
    """
    return bool(module._forward_hooks or module._forward_pre_hooks)
