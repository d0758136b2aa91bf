"""Options of a convolution, for any number of spatial axes: read, checked and put to use."""

import math
from collections.abc import Sequence
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from symshare.groups.shape import each_axis

Size = int | Sequence[int]
PaddingMode = Literal["zeros", "reflect", "replicate", "circular"]

_PADDING_MODES = ("zeros", "reflect", "replicate", "circular")
_AXES = {1: "L", 2: "H, W", 3: "D, H, W"}


class Geometry(NamedTuple):
    """Options of `torch.nn.Conv*d` and `torch.nn.ConvTranspose*d`, one number for each axis.

    Build it with :meth:`read`, which takes what torch takes and checks it.

    >>> Geometry.read("doc", 2, kernel_size=3, padding="same").margins
    ((1, 1), (1, 1))
    """

    kernel_size: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...] | Literal["same", "valid"]
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
        *,
        kernel_size: Size,
        stride: Size = 1,
        padding: Size | str = 0,
        padding_mode: str = "zeros",
        dilation: Size = 1,
        groups: int = 1,
        output_padding: Size = 0,
        transposed: bool = False,
    ) -> "Geometry":
        """The options as numbers for each of `dims` axes.

        Args:
            who: the layer or function that error messages name.
            dims: number of spatial axes, 1 to 3.
            kernel_size: this and the rest as in torch; one number stands for all axes.
            stride: at least 1.
            padding: at least 0, "same" or "valid".
            padding_mode: "zeros", "reflect", "replicate" or "circular".
            dilation: at least 1.
            groups: number of blocks of channels.
            output_padding: at least 0; for transposed convolutions only.
            transposed: whether they are those of a transposed convolution.

        Raises:
            ValueError: for options that torch does not know, or that do not go together.
        """
        if dims not in _AXES:
            raise ValueError(f"{who}: expected a kernel of 1, 2 or 3 axes, got {dims}")
        geometry = cls(
            kernel_size=_each(who, "kernel_size", kernel_size, dims, least=1),
            stride=_each(who, "stride", stride, dims, least=1),
            padding=_read_padding(who, padding, dims),
            padding_mode=_read_mode(who, padding_mode),
            dilation=_each(who, "dilation", dilation, dims, least=1),
            groups=groups,
            output_padding=_each(who, "output_padding", output_padding, dims, least=0),
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

    def leftover(self, space: Sequence[int]) -> tuple[int, ...]:
        """Pixels at the end of each axis that the stride does not reach.

        Where they are not 0 the sampled positions lie off centre, so that a flip or a rotation
        of the input samples other positions.
        """
        if self.transposed:
            return (0,) * self.dims
        return tuple((room - 1) % s for room, s in zip(self._room(space), self.stride, strict=True))

    def check_channels(self, who: str, in_channels: int, out_channels: int) -> None:
        """Refuse channels that `groups` does not divide."""
        if self.groups < 1 or in_channels % self.groups or out_channels % self.groups:
            raise ValueError(
                f"{who}: groups={self.groups} does not divide in_channels={in_channels} and "
                f"out_channels={out_channels}; use a common divisor"
            )

    def check_input(self, who: str, f: Tensor, channels: int, elements: int | None = None) -> None:
        """Refuse a tensor that is no [B, channels, *space], or no [B, channels, elements, *space].

        Raises:
            ValueError: naming what to do about it.
        """
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

    def _room(self, space: Sequence[int]) -> list[int]:
        """How many positions the kernel has along each axis, if it moves by one."""
        return [
            n + a + b - d * (k - 1)
            for n, (a, b), d, k in zip(
                space, self.margins, self.dilation, self.kernel_size, strict=True
            )
        ]

    def _check_space(self, who: str, space: Sequence[int]) -> None:
        if self.transposed:
            grown = [
                (n - 1) * s - a - b + d * (k - 1) + extra + 1
                for n, s, (a, b), d, k, extra in zip(
                    space,
                    self.stride,
                    self.margins,
                    self.dilation,
                    self.kernel_size,
                    self.output_padding,
                    strict=True,
                )
            ]
            if min(grown) < 1:
                raise ValueError(
                    f"{who}: padding {self.padding} leaves nothing of {tuple(space)} pixels; the "
                    f"output would have size {tuple(grown)}; use less padding"
                )
            return
        if min(self._room(space)) < 1:
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
        if self.padding == "same" and set(self.stride) != {1}:
            raise ValueError(
                f"{who}: padding='same' needs stride 1, got stride {self.stride}; give the "
                "padding as a number"
            )
        if not self.transposed:
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


def _each(who: str, name: str, value: Size, dims: int, least: int) -> tuple[int, ...]:
    each = each_axis(value, dims)
    if len(each) != dims or any(n < least for n in each):
        raise ValueError(
            f"{who}: {name} must be one number or {dims}, each at least {least}, got {value}"
        )
    return each


def _read_padding(
    who: str, padding: Size | str, dims: int
) -> tuple[int, ...] | Literal["same", "valid"]:
    if padding == "same" or padding == "valid":
        return padding
    if isinstance(padding, str):
        raise ValueError(f"{who}: padding must be numbers, 'same' or 'valid', got {padding!r}")
    return _each(who, "padding", padding, dims, least=0)


def _read_mode(who: str, mode: str) -> PaddingMode:
    for known in _PADDING_MODES:
        if mode == known:
            return known
    raise ValueError(f"{who}: padding_mode must be one of {list(_PADDING_MODES)}, got {mode!r}")
