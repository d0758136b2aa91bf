"""What all convolution layers share; the layers themselves say how many axes, and from what."""

import warnings
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from symshare.layers import functional
from symshare.layers.geometry import Geometry, PaddingMode, Size
from symshare.layers.weights import (
    base_weights,
    check_channels,
    check_representation,
    positions_of,
)
from symshare.representations import Representation
from symshare.representations.state import Versioned


class Convolution(Versioned):
    """A convolution whose kernels are copies of base kernels, made by a representation.

    Attributes:
        in_channels: I.
        out_channels: O, each with G copies.
        kernel_size, stride, padding, padding_mode, dilation, groups, output_padding: options of
            the convolution, one number for each axis.
        transposed: whether it is a transposed convolution.
        representation: the stack R, bound to this layer's kernel.
        in_group_size: K, the elements of the input; None for a lifting layer.
        theta: base weights [O, I/groups, D].
        bias: [O], shared over G, or None.
    """

    dims: ClassVar[int]
    lifting: ClassVar[bool]
    transposed: ClassVar[bool]

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        representation: Representation,
        geometry: Geometry,
        bias: bool,
    ):
        super().__init__()
        who = type(self).__name__
        check_representation(who, representation)
        check_channels(who, in_channels, out_channels)
        geometry.check_channels(who, in_channels, out_channels)
        size = geometry.kernel_size
        bound = representation.on_kernel(size) if self.lifting else representation.on_group(size)
        D = positions_of(bound)
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.kernel_size = size
        self.stride = geometry.stride
        self.padding = geometry.padding
        self.padding_mode: PaddingMode = geometry.padding_mode
        self.dilation = geometry.dilation
        self.groups = geometry.groups
        self.output_padding = geometry.output_padding
        self.in_group_size = None if self.lifting else D // geometry.taps
        self.representation = bound
        self.theta, self.bias = base_weights(out_channels, in_channels // self.groups, D, bias)
        if bound.gate is not None and self.in_group_size not in (None, bound.group_size):
            raise ValueError(
                f"{who}: a measure on {bound.group_size} elements cannot weigh a sum over "
                f"{self.in_group_size}; use a representation with as many elements in as out"
            )
        self._said_sizes = False
        if not geometry.centred and bound.group_size > 1:
            self._warn_off_centre(geometry)

    @property
    def geometry(self) -> Geometry:
        """The options of the convolution."""
        return Geometry(
            kernel_size=self.kernel_size,
            stride=self.stride,
            padding=self.padding,
            padding_mode=self.padding_mode,
            dilation=self.dilation,
            groups=self.groups,
            output_padding=self.output_padding,
            transposed=self.transposed,
        )

    def kernel(self) -> Float[Tensor, "A C *k"]:
        """Expanded kernel, as torch's convolution of this kind takes it.

        Returns:
            [O*G, I/groups*K, *kernel_size], or [I*K, O/groups*G, *kernel_size] when transposed
            (K = 1 for lifting layers). The group indices are the fast ones, and the measure of
            a group layer is multiplied in.
        """
        return functional.weight(self._expanded(), self.geometry, self._measure())

    def forward(self, f: Float[Tensor, "B I *space"]) -> Float[Tensor, "B O G *out"]:
        geometry = self.geometry
        geometry.check_input(type(self).__name__, f, self.in_channels, self.in_group_size)
        if not (self._said_sizes or torch.compiler.is_compiling()):
            self._check_sizes(geometry, tuple(f.shape[-self.dims :]))
        return functional.convolve(f, self._expanded(), self.bias, geometry, self._measure())

    def _expanded(self) -> Tensor:
        return self.representation.expand(self.theta)

    def _measure(self) -> Tensor | None:
        return None if self.lifting else self.representation.measure

    def _check_sizes(self, geometry: Geometry, space: tuple[int, ...]) -> None:
        """Warn once where a stride puts the sampled positions off centre."""
        leftover = geometry.leftover(space)
        if self.representation.group_size == 1 or not any(leftover):
            return
        self._said_sizes = True
        smaller = tuple(n - r for n, r in zip(space, leftover, strict=True))
        larger = tuple(
            n + (s - r) % s for n, r, s in zip(space, leftover, self.stride, strict=True)
        )
        warnings.warn(
            f"{type(self).__name__}({self.extra_repr()}): on inputs of size {space} flips and "
            "rotations are not exact, since size + 2 padding - dilation (kernel - 1) - 1 is no "
            f"multiple of the stride; use inputs of size {smaller} or {larger}, or stride 1 and "
            "a pooling layer after it",
            UserWarning,
            stacklevel=2,
        )

    def _warn_off_centre(self, geometry: Geometry) -> None:
        if self.transposed:
            reason = "output_padding adds pixels on one side only"
            remedy = "use output_padding=0 with a kernel size that gives the wanted size"
        else:
            reason = "padding='same' with an even kernel pads one side more than the other"
            remedy = "use an odd kernel_size, or padding as a number"
        warnings.warn(
            f"{type(self).__name__}({self.extra_repr()}): {reason}, so that flips and rotations "
            f"are not exact; {remedy}",
            UserWarning,
            stacklevel=4,
        )

    def extra_repr(self) -> str:
        parts = [
            f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}",
            f"stride={self.stride}, padding={self.padding!r}",
        ]
        if any(self.output_padding):
            parts.append(f"output_padding={self.output_padding}")
        if set(self.dilation) != {1}:
            parts.append(f"dilation={self.dilation}")
        if self.groups != 1:
            parts.append(f"groups={self.groups}")
        if self.padding_mode != "zeros":
            parts.append(f"padding_mode={self.padding_mode!r}")
        if self.bias is None:
            parts.append("bias=False")
        return ", ".join(parts)


class PlainConvolution(Convolution):
    """Lifting and group convolutions with the options of `torch.nn.Conv*d`."""

    transposed = False

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Size,
        representation: Representation,
        *,
        stride: Size = 1,
        padding: Size | str = 0,
        dilation: Size = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: PaddingMode = "zeros",
    ):
        """Make base weights and bind the representation.

        Args:
            in_channels: I.
            out_channels: O, each with G copies.
            kernel_size: one length, or one for each axis; odd or even.
            representation: the stack R, or one that serves every kernel size, such as
                `Fixed(groups.rotations(4))`.
            stride: step of the kernel, in pixels. Above 1 it keeps rotations and flips exact
                only where size + 2 padding - dilation (kernel - 1) - 1 is a multiple of it.
            padding: pixels added on both sides, "valid" (none) or "same" (as many as keep the
                size; needs stride 1).
            dilation: distance of neighbouring taps, in pixels.
            groups: blocks of channels that do not see each other; divides I and O.
            bias: whether to add one number for each output channel, shared over G.
            padding_mode: what is added: "zeros", "reflect", "replicate" or "circular".

        Raises:
            TypeError: if the representation is not one.
            ValueError: if there are no channels, options do not go together, or R does not fit the
                kernel.
        """
        geometry = Geometry.read(
            type(self).__name__,
            self.dims,
            kernel_size=kernel_size,
            stride=stride,
            padding=padding,
            padding_mode=padding_mode,
            dilation=dilation,
            groups=groups,
        )
        super().__init__(in_channels, out_channels, representation, geometry, bias)


class TransposedConvolution(Convolution):
    """Lifting and group convolutions with the options of `torch.nn.ConvTranspose*d`."""

    transposed = True

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Size,
        representation: Representation,
        *,
        stride: Size = 1,
        padding: Size = 0,
        output_padding: Size = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Size = 1,
        padding_mode: PaddingMode = "zeros",
    ):
        """Make base weights and bind the representation.

        Args:
            in_channels: I.
            out_channels: O, each with G copies.
            kernel_size: one length, or one for each axis; odd or even.
            representation: the stack R, or one that serves every kernel size, such as
                `Fixed(groups.rotations(4))`.
            stride: distance of the stamped kernels, in pixels.
            padding: pixels cut off on both sides of the output.
            output_padding: pixels added on one side of the output, less than the stride or the
                dilation. They put it off centre, so that flips and rotations are not exact.
            groups: blocks of channels that do not see each other; divides I and O.
            bias: whether to add one number for each output channel, shared over G.
            dilation: distance of neighbouring taps, in pixels.
            padding_mode: only "zeros", as in torch.

        Raises:
            TypeError: if the representation is not one.
            ValueError: if there are no channels, options do not go together, or R does not fit the
                kernel.
        """
        geometry = Geometry.read(
            type(self).__name__,
            self.dims,
            kernel_size=kernel_size,
            stride=stride,
            padding=padding,
            padding_mode=padding_mode,
            dilation=dilation,
            groups=groups,
            output_padding=output_padding,
            transposed=True,
        )
        super().__init__(in_channels, out_channels, representation, geometry, bias)
