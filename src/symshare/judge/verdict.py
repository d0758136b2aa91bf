"""From what is known of each candidate to a verdict on the set."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from symshare.groups import Action, generated
from symshare.judge.answers import Evidence
from symshare.judge.judgement import judge_candidates, measure_power
from symshare.judge.thresholds import (
    ALPHA,
    CHANGE,
    CHANGE_APPROXIMATE,
    DELTA,
    DELTA_APPROXIMATE,
    KEPT,
    MOVED,
    OPEN,
)
from symshare.records import Judgement, Power, Status, Word


@dataclass(frozen=True)
class Verdict:
    """The verdict on all candidates together.

    Attributes:
        word: "group" (the symmetric elements close), "approximate" (they do within the looser
            bounds), "partial" (broken, but some element keeps much of every class), "none",
            "undecided".
        group: name of the exact or approximate group.
        found: names of the symmetric elements of the group, the identity left out.
        approximate: names of the elements of an approximate group.
        partial: names of the broken elements that keep at least `KEPT` of every class.
        possible: name of the largest group that holds what was shown and is not excluded, where
            that is more than was shown.
        judgements: one for each candidate that may be in a group.
        functions: one for each function that was handed over.
        power: the power gate.
        delta, delta_approximate: bounds of the excess loss in nats.
        change, change_approximate: bounds of the change of the images.
        alpha: family-wise error of each question.
        samples: number of held-out images.
        independent: number of their clusters, which are independent of one another.
        copies: share of the images that have a near copy.
        chained: whether near copies form chains, and so count as independent.
        looks: looks at the evidence.
    """

    word: Word
    group: str | None
    found: tuple[str, ...]
    approximate: tuple[str, ...]
    partial: tuple[str, ...]
    possible: str | None
    judgements: tuple[Judgement, ...]
    functions: tuple[Judgement, ...]
    power: Power
    delta: float
    delta_approximate: float
    change: float
    change_approximate: float
    alpha: float
    samples: int
    independent: int
    copies: float
    chained: bool
    looks: int

    def is_inexact(self, judgement: Judgement) -> bool:
        """Whether a candidate was shown to be no exact symmetry, of labels or of images."""
        loss, change = judgement.interval[0], judgement.change_interval[0]
        return loss > self.delta or change > self.change


def decide(evidence: Evidence, action: Action, functions: Sequence[str] = ()) -> Verdict:
    """Judge every element but the identity, then the set.

    Args:
        evidence: rows of candidates in the order of the action's elements without the identity,
            then those of the functions.
        action: the candidates with their products.
        functions: names of candidates that are no elements of it; they are judged one by one.
    """
    power = measure_power(evidence)
    table = action.table.tolist()
    inverses = [row.index(0) - 1 if 0 in row else g - 1 for g, row in enumerate(table)][1:]
    alone = range(len(inverses), len(inverses) + len(functions))
    all_judged = judge_candidates(
        evidence, (*action.names[1:], *functions), [*inverses, *alone], power
    )
    judgements = _consistent(action, all_judged[: len(inverses)])
    table = evidence.products(table)
    found = approximate = partial = ()
    word: Word
    # Where the power gate failed, all are undecided.
    if found := _subgroup(action, table, judgements, "symmetric"):
        word = "group"
    elif approximate := _subgroup(action, table, judgements, "symmetric", "approximate"):
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
    possible = _subgroup(action, table, judgements, "symmetric", "approximate", "undecided")
    larger = power.passed and set(possible) > set(members)
    return Verdict(
        word=word,
        group=action.subset(members).name if members else None,
        found=found,
        approximate=approximate,
        partial=partial,
        possible=action.subset(possible).name if larger else None,
        judgements=judgements,
        functions=all_judged[len(inverses) :],
        power=power,
        delta=DELTA * max(power.gain, 0.0),
        delta_approximate=DELTA_APPROXIMATE * max(power.gain, 0.0),
        change=CHANGE,
        change_approximate=CHANGE_APPROXIMATE,
        alpha=ALPHA,
        samples=len(evidence.loss),
        independent=len(evidence.clusters.unique()),
        copies=evidence.copies,
        chained=evidence.chained,
        looks=evidence.looks,
    )


def is_settled(evidence: Evidence, action: Action, functions: Sequence[str] = ()) -> bool:
    """Whether another look could decide nothing that matters."""
    verdict = decide(evidence, action, functions)
    counts = evidence.strata.bincount() / len(evidence.strata)

    def settled(judgement: Judgement) -> bool:
        if judgement.status == "approximate":
            return verdict.is_inexact(judgement)
        if judgement.status == "symmetric":
            return float(counts[list(judgement.classes_open)].sum()) <= OPEN
        if judgement.status == "broken" and verdict.word == "none":
            # More images may show that it keeps enough of every class to be partial.
            return not judgement.kept_share_min_lower < KEPT <= judgement.kept_share_min
        return judgement.status != "undecided"

    return verdict.power.passed and all(map(settled, (*verdict.judgements, *verdict.functions)))


def _consistent(action: Action, judgements: tuple[Judgement, ...]) -> tuple[Judgement, ...]:
    """Judgements of which none contradicts those of its powers.

    A symmetry has all its powers. So an element is broken where a power of it is, and where one is
    tolerated only, so is the element at most.
    """
    table = action.table.tolist()
    made = []
    for g, judgement in enumerate(judgements, 1):
        statuses, power = set(), table[g][g]
        while power > 0 and power != g:
            statuses.add(judgements[power - 1].status)
            power = table[power][g]
        status = judgement.status
        if status in ("symmetric", "approximate", "undecided") and "broken" in statuses:
            status = "broken"
        elif status in ("symmetric", "approximate") and "tolerated" in statuses:
            status = "tolerated"
        made.append(replace(judgement, status=status))
    return tuple(made)


def _subgroup(
    action: Action,
    table: list[list[int]],
    judgements: tuple[Judgement, ...],
    *statuses: Status,
) -> tuple[str, ...]:
    """Largest group of elements of these statuses; none where several are equally large.

    The table is that of products of moves with their maps of the labels; -1 where there is none. It
    is the set itself where that closes. No two elements of it differ on less than `MOVED` of
    the variance: what hardly moves anything was not tested.
    """
    small = {g for g, j in enumerate(judgements, 1) if j.moved_share < MOVED}

    def multiply(g: int, h: int) -> int:
        return -1 if -1 in (g, h) else table[g][h]

    inside = {0, *(g for g, j in enumerate(judgements, 1) if j.status in statuses)} - small
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
