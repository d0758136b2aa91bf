"""Norms of single samples, with the measure over the group."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from symshare.layers.pooling import group_weights
from symshare.representations import Measure

__all__ = ["GroupInstanceNorm", "GroupLayerNorm"]


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
        self.gate = gate
        self.eps = eps

    def forward(self, f: Float[Tensor, "B C G *space"]) -> Float[Tensor, "B C G *space"]:
        return _normalise(f, self.gate, across_channels=True, eps=self.eps)


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
        self.gate = gate
        self.eps = eps

    def forward(self, f: Float[Tensor, "B C G *space"]) -> Float[Tensor, "B C G *space"]:
        return _normalise(f, self.gate, across_channels=False, eps=self.eps)


def _normalise(f: Tensor, gate: Measure | None, across_channels: bool, eps: float) -> Tensor:
    """Standardise over the group, weighted, over space and, if asked, over channels."""
    if gate is None:
        return nn.functional.layer_norm(f, f.shape[1:] if across_channels else f.shape[2:], eps=eps)
    # Moments of each element's map first: the large tensor is read twice and written once.
    flat = f.flatten(3) if f.ndim > 3 else f.unsqueeze(-1)
    # Squares overflow in half precision.
    flat = flat.to(torch.promote_types(f.dtype, torch.float32))
    variance, mean = torch.var_mean(flat, -1, correction=0)
    weights = group_weights(gate, mean)

    def average(x: Tensor) -> Tensor:
        x = (x * weights).sum(2, keepdim=True)
        return x.mean(1, keepdim=True) if across_channels else x

    centre = average(mean)
    scale = (average(variance + (mean - centre).square()) + eps).rsqrt()
    ones = (1,) * (f.ndim - 3)
    y = (f - centre.unflatten(2, (1, *ones))) * scale.unflatten(2, (1, *ones))
    return y.to(f.dtype)
