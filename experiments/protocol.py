"""What a run sees: images and transformations of training, of its evaluations, of its tests."""

from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Generator, Tensor

from experiments.image_settings import ImagesConfig
from symshare.data import (
    TEST_SEED,
    LabelledImages,
    Splits,
    Transform,
    freeze,
    load,
    split,
    transform,
)

__all__ = ["Protocol", "noisy", "protocol"]

TRAINING, TEST = 12_000, 50_000
"""Images of the parts "rotated-mnist", as many as Larochelle et al. (2007) had."""

_PARTS_SEED, _FROZEN_SEED = 12_000, 12_001


@dataclass(frozen=True)
class Protocol:
    """Images with the transformations that they are seen under.

    Attributes:
        splits: the three parts; where training images are transformed once, they are already.
        transform: of training images, drawn anew in every step.
        training: images to train on.
        held_out: images that are read at every evaluation.
        held_out_transform: theirs, drawn once.
        tests: transformations of test images by the name of a column, each drawn once.
    """

    splits: Splits
    transform: Transform
    training: LabelledImages
    held_out: LabelledImages
    held_out_transform: Transform
    tests: dict[str, Transform]


def protocol(config: ImagesConfig, root: Path | None, seed: int) -> Protocol:
    """Read the images of a run.

    Args:
        config: which, and how they are seen.
        root: folder of the images.
        seed: of the training and validation parts.

    Raises:
        ValueError: for names that are not known, or where there are too few images.
    """
    tests = {test: noisy(transform(name), config.noise) for test, name in config.test.items()}
    chosen = transform(config.train)  # a wrong name should not wait for the data
    splits = _splits(config, chosen, root, seed)
    if config.test_limit is not None:
        some = torch.arange(min(config.test_limit, len(splits.test)))
        splits = replace(splits, test=splits.test.subset(some))
    as_it_is = transform("none")
    seen = as_it_is if config.frozen else chosen
    if config.holdout == "validation":
        return Protocol(splits, seen, splits.train, splits.validation, seen, tests)
    training = splits.train.joined(splits.validation)
    held_out = freeze(splits.test, next(iter(tests.values())), TEST_SEED)
    return Protocol(splits, seen, training, held_out, as_it_is, tests)


def noisy(transform: Transform, noise: float) -> Transform:
    """A transformation with Gaussian noise on every pixel after it.

    Args:
        transform: comes first.
        noise: standard deviation, in units of the pixels.

    >>> noisy(transform("flip"), 0.01).name
    'flip + N(0, 0.01^2)'
    """
    if not noise:
        return transform

    def apply(images: Tensor, generator: Generator) -> Tensor:
        moved = transform(images, generator)
        drawn = torch.randn(moved.shape, generator=generator, device=generator.device)
        return moved + noise * drawn.to(moved)

    return Transform(f"{transform.name} + N(0, {noise:g}^2)", False, apply)


def _splits(config: ImagesConfig, transform: Transform, root: Path | None, seed: int) -> Splits:
    if config.parts == "official" and not config.frozen:
        return load(config.source, root=root, seed=seed, limit=config.limit)
    # One order of the images for all seeds, so that each is always in the same part and turned by
    # the same angle.
    loaded = load(config.source, root=root, seed=0)
    pool, test = loaded.train.joined(loaded.validation), loaded.test
    if config.parts == "rotated-mnist":
        pool, test = _redrawn(pool.joined(test), config.source)
    if config.frozen:
        pool = freeze(pool, transform, _FROZEN_SEED)
    return split(pool, test, name=config.source, seed=seed, limit=config.limit)


def _redrawn(every: LabelledImages, source: str) -> tuple[LabelledImages, LabelledImages]:
    """Images for training and validation, and for the test, drawn once for all seeds."""
    if len(every) < TRAINING + TEST:
        raise ValueError(
            f"images.parts: rotated-mnist needs {TRAINING + TEST} images, and {source} has "
            f"{len(every)}; use source mnist, or parts official"
        )
    order = torch.randperm(len(every), generator=torch.Generator().manual_seed(_PARTS_SEED))
    pool, test = order[:TRAINING], order[TRAINING : TRAINING + TEST]
    return every.subset(pool), every.subset(test)
