"""Whether the networks could decide anything, and what they say about each candidate by itself."""

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
from symshare.judge.thresholds import ALPHA, CHANGE, DELTA, DELTA_APPROXIMATE, FLOOR, GAIN, MOMENTS
from symshare.records import Judgement, Power, RandomPermutation, Status


def measure_power(evidence: Evidence) -> Power:
    """Ask whether the networks beat chance clearly and notice scrambled pixels."""
    z = quantile(ALPHA)
    gain, gain_error = mean_and_error(evidence.chance_loss - evidence.loss)
    chance_loss = evidence.chance_loss.mean().item()
    excess = evidence.random_loss - evidence.loss
    random = tuple(
        RandomPermutation(mean, (mean - z * error, mean + z * error))
        for mean, error in map(mean_and_error, excess)
    )
    scrambled, scrambled_error = mean_and_error(excess.mean(0))
    reasons = []
    # Written so that what is not a number fails.
    if not gain - z * gain_error >= GAIN * chance_loss:
        reasons.append(
            f"the network does not beat chance clearly: it takes {gain:.3f} of {chance_loss:.3f} "
            f"nats off the loss, and {GAIN:.0%} are needed"
        )
    elif not scrambled - z * scrambled_error > DELTA_APPROXIMATE * gain:
        reasons.append(
            "the network does not notice random permutations of the pixels, so it could not "
            "notice a broken symmetry"
        )
    right = evidence.prediction == evidence.labels
    return Power(
        passed=not reasons,
        reasons=tuple(reasons),
        accuracy=right.double().mean().item(),
        chance_accuracy=evidence.labels.bincount().max().item() / len(evidence.labels),
        loss=evidence.loss.mean().item(),
        chance_loss=chance_loss,
        gain=gain,
        random_permutations=random,
    )


def judge_candidates(
    evidence: Evidence, names: Sequence[str], residuals: Sequence[float | None], passed: bool
) -> tuple[Judgement, ...]:
    """Judge each candidate, with Holm's correction over all of them for each question.

    Evidence and residuals are in the order of the names. Nothing is decided where the power gate
    was not passed.
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
        change, residual = evidence.image_change[i].item(), residuals[i]
        status: Status = "undecided"
        if passed and (symmetric[i] or approximate[i]):
            status = "symmetric" if symmetric[i] else "approximate"
            # Unlike the data by more than a little and more than chance, as is what is no number.
            if not change <= CHANGE and (residual is None or not residual <= MOMENTS):
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
                residual=residual,
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
        own, named = labels == label, predicted == label
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
