"""Whether the networks could decide anything, and what they say about each candidate by itself."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from symshare.judge.answers import Evidence
from symshare.judge.statistics import (
    Estimate,
    equal_clusters,
    estimates,
    rejected,
)
from symshare.judge.thresholds import (
    ALPHA,
    CHANGE,
    CHANGE_APPROXIMATE,
    CHANGE_OF_CLASS,
    DELTA,
    DELTA_APPROXIMATE,
    DELTA_OF_CLASS,
    LOOKS,
    NOTICED,
    NOTICED_HALF,
    RANDOM_PERMUTATIONS,
    SHOWN,
)
from symshare.records import Judgement, Power, RandomPermutation, Status

LEVEL = ALPHA / LOOKS
"""Family-wise error of each question at each look."""


def measure_power(evidence: Evidence) -> Power:
    """Ask whether the networks beat chance clearly and notice what surely is no symmetry."""
    E, clusters = evidence, evidence.clusters
    gain, chance = estimates(torch.stack([E.chance_loss - E.loss, E.chance_loss]), clusters)
    excess = E.random_loss - E.loss
    random, changes = estimates(excess, clusters), estimates(E.random_change, clusters)
    whole, half = E.random_change.split(RANDOM_PERMUTATIONS)
    means = torch.stack([excess.mean(0), whole.mean(0), half.mean(0)])
    scrambled, noticed, noticed_half = (
        estimate.interval(LEVEL)[0] for estimate in estimates(means, clusters)
    )
    known, share = evidence.known()
    needed = evidence.needed(chance.mean)
    reasons = []
    # Written so that what is not a number fails.
    if not gain.interval(LEVEL)[0] >= needed:
        of_all = f" of {chance.mean:.3f}" if chance.mean else ""
        reasons.append(
            f"the network does not beat chance clearly: it takes {gain.mean:.3f}{of_all} nats off "
            f"the loss, at least {gain.interval(LEVEL)[0]:.3f} as far as "
            f"{equal_clusters(clusters.unique(return_counts=True)[1]):.0f} independent images "
            f"tell, and {needed:.3f} are needed; more of them, or clearer labels, would decide"
        )
    elif not (
        scrambled > DELTA_APPROXIMATE * gain.mean
        and noticed > NOTICED
        and noticed_half > NOTICED_HALF
    ):
        reasons.append(
            "the network does not notice random permutations of the pixels, so it could not "
            "notice a broken symmetry"
        )
    elif not share >= SHOWN:
        reasons.append(E.too_few(share))
    return Power(
        passed=not reasons,
        reasons=tuple(reasons),
        loss=E.loss.mean().item(),
        chance_loss=chance.mean,
        gain=gain.mean,
        told_apart=known,
        random_permutations=tuple(
            RandomPermutation(e.mean, e.interval(LEVEL), c.mean, c.interval(LEVEL))
            for e, c in zip(random, changes, strict=False)
        ),
        half_permutations=tuple(c.mean for c in changes[RANDOM_PERMUTATIONS:]),
        **E.described(),
    )


@dataclass(frozen=True)
class _Answer:
    """What one of the two tests says about each candidate, all classes together and each.

    Attributes:
        estimates: of each candidate.
        p_same, p_near, p_broken: p values against "at least the bound", "at least the looser
            bound" and "at most the bound".
        same, near, broken: whether these are rejected; broken also where a class is.
        kept, lost: for each candidate, the classes that were shown to keep it, or to break it.
    """

    estimates: list[Estimate]
    p_same: list[float]
    p_near: list[float]
    p_broken: list[float]
    same: list[bool]
    near: list[bool]
    broken: list[bool]
    kept: list[set[int]]
    lost: list[set[int]]


def _ask(
    rows: Float[Tensor, "M N"],
    scale: Float[Tensor, " N"],
    scale_of_strata: Float[Tensor, " N"],
    bounds: tuple[float, float, float],
    worst: float,
    evidence: Evidence,
) -> _Answer:
    """Test whether the means of rows are below a share of the mean of a scale, with Holm's method.

    Args:
        rows: zero in the mean for a symmetry.
        scale: in whose mean the bounds are measured, observation by observation.
        scale_of_strata: the same of the bound of a single class, or another stratum.
        bounds: what passes for zero; the looser bound; that of a single class.
        worst: the largest possible value, of what was not drawn.
        evidence: for strata and clusters.
    """
    bound, looser, of_class = bounds

    strata = evidence.strata
    everything = torch.ones_like(strata, dtype=torch.bool)

    def test(share: float, chosen: Tensor, unseen: float) -> list[Estimate]:
        bounding = scale if chosen is everything else scale_of_strata
        return estimates((rows - share * bounding)[:, chosen], evidence.clusters[chosen], unseen)

    p_same = [e.p_below(0.0) for e in test(bound, everything, worst)]
    p_near = [e.p_below(0.0) for e in test(looser, everything, worst)]
    p_broken = [e.p_above(0.0) for e in test(bound, everything, 0.0)]
    classes = strata.unique().tolist()
    p_kept, p_lost = [], []
    for label in classes:
        chosen = strata == label
        p_kept += [e.p_below(0.0) for e in test(of_class, chosen, worst)]
        # A class of which the networks know less than its frequency has no bound of its own.
        of_none = test(0.0, chosen, 0.0)
        p_lost += [
            max(e.p_above(0.0), zero.p_above(0.0))
            for e, zero in zip(test(of_class, chosen, 0.0), of_none, strict=True)
        ]
    kept, lost = rejected(p_kept, LEVEL), rejected([*p_broken, *p_lost], LEVEL)
    M = len(rows)

    def by_candidate(flags: list[bool]) -> list[set[int]]:
        return [{c for k, c in enumerate(classes) if flags[k * M + i]} for i in range(M)]

    lost_by_class = by_candidate(lost[M:])
    return _Answer(
        estimates(rows, evidence.clusters),
        p_same,
        p_near,
        p_broken,
        rejected(p_same, LEVEL),
        rejected(p_near, LEVEL),
        [a or bool(b) for a, b in zip(lost[:M], lost_by_class, strict=True)],
        by_candidate(kept),
        lost_by_class,
    )


def judge_candidates(
    evidence: Evidence, names: Sequence[str], inverses: Sequence[int], power: Power
) -> tuple[Judgement, ...]:
    """Judge each candidate together with its inverse.

    A symmetry has its inverse, so both are asked as one: the mean of their rows is tested, once
    for both. Holm's correction holds over these pairs, for each question, and where classes are
    asked, over classes and pairs together.

    Args:
        evidence: rows of candidates in the order of the names.
        names: of the candidates.
        inverses: position of the inverse of each, or its own where that is no candidate.
        power: the power gate; nothing is decided where it was not passed.
    """
    E = evidence
    first = [min(i, j) for i, j in enumerate(inverses)]
    pairs = sorted(set(first))
    partner = [inverses[i] for i in pairs]
    excess, change = E.moved_loss - E.loss, E.change
    loss = _ask(
        (excess[pairs] + excess[partner]) / 2,
        E.chance_loss - E.loss,
        E.scale,
        (DELTA, DELTA_APPROXIMATE, DELTA_OF_CLASS),
        E.worst,
        E,
    )
    law = _ask(
        (change[pairs] + change[partner]) / 2,
        torch.ones_like(E.chance_loss),
        torch.ones_like(E.chance_loss),
        (CHANGE, CHANGE_APPROXIMATE, CHANGE_OF_CLASS),
        1.0,
        E,
    )
    counts = E.strata.bincount()
    level, known = LEVEL / 2 / max(len(pairs), 1), E.known_strata(power.told_apart)
    seen = [e.interval(LEVEL)[0] > NOTICED_HALF for e in estimates(E.few_change, E.clusters)]
    # Of a large cluster that nobody was asked about, a claim would know nothing.
    asked = E.unasked <= CHANGE
    claimed = [
        asked and agreed and (size < 0 or seen[size])
        for size, agreed in zip(E.few.tolist(), E.agreed.tolist(), strict=True)
    ]
    judgements = []
    for i, name in enumerate(names):
        k = pairs.index(first[i])
        shown = loss.kept[k] & law.kept[k] & known
        share = float(counts[sorted(shown)].sum()) / len(E.strata)
        present = set(counts.nonzero().flatten().tolist())
        judgements.append(
            Judgement(
                name=name,
                status=_status(loss, law, k, share, claimed[i]) if power.passed else "undecided",
                excess_loss=loss.estimates[k].mean,
                interval=loss.estimates[k].interval(level),
                p_symmetric=loss.p_same[k],
                p_approximate=loss.p_near[k],
                p_broken=loss.p_broken[k],
                change=law.estimates[k].mean,
                change_interval=law.estimates[k].interval(level),
                p_unchanged=law.p_same[k],
                p_nearly_unchanged=law.p_near[k],
                p_changed=law.p_broken[k],
                moved_share=E.moved_share[i].item(),
                classes_shown=tuple(sorted(shown)),
                classes_broken=tuple(sorted(loss.lost[k] | law.lost[k])),
                classes_open=tuple(sorted(present - shown - loss.lost[k] - law.lost[k])),
                **E.kept(i, LEVEL / len(names)),
            )
        )
    return tuple(judgements)


def _status(loss: _Answer, law: _Answer, k: int, share: float, claimed: bool) -> Status:
    """The status of a pair of candidates, of which a share of the images was shown by class.

    `claimed` says whether it may be called a symmetry: a random move of as few pixels was noticed,
    the witnesses agree on what it makes of the labels, and no large cluster was left out.
    """
    labels_keep = (loss.same[k] or loss.near[k]) and not loss.lost[k]
    images_keep = (law.same[k] or law.near[k]) and not law.lost[k]
    if labels_keep and images_keep and share >= SHOWN and claimed:
        return "symmetric" if loss.same[k] and law.same[k] else "approximate"
    if labels_keep and not images_keep and law.broken[k]:
        return "tolerated"
    if (loss.broken[k] and not labels_keep) or (law.broken[k] and not images_keep):
        return "broken"
    return "undecided"
