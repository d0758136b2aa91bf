"""A doubly stochastic matrix as a convex combination of permutations."""

from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from experiments.scores.inputs import stack_in_float64
from symshare.sinkhorn import marginal_error

# Marginal error up to which a matrix counts as doubly stochastic.
MARGINAL = 1e-3
# What subtraction leaves where an entry should vanish.
DUST = 1e-15
# What rounding leaves of all weight.
LEAST = 1e-12


class Decomposition(NamedTuple):
    """Permutations and their weights.

    Args:
        coefficients: positive and descending; float64 on the CPU.
        permutations: source indices of each.
    """

    coefficients: Float[Tensor, " T"]
    permutations: Int[Tensor, "T D"]

    def matrix(self) -> Float[Tensor, "D D"]:
        """The weighted sum of the permutations."""
        D = self.permutations.shape[1]
        total = torch.zeros(D, D, dtype=self.coefficients.dtype)
        rows = torch.arange(D).expand_as(self.permutations)
        values = self.coefficients[:, None].expand(self.permutations.shape)
        return total.index_put((rows, self.permutations), values, accumulate=True)


def birkhoff_decomposition(
    R: Float[Tensor, "D D"], tolerance: float = 1e-9, terms: int | None = None
) -> Decomposition:
    r"""Birkhoff-von Neumann: :math:`R = \sum_t c_t P_t` with :math:`c_t > 0`, :math:`\sum c = 1`.

    Greedy: each permutation is the one whose least entry in what is left of R is largest, and
    that entry is its coefficient. So coefficients descend, and at most (D - 1)^2 + 1 come. The
    decomposition is not the only one, nor the shortest.

    A marginal error of R is repaired first, so R comes back up to twice that error and the
    tolerance.

    Args:
        R: doubly stochastic.
        tolerance: weight that may be left over: coefficients sum to 1 up to it.
        terms: the most to compute, the heaviest first; all where None.

    Raises:
        ValueError: where the marginal error is above 1e-3, entries are negative or not finite, or
            the tolerance is below what rounding leaves, 1e-12.

    Example:
        >>> R = torch.tensor([[0.5, 0.2, 0.3], [0.3, 0.5, 0.2], [0.2, 0.3, 0.5]])
        >>> parts = birkhoff_decomposition(R)
        >>> parts.coefficients.round(decimals=6).tolist(), parts.permutations.tolist()
        ([0.5, 0.3, 0.2], [[0, 1, 2], [2, 0, 1], [1, 2, 0]])
    """
    if not tolerance >= LEAST:
        raise ValueError(
            f"birkhoff_decomposition: tolerance must be at least {LEAST:g}, which rounding leaves, "
            f"got {tolerance}"
        )
    rest = _repaired(stack_in_float64("birkhoff_decomposition", "R", R[None])[0])
    D, left, ceiling = len(rest), 1.0, np.inf
    coefficients, permutations = [], []
    while left > tolerance and (terms is None or len(coefficients) < terms):
        permutation = _bottleneck(rest, ceiling)
        ceiling = rest[np.arange(D), permutation].min()
        rest[np.arange(D), permutation] -= ceiling
        rest[rest < DUST] = 0
        left -= ceiling
        coefficients.append(float(ceiling))
        permutations.append(permutation)
    return Decomposition(
        torch.tensor(coefficients, dtype=torch.float64),
        torch.from_numpy(np.array(permutations, dtype=np.int64).reshape(-1, D)),
    )


def _repaired(R: Float[Tensor, "D D"]) -> Float[np.ndarray, "D D"]:
    """A doubly stochastic matrix nearby: what is too much is scaled away, the rest added."""
    error = float(marginal_error(R))
    if error > MARGINAL:
        raise ValueError(
            f"birkhoff_decomposition: rows and columns of R must sum to 1 within {MARGINAL}, the "
            f"error is {error:.3g}; project R first"
        )
    R = R / R.sum(1, keepdim=True).clamp_min(1)
    R = R / R.sum(0, keepdim=True).clamp_min(1)
    rows, columns = 1 - R.sum(1), 1 - R.sum(0)
    if (missing := rows.sum()) > 0:
        R = R + torch.outer(rows, columns) / missing
    return R.numpy()


def _bottleneck(R: np.ndarray, ceiling: float) -> np.ndarray:
    """The permutation whose least entry is largest, knowing that it is at most `ceiling`."""
    levels = np.unique(R[R > 0])
    levels = levels[: np.searchsorted(levels, ceiling, side="right")]
    best, low, high = None, 0, len(levels) - 1
    while low <= high:
        middle = (low + high) // 2
        found = _matching(R, levels[middle])
        if found is None:
            high = middle - 1
        else:
            best, low = found, middle + 1
    assert best is not None, "a doubly stochastic matrix holds a permutation"
    return best


def _matching(R: np.ndarray, least: float) -> np.ndarray | None:
    """A permutation within the entries that are no less, or None."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import maximum_bipartite_matching

    columns = maximum_bipartite_matching(csr_array(least <= R), perm_type="column")
    return None if (columns < 0).any() else columns
