"""Three stratified parts of labelled data; copies of one image stay in one part."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Int
from torch import Generator, Tensor

from symshare.data.images import LabelledImages

TEST_SHARE = 0.20
"""Share of the images that is held out as test part where the source has no test part."""

VALIDATION_SHARE = 0.1875
"""Share of the remaining images used for validation: 15 % of all where `TEST_SHARE` is cut off."""

PER_CLASS = 4
"""Fewest different images of a class before train and validation are cut (3 and 1)."""

_TEST_SEED = 20240


@dataclass(frozen=True, eq=False)
class Splits:
    """Data in three parts that share no image; `test` is to be read once, at the end.

    Args:
        train: Images to fit on.
        validation: Images to choose settings and stop on.
        test: Images held out, the same for every seed.
        name: The source, as given to `load`.
    """

    train: LabelledImages
    validation: LabelledImages
    test: LabelledImages
    name: str

    @cached_property
    def fingerprint(self) -> str:
        """Hash of all images and labels: the same data, split alike, have the same."""
        digest = hashlib.sha256()
        for part in (self.train, self.validation, self.test):
            digest.update(repr((tuple(part.images.shape), part.classes)).encode())
            digest.update(part.images.cpu().numpy().tobytes())
            digest.update(part.labels.cpu().numpy().tobytes())
        return digest.hexdigest()[:16]


def split(
    pool: LabelledImages,
    test: LabelledImages | None = None,
    *,
    name: str = "data",
    seed: int = 0,
    limit: int | None = None,
) -> Splits:
    """Divide `pool` by class into train, validation and test (about 65, 15 and 20 %).

    Byte-identical images count as copies of one source image and fall in the same part.

    Args:
        pool: The images to divide.
        test: An official test part; where given, nothing is cut off `pool` for it.
        name: Name of the source, for the result and in errors.
        seed: Seed of the train and validation parts; the test part does not depend on it.
        limit: Most images in train and validation together, drawn by class; None for all.

    Returns:
        The three parts.

    Raises:
        ValueError: If some class has too few different images, before or after `limit`.

    Example:
        >>> pool = LabelledImages(torch.rand(100, 1, 8, 8), torch.arange(100) % 2, ("a", "b"))
        >>> parts = split(pool)
        >>> len(parts.train), len(parts.validation), len(parts.test)
        (65, 15, 20)
    """
    if limit is not None and limit < 1:
        raise ValueError(f"{name}: expected limit of at least 1, got {limit}; leave it out for all")
    if test is not None:
        known = set(_rows(test))
        pool = pool.subset([i for i, row in enumerate(_rows(pool)) if row not in known])
    source, first = _sources(pool)
    labels = pool.labels.cpu()[first]
    needed = PER_CLASS if test is not None else PER_CLASS + 1
    _check_counts(labels, pool.classes, needed, name, "add images or leave the class out")

    def part(chosen: Int[Tensor, " n"]) -> LabelledImages:
        return pool.subset(torch.isin(source, chosen).nonzero().flatten())

    rest = torch.arange(len(first))
    if test is None:
        cut = _draw(labels, round(TEST_SHARE * len(labels)), _generator(_TEST_SEED))
        test, rest = part(rest[cut]), rest[~cut]
    generator = _generator(seed)
    if limit is not None and limit < len(rest):
        rest = rest[_draw(labels[rest], limit, generator)]
        _check_counts(
            labels[rest], pool.classes, PER_CLASS, f"{name} with limit {limit}", "raise the limit"
        )
    cut = _draw(labels[rest], round(VALIDATION_SHARE * len(rest)), generator)
    return Splits(part(rest[~cut]), part(rest[cut]), test, name)


def sample(data: LabelledImages, count: int, seed: int) -> LabelledImages:
    """At most `count` different images, each class in proportion, one of each set of copies.

    Example:
        >>> data = LabelledImages(torch.rand(10, 1, 8, 8), torch.arange(10) % 2, ("a", "b"))
        >>> sample(data, 4, seed=0).labels.bincount()
        tensor([2, 2])
    """
    _, first = _sources(data)
    if count < len(first):
        first = first[_draw(data.labels.cpu()[first], count, _generator(seed))]
    return data.subset(first)


def halves(data: LabelledImages, seed: int) -> tuple[LabelledImages, LabelledImages]:
    """Divide by class into two halves, copies of one image in the same one.

    Example:
        >>> data = LabelledImages(torch.rand(10, 1, 8, 8), torch.arange(10) % 2, ("a", "b"))
        >>> [len(half) for half in halves(data, seed=0)]
        [5, 5]
    """
    source, first = _sources(data)
    labels = data.labels.cpu()[first]
    inside = _draw(labels, len(labels) // 2, _generator(seed))[source]
    return data.subset(inside.nonzero().flatten()), data.subset((~inside).nonzero().flatten())


def _rows(data: LabelledImages) -> Iterator[bytes]:
    return (image.tobytes() for image in data.images.cpu().numpy())


def _generator(seed: int) -> Generator:
    return torch.Generator().manual_seed(seed)


def _sources(pool: LabelledImages) -> tuple[Int[Tensor, " N"], Int[Tensor, " M"]]:
    """Number the different images: the number of each image, and the first image of each number."""
    seen: dict[bytes, int] = {}
    firsts = [seen.setdefault(row, i) for i, row in enumerate(_rows(pool))]
    first, source = torch.tensor(firsts, dtype=torch.int64).unique(return_inverse=True)
    return source, first


def _draw(labels: Int[Tensor, " N"], count: int, generator: Generator) -> Tensor:
    """Mark `count` of the labels, each class in proportion (largest remainders), at least one."""
    sizes = labels.bincount()
    quota = sizes.double() * count / max(len(labels), 1)
    take = quota.floor().long().clamp(min=1).minimum(sizes)
    spare = max(count - int(take.sum()), 0)
    order = (quota - take).argsort(descending=True, stable=True)
    take[order[:spare]] += 1
    chosen = torch.zeros(len(labels), dtype=torch.bool)
    for label, number in enumerate(take.tolist()):
        members = (labels == label).nonzero().flatten()
        chosen[members[torch.randperm(len(members), generator=generator)[:number]]] = True
    return chosen


def _check_counts(
    labels: Int[Tensor, " N"], classes: tuple[str, ...], needed: int, name: str, remedy: str
) -> None:
    least, smallest = map(int, labels.bincount(minlength=len(classes)).min(0))
    if least < needed:
        raise ValueError(
            f"{name}: the split needs at least {needed} different images of every class, got "
            f"{least} of class {classes[smallest]!r}; {remedy}"
        )
