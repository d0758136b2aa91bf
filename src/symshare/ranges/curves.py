"""The excess loss and the change of the images against size, and the sizes that are safe."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from symshare.data import LabelledImages, Transform, freeze
from symshare.judge.statistics import estimates
from symshare.judge.thresholds import (
    ALPHA,
    CHANGE,
    DELTA,
    DELTA_APPROXIMATE,
    DELTA_OF_CLASS,
    FLOOR,
)
from symshare.ranges.families import Family, families_of, is_clipped, spread_of
from symshare.ranges.questions import Questions
from symshare.records import ExaminedSize, Range, Ranges, Reach
from symshare.train.loop import Progress, unseen
from symshare.train.settings import Hardware, OptimConfig

REFINEMENTS = 3
"""Times that the gap between the last safe size and the next one is halved, at either bound."""


def examine(
    data: LabelledImages,
    transform: Transform,
    names: Sequence[str],
    optim: OptimConfig,
    seed: int,
    *,
    out: Path | None = None,
    progress: Progress = unseen,
    hardware: Hardware = Hardware(),
) -> Ranges:
    """Find the sizes of moves that the labels bear, family by family.

    Two networks are trained, each on one half of the data, whose heads for labels saw images as
    they are; a size costs no further training, but two passes of at most `ASKED` images of each
    half. Sizes are asked from zero outwards until the excess loss was shown to be above the looser
    bound, and then between the last size that is safe and the next.

    Args:
        data: different images, none of the test part.
        transform: what makes them what they are; held-out images are transformed once.
        names: of families, as `symshare.names.RANGES` lists them.
        optim: how to train a network, at most.
        seed: of everything random.
        out: folder for the networks and for `FAMILY.json`, from which an interrupted call
            continues; nothing is written where None.
        progress: called after every step of the trainings.
        hardware: what to train on.

    Raises:
        ValueError: where a class lies in too few groups to be on both sides.
    """
    start = time.perf_counter()
    shown = freeze(data, transform, seed).images
    known = families_of(shown)
    families = [known[name] for name in names]
    questions = Questions(
        data, transform, families, optim, seed, out=out, progress=progress, hardware=hardware
    )
    power, found = questions.power(), []
    for family in families if power.passed else ():
        path = None if out is None else out / f"{family.name}.json"
        if path is not None and path.exists():
            found.append(Range.read(path))
            continue
        found.append(_examined(family, _Asked(questions, family, questions_of(family))))
        if path is not None:
            found[-1].write(path)
    return Ranges(
        families=tuple(found),
        reasons=power.reasons,
        delta=DELTA * max(power.gain, 0.0),
        delta_approximate=DELTA_APPROXIMATE * max(power.gain, 0.0),
        samples=len(questions.labels),
        independent=len(questions.clusters.unique()),
        spread=tuple(spread_of(shown).tolist()),
        clipped=is_clipped(shown),
        shape=data.space,
        seconds=round(time.perf_counter() - start, 1),
    )


def questions_of(family: Family) -> int:
    """Most sizes of a family that are asked about, which share its error.

    Example:
        >>> questions_of(families_of(torch.rand(2, 1, 32, 32))["turn"])
        34
    """
    signs = 2 if family.signed else 1
    return signs * (len(family.sizes()) + 2 * REFINEMENTS)


@dataclass(frozen=True, eq=False)
class _Asked:
    """Answers about one family, with bounds that hold for so many sizes together (Bonferroni)."""

    questions: Questions
    family: Family
    count: int

    def __call__(self, size: float) -> ExaminedSize:
        """What is said about one size."""
        Q, level = self.questions, ALPHA / self.count
        answer = Q.at(self.family, size)
        gain, clusters = Q.chance_loss - Q.loss, Q.clusters
        # Largest change of a floored loss; what could happen to an image that was not drawn.
        worst = math.log(Q.classes / FLOOR)

        def shown_below(share: float) -> bool:
            (left,) = estimates((answer.excess - share * gain)[None], clusters, worst)
            return left.p_below(0.0) <= level

        excess, resampling = estimates(torch.stack([answer.excess, answer.resampling]), clusters)
        (left,) = estimates((answer.excess - DELTA * gain)[None], clusters)
        lost = self.classes_broken(answer.excess, gain, level)
        change = unnoticed = None
        if answer.change is not None:
            (change,) = estimates(answer.change[None], clusters)
            (below,) = estimates(answer.change[None] - CHANGE, clusters, 1.0)
            unnoticed = below.p_below(0.0) <= level
        return ExaminedSize(
            size=size,
            excess_loss=excess.mean,
            interval=excess.interval(level),
            resampling_loss=resampling.mean,
            change=None if change is None else change.mean,
            change_interval=None if change is None else change.interval(level),
            unnoticed=unnoticed,
            safe=shown_below(DELTA) and not lost,
            safe_approximate=shown_below(DELTA_APPROXIMATE) and not lost,
            broken=left.p_above(0.0) <= level or bool(lost),
            classes_broken=lost,
        )

    def classes_broken(
        self, excess: torch.Tensor, gain: torch.Tensor, level: float
    ) -> tuple[int, ...]:
        """Classes that were shown to lose more than `DELTA_OF_CLASS` of what is known of them."""
        labels, clusters = self.questions.labels, self.questions.clusters
        present, lost = labels.unique().tolist(), []
        for label in present:
            chosen = labels == label
            rows = torch.stack([excess - DELTA_OF_CLASS * gain, excess])[:, chosen]
            # A class of which the networks know less than its frequency has no bound of its own.
            p = max(e.p_above(0.0) for e in estimates(rows, clusters[chosen]))
            if p <= level / len(present):
                lost.append(label)
        return tuple(lost)


def _examined(family: Family, ask: Callable[[float], ExaminedSize]) -> Range:
    """Ask about sizes from zero outwards, and between those where an answer turns."""
    asked: dict[float, ExaminedSize] = {}
    ends: dict[str, list[tuple[float, float | None]]]
    ends = {"safe": [], "safe_approximate": [], "unnoticed": []}
    for sign in (-1, 1) if family.signed else (1,):
        own: dict[float, ExaminedSize] = {}
        for size in family.sizes():
            own[size] = ask(sign * size)
            if own[size].broken and not own[size].safe_approximate:
                break
        for name, found in ends.items():
            inside, beyond = _end(own, name)
            for _ in range(REFINEMENTS if name != "unnoticed" else 0):
                middle = None if beyond is None else family.between(inside, beyond)
                if middle is None:
                    break
                own[middle] = ask(sign * middle)
                inside, beyond = _end(own, name)
            found.append((sign * inside + 0.0, None if beyond is None else sign * beyond))
        asked |= {sign * size: said for size, said in own.items()}
    return Range(
        family=family.name,
        unit=family.unit,
        doubling=family.doubling,
        signed=family.signed,
        resampled=family.resampled,
        limit=family.limit,
        **{name: _reach(found) for name, found in ends.items()},
        sizes=tuple(asked[size] for size in sorted(asked)),
    )


def _end(own: dict[float, ExaminedSize], name: str) -> tuple[float, float | None]:
    """The largest size up to which every answer is yes, and the next; sizes without one are out."""
    inside = 0.0
    for size in sorted(own):
        answer = getattr(own[size], name)
        if answer is False:
            return inside, size
        if answer:
            inside = size
    return inside, None


def _reach(ends: list[tuple[float, float | None]]) -> Reach:
    """The ends below and above zero; of sizes without a sign, above alone."""
    (low, beyond_low), (high, beyond_high) = ends if len(ends) == 2 else [(0.0, None), *ends]
    return Reach(low, high, beyond_low, beyond_high)
