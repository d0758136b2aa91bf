"""Norms of single samples, with the measure over the group."""

from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor, nn

from symshare.layers.pooling import check_map, shares
from symshare.representations import Measure
from symshare.representations.measure import check_gate


class _SampleNorm(nn.Module):
    """Either norm; they differ in the axes that mean and variance are taken over."""

    across_channels: ClassVar[bool]

    def __init__(self, gate: Measure | None = None, eps: float = 1e-5):
        super().__init__()
        check_gate(type(self).__name__, gate)
        self.gate = gate
        self.eps = eps

    def forward(self, f: Float[Tensor, "B C G *space"]) -> Float[Tensor, "B C G *space"]:
        check_map(type(self).__name__, f, self.gate)
        return normalise(f, shares(self.gate), self.across_channels, self.eps)


class GroupLayerNorm(_SampleNorm):
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

    across_channels = True


class GroupInstanceNorm(_SampleNorm):
    """Normalise each sample and channel over group and space; else as :class:`GroupLayerNorm`.

    >>> y = GroupInstanceNorm()(torch.randn(2, 3, 4, 5, 5))
    >>> bool(y.mean((2, 3, 4)).abs().max() < 1e-5)
    True
    """

    across_channels = False


def normalise(f: Tensor, weights: Tensor | None, across_channels: bool, eps: float) -> Tensor:
    """Standardise each sample of a map [B, C, G, ...] over group and space.

    The weights of the elements sum to one; None weighs all alike. Baked networks compute it too,
    as they do :func:`group_mean`.
    """
    if weights is None:
        return nn.functional.layer_norm(f, f.shape[1 if across_channels else 2 :], eps=eps)
    # Squares overflow in half precision.
    exact = torch.promote_types(weights.dtype, torch.float32)
    flat = f.unsqueeze(-1).flatten(3)  # [B, C, G, space]
    flat = flat - _average(flat.mean(3, dtype=exact), weights, across_channels)
    variance = _average(flat.square().mean(3), weights, across_channels)
    return (flat * (variance + eps).rsqrt()).reshape(f.shape).to(f.dtype)


def _average(y: Tensor, weights: Tensor, across_channels: bool) -> Tensor:
    """Mean of [B, C, G] over the group and, if asked, over channels, as [B, C or 1, 1, 1]."""
    y = (y * weights).sum(2, keepdim=True)
    if across_channels:
        y = y.mean(1, keepdim=True)
    return y.unsqueeze(-1)
