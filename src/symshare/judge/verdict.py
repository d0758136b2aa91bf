"""From what is known of each candidate to a verdict on the set."""

from collections.abc import Sequence
from dataclasses import dataclass

from symshare.groups import GroupAction, generated
from symshare.judge.evidence import Evidence
from symshare.judge.judgement import judge_candidates
from symshare.judge.power import measure_power
from symshare.judge.thresholds import ALPHA, DELTA, DELTA_APPROXIMATE, KEPT
from symshare.records import Judgement, Power, Status, Word

__all__ = ["Verdict", "decide"]


@dataclass(frozen=True)
class Verdict:
    """The verdict on all candidates together.

    Attributes:
        word: "group" (the symmetric elements close), "approximate" (they do within the looser
            bound), "partial" (broken, but some element keeps much of every class), "none",
            "undecided".
        group: name of the exact or approximate group.
        found: names of the symmetric elements of the group, the identity left out.
        approximate: names of the elements of an approximate group.
        partial: names of the broken elements that keep at least `KEPT` of every class.
        judgements: one for each candidate.
        power: the power gate.
        delta, delta_approximate: bounds in nats.
        alpha: family-wise error of each question.
        samples: number of held-out images.
    """

    word: Word
    group: str | None
    found: tuple[str, ...]
    approximate: tuple[str, ...]
    partial: tuple[str, ...]
    judgements: tuple[Judgement, ...]
    power: Power
    delta: float
    delta_approximate: float
    alpha: float
    samples: int


def decide(evidence: Evidence, action: GroupAction, residuals: Sequence[float | None]) -> Verdict:
    """Judge every element but the identity, then the set.

    Args:
        evidence: rows of `moved_loss` in the order of the action's elements without the identity.
        action: the candidates with their products.
        residuals: of the second moments of the images, in the same order.
    """
    power = measure_power(evidence)
    judgements = judge_candidates(evidence, action.names[1:], residuals, power.passed)
    found = _subgroup(action, _named(judgements, "symmetric"))
    approximate: tuple[str, ...] = ()
    if not found:
        approximate = _subgroup(action, _named(judgements, "symmetric", "approximate"))
    partial: tuple[str, ...] = ()
    if not found and not approximate:
        partial = tuple(
            j.name for j in judgements if j.status == "broken" and j.kept_share_min_lower >= KEPT
        )
    members = found or approximate
    return Verdict(
        word=_word(power, judgements, found, approximate, partial),
        group=action.subset(members).name if members else None,
        found=found,
        approximate=approximate,
        partial=partial,
        judgements=judgements,
        power=power,
        delta=DELTA * max(power.gain, 0.0),
        delta_approximate=DELTA_APPROXIMATE * max(power.gain, 0.0),
        alpha=ALPHA,
        samples=len(evidence.labels),
    )


def _named(judgements: tuple[Judgement, ...], *statuses: Status) -> tuple[str, ...]:
    return tuple(j.name for j in judgements if j.status in statuses)


def _subgroup(action: GroupAction, names: tuple[str, ...]) -> tuple[str, ...]:
    """Largest group made of the named elements; none where several are equally large.

    It is the set itself where that closes.
    """
    table = action.table.tolist()

    def multiply(g: int, h: int) -> int:
        return -1 if -1 in (g, h) else table[g][h]

    inside = {0, *(g for g, name in enumerate(action.names) if name in names)}
    subgroups = {frozenset([0])}
    frontier = list(subgroups)
    while frontier:
        grown = {
            frozenset(generated(subgroup | {g}, multiply)) for subgroup in frontier for g in inside
        }
        frontier = [group for group in grown - subgroups if group <= inside]
        subgroups.update(frontier)
    size = max(map(len, subgroups))
    largest = [group for group in subgroups if len(group) == size]
    if len(largest) > 1:
        return ()
    return tuple(action.names[g] for g in sorted(largest[0]) if g)


def _word(
    power: Power,
    judgements: tuple[Judgement, ...],
    found: tuple[str, ...],
    approximate: tuple[str, ...],
    partial: tuple[str, ...],
) -> Word:
    if not power.passed:
        return "undecided"
    if found:
        return "group"
    if approximate:
        return "approximate"
    if partial:
        return "partial"
    settled = all(j.status in ("broken", "tolerated") for j in judgements)
    return "none" if settled else "undecided"
