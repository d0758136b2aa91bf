"""Convolutions whose kernels are copies of base kernels, in one to three dimensions."""

import warnings
from operator import attrgetter
from typing import Any, ClassVar

import torch
from jaxtyping import Float
from torch import Tensor
from torch.types import Device

from symshare.layers import functional
from symshare.layers.geometry import Geometry, PaddingMode, Size
from symshare.layers.weights import WeightSharing
from symshare.representations import Representation, Stack

__all__ = [
    "Convolution",
    "GroupConv1d",
    "GroupConv2d",
    "GroupConv3d",
    "GroupConvTranspose1d",
    "GroupConvTranspose2d",
    "GroupConvTranspose3d",
    "LiftConv1d",
    "LiftConv2d",
    "LiftConv3d",
    "LiftConvTranspose1d",
    "LiftConvTranspose2d",
    "LiftConvTranspose3d",
]


def _option(name: str) -> Any:
    """An option by the name that it has in `torch.nn`."""
    return property(attrgetter(f"geometry.{name}"))


class Convolution(WeightSharing):
    """A convolution whose kernels are copies of base kernels, made by a representation.

    Attributes:
        geometry: the options of the convolution. They can be read one by one as well, under the
            names that they have in torch; to change some, put another geometry in its place.
        in_group_size: K, the elements of the input; None for a lifting layer.
    """

    dims: ClassVar[int]
    lifting: ClassVar[bool]
    transposed: ClassVar[bool]

    kernel_size = _option("kernel_size")
    stride = _option("stride")
    padding = _option("padding")
    padding_mode = _option("padding_mode")
    dilation = _option("dilation")
    groups = _option("groups")
    output_padding = _option("output_padding")

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        representation: Representation | None,
        bias: bool,
        device: Device,
        dtype: torch.dtype | None,
        **options: Any,
    ):
        super().__init__(in_channels, out_channels)
        who = type(self).__name__
        self.geometry = Geometry.read(who, self.dims, transposed=self.transposed, **options)
        self.geometry.check_channels(who, in_channels, out_channels)
        self._share(representation, self.geometry.groups, bias, device, dtype)
        self.in_group_size = None if self.lifting else self.theta.shape[-1] // self.geometry.taps
        self._said_sizes = False
        if not self.geometry.centred and self.representation.group_size > 1:
            self._warn_off_centre()

    def kernel(self) -> Float[Tensor, "A C *k"]:
        """Expanded kernel, as torch's convolution of this kind takes it.

        Returns:
            [O*G, I/groups*K, *kernel_size], or [I*K, O/groups*G, *kernel_size] when transposed
            (K = 1 for lifting layers). The group indices are the fast ones, and the measure of
            a group layer is multiplied in.
        """
        return functional.weight(self.stack.expand(self.theta), self.geometry, self._measure())

    def forward(self, f: Float[Tensor, "B I *space"]) -> Float[Tensor, "B O G *out"]:
        self.geometry.check_input(type(self).__name__, f, self.in_channels, self.in_group_size)
        if not (self._said_sizes or torch.compiler.is_compiling()):
            self._check_sizes(tuple(f.shape[-self.dims :]))
        W = self.stack.expand(self.theta)
        return functional.convolve(f, W, self.bias, self.geometry, self._measure())

    def _stack_of(self, representation: Representation) -> Stack:
        size = self.geometry.kernel_size
        if self.lifting:
            return representation.on_kernel(size)
        stack = representation.on_group(size)
        G, K = stack.group_size, stack.positions // self.geometry.taps
        if stack.gate is not None and G != K:
            raise ValueError(
                f"{type(self).__name__}: a measure on {G} elements cannot weigh a sum over {K}; "
                "use a representation with as many elements in as out"
            )
        return stack

    def _measure(self) -> Tensor | None:
        return None if self.lifting else self.representation.measure

    def _check_sizes(self, space: tuple[int, ...]) -> None:
        """Warn once where a stride puts the sampled positions off centre."""
        leftover = self.geometry.leftover(space)
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

    def _warn_off_centre(self) -> None:
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
        representation: Representation | None = None,
        *,
        stride: Size = 1,
        padding: Size | str = 0,
        dilation: Size = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: PaddingMode = "zeros",
        device: Device = None,
        dtype: torch.dtype | None = None,
    ):
        """Make base weights and bind the representation.

        Args:
            in_channels: I.
            out_channels: O, each with G copies.
            kernel_size: one length, or one for each axis; odd or even.
            representation: how kernels are transformed, such as `Fixed(groups.rotations(4))`.
            stride: step of the kernel, in pixels. Above 1 it keeps rotations and flips exact
                only where size + 2 padding - dilation (kernel - 1) - 1 is a multiple of it.
            padding: pixels added on both sides, "valid" (none) or "same" (as many as keep the
                size; needs stride 1).
            dilation: distance of neighbouring taps, in pixels.
            groups: blocks of channels that do not see each other; divides I and O.
            bias: whether to add one number for each output channel, shared over G.
            padding_mode: what is added: "zeros", "reflect", "replicate" or "circular".
            device: where the layer is, as in torch; learned stacks stay where they are.
            dtype: type of the parameters, as in torch.

        Raises:
            TypeError: if the representation is not one.
            ValueError: if there are no channels, options do not go together, or R does not fit the
                kernel.
        """
        super().__init__(
            in_channels,
            out_channels,
            representation,
            bias,
            device,
            dtype,
            kernel_size=kernel_size,
            stride=stride,
            padding=padding,
            padding_mode=padding_mode,
            dilation=dilation,
            groups=groups,
        )


class TransposedConvolution(Convolution):
    """Lifting and group convolutions with the options of `torch.nn.ConvTranspose*d`."""

    transposed = True

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Size,
        representation: Representation | None = None,
        *,
        stride: Size = 1,
        padding: Size = 0,
        output_padding: Size = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Size = 1,
        padding_mode: PaddingMode = "zeros",
        device: Device = None,
        dtype: torch.dtype | None = None,
    ):
        """Make base weights and bind the representation.

        Args:
            in_channels: I.
            out_channels: O, each with G copies.
            kernel_size: one length, or one for each axis; odd or even.
            representation: how kernels are transformed, such as `Fixed(groups.rotations(4))`.
            stride: distance of the stamped kernels, in pixels.
            padding: pixels cut off on both sides of the output.
            output_padding: pixels added on one side of the output, less than the stride or the
                dilation. They put it off centre, so that flips and rotations are not exact.
            groups: blocks of channels that do not see each other; divides I and O.
            bias: whether to add one number for each output channel, shared over G.
            dilation: distance of neighbouring taps, in pixels.
            padding_mode: only "zeros", as in torch.
            device: where the layer is, as in torch; learned stacks stay where they are.
            dtype: type of the parameters, as in torch.

        Raises:
            TypeError: if the representation is not one.
            ValueError: if there are no channels, options do not go together, or R does not fit the
                kernel.
        """
        super().__init__(
            in_channels,
            out_channels,
            representation,
            bias,
            device,
            dtype,
            kernel_size=kernel_size,
            stride=stride,
            padding=padding,
            padding_mode=padding_mode,
            dilation=dilation,
            groups=groups,
            output_padding=output_padding,
        )


class LiftConv1d(PlainConvolution):
    """Lifting convolution of signals: from [B, I, L] to [B, O, G, L'].

    :class:`LiftConv2d` has the equation; `__init__` describes the arguments.

    >>> import torch
    >>> from symshare import Fixed, groups
    >>> representation = Fixed(groups.ring_dihedral(12))
    >>> layer = LiftConv1d(3, 8, 5, representation, padding=2, padding_mode="circular")
    >>> layer(torch.ones(2, 3, 12)).shape
    torch.Size([2, 8, 24, 12])
    """

    dims = 1
    lifting = True


class LiftConv2d(PlainConvolution):
    r"""Lifting convolution of images: from [B, I, H, W] to [B, O, G, H', W'].

    .. math:: (k \star f)(x, g) = \sum_{x'} [R_g \theta](x' - x) f(x')

    Eq. (4) of arXiv:2412.04594 with the representation R [G, P, P] on the P kernel positions in
    place of a known group's action. `__init__` describes the arguments.

    >>> import torch
    >>> from symshare import Fixed, groups
    >>> LiftConv2d(3, 8, 5, Fixed(groups.rotations(4)))(torch.ones(2, 3, 9, 9)).shape
    torch.Size([2, 8, 4, 5, 5])
    """

    dims = 2
    lifting = True


class LiftConv3d(PlainConvolution):
    """Lifting convolution of volumes: from [B, I, D, H, W] to [B, O, G, D', H', W'].

    :class:`LiftConv2d` has equation and example; `__init__` describes the arguments.
    """

    dims = 3
    lifting = True


class GroupConv1d(PlainConvolution):
    """Group convolution of signals: from [B, I, K, L] to [B, O, G, L'].

    :class:`GroupConv2d` has equation and example; `__init__` describes the arguments.
    """

    dims = 1
    lifting = False


class GroupConv2d(PlainConvolution):
    r"""Group convolution of images: from [B, I, K, H, W] to [B, O, G, H', W'].

    .. math:: (k \star f)(x, g) = \sum_{h, x'} \mu(h) [R_g \theta](h, x' - x) f(x', h)

    Eq. (2) of arXiv:2412.04594 with the representation R [G, K*P, K*P] (K slow, P fast) in place
    of a known group's action. For C4 the kernel of element g is `roll(rot90(theta, g), g)` over
    the group axis. The measure of the representation, where it has one, weighs the sum over the
    K input elements. `__init__` describes the arguments.

    >>> import torch
    >>> from symshare import Fixed, groups
    >>> layer = GroupConv2d(8, 8, 3, Fixed(groups.rotations(4)), padding=1)
    >>> layer(torch.ones(2, 8, 4, 5, 5)).shape
    torch.Size([2, 8, 4, 5, 5])
    """

    dims = 2
    lifting = False


class GroupConv3d(PlainConvolution):
    """Group convolution of volumes: from [B, I, K, D, H, W] to [B, O, G, D', H', W'].

    :class:`GroupConv2d` has equation and example; `__init__` describes the arguments.
    """

    dims = 3
    lifting = False


class LiftConvTranspose1d(TransposedConvolution):
    """Transposed lifting convolution of signals: from [B, I, L] to [B, O, G, L'].

    :class:`LiftConvTranspose2d` has equation and example; `__init__` describes the arguments.
    """

    dims = 1
    lifting = True


class LiftConvTranspose2d(TransposedConvolution):
    r"""Transposed lifting convolution of images: from [B, I, H, W] to [B, O, G, H', W'].

    .. math:: y(x, g) = \sum_{x'} [R_g \theta](x - s x') f(x')

    with stride s: every pixel x' stamps the kernels of all elements, as in Section 4 of
    arXiv:1603.07285. R [G, P, P] acts on the P kernel positions. `__init__` describes the
    arguments.

    >>> import torch
    >>> from symshare import Fixed, groups
    >>> layer = LiftConvTranspose2d(3, 8, 2, Fixed(groups.rotations(4)), stride=2)
    >>> layer(torch.ones(2, 3, 5, 5)).shape
    torch.Size([2, 8, 4, 10, 10])
    """

    dims = 2
    lifting = True


class LiftConvTranspose3d(TransposedConvolution):
    """Transposed lifting convolution of volumes: from [B, I, D, H, W] to [B, O, G, D', H', W'].

    :class:`LiftConvTranspose2d` has equation and example; `__init__` describes the arguments.
    """

    dims = 3
    lifting = True


class GroupConvTranspose1d(TransposedConvolution):
    """Transposed group convolution of signals: from [B, I, K, L] to [B, O, G, L'].

    :class:`GroupConvTranspose2d` has equation and example; `__init__` describes the arguments.
    """

    dims = 1
    lifting = False


class GroupConvTranspose2d(TransposedConvolution):
    r"""Transposed group convolution of images: from [B, I, K, H, W] to [B, O, G, H', W'].

    .. math:: y(x, g) = \sum_{h, x'} \mu(h) [R_g \theta](h, x - s x') f(x', h)

    with stride s: every pixel x' stamps the kernels of all elements, as in Section 4 of
    arXiv:1603.07285. R [G, K*P, K*P] acts on input elements and kernel positions (K slow, P
    fast), as in :class:`GroupConv2d`. `__init__` describes the arguments.

    >>> import torch
    >>> from symshare import Fixed, groups
    >>> layer = GroupConvTranspose2d(8, 8, 2, Fixed(groups.rotations(4)), stride=2)
    >>> layer(torch.ones(2, 8, 4, 5, 5)).shape
    torch.Size([2, 8, 4, 10, 10])
    """

    dims = 2
    lifting = False


class GroupConvTranspose3d(TransposedConvolution):
    """Transposed group convolution of volumes: from [B, I, K, D, H, W] to [B, O, G, D', H', W'].

    :class:`GroupConvTranspose2d` has equation and example; `__init__` describes the arguments.
    """

    dims = 3
    lifting = False
