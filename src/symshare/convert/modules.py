"""What modules hold, and code of others that runs with them; torch's private names stand here."""

import copy
from collections import deque
from collections.abc import Iterator
from typing import Any

from torch import Tensor, nn
from torch.nn.utils.prune import BasePruningMethod
from torch.nn.utils.spectral_norm import SpectralNorm
from torch.nn.utils.weight_norm import WeightNorm

_REWEIGHTING = (BasePruningMethod, SpectralNorm, WeightNorm)


def observed(module: Any) -> bool:
    """Whether hooks see, and may change, what goes into a module or comes out of it."""
    return bool(module._forward_hooks or module._forward_pre_hooks)


def settle(module: Any) -> None:
    """Replace weights that hooks of torch compute before each pass by their present values.

    `torch.nn.utils.prune` and the older `weight_norm` and `spectral_norm` are such hooks.
    """
    hooks = module._forward_pre_hooks
    for key in [key for key, hook in hooks.items() if isinstance(hook, _REWEIGHTING)]:
        hooks.pop(key)(module, ())


def uncompiled(model: Any) -> nn.Module:
    """The module that `torch.compile` was given, if this is what it returned."""
    return getattr(model, "_orig_mod", model)


def writes(x: object) -> int:
    """How often a tensor was written to; 0 for everything else."""
    return x._version if isinstance(x, Tensor) else 0


def held(model: nn.Module) -> list[object]:
    """All that the modules of a network hold, in containers too."""
    return list(_leaves([vars(module) for module in model.modules()]))


def copied(model: nn.Module) -> nn.Module:
    """A deep copy, also of modules that hold results of a computation, such as pruned weights."""
    results = [x for x in held(model) if isinstance(x, Tensor) and not x.is_leaf]
    return copy.deepcopy(model, {id(x): x.detach().clone() for x in results})


def _leaves(x: Any) -> Iterator[object]:
    if not isinstance(x, dict | list | tuple | set | deque):
        yield x
        return
    for y in x.values() if isinstance(x, dict) else x:
        yield from _leaves(y)
