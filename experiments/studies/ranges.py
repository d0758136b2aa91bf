"""Are the ranges right? Data whose safe sizes are derived, beside what symshare finds.

    python -m experiments.studies.ranges --out docs/studies/ranges.json

A label is told by one number of the image, such as the angle of a bar: class c has c D + e, with
normal e. So what a label loses when a move adds s to that number is an integral over e, and the
sizes at which it loses 5 and 20 % of what can be known follow without any network. What is noise
here is no part of the truth: a network reads the number nearly as well as anyone.

Other moves leave the number alone, and are safe up to the largest size that is examined. Every row
is a data set, a family and a seed; finished rows are not run again.
"""

import argparse
import json
import math
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from sklearn.datasets import load_sample_images
from torch import Tensor

from symshare.data import LabelledImages, rotate, transform
from symshare.discovery.config import BUDGETS
from symshare.discovery.judging import witness_optim
from symshare.files import write_atomically
from symshare.judge.thresholds import DELTA, DELTA_APPROXIMATE, FLOOR
from symshare.ranges import examine

IMAGES = 4000
FIRST_SEED = 1000
"""Seeds below were used while the method was being built."""

NOISE = 0.3
"""Spread of the noise of every pixel, beside signals of height 1."""


@dataclass(frozen=True)
class Coded:
    """Images whose class is told by one number.

    Attributes:
        draw: images for the number of each.
        classes: how many.
        apart: distance between the numbers of neighbouring classes.
        spread: of the number within a class.
        period: after which the number is the same; none where it is infinite.
        moves: for each family, whether it adds its size to the number; else it leaves it alone.
    """

    draw: Callable[[Tensor, torch.Generator], Tensor]
    classes: int
    apart: float
    spread: float
    period: float
    moves: dict[str, bool]

    def data(self, seed: int, count: int) -> LabelledImages:
        """So many images, as many of each class."""
        generator = torch.Generator().manual_seed(seed)
        labels = torch.arange(count) % self.classes
        middle = (labels - (self.classes - 1) / 2) * self.apart
        number = middle + self.spread * torch.randn(count, generator=generator)
        names = tuple(str(c) for c in range(self.classes))
        return LabelledImages(self.draw(number, generator), labels, names)

    def safe(self, share: float) -> float:
        """The size of a move at which the label loses this share of what can be known of it."""
        known = math.log(self.classes) - self._loss(0.0)
        low, high = 0.0, min(self.period, 10 * self.classes * self.apart) / 2
        for _ in range(50):
            middle = (low + high) / 2
            lost = (self._loss(middle) + self._loss(-middle)) / 2 - self._loss(0.0)
            low, high = (middle, high) if lost < share * known else (low, middle)
        return low

    def _loss(self, size: float) -> float:
        """Loss of the true posterior, floored as in the tests, after a move of this size."""
        e = np.linspace(-6, 6, 2001) * self.spread
        weights = np.exp(-((e / self.spread) ** 2) / 2)
        middles = (np.arange(self.classes) - (self.classes - 1) / 2) * self.apart
        turns = np.arange(-3, 4) * self.period if math.isfinite(self.period) else np.zeros(1)
        losses = []
        for c, middle in enumerate(middles):
            away = (middle + e + size)[:, None, None] - middles[:, None] - turns
            density = np.exp(-((away / self.spread) ** 2) / 2).sum(-1) + 1e-300
            right = density[:, c] / density.sum(-1)
            floored = (1 - FLOOR) * right + FLOOR / self.classes
            losses.append(-(weights * np.log(floored)).sum() / weights.sum())
        return float(np.mean(losses))


def bars(angle: Tensor, generator: torch.Generator) -> Tensor:
    """A bar through the middle of 16 x 16 pixels, counter-clockwise from the east in degrees."""
    position = torch.arange(16) - 7.5
    row, column = torch.meshgrid(position, position, indexing="ij")
    a = angle.deg2rad()[:, None, None]
    across = column * a.sin() + row * a.cos()
    inside = torch.sigmoid(2 * (6 - torch.hypot(row, column)))
    images = (-(across**2) / 3).exp() * inside
    return _noisy(images[:, None], generator)


def bumps(place: Tensor, generator: torch.Generator) -> Tensor:
    """A bump on a signal of 96 steps, so many steps from the middle."""
    step = torch.arange(96) - 47.5
    return _noisy((-((step - place[:, None]) ** 2) / 18).exp()[:, None], generator)


def pulses(doublings: Tensor, generator: torch.Generator) -> Tensor:
    """A pulse in the middle of 48 steps, of height 4 times 2 to the number."""
    step = torch.arange(48) - 23.5
    return _noisy(4 * 2 ** doublings[:, None, None] * (-(step**2) / 18).exp(), generator)


def rings(radius: Tensor, generator: torch.Generator) -> Tensor:
    """A ring about the middle of 16 x 16 pixels, of radius 4 and so many pixels more."""
    position = torch.arange(16) - 7.5
    far = torch.hypot(*torch.meshgrid(position, position, indexing="ij"))
    images = (-((far - 4 - radius[:, None, None]) ** 2) / 2).exp()
    return _noisy(images[:, None], generator)


def photographs(angle: Tensor, generator: torch.Generator) -> Tensor:
    """Scikit-learn's two photographs in gray, turned by so many degrees, 16 x 16."""
    pictures = torch.stack([_gray(picture) for picture in load_sample_images().images])
    which = torch.randint(len(pictures), angle.shape, generator=generator)
    # Twice as many pixels as are kept, so that no corner of what is kept is empty.
    turned = torch.cat(
        [rotate(pictures[w], a) for w, a in zip(which.split(500), angle.split(500), strict=True)]
    )
    return _noisy(turned[..., 8:24, 8:24], generator)


def _gray(picture: np.ndarray) -> Tensor:
    """The middle of a photograph, a square, at 32 x 32 pixels of mean 0 and spread 1."""
    gray = torch.from_numpy(picture.copy()).float().mean(-1)
    side = min(gray.shape)
    top, left = ((n - side) // 2 for n in gray.shape)
    square = gray[None, None, top : top + side, left : left + side]
    small = torch.nn.functional.interpolate(square, (32, 32), mode="area")[0]
    return (small - small.mean()) / small.std()


def _noisy(images: Tensor, generator: torch.Generator) -> Tensor:
    return images + NOISE * torch.randn(images.shape, generator=generator)


CASES = {
    "bars": Coded(bars, 4, 45.0, 15.0, 180.0, {"turn": True}),
    "bumps": Coded(bumps, 4, 16.0, 5.0, math.inf, {"shift": True}),
    "pulses": Coded(pulses, 3, 1.5, 0.5, math.inf, {"gain": True}),
    "rings": Coded(rings, 3, 1.5, 0.4, math.inf, {"turn": False}),
    "photographs": Coded(photographs, 4, 90.0, 30.0, 360.0, {"turn": True}),
}


def main(options: list[str] | None = None) -> None:
    """Examine what is missing, and write the rows and their table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--cases", nargs="+", default=list(CASES), choices=CASES)
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args(options)
    torch.set_num_threads(arguments.threads)
    rows = json.loads(arguments.out.read_text()) if arguments.out.exists() else []
    for name in arguments.cases:
        for seed in range(FIRST_SEED, FIRST_SEED + arguments.seeds):
            if not any((row["data"], row["seed"]) == (name, seed) for row in rows):
                rows += examined(name, seed)
                write_atomically(arguments.out, json.dumps(rows, indent=1).encode())
                write_atomically(arguments.out.with_suffix(".md"), table(rows).encode())
    print(table(rows), end="")


def examined(name: str, seed: int) -> list[dict]:
    """What is found of one data set with one seed, a row for each of its families."""
    case, start = CASES[name], time.perf_counter()
    optim = witness_optim(BUDGETS["standard"].judge_steps)
    ranges = examine(case.data(seed, IMAGES), transform("none"), list(case.moves), optim, seed)
    seconds = round(time.perf_counter() - start, 1)
    rows = []
    for family in ranges.families:
        unit = ranges.spread[0] if family.unit == "spreads" else 1.0
        coded = case.moves[family.family]
        for bound, reach in ((DELTA, family.safe), (DELTA_APPROXIMATE, family.safe_approximate)):
            rows.append(
                {
                    "data": name,
                    "family": family.family,
                    "unit": family.unit,
                    "doubling": family.doubling,
                    "seed": seed,
                    "bound": bound,
                    "derived": round(case.safe(bound) / unit, 4) if coded else family.limit,
                    "low": reach.low,
                    "high": reach.high,
                    "beyond_low": reach.beyond_low,
                    "beyond_high": reach.beyond_high,
                    "images": ranges.samples,
                    "seconds": seconds,
                }
            )
    return rows


def is_near(found: float, derived: float, row: dict) -> bool:
    """Whether an end is within 20 % of the derived one, or within 2 degrees, pixels or steps."""
    units = 0.0 if row["unit"] in ("times", "spreads") else 2.0
    return abs(abs(found) - derived) <= max(0.2 * derived, units)


def table(rows: list[dict]) -> str:
    """The rows in Markdown, the seeds of one data set, family and bound together."""
    lines = [
        "Made by `python -m experiments.studies.ranges`. Ends of the safe sizes, as shown, beside",
        "the derived ones, at 5 and at 20 % of what can be known; sizes of gain count doublings.",
        "Near: within 20 %, or within 2 degrees, pixels or steps. Too far: beyond the derived end.",
        "",
        "| data | moves | unit | bound | derived | low ends | high ends | near | too far | s |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    keys = dict.fromkeys((row["data"], row["family"], row["bound"]) for row in rows)
    for data, family, bound in keys:
        own = [r for r in rows if (r["data"], r["family"], r["bound"]) == (data, family, bound)]
        ends = [(abs(end), r) for r in own for end in (r["low"], r["high"])]
        near = sum(is_near(end, r["derived"], r) for end, r in ends)
        far = sum(end > r["derived"] for end, r in ends)
        derived = statistics.fmean(r["derived"] for r in own)
        lows, highs = (", ".join(f"{r[side]:.3g}" for r in own) for side in ("low", "high"))
        unit = "doublings" if own[0]["doubling"] else own[0]["unit"]
        seconds = statistics.fmean(r["seconds"] for r in own)
        lines.append(
            f"| {data} | {family} | {unit} | {bound:.0%} | {derived:.3g} | {lows} | {highs} | "
            f"{near} of {len(ends)} | {far} | {seconds:.0f} |"
        )
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    main()
