"""Solving with the Schur complement of a scaled matrix, a weighted graph Laplacian."""

import torch
from torch import Tensor

from symshare.sinkhorn.inputs import adapts

DIRECT = 64
"""Positions up to which factors are faster than iterations on the CPU."""


def solve(
    R: Tensor, rows: Tensor, p: Tensor, q: Tensor, *, steps: int, tolerance: float
) -> tuple[Tensor, Tensor]:
    r"""Solve the linear system behind Newton's step and the derivative.

    .. math::
        \begin{pmatrix} \mathrm{diag}(r) & R \\ R^\top & I \end{pmatrix}
        \begin{pmatrix} a \\ b \end{pmatrix} = \begin{pmatrix} p \\ q \end{pmatrix}

    by the Schur complement :math:`S = I - R^\top \mathrm{diag}(1/r) R`. It is symmetric, its
    null space is the constants, and for r = 1 its other eigenvalues are :math:`1 - \sigma_i^2`.
    The solution is unique up to adding a constant to b and taking it from a.

    Small systems are factored on the CPU; others are left to conjugate gradients. There, a matrix
    that has converged is frozen, and so is one whose product with S is down to rounding: in
    float32 the iteration diverges if it goes on.

    Args:
        R: nonnegative, with columns that sum to one, [N, D, D].
        rows: its row sums r, [N, 1, D].
        p: the upper half of the right-hand side, [N, 1, D].
        q: its lower half, of the same total, [N, 1, D].
        steps: largest number of iterations.
        tolerance: of the residual, relative to the first one. On the CPU the loop ends where
            all matrices are within it; elsewhere looking would mean to wait for the device.

    Returns:
        a, b: [N, 1, D].
    """
    p = p / rows
    residual = q - times(p, R)
    residual = residual - residual.mean(-1, keepdim=True)
    b = _direct(R, rows, residual) if adapts(R) and R.shape[-1] <= DIRECT else None
    if b is None:
        b = _conjugate_gradients(R, rows, residual, steps, tolerance)
    return p - times(b, R.mT) / rows, b


def _direct(R: Tensor, rows: Tensor, residual: Tensor) -> Tensor | None:
    """By Cholesky's factors of S, with its null space filled in; None where S is too nearly 0."""
    D = R.shape[-1]
    S = torch.bmm(R.mT, R / rows.mT).neg_().add_(1 / D)
    S.diagonal(dim1=-2, dim2=-1).add_(1)
    factor, failed = torch.linalg.cholesky_ex(S)
    return None if failed.any() else torch.cholesky_solve(residual.mT, factor).mT


def _conjugate_gradients(
    R: Tensor, rows: Tensor, residual: Tensor, steps: int, tolerance: float
) -> Tensor:
    looks, transposed = adapts(R), R.mT
    noise, tiny = 8 * torch.finfo(R.dtype).eps, torch.finfo(R.dtype).tiny
    direction, b = residual, torch.zeros_like(residual)
    squared = dot(residual, residual)
    goal = tolerance**2 * squared
    active = squared > goal
    # Masks cost more than the products of small matrices. Where looking is free, none is made
    # before the first matrix has converged or is down to rounding.
    squares = squared.flatten().tolist() if looks else []
    goals = [tolerance**2 * x for x in squares]
    masked = not looks or not all(squares)
    for _ in range(steps):
        image = direction - times(times(direction, transposed) / rows, R)
        curvature = dot(direction, image)
        length = squared / curvature
        if not masked:
            quotients = zip(curvature.flatten().tolist(), squares, strict=True)
            masked = any(x <= noise * y for x, y in quotients)
        if masked:
            active = active & (curvature > noise * squared)
            length = torch.where(active, length, 0)
        b = torch.addcmul(b, length, direction)
        residual = torch.addcmul(residual, length, image, value=-1)
        before, squared = squared, dot(residual, residual)
        if not masked:
            squares = squared.flatten().tolist()
            masked = any(x <= y for x, y in zip(squares, goals, strict=True))
        if masked:
            active = active & (squared > goal)
            if looks and not active.any():
                break
            before = before.clamp_min(tiny)
        direction = torch.addcmul(residual, squared / before, direction)
    return b


def times(x: Tensor, A: Tensor) -> Tensor:
    """Row vectors [N, 1, D] times matrices [N, D, E].

    On accelerators by multiplication and sum, as fast for a single row, since TF32 would round
    the factors of a matrix product to ten bits.
    """
    return torch.bmm(x, A) if x.device.type == "cpu" else (x.mT * A).sum(-2, keepdim=True)


def dot(x: Tensor, y: Tensor) -> Tensor:
    """Scalar products of row vectors [N, 1, D], as [N, 1, 1]."""
    return times(x, y.mT)
