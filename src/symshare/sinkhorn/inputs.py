"""What the functions of this package ask of their input."""

import torch
from torch import Tensor


def at_least_float32(x: Tensor) -> Tensor:
    """x, in float32 where its precision is lower."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


def check_square(who: str, x: Tensor) -> None:
    """Refuse anything but square matrices."""
    if x.ndim < 2 or x.shape[-1] != x.shape[-2]:
        raise ValueError(
            f"{who}: expected square matrices [..., D, D], got shape {tuple(x.shape)}; "
            "one matrix acts on the D positions of a base kernel"
        )
