"""Whether the learned elements are different ones, and cover the known ones."""

import math

import torch
from jaxtyping import Float
from torch import Tensor

from experiments.scores.inputs import refuse_not_finite, stack_in_float64


def coverage(coefficients: Float[Tensor, "G K"]) -> float:
    r"""Mean weight of the best assignment of learned to known elements, no known one twice.

    .. math:: \frac{1}{\min(G, K)} \max_\pi \sum_g c_{g, \pi(g)}

    1 where all learned elements are different known ones, or all known ones are learned. Two
    learned elements that collapsed onto one known element lose the weight of one. Uniform
    coefficients give 1/K.

    Args:
        coefficients: those of `simplex_fit`, on *distinct* known elements: copies would share
            their weight.

    Raises:
        ValueError: where coefficients are not finite.

    Example:
        >>> coverage(torch.tensor([[0.75, 0.25, 0.0], [0.75, 0.25, 0.0]]))
        0.5
    """
    from scipy.optimize import linear_sum_assignment

    refuse_not_finite("coverage", "coefficients", coefficients)
    weights = coefficients.detach().double().cpu().numpy()
    return float(weights[linear_sum_assignment(weights, maximize=True)].mean())


def distinct(coefficients: Float[Tensor, "G K"]) -> int:
    """Number of known elements that are the heaviest of some learned one.

    Where the coefficients of a learned element are equal, rounding picks one, so read the
    concentration too.

    Example:
        >>> distinct(torch.tensor([[0.9, 0.1, 0.0], [0.8, 0.2, 0.0]]))
        1
    """
    refuse_not_finite("distinct", "coefficients", coefficients)
    if coefficients.ndim != 2 or not coefficients.shape[1]:
        raise ValueError(
            f"distinct: expected coefficients [G, K] on at least one known element, got "
            f"{tuple(coefficients.shape)}; pass those of simplex_fit"
        )
    return len(coefficients.argmax(1).unique())


def least_distance(R: Float[Tensor, "G D D"]) -> float:
    r"""Distance of the two learned elements that are most alike, over the positions.

    .. math:: \min_{g \ne h} \frac{|R_g - R_h|_F^2}{2 D}

    0 where elements collapsed; for permutations the share of rows in which they differ. NaN for
    a single element.

    Raises:
        ValueError: where entries are negative or not finite.

    Example:
        >>> least_distance(torch.eye(4)[torch.tensor([[0, 1, 2, 3], [1, 0, 2, 3]])])
        0.5
    """
    flat = stack_in_float64("least_distance", "R", R).flatten(1)
    if len(flat) == 1:
        return math.nan
    return float(torch.nn.functional.pdist(flat).square().min()) / (2 * R.shape[-1])
