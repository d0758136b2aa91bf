"""Random transformations of a batch of images: seeded, on the device, each image on its own."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import torch
from jaxtyping import Float
from torch import Generator, Tensor

from symshare.data.images import LabelledImages
from symshare.data.resampling import resample
from symshare.names import VECTOR, check_transform

TEST_SEED = 7919
"""Held-out images are transformed once, alike for every model and seed of a run."""


@dataclass(frozen=True)
class Transform:
    """A random transformation, of which every image of a batch draws its own.

    Args:
        name: The specification it was made from, see `transform`.
        exact: True where pixels are only moved, never interpolated.
        apply: Function of the images and a generator.
    """

    name: str
    exact: bool
    apply: Callable[[Tensor, Generator], Tensor]

    def __call__(
        self, images: Float[Tensor, "N C *space"], generator: Generator
    ) -> Float[Tensor, "N C *space"]:
        """Return the images transformed, on their own device and in their own dtype.

        Random numbers are drawn on the device of the generator.

        Raises:
            ValueError: If the transformation needs axes that the images lack, or exchanges axes of
                unequal length.
        """
        return self.apply(images, generator)


def transform(spec: str) -> Transform:
    """Return the random transformation that `spec` names.

    Of volumes the last two axes are moved, all slices alike; a signal has `none` and `flip` only.

    Args:
        spec: One of `none`; `flip` (left-right, of a signal back to front, with probability 1/2);
            `flips` (left-right and up-down, independently); `half` (half a turn, with probability
            1/2); `quarter` (uniform over the 4 quarter turns); `d4` (uniform over the 8
            symmetries of the square); `rotate:A` (a turn counter-clockwise, uniform in [0, A]
            degrees); `scale:a-b` (a factor uniform in [a, b] about the centre, shrinking below 1).

    Returns:
        The transformation; only `rotate` and `scale` interpolate.

    Raises:
        ValueError: If `spec` is no such name or its numbers are malformed or out of range.

    Example:
        >>> quarter = transform("quarter")
        >>> image = torch.arange(4.0).reshape(1, 1, 2, 2)
        >>> quarter(image, torch.Generator().manual_seed(0)).shape
        torch.Size([1, 1, 2, 2])
    """
    name, numbers = check_transform(spec)
    if name in _MOVES:
        return Transform(spec, True, partial(_move, moves=_MOVES[name], name=spec))
    act = {"rotate": rotate, "scale": scale}[name]
    return Transform(spec, False, partial(_interpolate, act=act, numbers=numbers, name=spec))


def freeze(data: LabelledImages, transform: Transform, seed: int) -> LabelledImages:
    """The data with every image transformed once, as drawn with the seed.

    Example:
        >>> data = LabelledImages(torch.rand(4, 1, 8, 8), torch.tensor([0, 1, 0, 1]), ("a", "b"))
        >>> torch.equal(freeze(data, transform("none"), 0).images, data.images)
        True
    """
    generator = torch.Generator().manual_seed(seed)
    return replace(data, images=transform(data.images, generator))


def stream(purpose: str, *numbers: int) -> torch.Generator:
    """A generator of its own for every purpose and numbers, such as a seed and an epoch.

    What is resumed draws from it what an uninterrupted run would.

    Args:
        purpose: What the numbers are for.
        numbers: Seed, epoch and the like.

    Example:
        >>> streams = [stream("batches", 0, 1), stream("batches", 1, 0), stream("test", 0, 1)]
        >>> len({torch.rand(1, generator=generator).item() for generator in streams})
        3
    """
    digest = hashlib.sha256(repr((purpose, *numbers)).encode()).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest[:8]) >> 1)


def rotate(
    images: Float[Tensor, "N C H W"], degrees: Float[Tensor, " N"] | float
) -> Float[Tensor, "N C H W"]:
    """Turn each image counter-clockwise about its centre: bilinear, zeros from outside.

    Args:
        images: The images, square or not.
        degrees: Angle of each image, or one for all, in degrees.

    Returns:
        The turned images; 90 degrees equals `torch.rot90(images, 1, (-2, -1))` to 1e-5 for
        square images with values in [0, 1].

    Example:
        >>> rotate(torch.tensor([[[[1.0, 2.0], [3.0, 4.0]]]]), 90.0).round()
        tensor([[[[2., 4.],
                  [1., 3.]]]])
    """
    return resample(images, turns(_per_image(images, degrees)))


def scale(
    images: Float[Tensor, "N C H W"], factors: Float[Tensor, " N"] | float
) -> Float[Tensor, "N C H W"]:
    """Magnify each image about its centre: bilinear, zeros from outside.

    Args:
        images: The images.
        factors: Factor of each image, or one for all, above 0; below 1 the content shrinks.

    Returns:
        The scaled images, for a factor of 1 the images themselves to 1e-5.

    Example:
        >>> scale(torch.ones(1, 1, 4, 4), 0.5)[0, 0].round()
        tensor([[0., 0., 0., 0.],
                [0., 1., 1., 0.],
                [0., 1., 1., 0.],
                [0., 0., 0., 0.]])
    """
    inverse = 1 / _per_image(images, factors)
    return resample(images, torch.diag_embed(inverse.unsqueeze(1).expand(-1, 2)))


def turns(degrees: Float[Tensor, " N"]) -> Float[Tensor, "N 2 2"]:
    """Where a turn counter-clockwise reads: rows and columns, from those of the turned image.

    Example:
        >>> turns(torch.tensor([90.0])).round().abs()
        tensor([[[0., 1.],
                 [1., 0.]]])
    """
    angle = degrees * (math.pi / 180)
    cosine, sine = angle.cos(), angle.sin()
    return torch.stack([cosine, sine, -sine, cosine], dim=1).reshape(-1, 2, 2)


def _move(
    images: Tensor, generator: Generator, moves: Sequence[Callable[[Tensor], Tensor]], name: str
) -> Tensor:
    """Put each move on each image with probability 1/2.

    Every group here is a product of its moves taken once or not at all, each element in one way
    only, so fair coins make it uniform.
    """
    _check_axes(images, {"none": 0, "flip": 1}.get(name, 2), name)
    if name in ("quarter", "d4") and images.shape[-1] != images.shape[-2]:
        raise ValueError(
            f"transform {name!r}: expected square images, got {images.shape[-2]}x"
            f"{images.shape[-1]}; crop or pad them, or use flips or half"
        )
    shape = (len(moves), len(images), *[1] * (images.ndim - 1))
    coins = torch.randint(2, shape, generator=generator, device=generator.device).bool()
    for move, coin in zip(moves, coins.to(images.device), strict=True):
        images = torch.where(coin, move(images), images)
    return images


def _interpolate(
    images: Tensor,
    generator: Generator,
    act: Callable[[Tensor, Tensor], Tensor],
    numbers: tuple[float, float],
    name: str,
) -> Tensor:
    """Act on each image with a number drawn uniformly between two; on each slice of a volume."""
    _check_axes(images, 2, name)
    low, high = numbers
    drawn = torch.rand(
        len(images), generator=generator, device=generator.device, dtype=torch.float32
    )
    slices = images.flatten(1, -3)
    return act(slices, low + (high - low) * drawn.to(images.device)).view_as(images)


def _check_axes(images: Tensor, needed: int, name: str) -> None:
    """Refuse images with too few axes of space."""
    space = images.shape[2:]
    axes = 0 if tuple(space) == VECTOR else len(space)
    if axes < needed:
        raise ValueError(
            f"transform {name!r}: expected at least {needed} axes of space, got "
            f"{axes}, [N, C, {', '.join(map(str, space))}]; use none{' or flip' * bool(axes)}"
        )


def _per_image(images: Tensor, values: Tensor | float) -> Float[Tensor, " N"]:
    # Double precision: a quarter turn must hit the pixel centres, cos(90 degrees) the zero.
    values = torch.as_tensor(values, dtype=torch.float64, device=images.device)
    return values.expand(len(images))


_FLIP_W = partial(torch.flip, dims=(-1,))
_FLIP_H = partial(torch.flip, dims=(-2,))
_HALF_TURN = partial(torch.flip, dims=(-2, -1))
_QUARTER_TURN = partial(torch.rot90, k=1, dims=(-2, -1))
_TRANSPOSE = partial(torch.transpose, dim0=-2, dim1=-1)

_MOVES: dict[str, tuple[Callable[[Tensor], Tensor], ...]] = {
    "none": (),
    "flip": (_FLIP_W,),
    "flips": (_FLIP_W, _FLIP_H),
    "half": (_HALF_TURN,),
    "quarter": (_QUARTER_TURN, _HALF_TURN),
    "d4": (_FLIP_W, _FLIP_H, _TRANSPOSE),
}
