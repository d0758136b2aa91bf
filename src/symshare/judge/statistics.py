"""Bounds on means and shares, and Holm's correction, with numbers small enough to read."""

import math
from collections.abc import Sequence
from statistics import NormalDist

import torch
from jaxtyping import Float
from torch import Tensor

_NORMAL = NormalDist()


def quantile(level: float) -> float:
    """Upper `level` quantile of the standard normal law.

    >>> round(quantile(0.025), 2)
    1.96
    """
    return _NORMAL.inv_cdf(1 - level)


def mean_and_error(x: Float[Tensor, " N"], unseen: float = 0.0) -> tuple[float, float]:
    """Mean and its standard error.

    Args:
        x: independent observations.
        unseen: one further observation that is counted in where not zero. With the worst
            possible value it allows for a rare failure that so few observations had no chance
            to show.

    >>> import torch
    >>> mean_and_error(torch.tensor([1.0, 3.0]))
    (2.0, 1.0)
    """
    x = x.double()
    if unseen:
        x = torch.cat([x, x.new_tensor([unseen])])
    return x.mean().item(), x.std().item() / math.sqrt(len(x))


def p_above(mean: float, error: float, bound: float) -> float:
    """One-sided p value of the hypothesis that the true mean is at most `bound`.

    >>> round(p_above(mean=1.0, error=0.5, bound=0.0), 4)
    0.0228
    """
    if error == 0:
        return 0.0 if mean > bound else 1.0
    return _NORMAL.cdf((bound - mean) / error)


def holm_levels(p_values: Sequence[float], alpha: float) -> list[float]:
    """Level at which Holm's step-down procedure tests each hypothesis.

    A hypothesis is rejected where its p value is at most its level; all rejections together
    hold with a family-wise error of at most `alpha`.

    >>> holm_levels([0.04, 0.001, 0.2], alpha=0.06)
    [0.03, 0.02, 0.03]
    """
    order = sorted(range(len(p_values)), key=p_values.__getitem__)
    levels = [0.0] * len(p_values)
    level, failed = alpha, False
    for rank, index in enumerate(order):
        if not failed:
            level = alpha / (len(p_values) - rank)
        levels[index] = level
        failed = failed or p_values[index] > level
    return levels


def lower_share(successes: int, trials: int, level: float) -> float:
    """Wilson's one-sided lower bound of a share.

    >>> round(lower_share(50, 100, 0.05), 3)
    0.419
    """
    from scipy.stats import binomtest

    if trials == 0:
        return 0.0
    test = binomtest(successes, trials, alternative="greater")
    return float(test.proportion_ci(1 - level, "wilson").low)


def upper_share(successes: int, trials: int, level: float) -> float:
    """Wilson's one-sided upper bound of a share.

    >>> round(upper_share(50, 100, 0.05), 3)
    0.581
    """
    return 1 - lower_share(trials - successes, trials, level)
