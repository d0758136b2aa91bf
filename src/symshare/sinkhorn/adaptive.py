"""Projection and adjoint on the CPU, where looking at an error is free: exactly as much as needed.

In NumPy: most of the work for small matrices is calling functions, and that costs it a fraction of
what it costs torch.
"""

import warnings

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.floating]

ROUNDS = 60
"""Sweeps and Newton steps, together, after which a projection gives up."""

FAST = 0.25
"""A sweep that leaves less than this share of the error is worth another one."""

SETTLE = 20
"""Sweeps in the log domain where the exponentials of a whole row or column underflow."""

DIRECT = 64
"""Positions up to which elimination is faster than iterations."""

RIDGE = 8
"""Units of rounding that elimination adds to the diagonal."""

ITERATIONS = 100
"""Most iterations of conjugate gradients."""

SHARP = 0.98
"""Mean square of the singular values from which a matrix counts as nearly a permutation."""


def scale(M: Array, start: Array) -> tuple[Array, Array, Array] | None:
    """Scale exp(M) to row and column sums of one.

    Sweeps while they are fast, Newton steps where they are not (Knight and Ruiz 2013), until only
    rounding is left. Warns where that takes too long.

    Args:
        M: logits, [N, D, D].
        start: logarithms of column factors to start from, [N, D].

    Returns:
        As :class:`symshare.sinkhorn.scaling.Scaling`, or None where that needs numbers that are
        out of range.
    """
    with np.errstate(all="ignore"):
        found = _scale(M, start)
        if found is None:
            for _ in range(SETTLE):
                rows = np.logaddexp.reduce(M + start[:, None], axis=-1)
                start = -np.logaddexp.reduce(M - rows[:, :, None], axis=-2)
            found = _scale(M, start)
    return found


def _scale(M: Array, start: Array) -> tuple[Array, Array, Array] | None:
    A = M + start[:, None]
    top = A.max(-1)
    A -= top[..., None]
    np.exp(A, out=A)
    transposed = A.swapaxes(-1, -2)
    u = 1 / (np.ones_like(start)[:, None] @ transposed)
    v = 1 / (u @ A)
    goal = 16 * np.finfo(M.dtype).eps
    error, newton = np.inf, False
    for _ in range(ROUNDS):
        before = error
        rows = v @ transposed * u
        error = float(np.abs(rows - 1).max())
        if error != error:
            return None
        if error <= goal or (newton and FAST * before < error < 20 * goal):
            break
        newton = error > FAST * before
        u, v = _newton(A, u, v, rows) if newton else (u / rows, v)
        v = 1 / (u @ A)
    else:
        _warn(error)
    g = start + np.log(v[:, 0])
    total = (np.log(u[:, 0]) - top + g).sum(-1)
    A *= u.swapaxes(-1, -2)
    A *= v
    return A, g - g.mean(-1, keepdims=True), total


def _newton(A: Array, u: Array, v: Array, rows: Array) -> tuple[Array, Array]:
    """Newton's step for the logarithms of the factors; columns sum to one."""
    R = A * u.swapaxes(-1, -2) * v
    short = 1 - rows
    a, b = _solve(R, rows, short, np.zeros_like(short), 1e-3)
    # Far from the solution a full step overshoots.
    length = 1 / np.maximum(np.abs(np.concatenate([a, b], -1)).max(-1, keepdims=True), 1)
    return u * np.exp(length * a), v * np.exp(length * b)


def adjoint(G: Array, R: Array) -> Array:
    """dL/dlogits [N, D, D] from dL/dR, for columns that sum to one and rows nearly so.

    Near a permutation almost all of G cancels. There a second pass, on what is left of it, makes
    up for the rounding of the first.
    """
    with np.errstate(all="ignore"):
        return _adjoint(G, R)


def _adjoint(G: Array, R: Array) -> Array:
    ones, flat = np.ones_like(R[:, :1]), R.reshape(len(R), 1, -1)
    sharp = bool(_dot(flat, flat).max() > SHARP * R.shape[-1])
    tolerance = float(np.finfo(R.dtype).eps) ** (0.45 if sharp else 0.7)
    rows, GR = ones @ R.swapaxes(-1, -2), G * R
    for _ in range(1 + sharp):
        p, q = ones @ GR.swapaxes(-1, -2), ones @ GR
        a, b = _solve(R, rows, p, q, tolerance)
        GR -= (a.swapaxes(-1, -2) + b) * R
    return GR


def _solve(R: Array, rows: Array, p: Array, q: Array, tolerance: float) -> tuple[Array, Array]:
    """As :func:`symshare.sinkhorn.laplacian.solve`, which states the system."""
    p = p / rows
    residual = q - p @ R
    residual -= residual.mean(-1, keepdims=True)
    if R.shape[-1] <= DIRECT:
        b = _eliminate(R, rows, residual)
    else:
        b = _conjugate_gradients(R, rows, residual, tolerance)
    return p - b @ R.swapaxes(-1, -2) / rows, b


def _eliminate(R: Array, rows: Array, residual: Array) -> Array:
    """By elimination in S, with its null space filled in.

    For a permutation S is zero. A ridge of the size of rounding keeps it regular and its solution
    small; where S is larger, a second pass of the adjoint makes up for it.
    """
    D = R.shape[-1]
    S = R.swapaxes(-1, -2) @ (R / -rows.swapaxes(-1, -2))
    S += 1 / D
    S.reshape(len(S), -1)[:, :: D + 1] += 1 + RIDGE * np.finfo(R.dtype).eps
    return np.linalg.solve(S, residual.swapaxes(-1, -2)).swapaxes(-1, -2)


def _conjugate_gradients(R: Array, rows: Array, residual: Array, tolerance: float) -> Array:
    transposed = R.swapaxes(-1, -2)
    noise, tiny = 8 * np.finfo(R.dtype).eps, np.finfo(R.dtype).tiny
    direction, b = residual, np.zeros_like(residual)
    squared = _dot(residual, residual)
    goal = tolerance**2 * squared
    active = squared > goal
    for _ in range(ITERATIONS):
        image = direction - (direction @ transposed / rows) @ R
        curvature = _dot(direction, image)
        active &= curvature > noise * squared
        if not active.any():
            break
        length = np.divide(squared, curvature, out=np.zeros_like(squared), where=active)
        b += length * direction
        residual = residual - length * image
        before, squared = squared, _dot(residual, residual)
        active &= squared > goal
        direction = residual + squared / np.maximum(before, tiny) * direction
    return b


def _dot(x: Array, y: Array) -> Array:
    """Scalar products of row vectors [N, 1, D], as [N, 1, 1]."""
    return x @ y.swapaxes(-1, -2)


def _warn(error: float) -> None:
    warnings.warn(
        f"project: row sums are still up to {error:.0e} from one after {ROUNDS} rounds, because "
        "logits lie very far apart; a smaller learning rate, or weight decay on the logits, keeps "
        "them together",
        stacklevel=2,
    )
