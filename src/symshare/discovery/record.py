"""The record of a discovery, from what its steps computed."""

import platform
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from importlib.metadata import version

from symshare.advice import advise
from symshare.discovery.config import DiscoveryConfig
from symshare.discovery.wording import caveats, sentence
from symshare.judge import Verdict
from symshare.names import THINGS
from symshare.propose import Candidate, Candidates
from symshare.records import (
    NETWORKS,
    Accuracy,
    Element,
    NetworkName,
    Ranges,
    ResultRecord,
    Seconds,
    Seeds,
    VerdictRecord,
)

KERNEL = 3
"""Positions along each axis of the kernel whose permutation the record shows for each element."""


@dataclass(frozen=True)
class Judged:
    """What is known before networks are trained.

    Attributes:
        config: of the discovery.
        command: that repeats it.
        classes: names of the classes.
        candidates: what was judged.
        verdict: on them.
        planned: networks that are to be trained.
        notes: further caveats.
        propose_seconds, judge_seconds: time spent.
        ranges: of moves with a size; None where they were not asked for, or are not yet known.
    """

    config: DiscoveryConfig
    command: str
    classes: tuple[str, ...]
    candidates: Candidates
    verdict: Verdict
    planned: tuple[NetworkName, ...]
    notes: Sequence[str]
    propose_seconds: float
    judge_seconds: float
    ranges: Ranges | None = None


@dataclass(frozen=True)
class TrainedNetwork:
    """One network that has been trained: its result, and its learned measure by element."""

    name: NetworkName
    result: ResultRecord
    measure: Mapping[str, float]


def verdict_record(judged: Judged, trained: Sequence[TrainedNetwork]) -> VerdictRecord:
    """Everything that is known so far of a discovery, with the networks whose runs have ended."""
    config, verdict, candidates = judged.config, judged.verdict, judged.candidates
    fit_seconds = sum((t.result.seconds for t in trained), 0.0)
    seconds = (judged.propose_seconds, judged.judge_seconds, fit_seconds)
    packages = ("torch", "numpy")
    shared = vars(verdict).keys() & {field.name for field in fields(VerdictRecord)}
    record = VerdictRecord(
        symshare=version("symshare"),
        source=config.source,
        transform=config.transform,
        **{name: value for name, value in vars(verdict).items() if name in shared},
        verdict=verdict.word,
        sentence=sentence(
            verdict, candidates.capped, judged.classes, THINGS[len(candidates.shape)]
        ),
        capped=candidates.capped,
        caveats=(
            *caveats(verdict, candidates, judged.classes, config.periodic),
            *judged.notes,
            *_unlearned(verdict, trained),
        ),
        elements=_elements(candidates, verdict, trained),
        accuracy={
            name: _accuracy([t.result for t in trained if t.name == name]) for name in NETWORKS
        },
        planned=judged.planned,
        seconds=Seconds(*(round(value, 1) for value in (*seconds, sum(seconds)))),
        seeds=Seeds((config.seed,), tuple(sorted({t.result.seed for t in trained}))),
        versions={"python": platform.python_version(), **{p: version(p) for p in packages}},
        commands=(judged.command,),
        classes=judged.classes,
        ranges=judged.ranges,
        advice=(),
    )
    return replace(record, advice=advise(record))


def _elements(
    candidates: Candidates, verdict: Verdict, trained: Sequence[TrainedNetwork]
) -> tuple[Element, ...]:
    """What is known of each candidate, functions behind the others."""
    shape = candidates.shape
    made = []
    for candidate, judgement in zip(candidates.elements[1:], verdict.judgements, strict=True):
        kernel = _on_kernel(candidate)
        made.append(
            Element(
                **vars(judgement),
                permutation=candidate.permutation,
                shape=shape,
                kernel_permutation=kernel,
                kernel_shape=None if kernel is None else (KERNEL,) * len(shape),
                source=candidate.source,
                measure=_mean_measure(candidate.name, trained),
            )
        )
    for judgement in verdict.functions:
        made.append(
            Element(
                **vars(judgement),
                permutation=None,
                shape=shape,
                kernel_permutation=None,
                kernel_shape=None,
                source="function",
                measure=None,
            )
        )
    return tuple(made)


def _unlearned(verdict: Verdict, trained: Sequence[TrainedNetwork]) -> list[str]:
    """Say where the compared networks learned much less than those of the held-out tests."""
    power = verdict.power
    best = max((t.result.test_accuracy for t in trained), default=1.0)
    if best >= (power.chance_accuracy + power.accuracy) / 2:
        return []
    return [
        f"The compared networks learned little: the best has {best:.1%} of the test part right, "
        f"where those of the held-out tests have {power.accuracy:.1%} and guessing has "
        f"{power.chance_accuracy:.1%}. Which of them is better cannot be said; a larger budget "
        "trains longer."
    ]


def _accuracy(results: Sequence[ResultRecord]) -> Accuracy | None:
    """Test accuracy of one network over its seeds; None where it was not run."""
    if not results:
        return None
    values = tuple(result.test_accuracy for result in results)
    return Accuracy(
        mean=round(statistics.fmean(values), 12),
        std=statistics.stdev(values) if len(values) > 1 else None,
        n=len(values),
        values=values,
        parameters=results[0].parameters,
        representation_parameters=results[0].representation_parameters,
    )


def _on_kernel(candidate: Candidate) -> tuple[int, ...] | None:
    """The permutation of kernel positions; None where the candidate moves no kernel."""
    if candidate.map is None:
        return None
    return tuple(candidate.map.linear.permutation((KERNEL,) * len(candidate.map.shift)).tolist())


def _mean_measure(name: str, trained: Sequence[TrainedNetwork]) -> float | None:
    """Learned measure of an element over the networks that have one for it."""
    learned = [t.measure[name] for t in trained if t.name == "gated" and name in t.measure]
    return statistics.fmean(learned) if learned else None
