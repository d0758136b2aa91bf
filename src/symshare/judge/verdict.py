"""From what is known of each candidate to a verdict on the set."""

from collections.abc import Sequence
from dataclasses import dataclass

from symshare.groups import GroupAction, generated
from symshare.judge.evidence import Evidence
from symshare.judge.judgement import judge_candidates, measure_power
from symshare.judge.thresholds import ALPHA, DELTA, DELTA_APPROXIMATE, KEPT
from symshare.records import Judgement, Power, Status, Word


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
    found = approximate = partial = ()
    word: Word
    # Where the power gate failed, all are undecided.
    if found := _subgroup(action, judgements, "symmetric"):
        word = "group"
    elif approximate := _subgroup(action, judgements, "symmetric", "approximate"):
        word = "approximate"
    elif partial := tuple(
        j.name for j in judgements if j.status == "broken" and j.kept_share_min_lower >= KEPT
    ):
        word = "partial"
    elif power.passed and all(j.status in ("broken", "tolerated") for j in judgements):
        word = "none"
    else:
        word = "undecided"
    members = found or approximate
    return Verdict(
        word=word,
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


def _subgroup(
    action: GroupAction, judgements: tuple[Judgement, ...], *statuses: Status
) -> tuple[str, ...]:
    """Largest group of elements of these statuses; none where several are equally large.

    It is the set itself where that closes.
    """
    table = action.table.tolist()

    def multiply(g: int, h: int) -> int:
        return -1 if -1 in (g, h) else table[g][h]

    inside = {0, *(g for g, j in enumerate(judgements, 1) if j.status in statuses)}
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
