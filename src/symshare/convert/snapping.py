"""Learned matrices replaced by the nearest permutations: the lossy step, on request."""

import torch
from torch import nn

from symshare.analysis import nearest_permutation
from symshare.representations import Fixed, Gated, Representation

__all__ = ["snap"]


def snap(model: nn.Module) -> None:
    """Replace every learned doubly stochastic R by the nearest permutations, in place.

    Known stacks and measures stay as they are, and shared representations stay shared.

    Raises:
        ValueError: if a learned R is not doubly stochastic; then it is near no permutation.
    """
    snapped: dict[Representation, Representation] = {}
    for parent in list(model.modules()):
        if isinstance(parent, Representation):
            continue
        for name, child in parent._modules.items():
            if isinstance(child, Representation) and _is_learned(child):
                if child not in snapped:
                    snapped[child] = _nearest(child)
                parent._modules[name] = snapped[child]


def _is_learned(representation: Representation) -> bool:
    gate = representation.gate
    constant = set() if gate is None else set(gate.parameters())
    return representation.positions is not None and any(
        p not in constant for p in representation.parameters()
    )


def _nearest(representation: Representation) -> Representation:
    if representation.membership != "doubly stochastic":
        raise ValueError(
            f"bake: hard=True asks for permutations, but {type(representation).__name__} learns "
            f"matrices that are {representation.membership}, and these may be near none; leave "
            "hard out"
        )
    R = representation()
    stack = torch.eye(R.shape[-1], dtype=R.dtype, device=R.device)[nearest_permutation(R)]
    if representation.gate is None:
        return Fixed(stack)
    return Gated(stack, representation.gate)
