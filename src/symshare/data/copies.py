"""What depends on one another: near copies, and what numberings of images join."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from symshare.data.images import LabelledImages
from symshare.data.pooling import few_cells, pooled
from symshare.data.strata import strata_of

NEAR = 0.05
"""Distance to a near copy, as a share of the median distance of two images of one class. Among
6500 images of MNIST the nearest two, both a plain stroke, are at 0.13, of CIFAR-10 at 0.27; images
that are drawn from few templates with a noise of a tenth of their spread are at 0.1."""

ISOLATED = 2.0
"""Times that distance within which a cluster of near copies has no other image. Copies lie apart
from all else, while neighbours that are near because images have few degrees of freedom have
further ones at any distance."""

LARGEST = 0.1
"""Share of all images from which a cluster of near copies is none: where images have few degrees
of freedom, neighbours are near by themselves, and chains of them join what is independent."""

_NEIGHBOURS = 5
"""Neighbours of each image that are compared at full size."""

_ROWS = 1024
"""Images whose distances to all others are held at once."""


@dataclass(frozen=True, eq=False)
class Copies:
    """Copies among images.

    Attributes:
        cluster: number of the cluster of each image; an image without a copy is alone.
        share: of the images that have a copy or a near one; where chained, of the different images
            that have a near one.
        chained: whether near copies join into clusters that are too large to be copies of one
            image; then only exact copies are joined.
    """

    cluster: Int[Tensor, " N"]
    share: float
    chained: bool


def near_copies(data: LabelledImages) -> Copies:
    """Find images that are nearly the same, by their nearest neighbours.

    Two images are near copies where their distance is at most `NEAR` of the median distance of
    two images of one class; clusters are what chains of near copies join, where no further image
    lies within `ISOLATED` times that distance. Exact copies are joined however many they are, but
    for images of one value in each channel, such as blank tiles, which any move leaves as they
    are. The cost is two products of an N x (64 C) matrix with itself: 0.6 s for 8000 gray images
    on two cores.

    Args:
        data: the images; copies of an image in another pose are not found.

    Example:
        >>> images = torch.rand(20, 1, 8, 8, generator=torch.Generator().manual_seed(0))
        >>> data = LabelledImages(torch.cat([images, images + 0.001]), torch.arange(40) % 2,
        ...     ("a", "b"))
        >>> near_copies(data).share, int(near_copies(data).cluster.max()) + 1
        (1.0, 20)
    """
    source, first = different(data)
    near = _near_copies(data.subset(first))
    values = data.images.cpu().flatten(2)
    # The one position of a vector says nothing of this kind.
    blank = (values.amin(2) == values.amax(2)).all(1) & (values.shape[2] > 1)
    alone = len(data) + torch.arange(len(data))
    cluster = torch.where(blank, alone, near.cluster[source]).unique(return_inverse=True)[1]
    copied = cluster.bincount()[cluster] > 1
    share = near.share if near.chained else int(copied.sum()) / max(len(data), 1)
    return Copies(cluster, share, near.chained)


def different(data: LabelledImages) -> tuple[Int[Tensor, " N"], Int[Tensor, " M"]]:
    """Number the different images: the number of each image, and the first image of each number."""
    seen: dict[bytes, int] = {}
    firsts = [seen.setdefault(row, i) for i, row in enumerate(contents(data))]
    first, source = torch.tensor(firsts, dtype=torch.int64).unique(return_inverse=True)
    return source, first


def contents(data: LabelledImages) -> Iterator[bytes]:
    """The bytes of each image."""
    return (image.tobytes() for image in data.images.cpu().numpy())


def _near_copies(data: LabelledImages) -> Copies:
    """The same of different images."""
    N, alone = len(data), torch.arange(len(data))
    scale = _typical_distance(data)
    if N < 2 or not scale > 0:
        return Copies(alone, 0.0, False)
    images = data.images.cpu().float()
    # Pooling brings images nearer, never apart, so that no near copy is missed: it divides a sum of
    # squares by at most the size of the cells.
    cells = few_cells(data.space)
    size = prod(data.space) / prod(cells)
    small = pooled(images, cells).flatten(1) * size**0.5
    small = small - small.mean(0)
    cluster, pairs = alone, torch.zeros(2, 0, dtype=torch.int64)
    # Where an image has more neighbours of its own cluster than are compared, the next round goes
    # beyond them.
    while True:
        found = _near_pairs(images, small, cluster, NEAR * scale)
        pairs = torch.cat([pairs, found], dim=1)
        cluster = _connected(pairs, N)
        largest = int(cluster.bincount().max())
        if largest > max(LARGEST * N, 2):
            return Copies(alone, len(pairs.unique()) / N, True)
        if largest <= _NEIGHBOURS or not found.numel():
            break
    further = _near_pairs(images, small, cluster, ISOLATED * NEAR * scale)
    open_ = torch.isin(cluster, cluster[further.unique()])
    cluster = torch.where(open_, N + alone, cluster).unique(return_inverse=True)[1]
    return Copies(cluster, 0.0, False)


def joined(first: Int[Tensor, " N"], second: Int[Tensor, " N"]) -> Int[Tensor, " N"]:
    """Number what two numberings join: two positions are one where either says so, or a chain does.

    Example:
        >>> joined(torch.tensor([0, 0, 1, 2]), torch.tensor([0, 1, 1, 2])).tolist()
        [0, 0, 0, 1]
    """
    ones, first = first.unique(return_inverse=True)
    others, second = second.unique(return_inverse=True)
    pairs = torch.stack([first, len(ones) + second])
    return _connected(pairs, len(ones) + len(others))[first]


def _connected(pairs: Int[Tensor, "2 M"], count: int) -> Int[Tensor, " count"]:
    """The number of what each of `count` things is connected with by pairs."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    edges = coo_array((np.ones(pairs.shape[1]), tuple(pairs.numpy())), (count, count))
    return torch.from_numpy(connected_components(edges, directed=False)[1]).long()


def _near_pairs(
    images: Float[Tensor, "N C *space"],
    small: Float[Tensor, "N P"],
    cluster: Int[Tensor, " N"],
    bound: float,
) -> Int[Tensor, "2 M"]:
    """Pairs in different clusters within a distance, at least one of each image that has some."""
    squares = small.square().sum(1)
    pairs = []
    for rows in torch.arange(len(small)).split(_ROWS):
        distance = squares[rows, None] + squares - 2 * small[rows] @ small.T
        distance[cluster[rows, None] == cluster] = torch.inf
        least, other = distance.topk(min(_NEIGHBOURS, len(small) - 1), largest=False)
        # Twice the bound: rounding, and cells of unequal size.
        near = least <= (2 * bound) ** 2
        pairs.append(torch.stack([rows[:, None].expand_as(other)[near], other[near]]))
    one, other = torch.cat(pairs, dim=1)
    close = [
        (images[i] - images[j]).flatten(1).norm(dim=1) <= bound
        for i, j in zip(one.split(_ROWS), other.split(_ROWS), strict=True)
    ]
    near = torch.cat(close) if close else torch.zeros(0, dtype=torch.bool)
    return torch.stack([one[near], other[near]])


def _typical_distance(data: LabelledImages) -> float:
    """Median distance of two images of one class, or stratum, each with the next of its class."""
    labels = strata_of(data).index
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))
    order = order[labels[order].argsort(stable=True)]
    first, second = order[:-1], order[1:]
    same = labels[first] == labels[second]
    if not same.any():
        return 0.0
    images = data.images.cpu().float().flatten(1)
    return float((images[first[same]] - images[second[same]]).norm(dim=1).median())
