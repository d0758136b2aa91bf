"""From evidence to a verdict. Every threshold is a constant of this file."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from symshare.groups import GroupAction
from symshare.judge.evidence import Evidence
from symshare.judge.statistics import holm_levels, lower_share, mean_and_error, p_above, quantile

__all__ = ["Judgement", "Power", "Verdict", "decide"]

ALPHA = 0.05
"""Family-wise error over all candidates, each of the two directions by itself."""

DELTA = 0.05
"""Excess loss that passes for zero, as a share of what the network knows about the label."""

DELTA_APPROXIMATE = 0.2
"""The looser bound of an approximate symmetry, as a share of the same."""

GAIN = 0.1
"""Share of the chance loss that the network has to remove before anything is decided."""

MOMENTS = 1.1
"""Distance of the second moments from an automorphism, in units of the bootstrap tolerance of
`symshare.propose`, up to which moved images pass for images of the same law."""

KEPT = 0.3
"""Share of every class that a partial symmetry leaves right."""

Status = Literal["symmetric", "approximate", "tolerated", "broken", "undecided"]
Word = Literal["group", "partial", "approximate", "none", "undecided"]


@dataclass(frozen=True)
class Judgement:
    """What the evidence says about one candidate g.

    Attributes:
        name: of the element.
        excess_loss: mean of NLL(g x, y) - NLL(x, y) over held-out images, in nats; zero for a
            symmetry, whatever the network.
        interval: bounds of it, each at the level of Holm's correction.
        p_symmetric: p value against "the excess is at least delta".
        p_broken: p value against "the excess is at most delta".
        residual: distance of the images' second moments from an automorphism, in units of its
            tolerance; None where it is not known.
        status: symmetric, approximate, broken or undecided; or tolerated, where the excess is
            that of a symmetry, but the data does not look the same after g: the network does
            not mind, and nothing was shown about the data.
        kept_share: share of held-out images that stay right after g.
        kept_share_by_class: the same for each class.
        kept_share_min: the smallest of them.
        kept_share_min_lower: smallest lower bound over the classes.
    """

    name: str
    excess_loss: float
    interval: tuple[float, float]
    p_symmetric: float
    p_broken: float
    residual: float | None
    status: Status
    kept_share: float
    kept_share_by_class: tuple[float, ...]
    kept_share_min: float
    kept_share_min_lower: float


@dataclass(frozen=True)
class Power:
    """Whether the networks could have noticed a broken symmetry.

    Attributes:
        passed: nothing is decided where this is False.
        reasons: what failed.
        accuracy, chance_accuracy: shares of held-out images.
        loss, chance_loss, gain: mean losses in nats, and their difference.
        random_permutations: excess loss and interval of each random permutation of the pixels.
    """

    passed: bool
    reasons: tuple[str, ...]
    accuracy: float
    chance_accuracy: float
    loss: float
    chance_loss: float
    gain: float
    random_permutations: tuple[tuple[float, tuple[float, float]], ...]


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
        partial: names of the elements that keep at least `KEPT` of every class.
        judgements: one for each candidate.
        power: the power gate.
        delta, delta_approximate: bounds in nats.
        alpha: family-wise error of each direction.
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
    gain = (evidence.chance_loss - evidence.loss).mean().item()
    delta, loose = DELTA * max(gain, 0.0), DELTA_APPROXIMATE * max(gain, 0.0)
    power = _power(evidence, gain, loose)
    judgements = _judge(evidence, action.names[1:], residuals, delta, loose, power.passed)
    exact = _named(judgements, "symmetric")
    found = _subgroup(action, exact)
    approximate: tuple[str, ...] = ()
    if not found:
        approximate = _subgroup(action, exact + _named(judgements, "approximate"))
    partial: tuple[str, ...] = ()
    if power.passed and not found and not approximate:
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
        delta=delta,
        delta_approximate=loose,
        alpha=ALPHA,
        samples=len(evidence.labels),
    )


def _power(evidence: Evidence, gain: float, loose: float) -> Power:
    z = quantile(ALPHA)
    gains = mean_and_error(evidence.chance_loss - evidence.loss)
    random = []
    for row in evidence.random_loss:
        mean, error = mean_and_error(row - evidence.loss)
        random.append((mean, (mean - z * error, mean + z * error)))
    chance_loss = evidence.chance_loss.mean().item()
    reasons = []
    if gains[0] - z * gains[1] < GAIN * chance_loss:
        reasons.append(
            f"the network does not beat chance clearly: it takes {gain:.3f} of {chance_loss:.3f} "
            f"nats off the loss, and {GAIN:.0%} are needed"
        )
    scrambled = mean_and_error((evidence.random_loss - evidence.loss).mean(0))
    if not reasons and scrambled[0] - z * scrambled[1] <= loose:
        reasons.append(
            "the network does not notice random permutations of the pixels, so it could not "
            "notice a broken symmetry"
        )
    return Power(
        passed=not reasons,
        reasons=tuple(reasons),
        accuracy=evidence.correct.double().mean().item(),
        chance_accuracy=evidence.labels.bincount().max().item() / len(evidence.labels),
        loss=evidence.loss.mean().item(),
        chance_loss=chance_loss,
        gain=gain,
        random_permutations=tuple(random),
    )


def _judge(
    evidence: Evidence,
    names: tuple[str, ...],
    residuals: Sequence[float | None],
    delta: float,
    loose: float,
    passed: bool,
) -> tuple[Judgement, ...]:
    moments = [mean_and_error(row - evidence.loss) for row in evidence.moved_loss]
    p_symmetric = [p_above(-mean, error, -delta) for mean, error in moments]
    p_loose = [p_above(-mean, error, -loose) for mean, error in moments]
    p_broken = [p_above(mean, error, delta) for mean, error in moments]
    symmetric, approximate, broken = (
        holm_levels(p, ALPHA) for p in (p_symmetric, p_loose, p_broken)
    )
    judgements = []
    for i, (mean, error) in enumerate(moments):
        upper_level = symmetric[i]
        status: Status = "undecided"
        if passed and p_symmetric[i] <= symmetric[i]:
            status = "symmetric"
        elif passed and p_loose[i] <= approximate[i]:
            status, upper_level = "approximate", approximate[i]
        elif passed and p_broken[i] <= broken[i]:
            status = "broken"
        residual = residuals[i]
        differs = residual is not None and residual > MOMENTS
        if differs and status in ("symmetric", "approximate"):
            status = "tolerated"
        kept, by_class, lower = _kept(evidence, i, level=ALPHA / len(names))
        judgements.append(
            Judgement(
                name=names[i],
                excess_loss=mean,
                interval=(
                    mean - quantile(broken[i]) * error,
                    mean + quantile(upper_level) * error,
                ),
                p_symmetric=p_symmetric[i],
                p_broken=p_broken[i],
                residual=residual,
                status=status,
                kept_share=kept,
                kept_share_by_class=by_class,
                kept_share_min=min(by_class),
                kept_share_min_lower=lower,
            )
        )
    return tuple(judgements)


def _kept(evidence: Evidence, i: int, level: float) -> tuple[float, tuple[float, ...], float]:
    """Share that stays right, by class, and the smallest lower bound over the classes."""
    right = evidence.moved_correct[i]
    totals = evidence.labels.bincount(minlength=evidence.classes).tolist()
    kept = evidence.labels[right].bincount(minlength=evidence.classes).tolist()
    shares = tuple(k / n if n else 0.0 for k, n in zip(kept, totals, strict=True))
    lower = min(lower_share(k, n, level) for k, n in zip(kept, totals, strict=True))
    return right.double().mean().item(), shares, lower


def _named(judgements: tuple[Judgement, ...], status: Status) -> tuple[str, ...]:
    return tuple(j.name for j in judgements if j.status == status)


def _subgroup(action: GroupAction, names: tuple[str, ...]) -> tuple[str, ...]:
    """Largest group made of the named elements; none where several are equally large.

    It is the set itself where that closes.
    """
    table = action.table.tolist()
    inside = {0, *(g for g, name in enumerate(action.names) if name in names)}
    subgroups = {frozenset([0])}
    frontier = list(subgroups)
    while frontier:
        grown = {_generated(table, subgroup | {g}) for subgroup in frontier for g in inside}
        frontier = [group for group in grown - subgroups if group <= inside]
        subgroups.update(frontier)
    size = max(map(len, subgroups))
    largest = [group for group in subgroups if len(group) == size]
    if len(largest) > 1:
        return ()
    return tuple(action.names[g] for g in sorted(largest[0]) if g)


def _generated(table: list[list[int]], elements: frozenset[int]) -> frozenset[int]:
    """Closure under products; contains -1 where a product is no candidate."""
    while True:
        grown = elements | {table[g][h] for g in elements for h in elements}
        if grown == elements or -1 in grown:
            return frozenset(grown)
        elements = grown


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
