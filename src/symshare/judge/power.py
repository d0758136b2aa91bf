"""The power gate: could these networks have noticed a broken symmetry?"""

from symshare.judge.evidence import Evidence
from symshare.judge.statistics import mean_and_error, quantile
from symshare.judge.thresholds import ALPHA, DELTA_APPROXIMATE, GAIN
from symshare.records import Power, RandomPermutation

__all__ = ["measure_power"]


def measure_power(evidence: Evidence) -> Power:
    """Ask whether the networks beat chance clearly and notice scrambled pixels."""
    z = quantile(ALPHA)
    gain, gain_error = mean_and_error(evidence.chance_loss - evidence.loss)
    chance_loss = evidence.chance_loss.mean().item()
    excess = evidence.random_loss - evidence.loss
    random = []
    for row in excess:
        mean, error = mean_and_error(row)
        random.append(RandomPermutation(mean, (mean - z * error, mean + z * error)))
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
        random_permutations=tuple(random),
    )
