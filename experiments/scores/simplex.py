"""The paper's fit of a learned stack by convex combinations of known elements."""

import math
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from experiments.scores.inputs import stack_in_float64
from symshare.analysis.permutations import refuse_other_positions

# Squared distance of two elements, per position, up to which they are one and the same.
SAME = 1e-10
# Squared distance from the uniform matrix, over that of a permutation, that is rounding.
UNIFORM = 1e-8
# Weight of |c|^2 beside the squared distance per position: it picks one of many equal fits.
RIDGE = 1e-10
# Singular value over the largest one, up to which known elements depend on each other.
DEPENDENT = 1e-6


class SimplexFit(NamedTuple):
    """A learned stack as convex combinations of known elements.

    All tensors are float64 on the CPU.

    Args:
        coefficients: c, non-negative, with rows that sum to 1.
        fitted: `sum_k c[g, k] P_k`.
        explained: `E_g = 1 - |R_g - fitted_g|^2 / |R_g - J/D|^2`, with J all ones: 1 is an exact
            fit, below 0 is worse than the uniform matrix. NaN where R_g is uniform itself.
        concentration: the largest coefficient of each R_g, copies of one element together.
        rank: number of affinely independent known elements.
    """

    coefficients: Float[Tensor, "G K"]
    fitted: Float[Tensor, "G D D"]
    explained: Float[Tensor, " G"]
    concentration: Float[Tensor, " G"]
    rank: int

    @property
    def unique(self) -> bool:
        """Whether one fitted matrix has one set of coefficients only, whatever the matrix."""
        return self.rank == self.coefficients.shape[1]

    @property
    def uniform(self) -> int:
        """Number of learned elements that are the uniform matrix, which explains nothing."""
        return int(self.explained.isnan().sum())


def simplex_fit(R: Float[Tensor, "G D D"], permutations: Float[Tensor, "K D D"]) -> SimplexFit:
    r"""The constrained regression of the paper (appendix on toy problems, arXiv:2412.04594).

    .. math:: c_g = \arg\min_{c \ge 0,\, \sum_k c_k = 1} |\sum_k c_k P_k - R_g|_F^2

    Where many c fit equally well, the one with the least sum of squares is taken, so copies of
    one element share its weight equally. Residuals alone prove nothing: the uniform matrix is
    the mean of any regular group. So read `explained` together with `concentration`.

    With one known element c is 1 whatever R. With one position everything is uniform.

    Args:
        R: learned stack.
        permutations: known elements, such as `action.lift(k)`; doubly stochastic ones serve too.

    Raises:
        ValueError: where entries are negative or not finite, or the positions differ.

    Example:
        >>> from symshare import groups
        >>> C4 = groups.rotations(4).lift(3)
        >>> fit = simplex_fit((0.75 * C4[1] + 0.25 * C4[2])[None], C4)
        >>> [round(c, 6) for c in fit.coefficients[0].tolist()], fit.unique
        ([0.0, 0.75, 0.25, 0.0], True)
        >>> words = C4[[0, 1, 1, 2, 3]]
        >>> simplex_fit(C4[1:2], words).coefficients.round(decimals=6)[0].tolist()
        [0.0, 0.5, 0.5, 0.0, 0.0]
    """
    learned = stack_in_float64("simplex_fit", "R", R)
    known = stack_in_float64("simplex_fit", "permutations", permutations)
    refuse_other_positions("simplex_fit", learned, known)
    first, copy_of = distinct_elements(permutations)
    atoms = known[first]
    D = known.shape[-1]
    # Coordinates in the span of all matrices keep every distance.
    points = torch.cat([atoms, learned]).flatten(1).T / math.sqrt(D)
    coordinates = torch.linalg.qr(points, mode="r").R.numpy()
    corners, targets = np.split(coordinates, [len(atoms)], axis=1)
    weights = torch.from_numpy(np.stack([_nearest(corners, target) for target in targets.T]))
    fitted = torch.einsum("gk,kde->gde", weights, atoms)
    copies = torch.bincount(copy_of)
    return SimplexFit(
        coefficients=(weights / copies)[:, copy_of],
        fitted=fitted,
        explained=_explained(learned, fitted),
        concentration=weights.amax(1),
        rank=_affine_rank(corners),
    )


def distinct_elements(
    permutations: Float[Tensor, "K D D"],
) -> tuple[Int[Tensor, " U"], Int[Tensor, " K"]]:
    """Which known elements differ, up to rounding.

    Args:
        permutations: known elements, with copies where several words make one element.

    Returns:
        Index of the first copy of each distinct element, and for each element which of the
        distinct ones it is.

    Example:
        >>> from symshare import groups
        >>> words, elements = groups.cube_words()
        >>> first, copy_of = distinct_elements(groups.cube().lift(3)[elements])
        >>> len(first), len(copy_of)
        (24, 64)
    """
    flat = stack_in_float64("distinct_elements", "permutations", permutations).flatten(1)
    products = flat @ flat.T
    squares = products.diagonal()
    distance = squares[:, None] + squares - 2 * products
    original = (distance <= SAME * permutations.shape[-1]).int().argmax(1)
    return original.unique(return_inverse=True)


def _nearest(corners: np.ndarray, target: np.ndarray) -> np.ndarray:
    """Weights of the point of a simplex [N, K] that is nearest to a target [N].

    With q_k = corner_k - target, the u >= 0 that minimises |sum u_k q_k|^2 + (sum u_k - 1)^2 is
    the solution times a number: for u = t c with sum c = 1 the best t leaves
    |q c|^2 / (1 + |q c|^2), which grows with |q c|. So the sum is held exactly.
    """
    from scipy.optimize import nnls

    K = corners.shape[1]
    rows = [corners - target[:, None], math.sqrt(RIDGE) * np.eye(K), np.ones((1, K))]
    goal = np.zeros(sum(map(len, rows)))
    goal[-1] = 1
    u, _ = nnls(np.concatenate(rows), goal, maxiter=100 * K)
    return u / u.sum()


def _explained(R: Tensor, fitted: Tensor) -> Tensor:
    D = R.shape[-1]
    missed = (R - fitted).square().sum((1, 2))
    total = (R - 1 / D).square().sum((1, 2))
    return torch.where(total > UNIFORM * (D - 1), 1 - missed / total, torch.nan)


def _affine_rank(corners: np.ndarray) -> int:
    return 1 + int(np.linalg.matrix_rank(corners - corners[:, :1], rtol=DEPENDENT))
