"""What the evidence says about each candidate by itself."""

import math
from collections.abc import Sequence

from torch import Tensor

from symshare.judge.evidence import Evidence
from symshare.judge.statistics import (
    holm_levels,
    lower_share,
    mean_and_error,
    p_above,
    quantile,
    upper_share,
)
from symshare.judge.thresholds import ALPHA, CHANGE, DELTA, DELTA_APPROXIMATE, FLOOR, MOMENTS
from symshare.records import Judgement, Status

__all__ = ["judge_candidates"]


def judge_candidates(
    evidence: Evidence, names: Sequence[str], residuals: Sequence[float | None], passed: bool
) -> tuple[Judgement, ...]:
    """Judge each candidate, with Holm's correction over all of them for each question.

    Args:
        evidence: rows in the order of `names`.
        names: of the candidates.
        residuals: of the second moments, in the same order.
        passed: whether the power gate was passed; nothing is decided where it was not.
    """
    excess = evidence.moved_loss - evidence.loss
    gain = evidence.chance_loss - evidence.loss
    # Largest change of a floored loss; what could happen to an image that was not drawn.
    worst = math.log(evidence.classes / FLOOR)
    p_symmetric = [_p_below(row - DELTA * gain, worst) for row in excess]
    p_approximate = [_p_below(row - DELTA_APPROXIMATE * gain, worst) for row in excess]
    p_broken = [_p_below(DELTA * gain - row, worst) for row in excess]
    symmetric, approximate, broken = (
        [p <= level for p, level in zip(ps, holm_levels(ps, ALPHA), strict=True)]
        for ps in (p_symmetric, p_approximate, p_broken)
    )
    z = quantile(ALPHA / 2 / max(len(names), 1))
    judgements = []
    for i, name in enumerate(names):
        mean, error = mean_and_error(excess[i])
        change = evidence.image_change[i].item()
        status: Status = "undecided"
        if passed and (symmetric[i] or approximate[i]):
            status = "symmetric" if symmetric[i] else "approximate"
            if _differs(change, residuals[i]):
                status = "tolerated"
        elif passed and broken[i]:
            status = "broken"
        kept, by_class, lower = _kept(evidence, i, level=ALPHA / len(names))
        judgements.append(
            Judgement(
                name=name,
                excess_loss=mean,
                interval=(mean - z * error, mean + z * error),
                p_symmetric=p_symmetric[i],
                p_approximate=p_approximate[i],
                p_broken=p_broken[i],
                image_change=change,
                residual=residuals[i],
                status=status,
                kept_share=kept,
                kept_share_by_class=by_class,
                kept_share_min=min(share for share in by_class if share is not None),
                kept_share_min_lower=lower,
            )
        )
    return tuple(judgements)


def _p_below(x: Tensor, worst: float) -> float:
    """P value of "the mean is at least zero", one unseen worst case counted in."""
    mean, error = mean_and_error(x, unseen=worst)
    return p_above(-mean, error, 0.0)


def _differs(change: float, residual: float | None) -> bool:
    """Whether moved images are unlike the data, by more than a little and more than chance.

    What is not a number counts as unlike.
    """
    return not change <= CHANGE and (residual is None or not residual <= MOMENTS)


def _kept(
    evidence: Evidence, i: int, level: float
) -> tuple[float, tuple[float | None, ...], float]:
    """Share right after g, by class, and a bound of the smallest beyond guessing.

    Of a class that a share s keeps, while a share r of all other images is called by its name,
    (s - r) / (1 - r) is kept beyond guessing: nothing where the network only guesses.
    """
    labels, predicted = evidence.labels, evidence.moved_prediction[i]
    shares: list[float | None] = []
    bounds = []
    for label in range(evidence.classes):
        own = labels == label
        named = predicted == label
        size = int(own.sum())
        if not size:
            shares.append(None)
            continue
        hits, alarms = int((own & named).sum()), int((~own & named).sum())
        shares.append(hits / size)
        guessed = upper_share(alarms, len(labels) - size, level)
        kept = lower_share(hits, size, level)
        bounds.append((kept - guessed) / (1 - guessed) if guessed < 1 else 0.0)
    right = (predicted == labels).double().mean().item()
    return right, tuple(shares), max(0.0, min(bounds))
