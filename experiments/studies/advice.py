"""Does advice help? Plain networks under three ways to augment, and one with the symmetry built in.

    python -m experiments.studies.advice --root DIR --out docs/studies/advice.json

MNIST at half its size, under a law, with few images to learn from. `symshare.discover` is asked
about these with `ranges=True`, and a network learns from them

- `none`: as they are,
- `copied`: with the flips and quarter turns that lists of augmentations have for all pictures,
- `advised`: each as it is or after a move that the advice allows, of a size between its ends,
- `built in`: as they are, in a G-CNN with the group of the verdict, which has nearly as many free
  parameters; the plain network where none was found.

All have the same images, steps and initial seed; the test part is read once by each.
"""

import argparse
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import torch
from torch import Generator, Tensor
from torch.nn.functional import avg_pool2d

import symshare
from experiments.resumed import resumed
from symshare.data import LabelledImages, Transform, freeze, load, sample, transform
from symshare.models import build_network
from symshare.ranges.families import families_of
from symshare.records import Advice
from symshare.settings import NetworkConfig
from symshare.train.loop import train
from symshare.train.settings import OptimConfig

LAWS = ("none", "quarter")
ARMS = ("none", "copied", "advised", "built in")
IMAGES, TESTED = 1200, 5000
STEPS, WIDTH = 1500, 32


def main(options: list[str] | None = None) -> None:
    """Run what is missing and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", type=Path, required=True, help="folder of MNIST's idx files")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args(options)
    torch.set_num_threads(1)
    wanted = [(law, seed) for seed in range(arguments.seeds) for law in LAWS]
    rows = resumed(
        arguments.out, ("law", "seed"), wanted, lambda law, seed: run(arguments.root, law, seed)
    )
    print(f"| law | found | {' | '.join(ARMS)} |")
    print(f"|---|---|{'---|' * len(ARMS)}")
    for law in LAWS:
        of_law = [row for row in rows if row["law"] == law]
        cells = []
        for arm in ARMS:
            values = [100 * row["accuracy"][arm] for row in of_law]
            spread = f" ± {stdev(values):.2f}" if len(values) > 1 else ""
            cells.append(f"{mean(values):.2f}{spread}")
        found = ", ".join(sorted({str(row["group"]) for row in of_law}))
        print(f"| {law} | {found} | {' | '.join(cells)} |")


def run(root: Path, law: str, seed: int) -> dict[str, Any]:
    """One law and one seed: the advice, and four networks."""
    splits = load("mnist", root=root, seed=seed)
    known = small(sample(splits.train, IMAGES, seed))
    tested, of_law = small(sample(splits.test, TESTED, 0)), transform(law)
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        record = symshare.discover(
            known.images, known.labels, transform=law, ranges=True, budget="quick", seed=seed,
            out=folder,
        ).record  # fmt: skip
    seconds = time.perf_counter() - start
    lines = [line for line in record.advice if line.family and line.kind == "augment"]
    laws = {
        "none": of_law,
        "copied": _after(of_law, transform("d4")),
        "advised": _after(of_law, advised(lines, freeze(known, of_law, seed).images)),
        "built in": of_law,
    }
    accuracy = {}
    for arm in ARMS:
        config = NetworkConfig(width=WIDTH)
        if arm == "built in" and record.found:
            config = replace(config, kind="gcnn", group=record.found)
        torch.manual_seed(seed)
        network = build_network(config, known.images.shape[1:], len(known.classes))
        trained = train(network, known, laws[arm], OptimConfig(steps=STEPS, evaluations=1), seed)
        accuracy[arm] = trained.test(tested, of_law)["test_accuracy"]
    return {
        "law": law,
        "seed": seed,
        "group": record.group,
        "ranges": {str(line.family): [line.low, line.high] for line in lines},
        "accuracy": accuracy,
        "seconds": round(seconds, 1),
    }


def small(data: LabelledImages) -> LabelledImages:
    """Images at half their size."""
    return replace(data, images=avg_pool2d(data.images, 2))


def advised(lines: Sequence[Advice], images: Tensor) -> Transform:
    """Each image as it is, or after one move of one family, as far as the advice goes.

    Args:
        lines: of families to augment with.
        images: from which the units of values are taken.
    """
    known = families_of(images)

    def apply(images: Tensor, generator: Generator) -> Tensor:
        which = torch.randint(len(lines) + 1, (len(images),), generator=generator)
        share, moved = torch.rand(len(images), generator=generator), images.clone()
        for number, line in enumerate(lines):
            rows = (which == number).nonzero().flatten()
            family, low, high = known[str(line.family)], line.low or 0.0, line.high or 0.0
            sizes = low + (high - low) * share[rows]
            if len(rows):
                sizes = sizes.round() if family.whole else sizes
                moved[rows] = family.act(images[rows], sizes, generator)
        return moved

    return Transform("advised", False, apply)


def _after(first: Transform, second: Transform) -> Transform:
    """One transformation, and then another."""

    def apply(images: Tensor, generator: Generator) -> Tensor:
        return second(first(images, generator), generator)

    return Transform(f"{first.name}, {second.name}", False, apply)


if __name__ == "__main__":
    main()
