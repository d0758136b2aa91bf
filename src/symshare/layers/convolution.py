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


def _option(name: str) -> Any:
    """An option by the name that it has in `torch.nn`."""
    return property(attrgetter(f"geometry.{name}"))


class Convolution(WeightSharing):
    """A convolution whose kernels are copies of base kernels, made by a representation.

    A lifting layer moves the kernels of all channels alike, where R acts on the P kernel positions,
    or moves channels too, where R acts on D = I * P numbers (channels slow): then base weights are
    [O, 1, I * P].

    Attributes:
        geometry: the options of the convolution. They can be read one by one as well, under the
            names that they have in torch; to change some, put another geometry in its place.
        in_group_size: K, the elements of the input; None for a lifting layer.
    """

    dims: ClassVar[int]
    lifting: ClassVar[bool]
    transposed: ClassVar[bool] = False

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
        kernel_size: Size,
        representation: Representation | None = None,
        *,
        stride: Size = 1,
        padding: Size | str = 0,
        output_padding: Size = 0,
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
            stride: step of the kernel, in pixels; transposed, the distance of the stamped kernels.
                Above 1 a step keeps rotations and flips exact only where size + 2 padding -
                dilation (kernel - 1) - 1 is a multiple of it.
            padding: pixels added on both sides, "valid" (none) or "same" (as many as keep the
                size; needs stride 1). Transposed: a number, of pixels cut off on both sides of the
                output.
            output_padding: of transposed convolutions: pixels added on one side of the output,
                less than the stride or the dilation. They put it off centre, so that flips and
                rotations are not exact.
            dilation: distance of neighbouring taps, in pixels.
            groups: blocks of channels that do not see each other; divides I and O.
            bias: whether to add one number for each output channel, shared over G.
            padding_mode: what is added: "zeros", "reflect", "replicate" or "circular"; transposed,
                only "zeros", as in torch.
            device: where the layer is, as in torch; learned stacks stay where they are.
            dtype: type of the parameters, as in torch.

        Raises:
            TypeError: if the representation is not one.
            ValueError: if there are no channels, options do not go together, or R does not fit the
                kernel.
        """
        super().__init__(in_channels, out_channels)
        who = type(self).__name__
        self.geometry = Geometry.read(
            who,
            self.dims,
            kernel_size,
            stride=stride,
            padding=padding,
            padding_mode=padding_mode,
            dilation=dilation,
            groups=groups,
            output_padding=output_padding,
            transposed=self.transposed,
        )
        self.geometry.check_channels(who, in_channels, out_channels)
        self._share(representation, self.geometry.groups, bias, device, dtype)
        self.in_group_size = None if self.lifting else self.theta.shape[-1] // self.geometry.taps
        self._said_size = False
        if not self.geometry.centred and self.representation.group_size > 1:
            if self.transposed:
                reason = "output_padding adds pixels on one side only"
                remedy = "use output_padding=0 with a kernel size that gives the wanted size"
            else:
                reason = "padding='same' with an even kernel pads one side more than the other"
                remedy = "use an odd kernel_size, or padding as a number"
            warnings.warn(
                f"{who}({self.extra_repr()}): {reason}, so that flips and rotations are not "
                f"exact; {remedy}",
                UserWarning,
                stacklevel=2,
            )

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
        one = self.representation.group_size == 1
        if not (one or self._said_size or torch.compiler.is_compiling()):
            who, space = f"{type(self).__name__}({self.extra_repr()})", f.shape[-self.dims :]
            remedy = ", or stride 1 and a pooling layer after it"
            self._said_size = self.geometry.warn_of_size(who, space, "inputs", remedy)
        W = self.stack.expand(self.theta)
        return functional.convolve(f, W, self.bias, self.geometry, self._measure())

    def __setattr__(self, name: str, value: Any) -> None:
        """As in torch; another geometry is checked, and has to fit the base weights."""
        if name == "geometry" and hasattr(self, "theta"):
            who, old = type(self).__name__, self.geometry
            value = Geometry.read(who, self.dims, *value)
            if (value.kernel_size, value.groups) != (old.kernel_size, old.groups):
                raise ValueError(
                    f"{who}: its base weights are for kernel_size={old.kernel_size} and "
                    f"groups={old.groups}, got {value.kernel_size} and {value.groups}; make "
                    "another layer"
                )
        super().__setattr__(name, value)

    def _stack_of(self, representation: Representation) -> Stack:
        size = self.geometry.kernel_size
        if self.lifting:
            return representation.on_input(self.in_channels // self.geometry.groups, size)
        stack = representation.on_group(size)
        G, K = stack.group_size, stack.positions // self.geometry.taps
        if stack.gate is not None and G != K:
            raise ValueError(
                f"{type(self).__name__}: a measure on {G} elements cannot weigh a sum over {K}; "
                "use a representation with as many elements in as out"
            )
        return stack

    @property
    def mixes_channels(self) -> bool:
        """Whether it is a lifting layer whose R acts on channels and positions together."""
        return self.lifting and self.stack.positions != self.geometry.taps

    def _blocks(self, groups: int) -> int:
        return 1 if self.mixes_channels else super()._blocks(groups)

    def _measure(self) -> Tensor | None:
        return None if self.lifting else self.representation.measure

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


class LiftConv1d(Convolution):
    """:class:`LiftConv2d` of signals: [B, I, L] to [B, O, G, L'].

    >>> import torch
    >>> from symshare import Fixed, groups
    >>> representation = Fixed(groups.ring_dihedral(12))
    >>> layer = LiftConv1d(3, 8, 5, representation, padding=2, padding_mode="circular")
    >>> layer(torch.ones(2, 3, 12)).shape
    torch.Size([2, 8, 24, 12])
    """

    dims, lifting = 1, True


class LiftConv2d(Convolution):
    r"""Lifting convolution of images: from [B, I, H, W] to [B, O, G, H', W'].

    .. math:: (k \star f)(x, g) = \sum_{x'} [R_g \theta](x' - x) f(x')

    Eq. (4) of arXiv:2412.04594 with the representation R [G, P, P] on the P kernel positions in
    place of a known group's action. `__init__` describes the arguments.

    >>> import torch
    >>> from symshare import Fixed, groups
    >>> LiftConv2d(3, 8, 5, Fixed(groups.rotations(4)))(torch.ones(2, 3, 9, 9)).shape
    torch.Size([2, 8, 4, 5, 5])
    """

    dims, lifting = 2, True


class LiftConv3d(Convolution):
    """:class:`LiftConv2d` of volumes: [B, I, D, H, W] to [B, O, G, D', H', W']."""

    dims, lifting = 3, True


class GroupConv1d(Convolution):
    """:class:`GroupConv2d` of signals: [B, I, K, L] to [B, O, G, L']."""

    dims, lifting = 1, False


class GroupConv2d(Convolution):
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

    dims, lifting = 2, False


class GroupConv3d(Convolution):
    """:class:`GroupConv2d` of volumes: [B, I, K, D, H, W] to [B, O, G, D', H', W']."""

    dims, lifting = 3, False


class LiftConvTranspose1d(Convolution):
    """:class:`LiftConvTranspose2d` of signals: [B, I, L] to [B, O, G, L']."""

    dims, lifting, transposed = 1, True, True


class LiftConvTranspose2d(Convolution):
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

    dims, lifting, transposed = 2, True, True


class LiftConvTranspose3d(Convolution):
    """:class:`LiftConvTranspose2d` of volumes: [B, I, D, H, W] to [B, O, G, D', H', W']."""

    dims, lifting, transposed = 3, True, True


class GroupConvTranspose1d(Convolution):
    """:class:`GroupConvTranspose2d` of signals: [B, I, K, L] to [B, O, G, L']."""

    dims, lifting, transposed = 1, False, True


class GroupConvTranspose2d(Convolution):
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

    dims, lifting, transposed = 2, False, True


class GroupConvTranspose3d(Convolution):
    """:class:`GroupConvTranspose2d` of volumes: [B, I, K, D, H, W] to [B, O, G, D', H', W']."""

    dims, lifting, transposed = 3, False, True
