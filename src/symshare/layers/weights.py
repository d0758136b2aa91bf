"""Base weights, and the representation that a layer is built with."""

import math

import torch
from torch import nn

from symshare.representations import Representation


def check_representation(who: str, representation: object) -> None:
    """Refuse what is no representation: most likely a group, or a stack of matrices.

    Raises:
        TypeError: saying how to wrap it.
    """
    if not isinstance(representation, Representation):
        raise TypeError(
            f"{who}: expected a Representation, got {type(representation).__name__}; a group or "
            "a stack of matrices is not one yet, wrap it: Fixed(action)"
        )


def check_channels(who: str, in_channels: int, out_channels: int) -> None:
    """Refuse a layer that reads or writes nothing.

    Raises:
        ValueError: if a number is below 1.
    """
    if in_channels < 1 or out_channels < 1:
        raise ValueError(
            f"{who}: in_channels and out_channels must be at least 1, got "
            f"in_channels={in_channels}, out_channels={out_channels}"
        )


def positions_of(representation: Representation) -> int:
    """D, the number of positions that a bound representation acts on.

    Raises:
        ValueError: if it is not bound to a kernel.
    """
    if representation.positions is None:
        raise ValueError(
            f"{type(representation).__name__}: this action has no positions of its own; "
            "use .on_kernel((k, k)) to choose a grid"
        )
    return representation.positions


def base_weights(
    out_channels: int, in_channels: int, positions: int, bias: bool
) -> tuple[nn.Parameter, nn.Parameter | None]:
    """Base weights theta [O, I, D] and bias [O], both in U(-b, b) with b = 1/sqrt(I D).

    This is how `torch.nn.Conv2d` starts.

    >>> theta, bias = base_weights(8, 3, 9, bias=False)
    >>> theta.shape, bias
    (torch.Size([8, 3, 9]), None)
    """
    bound = 1 / math.sqrt(in_channels * positions)
    theta = nn.Parameter(torch.empty(out_channels, in_channels, positions))
    nn.init.uniform_(theta, -bound, bound)
    if not bias:
        return theta, None
    return theta, nn.Parameter(torch.empty(out_channels).uniform_(-bound, bound))
