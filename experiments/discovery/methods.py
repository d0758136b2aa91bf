"""The methods that are compared: each sees images and labels, and names moves.

To add one, write a function of a `Question` that returns an `Answer`, and name it in `METHODS`.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from experiments.discovery.truths import Permutation, lattice
from symshare.data import LabelledImages, split, transform
from symshare.discovery.config import BUDGETS
from symshare.discovery.search import candidates_of, judge_pool
from symshare.discovery.steps import evidence_on
from symshare.groups import from_permutations
from symshare.judge import decide

KERNEL_IMAGES = 500
"""Images that the kernel test looks at."""

KERNEL_DRAWS = 199
"""Draws of the randomisation, so that the smallest p value is 1/200."""

KERNEL_LEVEL = 0.05
"""Level of the kernel test of all moves together."""


@dataclass(frozen=True, eq=False)
class Question:
    """What a method is asked.

    Attributes:
        data: the images as their law left them, with labels and, where they are told, groups.
        periodic: axes along which images wrap around, as a user would say.
        seed: of everything random in the method.
    """

    data: LabelledImages
    periodic: tuple[str, ...]
    seed: int


@dataclass(frozen=True)
class Answer:
    """What a method says.

    Attributes:
        word: group, approximate, partial, none or undecided.
        group: name of the group that it claims.
        found: names of the moves of this group, the identity left out.
        capped: whether it says that there may be more.
        possible: name of a larger group that it does not exclude.
        moves: the moves that were judged, by name.
        statuses: of each: symmetric and approximate are claims.
        numbers: of each, what it rests on.
        facts: numbers and reasons of the whole answer.
        seconds: that it took.
    """

    word: str
    group: str | None
    found: tuple[str, ...]
    capped: bool
    possible: str | None
    moves: dict[str, Permutation]
    statuses: dict[str, str]
    numbers: dict[str, dict[str, Any]]
    facts: dict[str, Any] = field(default_factory=dict)
    seconds: float = 0.0


def ask_symshare(question: Question) -> Answer:
    """The propose and judge steps of `symshare discover` at its budget `standard`."""
    start, seed = time.perf_counter(), question.seed
    budget, as_it_is = BUDGETS["standard"], transform("none")
    pool = judge_pool(split(question.data, name="discovery", seed=seed), budget, seed)
    candidates = candidates_of(pool, as_it_is, seed, periodic=question.periodic)
    action = candidates.action()
    evidence = evidence_on(action, pool, as_it_is, budget.judge_steps, seed)
    verdict = decide(evidence, action)
    power = verdict.power
    return Answer(
        word=verdict.word,
        group=verdict.group,
        found=verdict.found or verdict.approximate,
        capped=candidates.capped,
        possible=verdict.possible,
        moves={element.name: element.permutation for element in candidates.elements[1:]},
        statuses={j.name: j.status for j in verdict.judgements},
        numbers={
            j.name: {
                "excess": _rounded(j.excess_loss, *j.interval),
                "change": _rounded(j.change, *j.change_interval),
                "moved_share": round(j.moved_share, 3),
                "shown": len(j.classes_shown),
                "broken": list(j.classes_broken),
            }
            for j in verdict.judgements
        },
        facts={
            "power": power.passed,
            "reasons": list(power.reasons),
            "gain": round(power.gain, 3),
            "delta": round(verdict.delta, 4),
            "accuracy": round(power.accuracy, 3),
            "samples": verdict.samples,
            "independent": verdict.independent,
            "looks": verdict.looks,
        },
        seconds=round(time.perf_counter() - start, 1),
    )


def ask_kernel(question: Question) -> Answer:
    """A randomisation test of invariance with a kernel, for each move of the lattice.

    As in Chiu and Bloem-Reddy (arXiv:2307.15834): where g is a symmetry, each image may be replaced
    by a random one of its orbit under the powers of g without changing the law. The statistic is
    the squared maximum mean discrepancy between the images and their averages over the orbit, with
    a Gaussian kernel of the median distance between images, and between images of one class only.
    A move is called a symmetry where Holm's method does not reject it: no more can such a test say.
    """
    from symshare.judge.statistics import rejected

    start, data = time.perf_counter(), question.data
    generator = np.random.default_rng(question.seed)
    chosen = generator.permutation(len(data))[:KERNEL_IMAGES]
    images, labels = data.images.numpy()[chosen], data.labels.numpy()[chosen]
    shape = (images.shape[2], images.shape[3])
    moves = lattice(shape)
    moves.pop("id")
    p_values = {name: _invariance(images, labels, move, generator) for name, move in moves.items()}
    broken = rejected(list(p_values.values()), KERNEL_LEVEL)
    found = tuple(name for name, out in zip(moves, broken, strict=True) if not out)
    return Answer(
        word="group" if found else "none",
        group=from_permutations([moves[name] for name in found], shape).name if found else None,
        found=found,
        capped=False,
        possible=None,
        moves=moves,
        statuses={name: "symmetric" if name in found else "broken" for name in moves},
        numbers={name: {"p": round(value, 4)} for name, value in p_values.items()},
        facts={"samples": len(images)},
        seconds=round(time.perf_counter() - start, 1),
    )


def _invariance(
    images: np.ndarray, labels: np.ndarray, move: Permutation, generator: np.random.Generator
) -> float:
    """The p value of the hypothesis that a move is a symmetry of labelled images."""
    flat, powers = images.reshape(len(images), images.shape[1], -1), [list(range(len(move)))]
    while (following := [move[source] for source in powers[-1]]) != powers[0]:
        powers.append(following)
    orbit = np.stack([flat[:, :, power] for power in powers]).reshape(len(powers), len(images), -1)
    rows = orbit.reshape(-1, orbit.shape[-1]).astype(float)
    squares = (rows**2).sum(1)
    distance = np.maximum(squares[:, None] + squares - 2 * rows @ rows.T, 0)
    kernel = np.exp(-distance / np.median(distance[distance > 0]))
    kernel *= np.tile(labels, len(powers))[:, None] == np.tile(labels, len(powers))
    # Of the images of one draw with each other, and with the whole orbits; that of orbits is fixed.
    to_orbits = kernel.mean(1)
    here = np.arange(len(images))

    def discrepancy(powers_drawn: np.ndarray) -> float:
        drawn = powers_drawn * len(images) + here
        return float(kernel[np.ix_(drawn, drawn)].mean() - 2 * to_orbits[drawn].mean())

    observed = discrepancy(np.zeros_like(here))
    draws = [
        discrepancy(generator.integers(len(powers), size=len(here))) for _ in range(KERNEL_DRAWS)
    ]
    return (1 + sum(draw >= observed for draw in draws)) / (1 + KERNEL_DRAWS)


def _rounded(*values: float) -> list[float]:
    return [round(value, 4) for value in values]


METHODS: dict[str, Callable[[Question], Answer]] = {
    "symshare": ask_symshare,
    "kernel": ask_kernel,
}
"""The methods by name."""
