"""The few plain modules of a baked model that `torch.nn` has no equivalent for.

They hold numbers that were learned or measured once, as buffers; nothing in them is shared or
trained.
"""

from torch import Tensor, nn

from symshare.layers.norms import normalise
from symshare.layers.pooling import group_mean

__all__ = ["Affine", "Frozen", "GroupMean", "Normalise"]


class Frozen(nn.Module):
    """A tensor that a module of the user asks for: a baked stack R or measure.

    Args:
        value: returned by every call.

    >>> import torch
    >>> Frozen(torch.ones(2))()
    tensor([1., 1.])
    """

    value: Tensor

    def __init__(self, value: Tensor):
        super().__init__()
        self.register_buffer("value", value)

    def forward(self) -> Tensor:
        return self.value


class GroupMean(nn.Module):
    """Mean over the group axis: [B, C, G, ...] to [B, C, ...].

    Args:
        weights: [G], summing to one; None weighs all elements alike.

    >>> import torch
    >>> GroupMean(torch.tensor([0.75, 0.25]))(torch.tensor([[[1.0, 3.0]]]))
    tensor([[1.5000]])
    """

    weights: Tensor | None

    def __init__(self, weights: Tensor | None = None):
        super().__init__()
        self.register_buffer("weights", weights)

    def forward(self, f: Tensor) -> Tensor:
        return group_mean(f, self.weights)


class Normalise(nn.Module):
    """Standardise each sample over group and space, and over channels if asked: no parameters.

    Args:
        weights: of the group elements, [G], summing to one; None weighs all alike.
        across_channels: over channels too.
        eps: added to the variance.

    >>> import torch
    >>> y = Normalise(None, across_channels=True, eps=1e-5)(torch.randn(2, 3, 4, 5, 5))
    >>> bool(y.mean((1, 2, 3, 4)).abs().max() < 1e-5)
    True
    """

    weights: Tensor | None

    def __init__(self, weights: Tensor | None, across_channels: bool, eps: float):
        super().__init__()
        self.register_buffer("weights", weights)
        self.across_channels = across_channels
        self.eps = eps

    def forward(self, f: Tensor) -> Tensor:
        return normalise(f, self.weights, self.across_channels, self.eps)

    def extra_repr(self) -> str:
        return f"across_channels={self.across_channels}, eps={self.eps}"


class Affine(nn.Module):
    """Scale and shift of each channel: batch normalisation in eval mode.

    Args:
        scale: [C].
        shift: [C].

    >>> import torch
    >>> Affine(torch.tensor([2.0]), torch.tensor([1.0]))(torch.ones(1, 1, 2))
    tensor([[[3., 3.]]])
    """

    scale: Tensor
    shift: Tensor

    def __init__(self, scale: Tensor, shift: Tensor):
        super().__init__()
        self.register_buffer("scale", scale)
        self.register_buffer("shift", shift)

    def forward(self, f: Tensor) -> Tensor:
        shape = (-1, *(1,) * (f.ndim - 2))
        return (f * self.scale.view(shape) + self.shift.view(shape)).to(f.dtype)
