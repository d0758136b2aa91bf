"""Options of a convolution, for any number of spatial axes: read, checked and put to use."""

import math
import warnings
from collections.abc import Sequence
from typing import Literal, NamedTuple, TypedDict, get_args

import torch
from torch import Tensor

from symshare.groups.shape import each_axis

Size = int | Sequence[int]
PaddingMode = Literal["zeros", "reflect", "replicate", "circular"]

_AXES = {1: "L", 2: "H, W", 3: "D, H, W"}


class Options(TypedDict, total=False):
    """What torch's convolutions take beside the length of the kernel, for any number of axes."""

    stride: Size
    padding: Size | str
    padding_mode: PaddingMode
    dilation: Size
    groups: int


class TransposedOptions(TypedDict, total=False):
    """What torch's transposed convolutions take."""

    stride: Size
    padding: Size
    output_padding: Size
    dilation: Size
    groups: int


class Geometry(NamedTuple):
    """Options of `torch.nn.Conv*d` and `torch.nn.ConvTranspose*d`, one number for each axis.

    Build it with :meth:`read`, which takes what torch takes and checks it.

    >>> Geometry.read("doc", 2, kernel_size=3, padding="same").margins
    ((1, 1), (1, 1))
    """

    kernel_size: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...] | str
    padding_mode: PaddingMode
    dilation: tuple[int, ...]
    groups: int
    output_padding: tuple[int, ...]
    transposed: bool

    @classmethod
    def read(
        cls,
        who: str,
        dims: int,
        kernel_size: Size,
        stride: Size = 1,
        padding: Size | str = 0,
        padding_mode: PaddingMode = "zeros",
        dilation: Size = 1,
        groups: int = 1,
        output_padding: Size = 0,
        transposed: bool = False,
    ) -> "Geometry":
        """The options of torch as numbers for each of `dims` axes; one number stands for all axes.

        They come in the order of the fields.

        Raises:
            ValueError: naming `who`, for options that torch does not know, or that do not go
                together.
        """
        if dims not in _AXES:
            raise ValueError(f"{who}: expected a kernel of 1, 2 or 3 axes, got {dims}")

        def each(name: str, value: Size, least: int) -> tuple[int, ...]:
            numbers = each_axis(value, dims)
            if len(numbers) != dims or min(numbers) < least:
                raise ValueError(
                    f"{who}: {name} must be one number or {dims}, each at least {least}, got "
                    f"{value}"
                )
            return numbers

        geometry = cls(
            kernel_size=each("kernel_size", kernel_size, 1),
            stride=each("stride", stride, 1),
            padding=padding if isinstance(padding, str) else each("padding", padding, 0),
            padding_mode=padding_mode,
            dilation=each("dilation", dilation, 1),
            groups=groups,
            output_padding=each("output_padding", output_padding, 0),
            transposed=transposed,
        )
        geometry._check_combination(who)
        return geometry

    @property
    def dims(self) -> int:
        """Number of spatial axes."""
        return len(self.kernel_size)

    @property
    def taps(self) -> int:
        """P, the number of kernel positions."""
        return math.prod(self.kernel_size)

    @property
    def margins(self) -> tuple[tuple[int, int], ...]:
        """Padding before and after each axis; with "same", the odd one comes after, as in torch."""
        if self.padding == "same":
            spans = [d * (k - 1) for d, k in zip(self.dilation, self.kernel_size, strict=True)]
            return tuple((span // 2, span - span // 2) for span in spans)
        if isinstance(self.padding, str):
            return ((0, 0),) * self.dims
        return tuple((p, p) for p in self.padding)

    @property
    def centred(self) -> bool:
        """Whether the output keeps the centre of the input, whatever its size, at stride 1."""
        return all(a == b for a, b in self.margins) and not any(self.output_padding)

    def warn_of_size(self, who: str, space: Sequence[int], kind: str, otherwise: str = "") -> bool:
        """Warn where the stride leaves pixels at the end of an axis, and say whether it did.

        The sampled positions then lie off centre, so that a flip or a rotation of the input
        samples other positions. The warning names the layer, what kind of thing it takes, and
        what to do otherwise than to change the size.
        """
        along = list(zip(space, self._reach, self.stride, strict=True))
        smaller = tuple(n - (n - reach - 1) % s for n, reach, s in along)
        larger = tuple(n + (reach + 1 - n) % s for n, reach, s in along)
        if self.transposed or smaller == larger:
            return False
        warnings.warn(
            f"{who}: on {kind} of size {tuple(space)} flips and rotations are not exact, since "
            "size + 2 padding - dilation (kernel - 1) - 1 is no multiple of the stride; use "
            f"{kind} of size {smaller} or {larger}{otherwise}",
            UserWarning,
            stacklevel=2,
        )
        return True

    def check_channels(self, who: str, in_channels: int, out_channels: int) -> None:
        """Refuse channels that `groups` does not divide."""
        if self.groups < 1 or in_channels % self.groups or out_channels % self.groups:
            raise ValueError(
                f"{who}: groups={self.groups} does not divide in_channels={in_channels} and "
                f"out_channels={out_channels}; use a common divisor"
            )

    def check_input(self, who: str, f: Tensor, channels: int, elements: int | None = None) -> None:
        """Refuse a tensor that is no [B, channels, *space], or [B, channels, elements, *space]."""
        expected = (channels,) if elements is None else (channels, elements)
        if f.ndim != 1 + len(expected) + self.dims or f.shape[1 : 1 + len(expected)] != expected:
            kind = "an input" if elements is None else "a map"
            shape = ", ".join(["B", *map(str, expected), _AXES[self.dims]])
            count = "" if elements is None else f" with {elements} group elements"
            raise ValueError(
                f"{who}: expected {kind} [{shape}]{count}, got {tuple(f.shape)}; "
                f"{self._remedy(f, channels, elements)}"
            )
        # While a graph is traced, sizes may be unknown, and asking would fix them.
        if not torch.compiler.is_compiling():
            self._check_space(who, f.shape[-self.dims :])

    def _remedy(self, f: Tensor, channels: int, elements: int | None) -> str:
        axes = f.ndim - self.dims
        if elements is None:
            if axes == 1:
                return "a single image needs a batch axis: x[None]"
            if axes == 3:
                return "maps that already have a group axis go to a group convolution"
        elif axes == 2:
            return (
                "images without a group axis go to a lifting convolution first; a single map "
                "needs a batch axis: f[None]"
            )
        if axes != (2 if elements is None else 3):
            return f"this layer has {self.dims} spatial axes"
        if f.shape[1] != channels:
            return f"use in_channels={f.shape[1]}, or make {channels} channels before it"
        return "use representations of one group in this layer and the one before"

    @property
    def _reach(self) -> list[int]:
        """How far along each axis the kernel reaches beyond its first tap and the padding."""
        return [
            d * (k - 1) - a - b
            for d, k, (a, b) in zip(self.dilation, self.kernel_size, self.margins, strict=True)
        ]

    def _check_space(self, who: str, space: Sequence[int]) -> None:
        if self.transposed:
            along = zip(space, self.stride, self._reach, self.output_padding, strict=True)
            grown = tuple((n - 1) * s + reach + extra + 1 for n, s, reach, extra in along)
            if min(grown) < 1:
                raise ValueError(
                    f"{who}: padding {self.padding} leaves nothing of {tuple(space)} pixels; the "
                    f"output would have size {grown}; use less padding"
                )
            return
        if any(n <= reach for n, reach in zip(space, self._reach, strict=True)):
            dilated = "" if set(self.dilation) == {1} else f" and dilation {self.dilation}"
            raise ValueError(
                f"{who}: a kernel of size {self.kernel_size}{dilated} does not fit into "
                f"{tuple(space)} pixels with padding {self.padding}; use a smaller kernel_size or "
                "more padding"
            )
        most = {"reflect": [n - 1 for n in space], "circular": list(space)}.get(self.padding_mode)
        if most and any(max(pair) > n for pair, n in zip(self.margins, most, strict=True)):
            raise ValueError(
                f"{who}: padding {self.padding} is more than {tuple(most)}, the most that "
                f"padding_mode={self.padding_mode!r} finds in {tuple(space)} pixels; use less "
                "padding or padding_mode='zeros'"
            )

    def _check_combination(self, who: str) -> None:
        if isinstance(self.padding, str) and self.padding not in ("same", "valid"):
            raise ValueError(
                f"{who}: padding must be numbers, 'same' or 'valid', got {self.padding!r}"
            )
        modes = get_args(PaddingMode)
        if self.padding_mode not in modes:
            raise ValueError(
                f"{who}: padding_mode must be one of {list(modes)}, got {self.padding_mode!r}"
            )
        if self.padding == "same" and set(self.stride) != {1}:
            raise ValueError(
                f"{who}: padding='same' needs stride 1, got stride {self.stride}; give the "
                "padding as a number"
            )
        if not self.transposed:
            if any(self.output_padding):
                raise ValueError(
                    f"{who}: output_padding={self.output_padding} is an option of transposed "
                    "convolutions; use padding"
                )
            return
        if isinstance(self.padding, str):
            raise ValueError(
                f"{who}: a transposed convolution takes padding as numbers, got {self.padding!r}"
            )
        if self.padding_mode != "zeros":
            raise ValueError(
                f"{who}: a transposed convolution has only padding_mode='zeros', got "
                f"{self.padding_mode!r}"
            )
        limit = [max(s, d) for s, d in zip(self.stride, self.dilation, strict=True)]
        if any(extra >= n for extra, n in zip(self.output_padding, limit, strict=True)):
            raise ValueError(
                f"{who}: output_padding must be smaller than stride {self.stride} or dilation "
                f"{self.dilation}, got {self.output_padding}; use more stride"
            )
