"""What the functions of this package ask of their input."""

from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor


def at_least_float32(x: Tensor) -> Tensor:
    """x, in float32 where its precision is lower."""
    dtype = torch.promote_types(x.dtype, torch.float32)
    return x if x.dtype == dtype else x.to(dtype)


def check_square(who: str, x: Tensor) -> None:
    """Refuse anything but square matrices."""
    if x.ndim < 2 or x.shape[-1] != x.shape[-2]:
        raise ValueError(
            f"{who}: expected square matrices [..., D, D], got shape {tuple(x.shape)}; "
            "one matrix acts on the D positions of a base kernel"
        )


def check_finite(who: str, logits: Tensor) -> None:
    """Refuse logits that are infinite or not numbers."""
    wrong = int((~logits.isfinite()).sum())
    if wrong:
        raise ValueError(
            f"{who}: {wrong} of {logits.numel()} logits are infinite or not numbers; expected "
            "finite ones: use a large negative number to forbid an entry, and a smaller learning "
            "rate or gradient clipping if they left training like this"
        )


def full_precision(x: Tensor) -> AbstractContextManager[object]:
    """Without autocast, on devices that know it.

    A program that is compiled or exported may run inside autocast later.
    """
    kind = x.device.type
    if not torch.amp.is_autocast_available(kind):
        return nullcontext()
    if torch.is_autocast_enabled(kind) or torch.compiler.is_compiling():
        return torch.autocast(kind, enabled=False)
    return nullcontext()


def adapts(x: Tensor) -> bool:
    """Whether looking at values is free: on the CPU, outside compiled and exported programs."""
    return x.device.type == "cpu" and not torch.compiler.is_compiling()


def transforming() -> bool:
    """Whether a transform of `torch.func` is at work, which torch tells through no public door."""
    return torch._C._are_functorch_transforms_active()
