"""The methods that are compared: each sees images and labels, and names moves.

To add one, write a function of a `Question` that returns an `Answer`, and name it in `METHODS`.
"""

import time
from collections.abc import Callable

from experiments.discovery.answers import Answer, Question
from experiments.discovery.command import Method
from experiments.discovery.former import ask_former
from experiments.discovery.rivals import ask_augmentation, ask_gates, ask_kernel
from experiments.discovery.truths import Permutation, signed
from symshare.data import split, transform
from symshare.discovery.config import BUDGETS
from symshare.discovery.judging import verdict_on
from symshare.discovery.search import judge_pool
from symshare.propose import Candidate


def ask_symshare(question: Question) -> Answer:
    """The propose and judge steps of `symshare discover` at its budget `standard`."""
    start, seed = time.perf_counter(), question.seed
    budget = BUDGETS["standard"]
    pool = judge_pool(split(question.data, name="discovery", seed=seed), budget, seed)
    candidates, verdict = verdict_on(
        pool, transform("none"), budget.judge_steps, seed, periodic=question.periodic
    )
    power = verdict.power
    return Answer(
        word=verdict.word,
        group=verdict.group,
        found=verdict.found or verdict.approximate,
        capped=candidates.capped,
        possible=verdict.possible,
        moves={element.name: _move(element) for element in candidates.elements[1:]},
        statuses={j.name: j.status for j in verdict.judgements},
        maps={
            j.name: j.label_map
            for j in verdict.judgements
            if sorted(j.label_map) != list(j.label_map)
        },
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


def _move(candidate: Candidate) -> Permutation:
    """A candidate as a move of positions, or, where channels move too, of all numbers."""
    if candidate.channels is None:
        return candidate.permutation
    P, channels = len(candidate.permutation), candidate.channels
    sources = [P * c + p for c in channels.sources for p in candidate.permutation]
    return signed(sources, [sign for sign in channels.signs for _ in range(P)])


def _rounded(*values: float) -> list[float]:
    return [round(value, 4) for value in values]


METHODS: dict[Method, Callable[[Question], Answer]] = {
    "symshare": ask_symshare,
    "former": ask_former,
    "kernel": ask_kernel,
    "augmentation": ask_augmentation,
    "gates": ask_gates,
}
"""The methods by name."""
