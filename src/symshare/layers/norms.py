"""Norms of single samples, with the measure over the group."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from symshare.layers.pooling import along_group, check_map, shares
from symshare.representations import Measure
from symshare.representations.measure import check_gate

__all__ = ["GroupInstanceNorm", "GroupLayerNorm", "normalise"]


class GroupLayerNorm(nn.Module):
    """Normalise each sample over channels, group and space; no parameters.

    The mean and the variance are taken with the measure over the group, so elements of measure
    zero have no influence. This is the norm of the published MNIST networks.

    Args:
        gate: the measure of the representation before it; None weighs all elements alike.
        eps: added to the variance.

    >>> y = GroupLayerNorm()(torch.randn(2, 3, 4, 5, 5))
    >>> bool(y.mean((1, 2, 3, 4)).abs().max() < 1e-5)
    True
    """

    def __init__(self, gate: Measure | None = None, eps: float = 1e-5):
        super().__init__()
        check_gate("GroupLayerNorm", gate)
        self.gate = gate
        self.eps = eps

    def forward(self, f: Float[Tensor, "B C G *space"]) -> Float[Tensor, "B C G *space"]:
        return normalise(f, shares(self.gate), across_channels=True, eps=self.eps)


class GroupInstanceNorm(nn.Module):
    """Normalise each sample and channel over group and space; no parameters.

    Args:
        gate: the measure of the representation before it; None weighs all elements alike.
        eps: added to the variance.

    >>> y = GroupInstanceNorm()(torch.randn(2, 3, 4, 5, 5))
    >>> bool(y.mean((2, 3, 4)).abs().max() < 1e-5)
    True
    """

    def __init__(self, gate: Measure | None = None, eps: float = 1e-5):
        super().__init__()
        check_gate("GroupInstanceNorm", gate)
        self.gate = gate
        self.eps = eps

    def forward(self, f: Float[Tensor, "B C G *space"]) -> Float[Tensor, "B C G *space"]:
        return normalise(f, shares(self.gate), across_channels=False, eps=self.eps)


def normalise(
    f: Float[Tensor, "B C G *space"],
    weights: Float[Tensor, " N"] | None,
    across_channels: bool,
    eps: float,
) -> Float[Tensor, "B C G *space"]:
    """Standardise each sample over group and space, and over channels if asked.

    Args:
        f: a map on the group.
        weights: of the elements, summing to one; None weighs all alike.
        across_channels: over channels too.
        eps: added to the variance.

    Raises:
        ValueError: if f has no group axis, or there are more or fewer weights than elements.
    """
    check_map("GroupLayerNorm" if across_channels else "GroupInstanceNorm", f)
    if weights is None:
        first = 1 if across_channels else 2
        return nn.functional.layer_norm(f, f.shape[first:], eps=eps)
    # Squares overflow in half precision.
    y = f.to(torch.promote_types(f.dtype, torch.float32))
    y = y - _average(y, weights, across_channels)
    scale = (_average(y.square(), weights, across_channels) + eps).rsqrt()
    return (y * scale).to(f.dtype)


def _average(y: Tensor, weights: Tensor, across_channels: bool) -> Tensor:
    """Mean over space, then over the group and, if asked, over channels; all axes stay."""
    if y.ndim > 3:
        y = y.mean(tuple(range(3, y.ndim)), keepdim=True)
    y = (y * along_group(weights, y)).sum(2, keepdim=True)
    return y.mean(1, keepdim=True) if across_channels else y
