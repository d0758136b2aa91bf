"""The few plain modules of a baked model that `torch.nn` has no equivalent for.

They hold numbers that were learned or measured once, as buffers; nothing in them is shared or
trained.
"""

import torch
from torch import Tensor, nn

__all__ = ["Affine", "Constant", "GroupMean", "Standardise"]


class Constant(nn.Module):
    """A tensor that a module of the user asks for: a baked stack R or measure.

    Args:
        value: returned by every call.

    >>> Constant(torch.ones(2))()
    tensor([1., 1.])
    """

    value: Tensor

    def __init__(self, value: Tensor):
        super().__init__()
        # A constant of the architecture, so not in the state dict.
        self.register_buffer("value", value, persistent=False)

    def forward(self) -> Tensor:
        return self.value


class GroupMean(nn.Module):
    """Mean over the group axis: [B, C, G, ...] to [B, C, ...].

    Args:
        weights: [G], summing to one; None weighs all elements alike.

    >>> GroupMean(torch.tensor([0.75, 0.25]))(torch.tensor([[[1.0, 3.0]]]))
    tensor([[1.5000]])
    """

    weights: Tensor | None

    def __init__(self, weights: Tensor | None = None):
        super().__init__()
        self.register_buffer("weights", weights)

    def forward(self, f: Tensor) -> Tensor:
        if self.weights is None:
            return f.mean(2)
        return (f * _along_group(self.weights, f)).sum(2)


class Standardise(nn.Module):
    """Normalise each sample over group and space, and over channels if asked: no parameters.

    Args:
        weights: of the group elements, [G], summing to one; None weighs all alike.
        across_channels: over channels too.
        eps: added to the variance.

    >>> y = Standardise(None, across_channels=True, eps=1e-5)(torch.randn(2, 3, 4, 5, 5))
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
        if self.weights is None:
            first = 1 if self.across_channels else 2
            return nn.functional.layer_norm(f, f.shape[first:], eps=self.eps)
        # Squares overflow in half precision.
        y = f.to(torch.promote_types(f.dtype, torch.float32))
        centred = y - self._average(y)
        scale = (self._average(centred.square()) + self.eps).rsqrt()
        return (centred * scale).to(f.dtype)

    def _average(self, y: Tensor) -> Tensor:
        assert self.weights is not None
        channels_and_space = ([1] if self.across_channels else []) + list(range(3, y.ndim))
        y = (y * _along_group(self.weights, y)).sum(2, keepdim=True)
        return y.mean(channels_and_space, keepdim=True) if channels_and_space else y

    def extra_repr(self) -> str:
        return f"across_channels={self.across_channels}, eps={self.eps}"


class Affine(nn.Module):
    """Scale and shift of each channel: batch normalisation in eval mode.

    Args:
        scale: [C].
        shift: [C].

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


def _along_group(weights: Tensor, f: Tensor) -> Tensor:
    """Weights [G], shaped to multiply a map whose axis 2 is the group."""
    return weights.view(-1, *(1,) * (f.ndim - 3))
