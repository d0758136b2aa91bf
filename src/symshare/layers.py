"""Layers whose kernels are transformed copies of base kernels: a stack R, then a convolution."""

import math
from abc import ABC, abstractmethod

import torch
from jaxtyping import Float
from torch import Tensor, nn

from symshare.representations import Measure, Representation

__all__ = [
    "GroupConv2d",
    "GroupInstanceNorm",
    "GroupLayerNorm",
    "GroupLinear",
    "GroupPool",
    "LiftConv2d",
]


class _Conv2d(nn.Module, ABC):
    """What lifting and group convolutions share: base weights, stride, padding, bias."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: tuple[int, int],
        representation: Representation,
        stride: int | tuple[int, int],
        padding: int | tuple[int, int] | str,
        bias: bool,
    ):
        super().__init__()
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.kernel_size = kernel_size
        self.stride = stride
        self.padding = padding
        self.representation = representation
        self.theta, self.bias = _base_weights(
            in_channels, out_channels, _bound_positions(representation), bias
        )

    @abstractmethod
    def kernel(self) -> Tensor:
        """Expanded kernel, as `torch.nn.functional.conv2d` takes it."""

    def _convolve(self, x: Float[Tensor, "B I H W"]) -> Float[Tensor, "B O G H2 W2"]:
        G = self.representation.group_size
        bias = None if self.bias is None else self.bias.repeat_interleave(G)
        padding = 0 if isinstance(self.padding, str) else self.padding
        room = [n + 2 * p for n, p in zip(x.shape[-2:], _pair(padding), strict=True)]
        if self.padding != "same" and any(
            n < k for n, k in zip(room, self.kernel_size, strict=True)
        ):
            raise ValueError(
                f"{type(self).__name__}: a kernel of size {self.kernel_size} does not fit into "
                f"{tuple(x.shape[-2:])} pixels with padding {self.padding}; use a smaller "
                "kernel_size or more padding"
            )
        y = nn.functional.conv2d(x, self.kernel(), bias, self.stride, self.padding)
        return y.unflatten(1, (self.out_channels, G))

    def extra_repr(self) -> str:
        return (
            f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, "
            f"stride={self.stride}, padding={self.padding}, bias={self.bias is not None}"
        )


class LiftConv2d(_Conv2d):
    r"""Lifting convolution: from an image [B, I, H, W] to a map on the group [B, O, G, H', W'].

    .. math:: (k \star f)(x, g) = \sum_{x'} [R_g \theta](x' - x) f(x')

    Eq. (4) of arXiv:2412.04594 with the representation R in place of a known group's action.

    Args:
        in_channels: I.
        out_channels: O, each with G copies.
        kernel_size: side of the kernel, or (height, width).
        representation: the stack R [G, P, P] on the P kernel positions, or one that serves
            every kernel size, such as `Fixed(groups.rotations(4))`.
        stride, padding: as in `torch.nn.Conv2d`. A stride above 1 keeps rotations and flips
            exact only where (size + 2 padding - kernel) is a multiple of it.
        bias: one number for each output channel, shared over G.

    Raises:
        ValueError: if R does not fit the kernel, or the input the layer.

    >>> from symshare import Fixed, groups
    >>> LiftConv2d(3, 8, 5, Fixed(groups.rotations(4)))(torch.ones(2, 3, 9, 9)).shape
    torch.Size([2, 8, 4, 5, 5])
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | tuple[int, int],
        representation: Representation,
        *,
        stride: int | tuple[int, int] = 1,
        padding: int | tuple[int, int] | str = 0,
        bias: bool = True,
    ):
        size = _pair(kernel_size)
        bound = representation.on_kernel(size)
        super().__init__(in_channels, out_channels, size, bound, stride, padding, bias)

    def kernel(self) -> Float[Tensor, "OG I kh kw"]:
        """Expanded kernel, group index fastest among the output channels."""
        return self.representation.expand(self.theta).flatten(0, 1).unflatten(-1, self.kernel_size)

    def forward(self, x: Float[Tensor, "B I H W"]) -> Float[Tensor, "B O G H2 W2"]:
        if x.ndim != 4 or x.shape[1] != self.in_channels:
            raise ValueError(
                f"LiftConv2d: expected an input [B, {self.in_channels}, H, W], got "
                f"{tuple(x.shape)}; maps that already have a group axis go to GroupConv2d"
            )
        return self._convolve(x)


class GroupConv2d(_Conv2d):
    r"""Group convolution: from a map on K elements [B, I, K, H, W] to one on G elements.

    .. math:: (k \star f)(x, g) = \sum_{h, x'} \mu(h) [R_g \theta](h, x' - x) f(x', h)

    Eq. (2) of arXiv:2412.04594 with the representation R in place of a known group's action. For
    C4 the kernel of element g is `roll(rot90(theta, g), g)` over the group axis.

    Args:
        in_channels: I.
        out_channels: O, each with G copies.
        kernel_size: side of the kernel, or (height, width).
        representation: the stack R [G, K*P, K*P] on input elements and kernel positions (K slow,
            P fast), or one that serves every kernel size. Its measure, where it has one, weighs
            the sum over input elements.
        stride, padding, bias: as in :class:`LiftConv2d`.

    Raises:
        ValueError: if R does not fit the kernel, or the input the layer.

    >>> from symshare import Fixed, groups
    >>> layer = GroupConv2d(8, 8, 3, Fixed(groups.rotations(4)), padding=1)
    >>> layer(torch.ones(2, 8, 4, 5, 5)).shape
    torch.Size([2, 8, 4, 5, 5])
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | tuple[int, int],
        representation: Representation,
        *,
        stride: int | tuple[int, int] = 1,
        padding: int | tuple[int, int] | str = 0,
        bias: bool = True,
    ):
        size = _pair(kernel_size)
        bound = representation.on_group(size)
        super().__init__(in_channels, out_channels, size, bound, stride, padding, bias)
        self.in_group_size = _bound_positions(bound) // math.prod(size)
        if bound.gate is not None and bound.group_size != self.in_group_size:
            raise ValueError(
                f"GroupConv2d: a measure on {bound.group_size} elements cannot weigh a sum over "
                f"{self.in_group_size}; use a representation with as many elements in as out"
            )

    def kernel(self) -> Float[Tensor, "OG IK kh kw"]:
        """Expanded kernel, group indices fastest among the channels, the measure multiplied in."""
        W = self.representation.expand(self.theta)
        W = W.unflatten(-1, (self.in_group_size, *self.kernel_size))
        measure = self.representation.measure
        if measure is not None:
            W = W * measure[:, None, None]
        return W.flatten(0, 1).flatten(1, 2)

    def forward(self, f: Float[Tensor, "B I K H W"]) -> Float[Tensor, "B O G H2 W2"]:
        if f.ndim != 5 or f.shape[1:3] != (self.in_channels, self.in_group_size):
            raise ValueError(
                f"GroupConv2d: expected a map [B, {self.in_channels}, {self.in_group_size}, H, W] "
                f"with {self.in_group_size} group elements, got {tuple(f.shape)}; images without "
                "a group axis go to LiftConv2d first"
            )
        return self._convolve(f.flatten(1, 2))


class GroupLinear(nn.Module):
    r"""Linear layer W = R theta on vectors over a G-space, without translation.

    .. math:: y[b, g, o] = \sum_{i, d} [R_g \theta_{oi}](d) \, x[b, d, i] + \beta_o

    Eq. (5) of arXiv:2412.04594, with channels.

    Args:
        in_channels: I.
        out_channels: O.
        representation: the stack R [G, D, D] on the D positions of a vector.
        bias: one number for each output channel, shared over G.

    Raises:
        ValueError: if the representation is not bound to D positions, or the input does not fit.

    >>> from symshare import Fixed, groups
    >>> GroupLinear(1, 3, Fixed(groups.cyclic_shifts(12)))(torch.ones(2, 12, 1)).shape
    torch.Size([2, 12, 3])
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        representation: Representation,
        *,
        bias: bool = True,
    ):
        super().__init__()
        if representation.gate is not None:
            raise ValueError(
                "GroupLinear: it sums over no group, so a learned measure has nothing to weigh; "
                "use Fixed or Sinkhorn, and give the gate to GroupPool"
            )
        self.in_channels = in_channels
        self.representation = representation
        self.theta, self.bias = _base_weights(
            in_channels, out_channels, _bound_positions(representation), bias
        )

    def kernel(self) -> Float[Tensor, "O G I D"]:
        """Expanded weights R theta."""
        return self.representation.expand(self.theta)

    def forward(self, x: Float[Tensor, "B D I"]) -> Float[Tensor, "B G O"]:
        D = self.theta.shape[-1]
        if x.ndim != 3 or x.shape[1:] != (D, self.in_channels):
            raise ValueError(
                f"GroupLinear: expected vectors [B, {D}, {self.in_channels}] (positions, then "
                f"channels), got {tuple(x.shape)}"
            )
        y = torch.einsum("ogid,bdi->bgo", self.kernel(), x)
        return y if self.bias is None else y + self.bias


class GroupPool(nn.Module):
    """Mean over the group axis, weighted by the measure: [B, C, G, ...] to [B, C, ...].

    Args:
        gate: the measure of the representation, `representation.gate`; None weighs all alike.

    >>> GroupPool()(torch.arange(4.0).reshape(1, 1, 4)).item()
    1.5
    """

    def __init__(self, gate: Measure | None = None):
        super().__init__()
        self.gate = gate

    def forward(self, f: Float[Tensor, "B C G *space"]) -> Float[Tensor, "B C *space"]:
        return (f * _weights(self.gate, f)).sum(2)


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
    weights = _weights(gate, mean)

    def average(x: Tensor) -> Tensor:
        x = (x * weights).sum(2, keepdim=True)
        return x.mean(1, keepdim=True) if across_channels else x

    centre = average(mean)
    scale = (average(variance + (mean - centre).square()) + eps).rsqrt()
    ones = (1,) * (f.ndim - 3)
    y = (f - centre.unflatten(2, (1, *ones))) * scale.unflatten(2, (1, *ones))
    return y.to(f.dtype)


def _weights(gate: Measure | None, f: Tensor) -> Tensor:
    """Weights over the group axis of f that sum to one, shaped to multiply f."""
    G = f.shape[2]
    if gate is None:
        return f.new_full((G, *(1,) * (f.ndim - 3)), 1 / G)
    measure = gate()
    if len(measure) != G:
        raise ValueError(
            f"measure over {len(measure)} elements, but the map has {G}: {tuple(f.shape)}; pass "
            "the gate of the representation that made the map"
        )
    return (measure / measure.sum()).reshape(G, *(1,) * (f.ndim - 3))


def _base_weights(
    in_channels: int, out_channels: int, positions: int, bias: bool
) -> tuple[nn.Parameter, nn.Parameter | None]:
    """Base weights theta [O, I, D] and bias [O], initialised as `torch.nn.Conv2d` does."""
    theta = nn.Parameter(torch.empty(out_channels, in_channels, positions))
    bound = 1 / math.sqrt(in_channels * positions)
    nn.init.uniform_(theta, -bound, bound)
    if not bias:
        return theta, None
    return theta, nn.Parameter(torch.empty(out_channels).uniform_(-bound, bound))


def _bound_positions(representation: Representation) -> int:
    if representation.positions is None:
        raise ValueError(
            f"{type(representation).__name__}: this action has no positions of its own; "
            "use .on_kernel((k, k)) to choose a grid"
        )
    return representation.positions


def _pair(size: int | tuple[int, int]) -> tuple[int, int]:
    if isinstance(size, int):
        return (size, size)
    if len(size) != 2:
        raise ValueError(f"expected one number or (height, width), got {tuple(size)}")
    return (size[0], size[1])
