"""Whether a learned stack tells which of the known elements the data holds."""

from typing import NamedTuple

from jaxtyping import Float
from torch import Tensor

from experiments.scores.inputs import refuse_not_finite


class SupportScores(NamedTuple):
    """How well learned coefficients tell the elements in the data from the others.

    Args:
        average_precision: area under precision over recall; 1 where every element in the data
            is ranked before every other, and the share of elements in the data where all rank
            alike.
        f1: of "an element with a coefficient of at least 0.5 is in the data".
        total_variation: distance of the mean coefficients from the measure, in [0, 1].
    """

    average_precision: float
    f1: float
    total_variation: float


def support_scores(
    coefficients: Float[Tensor, "G K"], measure: Float[Tensor, " K"]
) -> SupportScores:
    r"""Compare learned coefficients with the measure that the data was drawn with.

    Elements are ranked by :math:`\bar c_k = \max_g c_{gk}`; those in the data are
    :math:`\{k : \mu_k > 0\}`. Average precision is :math:`\sum_i (r_i - r_{i-1}) p_i` over the
    distinct values of :math:`\bar c`, those that agree to six decimals taken together, as the
    regression leaves no more of them. The total variation is
    :math:`\frac12 \sum_k |\frac1G \sum_g c_{gk} - \mu_k / \sum_j \mu_j|`.

    Where the data holds all elements, average precision is 1 for any coefficients.

    Args:
        coefficients: those of `simplex_fit`, on distinct known elements.
        measure: mu, weights of the known elements in the data; their scale is free.

    Raises:
        ValueError: where the measure is negative, zero everywhere or of another length, or
            something is not finite.

    Example:
        >>> import torch
        >>> c = torch.tensor([[1.0, 0.0, 0.0, 0.0], [0.25, 0.75, 0.0, 0.0]])
        >>> support_scores(c, torch.tensor([1.0, 1.0, 0.0, 0.0]))
        SupportScores(average_precision=1.0, f1=1.0, total_variation=0.125)
    """
    refuse_not_finite("support_scores", "coefficients", coefficients)
    refuse_not_finite("support_scores", "measure", measure)
    K = coefficients.shape[-1]
    if coefficients.ndim != 2 or not coefficients.numel():
        raise ValueError(
            f"support_scores: expected coefficients [G, K], got {tuple(coefficients.shape)}; "
            "pass those of simplex_fit"
        )
    if measure.shape != (K,) or (measure < 0).any() or not measure.any():
        raise ValueError(
            f"support_scores: expected a measure of {K} non-negative weights, "
            f"not all zero, got {measure.tolist()}"
        )
    c = coefficients.detach().double().cpu()
    mu = measure.detach().double().cpu()
    strength, held = c.amax(0).round(decimals=6), mu > 0
    called = strength >= 0.5
    return SupportScores(
        average_precision=_average_precision(strength, held),
        f1=2 * int((called & held).sum()) / int(called.sum() + held.sum()),
        total_variation=float((c.mean(0) - mu / mu.sum()).abs().sum() / 2),
    )


def _average_precision(strength: Tensor, held: Tensor) -> float:
    levels = strength.unique().flip(0)
    called = strength >= levels[:, None]
    hits = (called & held).sum(1).double()
    gained = hits.diff(prepend=hits.new_zeros(1))
    return float((gained * hits / called.sum(1)).sum() / held.sum())
