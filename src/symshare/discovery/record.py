"""The record of a discovery, from what its steps computed."""

import platform
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from importlib.metadata import version

from symshare.advice import advise
from symshare.discovery.config import DiscoveryConfig
from symshare.discovery.wording import caveats, in_words, sentence
from symshare.groups.channels import called
from symshare.judge import Verdict
from symshare.names import things_of
from symshare.propose import Candidate, Candidates
from symshare.records import (
    NETWORKS,
    Accuracy,
    Element,
    LabelNames,
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
        labels: what labels are called.
        candidates: what was judged.
        verdict: on them.
        planned: networks that are to be trained.
        notes: further caveats.
        propose_seconds, judge_seconds: time spent.
        ranges: of moves with a size; None where they were not asked for, or are not yet known.
    """

    config: DiscoveryConfig
    command: str
    labels: LabelNames
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
            verdict,
            candidates.capped,
            judged.labels,
            things_of(candidates.shape),
            in_words(candidates, config.channels),
        ),
        capped=candidates.capped,
        caveats=(
            *caveats(verdict, candidates, judged.labels, config.periodic),
            *judged.notes,
            *_unlearned(verdict, trained, judged.labels),
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
        classes=judged.labels.classes,
        metric="explained variance" if judged.labels.numbers else "accuracy",
        numbers=judged.labels.numbers,
        strata=judged.labels.strata,
        channels=config.channels,
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
        kernel, channels = _on_kernel(candidate), candidate.channels
        made.append(
            Element(
                **vars(judgement),
                permutation=candidate.permutation,
                shape=shape,
                kernel_permutation=kernel,
                kernel_shape=None if kernel is None else (KERNEL,) * len(shape),
                channels=None if channels is None else channels.sources,
                signs=None if channels is None else channels.signs,
                source=candidate.source,
                measure=_mean_measure(_in_network(candidate), trained),
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
                channels=None,
                signs=None,
                source="function",
                measure=None,
            )
        )
    return tuple(made)


def _unlearned(
    verdict: Verdict, trained: Sequence[TrainedNetwork], labels: LabelNames
) -> list[str]:
    """Say where the compared networks learned much less than those of the held-out tests."""
    power = verdict.power
    best = max((t.result.test_accuracy for t in trained), default=1.0)
    if best >= (power.chance_accuracy + power.accuracy) / 2:
        return []
    if labels.numbers:
        little = (
            f"the best explains {best:.1%} of the variance of the labels of the test part, where "
            f"those of the held-out tests explain {power.accuracy:.1%}"
        )
    else:
        little = (
            f"the best has {best:.1%} of the test part right, where those of the held-out tests "
            f"have {power.accuracy:.1%} and guessing has {power.chance_accuracy:.1%}"
        )
    return [
        f"The compared networks learned little: {little}. Which of them is better cannot be said; "
        "a larger budget trains longer."
    ]


def _accuracy(results: Sequence[ResultRecord]) -> Accuracy | None:
    """Test accuracy of one network over its seeds; None where it was not run."""
    if not results:
        return None
    values = tuple(result.test_accuracy for result in results)
    errors = [result.test_error for result in results if result.test_error is not None]
    return Accuracy(
        mean=round(statistics.fmean(values), 12),
        std=statistics.stdev(values) if len(values) > 1 else None,
        n=len(values),
        values=values,
        parameters=results[0].parameters,
        representation_parameters=results[0].representation_parameters,
        error=tuple(map(statistics.fmean, zip(*errors, strict=True))) or None,
    )


def _on_kernel(candidate: Candidate) -> tuple[int, ...] | None:
    """The permutation of kernel positions; None where the candidate moves no kernel."""
    if candidate.map is None:
        return None
    return tuple(candidate.map.linear.permutation((KERNEL,) * len(candidate.map.shift)).tolist())


def _in_network(candidate: Candidate) -> str:
    """What networks call it, which number the channels."""
    map, channels = candidate.map, candidate.channels
    if channels is None or map is None or any(map.shift):
        return candidate.name
    return called(map.name_on((KERNEL,) * len(map.shift)) or "id", channels)


def _mean_measure(name: str, trained: Sequence[TrainedNetwork]) -> float | None:
    """Learned measure of an element over the networks that have one for it."""
    learned = [t.measure[name] for t in trained if t.name == "gated" and name in t.measure]
    return statistics.fmean(learned) if learned else None
