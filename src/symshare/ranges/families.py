"""Families of moves with a size: what each makes of an image, and what it is compared with."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import torch
from jaxtyping import Float
from torch import Generator, Tensor

from symshare.data import resample, turns
from symshare.names import RANGES

Act = Callable[[Tensor, Tensor, Generator], Tensor]
"""What moves of given sizes, one for each image, make of images."""

_COARSE = tuple(part / 32 for part in (1, 1.5, 2, 3, 4, 6, 8, 12, 16, 24, 32))
"""Shares of the limit at which every family is examined: steps of 1.5 and 1.33, so that an end is
known to half of itself before it is refined."""

_BY_LAW = tuple(part / 32 for part in (2, 4, 8, 16))
"""Shares of the limit at which a network learns to tell moved images from those that are not."""


@dataclass(frozen=True, eq=False)
class Family:
    """Moves of one kind, by their size; size 0 moves nothing.

    Args:
        name: Such as "turn".
        unit: Of a size, as it is written behind a number.
        limit: Largest size that is examined.
        act: What moves make of images.
        signed: Whether sizes below zero exist; then -s undoes s.
        resampled: Whether pixels are read between pixels, or moved beyond the border.
        crosses: Whether what it loses is most of all what it moves beyond the border, or makes too
            small to be seen.
        whole: Whether only whole sizes are examined.
        doubling: Whether sizes count doublings: a size s is the factor 2^s.
    """

    name: str
    unit: str
    limit: float
    act: Act = field(repr=False)
    signed: bool = True
    resampled: bool = False
    crosses: bool = False
    whole: bool = False
    doubling: bool = False

    def moved(
        self, images: Float[Tensor, "B C *space"], sizes: Float[Tensor, " B"], generator: Generator
    ) -> Float[Tensor, "B C *space"]:
        """Each image after a move of its size, resampled twice where it is resampled at all."""
        if not self.resampled:
            return self.act(images, sizes, generator)
        half = (sizes / 2).round() if self.whole else sizes / 2
        return self.act(self.act(images, half, generator), sizes - half, generator)

    def baseline(
        self, images: Float[Tensor, "B C *space"], sizes: Float[Tensor, " B"], generator: Generator
    ) -> Float[Tensor, "B C *space"]:
        """Each image with what such a move loses on the way, and in its place: moved and back.

        By half of the size, so that it is interpolated as the moved image is; where the move
        crosses the border by all of it, so that as much is lost there. Of moves that read no pixel
        between pixels, the image itself.
        """
        if not self.resampled:
            return images
        way = sizes if self.crosses else sizes / 2
        return self.act(self.act(images, way, generator), -way, generator)

    def sizes(self, shares: tuple[float, ...] = _COARSE) -> list[float]:
        """Sizes above zero at these shares of the limit, from small to large, each once."""
        sizes = [share * self.limit for share in shares]
        if self.whole:
            sizes = [max(float(round(size)), 1.0) for size in sizes]
        return sorted(set(sizes))

    def law_sizes(self) -> list[float]:
        """Sizes of both signs at which a network learns to tell moved images from others."""
        sizes = self.sizes(_BY_LAW)
        return [*(-size for size in sizes[::-1] if self.signed), *sizes]

    def between(self, low: float, high: float) -> float | None:
        """The size in the middle of two; None where whole sizes leave none."""
        middle = (low + high) / 2
        if not self.whole:
            return middle
        rounded = float(math.floor(middle))
        return rounded if low < rounded < high else None


def families_of(images: Float[Tensor, "N C *space"]) -> dict[str, Family]:
    """The families that such images have, by name; units of values are taken from them.

    Images of values between 0 and 1 are clipped to them, as pictures are.

    Example:
        >>> list(families_of(torch.rand(4, 1, 32)))
        ['shift', 'warp', 'gain', 'offset', 'blur', 'noise']
        >>> families_of(torch.rand(4, 1, 8, 8))["shiftW"].sizes()
        [1.0, 2.0, 3.0, 4.0]
    """
    space = tuple(images.shape[2:])
    d = len(space)
    clip = is_clipped(images)
    by_value = dict(zip(("offset", "contrast", "noise"), _by_value(images, clip), strict=True))
    names = {1: ("shift",), 2: ("shiftH", "shiftW"), 3: ("shiftx", "shifty", "shiftz")}[d]
    steps, shift = _POSITIONS[d], partial(Family, resampled=True, crosses=True, whole=True)
    made = [
        Family("blur", steps, max(2.0, min(space) / 8), _blur, signed=False),
        Family("noise", "spreads", 2.0, by_value["noise"], signed=False),
        *(
            shift(name, steps, float(length // 2), partial(_shift, axis))
            for axis, (name, length) in enumerate(zip(names, space, strict=True))
        ),
    ]
    if d == 1:
        made += [
            Family("offset", "spreads", 2.0, by_value["offset"]),
            Family("gain", "times", 2.0, _gain, doubling=True),
            Family("warp", "times", 1.0, _warp, resampled=True, doubling=True),
        ]
    else:
        scale = _affine(_scales)
        made += [
            Family("brightness", "spreads", 2.0, by_value["offset"]),
            Family("contrast", "times", 2.0, by_value["contrast"], doubling=True),
            Family("scale", "times", 1.0, scale, resampled=True, crosses=True, doubling=True),
        ]
    if d == 2:
        made += [
            Family("turn", "degrees", 180.0, _affine(_turn), resampled=True),
            Family("shear", "of the height", 1.0, _affine(_shears), resampled=True),
        ]
    for axis in range(3 if d == 3 else 0):
        act = _affine(partial(_turns_about, axis))
        made.append(Family(f"turn{'xyz'[axis]}", "degrees", 180.0, act, resampled=True))
    by_name = {family.name: family for family in made}
    return {name: by_name[name] for name in RANGES[d]}


def is_clipped(images: Float[Tensor, "N C *space"]) -> bool:
    """Whether values are those of pictures, between 0 and 1, and stay there.

    Example:
        >>> is_clipped(torch.rand(2, 1, 4, 4)), is_clipped(torch.rand(2, 1, 9))
        (True, False)
    """
    return images.ndim > 3 and bool((images >= 0).all()) and bool((images <= 1).all())


def spread_of(images: Float[Tensor, "N C *space"]) -> Float[Tensor, " C"]:
    """The spread that values are counted in: of all pixels, or of each channel of signals.

    Channels of signals, such as leads, may differ in unit.

    Example:
        >>> spread_of(torch.tensor([[[[0.0, 2.0]], [[0.0, 2.0]]]]))
        tensor([1., 1.])
    """
    channels = images.shape[1]
    if images.ndim == 3:
        return images.transpose(0, 1).flatten(1).std(1, correction=0)
    return images.std(correction=0).expand(channels)


_POSITIONS = {1: "steps", 2: "pixels", 3: "voxels"}


def _per_image(values: Tensor, images: Tensor) -> Tensor:
    """One value for each image, to be multiplied with them."""
    return values.to(images).reshape(-1, *[1] * (images.ndim - 1))


def _by_value(images: Tensor, clip: bool) -> tuple[Act, Act, Act]:
    """Moves of the values of pixels: an offset, a contrast, noise; in the spread of images."""
    axes = [1, -1, *[1] * (images.ndim - 2)]
    spread = spread_of(images).reshape(axes)

    def kept(values: Tensor) -> Tensor:
        return values.clamp(0, 1) if clip else values

    def offset(x: Tensor, sizes: Tensor, _: Generator) -> Tensor:
        return kept(x + _per_image(sizes, x) * spread.to(x))

    def contrast(x: Tensor, sizes: Tensor, _: Generator) -> Tensor:
        middle = x.mean(tuple(range(1, x.ndim)), keepdim=True)
        return kept(middle + _per_image(2.0**sizes, x) * (x - middle))

    def noise(x: Tensor, sizes: Tensor, generator: Generator) -> Tensor:
        drawn = torch.randn(x.shape, generator=generator, device=generator.device).to(x)
        return kept(x + _per_image(sizes, x) * spread.to(x) * drawn)

    return offset, contrast, noise


def _gain(x: Tensor, sizes: Tensor, _: Generator) -> Tensor:
    return x * _per_image(2.0**sizes, x)


def _blur(x: Tensor, sizes: Tensor, _: Generator) -> Tensor:
    """A Gaussian along each axis, with the weights at the border made whole again."""
    sigma = sizes.to(x).clamp_min(1e-3)[:, None, None]
    for axis in range(2, x.ndim):
        position = torch.arange(x.shape[axis], dtype=x.dtype, device=x.device)
        weights = (-((position[:, None] - position) ** 2) / (2 * sigma**2)).exp()
        weights = weights / weights.sum(-1, keepdim=True)
        x = torch.einsum("bij,b...j->b...i", weights, x.movedim(axis, -1)).movedim(-1, axis)
    return x


def _affine(matrices: Callable[[Tensor, int], Tensor]) -> Act:
    """Linear maps of positions, of which `matrices` gives one for each size and so many axes."""

    def act(x: Tensor, sizes: Tensor, _: Generator) -> Tensor:
        return resample(x, matrices(sizes.double(), x.ndim - 2), padding="border")

    return act


def _turn(degrees: Tensor, d: int) -> Tensor:
    return turns(degrees)


def _turns_about(axis: int, degrees: Tensor, d: int) -> Tensor:
    """Turns of a volume in the plane of the other two axes, as `turns` turns rows and columns."""
    matrices = torch.eye(3, dtype=degrees.dtype).repeat(len(degrees), 1, 1)
    others = torch.tensor([i for i in range(3) if i != axis])
    matrices[:, others[:, None], others] = turns(degrees).cpu()
    return matrices.to(degrees.device)


def _scales(sizes: Tensor, d: int) -> Tensor:
    return torch.diag_embed((2.0**-sizes)[:, None].expand(-1, d))


def _shears(sizes: Tensor, d: int) -> Tensor:
    """Upright lines lean to the right, as in italics, by the size times their height."""
    matrices = torch.eye(2, dtype=sizes.dtype, device=sizes.device).repeat(len(sizes), 1, 1)
    matrices[:, 1, 0] = sizes
    return matrices


def _shift(axis: int, x: Tensor, sizes: Tensor, _: Generator) -> Tensor:
    """What stands at p moves to p + s; what comes in repeats the edge."""
    length = x.shape[2 + axis]
    source = torch.arange(length, device=x.device) - sizes.to(x.device).long()[:, None]
    index = source.clamp(0, length - 1).reshape(len(x), *[1] * (x.ndim - 2), length)
    swapped = x.movedim(2 + axis, -1)
    return swapped.gather(-1, index.expand(swapped.shape)).movedim(-1, 2 + axis)


def _warp(x: Tensor, sizes: Tensor, _: Generator) -> Tensor:
    """A flow of time that holds the ends and the middle: tan(pi t / L) is multiplied by 2^s.

    Time runs 2^s times as fast at the ends and 2^-s times in the middle, or the other way round,
    and moves of one after the other are again such moves.
    """
    length = x.shape[-1]
    t = (torch.arange(length, dtype=torch.float64, device=x.device) + 0.5) / length * math.pi
    factor = 2.0 ** sizes.double().to(x.device)[:, None]
    read = torch.atan2(factor * t.sin(), t.cos()) * (length / math.pi) - 0.5
    low = read.floor().clamp(0, length - 2).long()
    share = (read - low).clamp(0, 1).to(x)[:, None]
    index = low[:, None].expand(-1, x.shape[1], -1)
    return x.gather(-1, index) * (1 - share) + x.gather(-1, index + 1) * share
