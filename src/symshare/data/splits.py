"""Three stratified parts of labelled data; copies of one image stay in one part."""

from __future__ import annotations

import hashlib
import warnings
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from jaxtyping import Int
from torch import Generator, Tensor

from symshare.data.copies import contents, different, joined
from symshare.data.images import LabelledImages
from symshare.data.strata import Labelled, strata_of

TEST_SHARE = 0.20
"""Share of the images that is held out as test part where the source has no test part."""

VALIDATION_SHARE = 0.1875
"""Share of the remaining images used for validation: 15 % of all where `TEST_SHARE` is cut off."""

OFTEN = 0.02
"""Share of all images from which the copies of one are no accident: were they all in the test part,
nothing that is learned or judged would know of them."""

PER_CLASS = 4
"""Fewest different images of a class before train and validation are cut (3 and 1)."""

PER_NUMBER = 20
"""The same of all images where labels are numbers, for each number."""

_TEST_SEED = 20240

_MANY_GROUPS = 1000
"""Groups from which on they are drawn by the class of their first image: scikit-learn looks at
them one by one, which takes 3 s for 8000 groups, and so many make up for unequal ones."""


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
            names = part.classes or ("numbers", *part.numbers)
            digest.update(repr((tuple(part.images.shape), names)).encode())
            digest.update(part.images.cpu().numpy().tobytes())
            digest.update(part.labels.cpu().numpy().tobytes())
            if part.groups is not None:
                digest.update(part.groups.cpu().numpy().tobytes())
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

    Images whose labels are numbers are divided by strata of these, see `strata_of`.

    Byte-identical images count as copies of one source image and fall in the same part, and so do
    the images of one group. An image that makes up more than `OFTEN` of them, such as a
    placeholder, is in the train part, where that leaves enough others of its class.

    Args:
        pool: The images to divide.
        test: An official test part; where given, nothing is cut off `pool` for it.
        name: Name of the source, for the result and in errors.
        seed: Seed of the train and validation parts; the test part does not depend on it.
        limit: Most images in train and validation together, drawn by class; None for all.

    Returns:
        The three parts.

    Raises:
        ValueError: If some class has too few different images, before or after `limit`, or lies in
            too few groups.

    Example:
        >>> pool = LabelledImages(torch.rand(100, 1, 8, 8), torch.arange(100) % 2, ("a", "b"))
        >>> parts = split(pool)
        >>> len(parts.train), len(parts.validation), len(parts.test)
        (65, 15, 20)
    """
    if limit is not None and limit < 1:
        raise ValueError(f"{name}: expected limit of at least 1, got {limit}; leave it out for all")
    if test is not None:
        pool = pool.subset((~_known(pool, test)).nonzero().flatten())
    source, first = different(pool)
    if len(pool) > 1 and len(first) == 1:
        raise ValueError(
            f"{name}: all {len(pool)} images are the same; look at how they were read, and whether "
            "their values fit into 32 bits"
        )
    needed = PER_CLASS if test is not None else PER_CLASS + 1
    remedy = "add images or leave the class out"
    check_counts(pool.labels.cpu()[first], pool, needed, name, remedy)
    labels = strata_of(pool).index[first]
    if pool.groups is not None:
        return _split_groups(pool, test, name, seed, limit)

    def part(chosen: Int[Tensor, " n"]) -> LabelledImages:
        return pool.subset(torch.isin(source, chosen).nonzero().flatten())

    often = source.bincount() > OFTEN * len(source)
    if labels[~often].bincount(minlength=int(labels.max()) + 1).min() < needed:
        often = torch.zeros_like(often)
    kept, rest = often.nonzero().flatten(), (~often).nonzero().flatten()
    if test is None:
        cut = draw(labels[rest], round(TEST_SHARE * len(rest)), _generator(_TEST_SEED))
        test, rest = part(rest[cut]), rest[~cut]
    generator = _generator(seed)
    if limit is not None and limit < len(rest):
        rest = rest[draw(labels[rest], limit, generator)]
        where, drawn = f"{name} with limit {limit}", pool.labels.cpu()[first[rest]]
        check_counts(drawn, pool, PER_CLASS, where, "raise the limit")
    cut = draw(labels[rest], round(VALIDATION_SHARE * len(rest)), generator)
    return Splits(part(torch.cat([kept, rest[~cut]])), part(rest[cut]), test, name)


def sample(data: LabelledImages, count: int, seed: int) -> LabelledImages:
    """At most `count` images, each class in proportion.

    Copies stay: how often an image occurs belongs to the law of the data.

    Example:
        >>> data = LabelledImages(torch.rand(10, 1, 8, 8), torch.arange(10) % 2, ("a", "b"))
        >>> sample(data, 4, seed=0).labels.bincount()
        tensor([2, 2])
    """
    if count >= len(data):
        return data
    return data.subset(draw(strata_of(data).index, count, _generator(seed)).nonzero().flatten())


def divide(
    data: LabelledImages, share: float, seed: int, *, each_class: bool = True
) -> tuple[Int[Tensor, " n"], Int[Tensor, " m"]]:
    """Draw about a share of the images, by class; copies and groups stay whole.

    Args:
        data: The images.
        share: Of them, 1 over a whole number where they have groups.
        seed: Of the draw.
        each_class: Whether to refuse groups that leave a class on one side only.

    Returns:
        Positions of the images that were drawn, and of the others, both in order.

    Raises:
        ValueError: If a class lies in too few groups to be in both parts.

    Example:
        >>> data = LabelledImages(torch.rand(10, 1, 8, 8), torch.arange(10) % 2, ("a", "b"))
        >>> [len(part) for part in divide(data, 0.2, seed=0)]
        [2, 8]
    """
    if data.groups is not None:
        inside = _draw_groups(data, share, seed, "a division of the data", each_class)
    else:
        source, first = different(data)
        labels = strata_of(data).index[first]
        inside = draw(labels, int(share * len(labels)), _generator(seed))[source]
    return inside.nonzero().flatten(), (~inside).nonzero().flatten()


def _split_groups(
    pool: LabelledImages, test: LabelledImages | None, name: str, seed: int, limit: int | None
) -> Splits:
    """As `split`, for images in groups."""
    source = name
    if test is None:
        cut = _draw_groups(pool, TEST_SHARE, _TEST_SEED, name)
        test, pool = (pool.subset(part.nonzero().flatten()) for part in (cut, ~cut))
        name = f"{name} without its test part"
    if limit is not None and limit < len(pool):
        drawn = draw(strata_of(pool).index, limit, _generator(seed))
        pool = pool.subset(drawn.nonzero().flatten())
        name = f"{name} with limit {limit}"
    cut = _draw_groups(pool, VALIDATION_SHARE, seed, name)
    train, validation = (pool.subset(part.nonzero().flatten()) for part in (~cut, cut))
    return Splits(train, validation, test, source)


def _draw_groups(
    data: LabelledImages, share: float, seed: int, name: str, each_class: bool = True
) -> Tensor:
    """Mark about a share of the images, whole groups, each class nearly in proportion."""
    from sklearn.model_selection import StratifiedGroupKFold

    assert data.groups is not None
    (labels, names), groups = strata_of(data), joined(different(data)[0], data.groups.cpu())
    folds = round(1 / share)
    # Of numbers, which are no classes, a part may lack a stratum.
    each_class = each_class and not data.numbers
    pairs = torch.stack([labels, groups]).unique(dim=1)[0].bincount(minlength=len(names))
    present = labels.bincount(minlength=len(names)) > 0
    for label in present.nonzero().flatten().tolist():
        if each_class and pairs[label] < folds:
            raise ValueError(
                f"{name}: expected images of every class in at least {folds} groups, got class "
                f"{names[label]!r} in {int(pairs[label])}; use finer groups, add some, or "
                "leave the class out"
            )
    count, largest = len(groups.unique()), int(labels.bincount().max())
    folds = min(folds, count, largest)
    if folds < 2:
        raise ValueError(
            f"{name}: expected at least 2 groups, and 2 images of some class, got {count} and "
            f"{largest} in what is left to divide; use finer groups, or leave out images of the "
            "largest"
        )
    if count > _MANY_GROUPS:
        first = torch.from_numpy(np.unique(groups.numpy(), return_index=True)[1])
        return draw(labels[first], int(share * count), _generator(seed))[groups]
    splitter = StratifiedGroupKFold(folds, shuffle=True, random_state=seed % 2**32)
    with warnings.catch_warnings():
        # A class of few images is in some parts only, which was asked above.
        warnings.filterwarnings("ignore", "The least populated class", UserWarning)
        parts = [part for _, part in splitter.split(labels, labels, groups)]

    def complete(part: Tensor) -> bool:
        return bool(labels[part].bincount(minlength=len(names))[present].all())

    # The first part has the largest group wherever groups are of one class each.
    for fold in torch.randperm(folds, generator=_generator(seed)).tolist():
        inside = torch.zeros(len(labels), dtype=torch.bool)
        inside[torch.from_numpy(parts[fold])] = True
        if not each_class or (complete(inside) and complete(~inside)):
            return inside
    raise ValueError(
        f"{name}: the groups are too few or too unequal to have every class on both sides "
        "of a division; use finer groups, or add some"
    )


def _known(pool: LabelledImages, test: LabelledImages) -> Tensor:
    """Mark the images of `pool` that are copies of those of `test`, or in a group with one."""
    rows = set(contents(test))
    known = torch.tensor([row in rows for row in contents(pool)], dtype=torch.bool)
    if pool.groups is None:
        return known
    if test.groups is not None:
        known |= torch.isin(pool.groups.cpu(), test.groups.cpu())
    groups = joined(different(pool)[0], pool.groups.cpu())
    return torch.isin(groups, groups[known])


def _generator(seed: int) -> Generator:
    return torch.Generator().manual_seed(seed)


def draw(labels: Int[Tensor, " N"], count: int, generator: Generator) -> Tensor:
    """Mark `count` of the labels, each class in proportion (largest remainders), at least one.

    Example:
        >>> draw(torch.tensor([0, 0, 0, 1]), 2, torch.Generator()).sum()
        tensor(2)
    """
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


def check_counts(labels: Tensor, data: Labelled, needed: int, name: str, remedy: str) -> None:
    """Refuse labels with fewer than so many of some class, or too few where they are numbers.

    Args:
        labels: Of different images.
        data: Where they are from, which names the classes or the numbers.
        needed: Of each class.
        name: What the images are called in the error.
        remedy: For the user.

    Example:
        >>> data = LabelledImages(torch.rand(4, 1, 8, 8), torch.arange(4) % 2, ("a", "b"))
        >>> check_counts(data.labels, data, 2, "data", "add images")
    """
    if data.numbers:
        needed = PER_NUMBER * len(data.numbers)
        if len(labels) < needed:
            raise ValueError(
                f"{name}: the split needs at least {needed} different images for labels of "
                f"{len(data.numbers)} numbers, got {len(labels)}; add images"
            )
        return
    least, smallest = map(int, labels.bincount(minlength=len(data.classes)).min(0))
    if not least:
        remedy += ", and number the classes 0, 1, 2, ... without a gap"
    if least < needed:
        raise ValueError(
            f"{name}: the split needs at least {needed} different images of every class, got "
            f"{least} of class {data.classes[smallest]!r}; {remedy}"
        )
