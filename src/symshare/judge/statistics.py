"""Means of dependent observations with their errors, and tests that hold for many at once."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import torch
from jaxtyping import Bool, Float, Int, Num
from scipy.special import stdtr, stdtrit
from torch import Tensor


@dataclass(frozen=True)
class Estimate:
    """A mean with its standard error.

    Attributes:
        mean: the mean.
        error: its standard error.
        freedom: degrees of freedom: independent clusters of one size less one.
    """

    mean: float
    error: float
    freedom: int | float

    def p_above(self, bound: float) -> float:
        """One-sided p value of the hypothesis that the true mean is at most `bound` (t test).

        >>> round(Estimate(mean=1.0, error=0.5, freedom=1000).p_above(0.0), 4)
        0.0229
        """
        if self.freedom < 1:
            return 1.0
        if self.error == 0:
            return 0.0 if self.mean > bound else 1.0
        return float(stdtr(self.freedom, (bound - self.mean) / self.error))

    def p_below(self, bound: float) -> float:
        """The same of the hypothesis that the true mean is at least `bound`."""
        return Estimate(-self.mean, self.error, self.freedom).p_above(-bound)

    def interval(self, level: float) -> tuple[float, float]:
        """Bounds that leave out `level` on each side.

        >>> low, high = Estimate(1.0, 0.5, 1000).interval(0.025)
        >>> round(low, 2), round(high, 2)
        (0.02, 1.98)
        """
        reach = -float(stdtrit(max(self.freedom, 1), level)) * self.error
        return self.mean - reach, self.mean + reach


def estimates(
    rows: Float[Tensor, "R N"], clusters: Int[Tensor, " N"], unseen: float = 0.0
) -> list[Estimate]:
    """The mean of each row, with an error that holds for dependent observations.

    The error is that of a ratio of sums over clusters (Cochran, Sampling Techniques, 1977, 6.3):
    var = G / (G - 1) sum_g (S_g - n_g m)^2 / n^2, for G clusters of n_g observations with sums S_g.
    With one observation in each it is the usual one.

    Args:
        rows: N observations each.
        clusters: number of the cluster of each observation; different ones are independent.
        unseen: value of one further cluster that is counted into the mean, where not zero. With
            the worst possible value it allows for a rare failure that so few clusters had no
            chance to show.

    Clusters of unequal size count as (sum n_g)^2 / sum n_g^2 equal ones (Kish, Survey sampling,
    1965, 11.7), in the degrees of freedom and against `unseen`.

    >>> estimates(torch.tensor([[1.0, 3.0]]), torch.arange(2))
    [Estimate(mean=2.0, error=1.0, freedom=1.0)]
    >>> estimates(torch.tensor([[1.0, 3.0, 1.0, 3.0]]), torch.tensor([0, 1, 0, 1]))
    [Estimate(mean=2.0, error=1.0, freedom=1.0)]
    """
    if not rows.shape[1]:
        return [Estimate(0.0, 0.0, 0.0)] * len(rows)
    number, where = clusters.unique(return_inverse=True)
    rows = rows.double()
    sizes = torch.bincount(where).double()
    sums = rows.new_zeros(len(rows), len(number)).index_add_(1, where, rows)
    total, count = sizes.sum(), len(sizes)
    mean = sums.sum(1) / total
    spread = (sums - mean[:, None] * sizes).square().sum(1)
    error = (spread * count / max(count - 1, 1)).sqrt() / total
    effective = equal_clusters(sizes)
    mean = (effective * mean + unseen) / (effective + 1) if unseen else mean
    return [
        Estimate(m, e, effective - 1) for m, e in zip(mean.tolist(), error.tolist(), strict=True)
    ]


def equal_clusters(sizes: Num[Tensor, " G"]) -> float:
    """How many clusters of one size are worth these: (sum n_g)^2 / sum n_g^2; 0 of none.

    >>> equal_clusters(torch.tensor([1, 1, 2])), equal_clusters(torch.tensor([2, 2]))
    (2.6666666666666665, 2.0)
    """
    sizes = sizes.double()
    return float(sizes.sum() ** 2 / sizes.square().sum()) if len(sizes) else 0.0


def rejected(p_values: Sequence[float], alpha: float) -> list[bool]:
    """Which hypotheses Holm's step-down procedure rejects.

    All rejections together hold with a family-wise error of at most `alpha`.

    >>> rejected([0.04, 0.001, 0.2], alpha=0.06)
    [False, True, False]
    """
    order = sorted(range(len(p_values)), key=p_values.__getitem__)
    done = [False] * len(p_values)
    for rank, index in enumerate(order):
        if not p_values[index] <= alpha / (len(p_values) - rank):
            break
        done[index] = True
    return done


def told_apart(
    log_probability: Float[Tensor, "N K"],
    labels: Int[Tensor, " N"],
    clusters: Int[Tensor, " N"],
    level: float,
) -> Bool[Tensor, "K K"]:
    """Which pairs of classes the probabilities tell apart, whatever the other classes.

    For classes a and b the score log p_a - log p_b has to be larger for images of a than for those
    of b: Welch's test with the normal law, of means over clusters.

    >>> logs = torch.tensor([0.9, 0.8, 0.9, 0.3, 0.2, 0.2])
    >>> logs = torch.stack([logs, 1 - logs], dim=1).log()
    >>> told_apart(logs, torch.arange(6) // 3, torch.arange(6), 0.01)
    tensor([[False,  True],
            [ True, False]])
    """
    classes = log_probability.shape[1]
    mean = torch.full((classes, classes), torch.nan, dtype=torch.float64)
    error = mean.clone()
    for label in labels.unique().tolist():
        chosen = labels == label
        number, where = clusters[chosen].unique(return_inverse=True)
        logs = log_probability[chosen].double()
        scores = logs.new_zeros(len(number), classes).index_add_(0, where, logs[:, [label]] - logs)
        scores /= torch.bincount(where)[:, None]
        mean[label] = scores.mean(0)
        if len(number) > 1:
            error[label] = scores.var(0) / len(number)
    # Where a class has fewer than two clusters, what is no number is no answer.
    return (mean + mean.T) / (error + error.T).sqrt() > quantile(level)


def label_noise(
    log_probability: Float[Tensor, "N K"], labels: Int[Tensor, " N"]
) -> tuple[float, float]:
    """What calibrated probabilities say about the labels themselves.

    The confident joint of Northcutt, Jiang and Chuang (Confident learning, JAIR 70, 2021): an image
    belongs to the most probable of the classes whose probability is at least what it is on average
    for images with that label. Each label is counted as often as it was given.

    Returns:
        The share of labels that differ from the class that their image belongs to, and how much
        these classes say about the labels, in nats. Where the networks are as sure of what is wrong
        as of what is right, the first is too large and the second too small.

    >>> labels = torch.tensor([0, 0, 0, 1, 1, 1, 1, 0])
    >>> truth = torch.tensor([0, 0, 0, 0, 1, 1, 1, 1])
    >>> share, known = label_noise(torch.tensor([[0.75, 0.25], [0.25, 0.75]])[truth].log(), labels)
    >>> share, round(known, 3)
    (0.25, 0.131)
    """
    K = log_probability.shape[1]
    probability = log_probability.double().exp()
    own = torch.nn.functional.one_hot(labels, K).double()
    given = own.sum(0)
    usual = (own * probability).sum(0) / given  # not a number where a class has no image
    confident = probability.where(probability >= usual, 0.0)
    sure, belongs = confident.max(1)
    joint = own[sure > 0].T @ torch.nn.functional.one_hot(belongs[sure > 0], K).double()
    joint += torch.diag((joint.sum(1) == 0).double())
    joint *= (given / joint.sum(1) / len(labels))[:, None]
    independent = joint.sum(1, keepdim=True) * joint.sum(0)
    known = torch.special.xlogy(joint, joint / independent.clamp_min(1e-300)).sum()
    return 1 - joint.trace().item(), known.item()


def quantile(level: float) -> float:
    """Upper `level` quantile of the standard normal law.

    >>> round(quantile(0.025), 2)
    1.96
    """
    return NormalDist().inv_cdf(1 - level)


def lower_share(successes: int | float, trials: int | float, level: float) -> float:
    """Wilson's one-sided lower bound of a share.

    >>> round(lower_share(50, 100, 0.05), 3)
    0.419
    """
    if not successes:
        return 0.0
    z, share = quantile(level), successes / trials
    reach = z * (share * (1 - share) / trials + (z / trials / 2) ** 2) ** 0.5
    return (share + z**2 / trials / 2 - reach) / (1 + z**2 / trials)


def upper_share(successes: int | float, trials: int | float, level: float) -> float:
    """Wilson's one-sided upper bound of a share.

    >>> round(upper_share(50, 100, 0.05), 3)
    0.581
    """
    return 1 - lower_share(trials - successes, trials, level)


def lower_beyond_guessing(
    kept: float, trials: float, guessed: float, others: float, level: float
) -> float:
    """One-sided lower bound of (s - r) / (1 - r), of a share s of trials and a share r of others.

    Wilson's bounds of the two shares, joined by their squares (Newcombe, Statistics in Medicine 17,
    1998, method 10).

    >>> round(lower_beyond_guessing(0.5, 100.0, 0.0, 10_000.0, 0.05), 3)  # of 0.5 alone it is 0.419
    0.419
    >>> lower_beyond_guessing(1.0, 9.0, 0.0, 0.0, 0.05)  # nothing is known of guessing
    0.0
    """
    if not others:
        return 0.0

    def beyond(kept: float, guessed: float) -> float:
        return (kept - guessed) / (1 - guessed) if guessed < 1 else 0.0

    middle = beyond(kept, guessed)
    fewer = middle - beyond(lower_share(kept * trials, trials, level), guessed)
    more = middle - beyond(kept, upper_share(guessed * others, others, level))
    return middle - math.hypot(fewer, more)
