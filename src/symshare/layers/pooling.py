"""Means and maxima, over the group or over space."""

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import torch
from jaxtyping import Float
from torch import Tensor, nn

from symshare.layers.geometry import Geometry, Size
from symshare.representations import Measure
from symshare.representations.measure import check_gate


class GroupPool(nn.Module):
    """Mean over the group axis, weighted by the measure: [B, C, G, ...] to [B, C, ...].

    Args:
        gate: the measure of the representation, `representation.gate`; None weighs all alike.

    Raises:
        ValueError: if the input has no group axis, or another number of elements than the measure.

    >>> GroupPool()(torch.arange(4.0).reshape(1, 1, 4)).item()
    1.5
    """

    def __init__(self, gate: Measure | None = None):
        super().__init__()
        check_gate("GroupPool", gate)
        self.gate = gate

    def forward(self, f: Float[Tensor, "B C G *space"]) -> Float[Tensor, "B C *space"]:
        check_map("GroupPool", f, self.gate)
        return group_mean(f, shares(self.gate))


class GroupMaxPool(nn.Module):
    """Maximum over the group axis: [B, C, G, ...] to [B, C, ...].

    A maximum has no weights. Behind a learned measure use :class:`GroupPool`, where elements of
    measure zero have no influence.

    Raises:
        ValueError: if the input has no group axis.

    >>> GroupMaxPool()(torch.arange(4.0).reshape(1, 1, 4)).item()
    3.0
    """

    def forward(self, f: Float[Tensor, "B C G *space"]) -> Float[Tensor, "B C *space"]:
        check_map("GroupMaxPool", f)
        return f.amax(2)


class _SpatialPool(nn.Module):
    """A pooling of torch over space, for every channel and element by itself.

    Attributes:
        geometry: the options, one number for each axis of space.
        pool: the module of torch that takes [B, C, *space].
    """

    kinds: ClassVar[tuple[Callable[..., nn.Module], ...]]

    def __init__(
        self, kernel_size: Sequence[int], stride: Size | None, padding: Size, **options: Any
    ):
        super().__init__()
        who = type(self).__name__
        if isinstance(kernel_size, int):
            raise ValueError(
                f"{who}: kernel_size gives one length for each axis of space, got {kernel_size}; "
                f"for images use ({kernel_size}, {kernel_size})"
            )
        stride = kernel_size if stride is None else stride
        self.geometry = Geometry.read(
            who, len(kernel_size), kernel_size, stride, padding, **options
        )
        used = ["kernel_size", "stride", "padding", *options]
        self.pool = self.kinds[len(kernel_size) - 1](
            **{name: getattr(self.geometry, name) for name in used}
        )
        self._said_size = False

    def forward(self, f: Float[Tensor, "B C G *space"]) -> Float[Tensor, "B C G *out"]:
        dims = self.geometry.dims
        if f.ndim != 3 + dims:
            raise ValueError(
                f"{type(self).__name__}: expected a map [B, C, G, ...] with {dims} axes of space, "
                f"got {tuple(f.shape)}; kernel_size gives one length for each of them"
            )
        if not (f.shape[2] == 1 or self._said_size or torch.compiler.is_compiling()):
            who = f"{type(self).__name__}({self.extra_repr()})"
            self._said_size = self.geometry.warn_of_size(who, f.shape[3:], "maps")
        return self.pool(f.flatten(1, 2)).unflatten(1, f.shape[1:3])

    def extra_repr(self) -> str:
        return self.pool.extra_repr()


class SpatialMaxPool(_SpatialPool):
    """Maximum over windows in space: [B, C, G, *space] to [B, C, G, *out], for 1 to 3 axes.

    `torch.nn.MaxPool2d` and its like on maps with a group axis. Flips and rotations are exact
    where the windows reach from the first pixel to the last: where
    size + 2 padding - dilation (kernel - 1) - 1 is a multiple of the stride. It warns elsewhere.

    Args:
        kernel_size: one length for each axis of space, such as (2, 2) for images.
        stride: one number, or one for each axis; None for windows side by side.
        padding: at most half the kernel; what is added never is the maximum.
        dilation: distance of neighbouring taps.

    Raises:
        ValueError: for options that torch does not know, or an input with other axes.

    >>> SpatialMaxPool((2, 2))(torch.ones(1, 3, 4, 6, 6)).shape
    torch.Size([1, 3, 4, 3, 3])
    """

    kinds = (nn.MaxPool1d, nn.MaxPool2d, nn.MaxPool3d)

    def __init__(
        self,
        kernel_size: Sequence[int],
        stride: Size | None = None,
        padding: Size = 0,
        dilation: Size = 1,
    ):
        super().__init__(kernel_size, stride, padding, dilation=dilation)


class SpatialAvgPool(_SpatialPool):
    """Mean over windows in space: [B, C, G, *space] to [B, C, G, *out], for 1 to 3 axes.

    `torch.nn.AvgPool2d` and its like on maps with a group axis; flips and rotations are exact
    where they are in :class:`SpatialMaxPool`. For the mean over all of space a kernel is not
    needed: `f.mean((-2, -1))`.

    Args:
        kernel_size: one length for each axis of space, such as (2, 2) for images.
        stride: one number, or one for each axis; None for windows side by side.
        padding: zeros on both sides, at most half the kernel; they count.

    Raises:
        ValueError: for options that torch does not know, or an input with other axes.

    >>> SpatialAvgPool((3,), stride=2)(torch.ones(1, 3, 4, 7)).shape
    torch.Size([1, 3, 4, 3])
    """

    kinds = (nn.AvgPool1d, nn.AvgPool2d, nn.AvgPool3d)

    def __init__(self, kernel_size: Sequence[int], stride: Size | None = None, padding: Size = 0):
        super().__init__(kernel_size, stride, padding)


def shares(gate: Measure | None) -> Float[Tensor, " G"] | None:
    """The measure, scaled to sum to one; None where all elements weigh alike.

    >>> shares(Measure(3)).tolist()
    [0.5, 0.25, 0.25]
    """
    if gate is None:
        return None
    measure = gate()
    return measure / measure.sum()


def check_map(who: str, f: Tensor, gate: Measure | None = None) -> None:
    """Refuse what has no group axis, or another number of elements than the measure."""
    if f.ndim < 3:
        raise ValueError(
            f"{who}: expected a map [B, C, G, ...], got {tuple(f.shape)}; the group axis comes "
            "after the channels"
        )
    if gate is not None and len(gate.logits) + 1 != f.shape[2]:
        raise ValueError(
            f"{who}: measure over {len(gate.logits) + 1} elements, but the map has {f.shape[2]}: "
            f"{tuple(f.shape)}; pass the gate of the representation that made the map"
        )


def group_mean(f: Tensor, weights: Tensor | None) -> Tensor:
    """Mean over the group axis of a map [B, C, G, ...].

    The weights of the elements sum to one; None weighs all alike. Baked networks compute it too,
    and have to be read by every tool for graphs: so nothing here depends on shapes, and no
    annotation is one that TorchScript does not know.
    """
    if weights is None:
        return f.mean(2)
    return (f.movedim(2, -1) * weights).sum(-1).to(f.dtype)
