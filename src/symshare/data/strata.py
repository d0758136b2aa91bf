"""Strata of labelled images: their classes, or fifths of their numbers."""

from __future__ import annotations

from typing import NamedTuple, Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor

FIFTHS = 5
"""Strata of numbers: enough that a law which breaks for a tenth of the images, those with the
largest numbers, shows in one of them, and few enough that each has images."""


@runtime_checkable
class Labelled(Protocol):
    """What has labels: images, or a listing of what is not decoded yet."""

    @property
    def labels(self) -> Tensor:
        """The class of each, [N], or d numbers of each, [N, d]."""
        ...

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the classes; empty where labels are numbers."""
        ...

    @property
    def numbers(self) -> tuple[str, ...]:
        """Names of the numbers; empty where labels are classes."""
        ...


class Strata(NamedTuple):
    """What is drawn in proportion, and tested one by one.

    Attributes:
        index: Number of the stratum of each image; each has one at least where labels are numbers.
        names: What the strata are called.
    """

    index: Int[Tensor, " N"]
    names: tuple[str, ...]


def strata_of(data: Labelled) -> Strata:
    """The classes of images, or fifths of their numbers, of which ties may leave fewer.

    One number is divided by its value. Several are divided by how far they are from their mean, in
    spreads (the distance of Mahalanobis): turns, mirrors and exchanges of numbers, which a symmetry
    may make, then leave each image in its stratum.

    Example:
        >>> from symshare.data import LabelledImages
        >>> images, ages = torch.zeros(10, 1, 8, 8), torch.arange(10.0)[:, None]
        >>> index, names = strata_of(LabelledImages(images, ages, (), numbers=("age",)))
        >>> index.tolist(), names[0]
        ([0, 0, 1, 1, 2, 2, 3, 3, 4, 4], 'age 0 to 1')
    """
    if not data.numbers:
        return Strata(data.labels.cpu(), data.classes)
    labels = data.labels.cpu().double()
    one = len(data.numbers) == 1
    size = labels[:, 0] if one else distance_from_mean(labels)
    bounds = size.quantile(torch.arange(1, FIFTHS, dtype=size.dtype) / FIFTHS).unique()
    index = torch.bucketize(size, bounds, right=True).unique(return_inverse=True)[1]
    names = []
    for stratum in range(int(index.max()) + 1):
        low, high = (f"{float(value):.3g}" for value in size[index == stratum].aminmax())
        span = low if low == high else f"{low} to {high}"
        names.append(f"{data.numbers[0] if one else 'distance'} {span}")
    return Strata(index, tuple(names))


def distance_from_mean(labels: Float[Tensor, "N d"]) -> Float[Tensor, " N"]:
    """The distance of Mahalanobis of each row from the mean of all.

    Example:
        >>> distance_from_mean(torch.tensor([[1.0], [3.0], [5.0]]).double()).round(decimals=2)
        tensor([1.2200, 0.0000, 1.2200], dtype=torch.float64)
    """
    apart = labels - labels.mean(0)
    covariance = apart.T @ apart / len(labels)
    return ((apart @ torch.linalg.pinv(covariance, hermitian=True)) * apart).sum(1).sqrt()
