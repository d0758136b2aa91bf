"""Solving with the Schur complement of a scaled matrix, a weighted graph Laplacian."""

import torch
from torch import Tensor

RIDGE = 8
"""Units of rounding added to row sums: a few times the error of a sum in float32.

Without them, gradients of saturated permutations were up to 1e2 where they should be 1e-8; more
of them would hide entries that are small but certain.
"""


def solve(
    R: Tensor, rows: Tensor, p: Tensor, q: Tensor, *, steps: int, tolerance: float
) -> tuple[Tensor, Tensor]:
    r"""Conjugate gradients for the linear system behind Newton's step and the derivative.

    .. math::
        \begin{pmatrix} \mathrm{diag}(r) & R \\ R^\top & I \end{pmatrix}
        \begin{pmatrix} a \\ b \end{pmatrix} = \begin{pmatrix} p \\ q \end{pmatrix}

    by the Schur complement :math:`S = I - R^\top \mathrm{diag}(1/r) R`. It is symmetric, its
    null space is the constants, and for r = 1 its other eigenvalues are :math:`1 - \sigma_i^2`.
    The solution is unique up to adding a constant to b and taking it from a. The preconditioner is
    the diagonal of S: near permutations S is almost diagonal, and its entries differ widely.

    Rounding moves the eigenvalue 0 of the constants to either side, and those of a matrix near a
    permutation are hardly larger: the iteration would run away along them. A ridge in the row
    sums keeps them positive. A matrix that has converged is frozen, and so is one whose product
    with S is down to rounding.

    Args:
        R: nonnegative, with columns that sum to one, [N, D, D].
        rows: its row sums r, [N, 1, D].
        p: the upper half of the right-hand side, [N, 1, D].
        q: its lower half, of the same total, [N, 1, D].
        steps: number of iterations.
        tolerance: of the residual, relative to the first one, at which a matrix is frozen.

    Returns:
        a, b: [N, 1, D].
    """
    eps, tiny = torch.finfo(R.dtype).eps, torch.finfo(R.dtype).tiny
    rows = rows + RIDGE * eps
    p = p / rows
    residual = q - times(p, R)
    residual = residual - residual.mean(-1, keepdim=True)
    noise = 8 * eps
    weights = (1 - times(rows.reciprocal(), R.square())).clamp_min(noise).reciprocal()
    direction, b = weights * residual, torch.zeros_like(residual)
    squared = dot(residual, direction)
    goal = tolerance**2 * squared
    active = squared > goal
    for _ in range(steps):
        image = direction - times(times(direction, R.mT) / rows, R)
        curvature = dot(direction, image)
        active = active & (curvature > noise * squared)
        length = torch.where(active, squared / curvature, 0)
        b = torch.addcmul(b, length, direction)
        residual = torch.addcmul(residual, length, image, value=-1)
        scaled = weights * residual
        before, squared = squared, dot(residual, scaled)
        active = active & (squared > goal)
        direction = torch.addcmul(scaled, squared / before.clamp_min(tiny), direction)
    return p - times(b, R.mT) / rows, b


def times(x: Tensor, A: Tensor) -> Tensor:
    """Row vectors [N, 1, D] times matrices [N, D, E].

    On accelerators by multiplication and sum, as fast for a single row, since TF32 would round
    the factors of a matrix product to ten bits.
    """
    return torch.bmm(x, A) if x.device.type == "cpu" else (x.mT * A).sum(-2, keepdim=True)


def dot(x: Tensor, y: Tensor) -> Tensor:
    """Scalar products of row vectors [N, 1, D], as [N, 1, 1]."""
    return (x * y).sum(-1, keepdim=True)
