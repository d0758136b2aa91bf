"""All numbers of a learned stack beside known elements, as the tables print them."""

import math

import torch
from jaxtyping import Float
from torch import Tensor

from experiments.scores.axioms import SHARP, group_axioms
from experiments.scores.collapse import coverage, distinct, least_distance
from experiments.scores.inputs import stack_in_float64
from experiments.scores.simplex import distinct_elements, simplex_fit
from experiments.scores.support import SupportScores, support_scores
from symshare.analysis.permutations import match, normalized_entropy, vertex_gap
from symshare.sinkhorn import marginal_error

# Vertex gap up to which an exact hit is no accident of rounding.
HIT = 0.05


def sharpness(R: Float[Tensor, "G D D"]) -> dict[str, float | int | None]:
    """What a learned stack shows by itself: the first numbers of :func:`stack_metrics`.

    Args:
        R: learned stack.

    Raises:
        ValueError: where entries are negative or not finite.

    Example:
        >>> sharpness(torch.eye(3)[None])
        {'elements': 1, 'marginal_error': 0.0, 'entropy': 0.0, 'vertex_gap': 0.0}
    """
    stack = stack_in_float64("sharpness", "R", R)
    return _sharpness(stack, vertex_gap(stack))


def stack_metrics(
    R: Float[Tensor, "G D D"],
    permutations: Float[Tensor, "K D D"],
    measure: Float[Tensor, " K"] | None = None,
) -> dict[str, float | int | None]:
    """Every number that compares a learned stack with known elements, ready for JSON.

    Copies among the known elements count once. The stack of a hidden layer goes through `align`
    first. Above a marginal error of 1e-3 R is not doubly stochastic, and nothing else is to be
    read.

    | key | what it is |
    |---|---|
    | `elements` | G |
    | `marginal_error` | of the stack |
    | `entropy`, `vertex_gap` | means of `normalized_entropy` and `vertex_gap` |
    | `known` | number of distinct known elements |
    | `exact_hits` | learned elements that round to their known one |
    | `sharp_hits` | those of them with a vertex gap of at most 0.05 |
    | `mismatch` | mean share of rows that differ, over the assigned elements |
    | `explained`, `uniform` | mean explained share, where no element is uniform, and how many are |
    | `concentration` | mean of the largest coefficients |
    | `unique` | 1 where the distinct known elements have unique coefficients, else 0 |
    | `coverage`, `distinct`, `least_distance` | as the functions of these names |
    | `closure`, `identity`, `inverse` | defects, where the whole stack is sharp |
    | `average_precision`, `f1`, `total_variation` | of `support_scores`, with a measure |

    What is not defined is None.

    Args:
        R: learned stack.
        permutations: known elements.
        measure: weights of the known elements in the data.

    Raises:
        ValueError: where entries are negative or not finite, the positions differ, or the
            measure is of another length or zero.

    Example:
        >>> from symshare import groups
        >>> C4 = groups.rotations(4).lift(3)
        >>> numbers = stack_metrics(C4[[0, 2]], C4)
        >>> numbers["exact_hits"], numbers["distinct"], numbers["closure"], numbers["f1"]
        (2, 2, 0.0, None)
    """
    stack = stack_in_float64("stack_metrics", "R", R)
    if measure is not None and measure.shape != permutations.shape[:1]:
        raise ValueError(
            f"stack_metrics: expected a weight for each of {len(permutations)} known elements, got "
            f"{measure.numel()}; give 0 to those that the data does not hold"
        )
    first, copy_of = distinct_elements(permutations)
    known = permutations.detach().to("cpu", torch.float64)[first]
    fit = simplex_fit(stack, known)
    gaps = vertex_gap(stack)
    found = match(stack, known)
    assigned = found.index >= 0
    numbers: dict[str, float | int | None] = {
        **_sharpness(stack, gaps),
        "known": len(known),
        "exact_hits": found.exact_hits,
        "sharp_hits": int(((found.mismatch == 0) & (gaps <= HIT)).sum()),
        "mismatch": float(found.mismatch[assigned].mean()),
        # An anchored identity must not speak for elements that are uniform.
        "explained": float(fit.explained.mean()),
        "uniform": fit.uniform,
        "concentration": float(fit.concentration.mean()),
        "unique": int(fit.unique),
        "coverage": coverage(fit.coefficients),
        "distinct": distinct(fit.coefficients),
        "least_distance": least_distance(stack),
    }
    numbers |= dict.fromkeys(("closure", "identity", "inverse"))
    if float(gaps.max()) <= SHARP:
        axioms = group_axioms(stack)
        numbers |= {name: getattr(axioms, name) for name in ("closure", "identity", "inverse")}
    numbers |= dict.fromkeys(SupportScores._fields)
    if measure is not None:
        weights = torch.zeros(len(known), dtype=torch.float64)
        weights = weights.index_add(0, copy_of, measure.detach().to(weights))
        numbers |= support_scores(fit.coefficients, weights)._asdict()
    return {k: None if v is None or math.isnan(v) else v for k, v in numbers.items()}


def _sharpness(stack: Tensor, gaps: Tensor) -> dict[str, float | int | None]:
    return {
        "elements": len(stack),
        "marginal_error": float(marginal_error(stack)),
        "entropy": float(normalized_entropy(stack).mean()),
        "vertex_gap": float(gaps.mean()),
    }
