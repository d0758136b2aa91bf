"""Projection and adjoint on the CPU, where looking at an error is free: exactly as much as needed.

In NumPy: most of the work for small matrices is calling functions, and that costs it a fraction of
what it costs torch. What touches every entry of large ones is left to torch, which uses all cores.
"""

import warnings
from collections.abc import Callable
from functools import cache
from math import ceil, isfinite, log2

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from symshare.sinkhorn.laplacian import RIDGE
from symshare.sinkhorn.scaling import Scaling

Array = NDArray[np.floating]

LARGE = 2**18
"""Entries of a stack from which torch, on several cores, is faster than NumPy.

Below it, waking its threads costs more than they save."""

ROUNDS = 30
"""Sweeps and Newton steps, together, after which an attempt is given up: those that lead anywhere
soon take at most 12, and another attempt follows."""

FAST = 0.25
"""A sweep that leaves less than this share of the error is worth another one.

A Newton step costs a few sweeps, and gains less than they do where they are so fast."""

NARROW = 8
"""Largest logit, but for a constant, that a few sweeps and Newton steps manage from any start."""

DIRECT = 64
"""Positions up to which elimination is faster than iterations.

A step with it took 0.77 of the time with 64 positions, and 1.06 with 100."""

ITERATIONS = 100
"""Most iterations of conjugate gradients, so that they end: 2 to 5 are usual."""

SHARP = 0.98
"""Mean square of the singular values from which a matrix counts as nearly a permutation.

There a pass of the adjoint takes two digits or more of what it returns by cancellation."""


def scale(M: Tensor, start: Tensor) -> Scaling | None:
    """Scale exp(M) to row and column sums of one.

    Sweeps while they are fast, Newton steps where they are not (Knight and Ruiz 2013), until only
    rounding is left. Warns where that takes too long.

    Args:
        M: logits, [N, D, D].
        start: logarithms of column factors to start from, [N, D].

    Returns:
        None where that needs numbers that are out of range.
    """
    with np.errstate(all="ignore"):
        found = _scale(M.numpy(), start.numpy()) or _settle(M, start)
        return Scaling(*map(torch.from_numpy, found)) if found else _widen(M)


def _settle(M: Tensor, start: Tensor, last: bool = False) -> tuple[Array, Array, Array] | None:
    """As `_scale`, after a sweep in the log domain, where nothing over- or underflows."""
    rows = (M + start.nan_to_num(0, 0, 0)[:, None]).logsumexp(-1, keepdim=True)
    start = -(M - rows).logsumexp(-2)
    found = _scale((M - rows).numpy(), start.numpy(), last)
    if found is None:
        return None
    R, g, entropy = found
    return R, g - rows.mean(-2).numpy(), entropy


def _widen(M: Tensor) -> Scaling | None:
    """As :func:`scale`, for logits however far apart, and slowly.

    Narrow logits are easy from any start. Doubling logits and potentials squares the entries of R:
    the largest of each row stays within range, and a few steps make the sums right again. In
    float64, since rounding of large potentials would move the start of the next doubling.
    """
    wide = M.double()
    mean = wide.mean((-1, -2), keepdim=True)
    wide = wide - mean
    largest = float(wide.abs().max())
    if not isfinite(largest):
        return None
    R, g = wide, torch.zeros_like(wide[..., 0])
    for power in range(-ceil(log2(max(1, largest / NARROW))), 1):
        found = _settle(wide * 2.0**power, 2 * g, last=True)
        if found is None:
            return None
        R, g, _ = map(torch.from_numpy, found)
    # What the potentials say of the entropy is lost in the rounding of large logits.
    entropy = torch.special.entr(R).sum((-2, -1))
    return Scaling(*(x.to(M.dtype) for x in (R, g - mean[..., 0], entropy)))


def _scale(M: Array, start: Array, last: bool = False) -> tuple[Array, Array, Array] | None:
    """R, potentials and entropies, or None where numbers are out of range or rounds run out.

    The last attempt takes numbers at the edge of the range, eliminates in every Newton step, and
    warns where it runs out of rounds.
    """
    A = _each("add", M, start[:, None], out=np.empty_like(M))
    _each("exp", A, out=A)
    ones = _ones(*start.shape, start.dtype)
    u = 1 / _times(ones, A.mT)
    v = 1 / _times(u, A)
    if not last and not (_in_range(u) and _in_range(v)):
        return None
    # Sums of hundreds of entries are no more exact than this.
    goal = 16 * _eps(M.dtype)
    # A sweep takes log v to R log v, the error of the rows, and on to R^T R log v.
    error, newton = _size(1 - v) / FAST**0.5, False
    for _ in range(ROUNDS):
        before = error
        rows = _times(v, A.mT) * u
        short = 1 - rows
        error = _size(short)
        if error != error:
            return None
        if error <= goal or (newton and before < 2 * error < 40 * goal):
            break
        newton = error > FAST * before
        u = _newton(A, u, v, rows, short, last) if newton else u / rows
        v = 1 / _times(u, A)
    else:
        if not last:
            return None
        _warn(error)
    _each("multiply", A, u.mT, out=A)
    _each("multiply", A, v, out=A)
    # log R = M + f + g, and the rows and columns of R sum to one.
    f, g = np.log(u) @ ones.mT, start[:, None] + np.log(v)
    total = f + g @ ones.mT + _inner(A, M)
    g += f / M.shape[-1]
    return A, g[:, 0], (abs(total) * (total < 0))[:, 0, 0]


def _newton(A: Array, u: Array, v: Array, rows: Array, short: Array, eliminate: bool) -> Array:
    """Newton's step for the logarithms of u; those of v follow, as columns sum to one."""
    if eliminate or A.shape[-1] <= DIRECT:
        a = _eliminate(A * u.mT * v, rows + RIDGE * _eps(A.dtype), short)
    else:
        square = v * v
        squares = _each("multiply", A, A, out=np.empty_like(A))
        diagonal = rows - _times(square, squares.mT) * (u * u)
        a = _conjugate_gradients(
            lambda x: x * rows - _times(_times(x * u, A) * square, A.mT) * u,
            diagonal,
            short,
            tolerance=1e-3,  # what is left shrinks in the next step
        )
    # Far from the solution a full step overshoots.
    size = _size(a)
    return u * np.exp(a if size <= 1 else a / size)


def adjoint(G: Tensor | None, H: Tensor | None, M: Tensor, R: Tensor) -> Tensor:
    """dL/dlogits [N, D, D], for columns of R that sum to one and rows nearly so.

    Near a permutation almost all of dL/dR cancels. There a second pass, on what is left of it,
    makes up for the rounding of the first.

    Args:
        G: dL/dR, [N, D, D].
        H: dL/dentropy, [N].
        M: logits, [N, D, D].
        R: their projection, [N, D, D].
    """
    with np.errstate(all="ignore"):
        cotangent, slope = (None if x is None else x.numpy() for x in (G, H))
        GR = _weighted(cotangent, slope, M.numpy(), R.numpy())
        _cancel(GR, R.numpy())
    return torch.from_numpy(GR)


def _weighted(G: Array | None, H: Array | None, M: Array, R: Array) -> Array:
    """dL/dR, times R, with the entropies' part of dL/dR.

    The slope of an entropy is -log R - 1. All of it but -M is a row and a column, which cancel.
    """
    GR = np.empty_like(R)
    if G is None:
        G = np.zeros_like(R)
    if H is not None:
        G = _each("add", G, _each("multiply", -H[:, None, None], M, out=GR), out=GR)
    return _each("multiply", G, R, out=GR)


def _cancel(GR: Array, R: Array) -> None:
    """Take away a column and a row, each times R, so that rows and columns sum to zero."""
    D, ones = R.shape[-1], _ones(*R.shape[:2], R.dtype)
    squares = np.vecdot(R, R)[:, None]
    sharp = (squares @ ones.mT).max() > SHARP * D
    # Two passes multiply what they leave: 7e-4 and 1.4e-5 in float32.
    tolerance = _eps(R.dtype) ** (0.45 if sharp else 0.7)
    rows = _times(ones, R.mT) + RIDGE * _eps(R.dtype)
    for _ in range(1 + sharp):
        p, q = _times(ones, GR.mT), _times(ones, GR)
        right = _times(q, R.mT) - p
        if D <= DIRECT:
            a = _eliminate(R, rows, right)
        else:
            a = _conjugate_gradients(
                lambda x: x * rows - _times(_times(x, R), R.mT), rows - squares, right, tolerance
            )
        _add_products(GR, a.mT, -(q + _times(a, R)), R)


def _eliminate(R: Array, rows: Array, right: Array) -> Array:
    """Solve (diag(rows) - R R^T) a = right by elimination, with the null space filled in.

    For a permutation the matrix is zero. A ridge of the size of rounding, which is in the rows,
    keeps it regular and the solution small; where the matrix is larger, a second pass of the
    adjoint makes up for it.
    """
    N, D = R.shape[:2]
    S = 1 / D - R @ R.mT
    S.reshape(N, -1)[:, :: D + 1] += rows[:, 0]
    solve = _gesv(R.dtype)
    # S is symmetric, and transposed it is in the order of Fortran, so that it is not copied.
    return np.array([solve(s.T, x.T, overwrite_a=True)[2].T for s, x in zip(S, right, strict=True)])


@cache
def _gesv(dtype: np.dtype) -> Callable:
    """LAPACK's elimination; what NumPy puts around it takes longer than a small system."""
    from scipy.linalg import get_lapack_funcs

    return get_lapack_funcs("gesv", dtype=dtype)


def _conjugate_gradients(
    image_of: Callable[[Array], Array], diagonal: Array, right: Array, tolerance: float
) -> Array:
    """Solve for a whose image is right, but for a constant, with the diagonal as preconditioner."""
    N, _, D = right.shape
    noise = 8 * _eps(right.dtype)
    weights = 1 / np.maximum(diagonal, noise)
    residual = right - right @ _ones(N, D, right.dtype).mT / D
    direction = weights * residual
    a = 0 * residual
    squared = residual @ direction.mT
    goal = tolerance**2 * squared
    active = squared > goal
    for _ in range(ITERATIONS):
        if not active.any():
            break
        image = image_of(direction)
        curvature = direction @ image.mT
        active &= curvature > noise * squared
        length = np.where(active, squared / curvature, 0)
        a += length * direction
        residual = residual - length * image
        scaled = weights * residual
        before, squared = squared, residual @ scaled.mT
        active &= squared > goal
        direction = scaled + np.where(active, squared / before, 0) * direction
    return a


def _each(name: str, *arrays: Array, out: Array) -> Array:
    """A function of every entry, by the name that NumPy and torch have for it."""
    if out.size < LARGE:
        return getattr(np, name)(*arrays, out=out)
    getattr(torch, name)(*map(torch.from_numpy, arrays), out=torch.from_numpy(out))
    return out


def _times(x: Array, A: Array) -> Array:
    """Row vectors [N, 1, D] times matrices [N, D, D].

    By torch for large stacks, whose threads would fall asleep between operations of their own
    if NumPy worked there, and take long to wake.
    """
    if A.size < LARGE or torch.get_num_threads() == 1 or not _multiplies_exactly():
        return x @ A
    return torch.bmm(torch.from_numpy(x), torch.from_numpy(A)).numpy()


def _multiplies_exactly() -> bool:
    """Whether torch leaves the factors of products as they are, and does not round them first."""
    try:
        precision = torch.get_float32_matmul_precision()
    except RuntimeError:  # set through the newer interface
        return False
    return precision == "highest" and not torch.is_autocast_enabled("cpu")


def _add_products(GR: Array, a: Array, b: Array, R: Array) -> None:
    """Add (a + b) * R to GR, for a column a and a row b."""
    if R.size < LARGE:
        GR += (a + b) * R
        return
    for x in (a, b):
        torch.from_numpy(GR).addcmul_(torch.from_numpy(x), torch.from_numpy(R))


@cache
def _ones(N: int, D: int, dtype: np.dtype) -> Array:
    """Row vectors [N, 1, D], the same for every call."""
    return np.ones((N, 1, D), dtype)


@cache
def _eps(dtype: np.dtype) -> float:
    return float(np.finfo(dtype).eps)


def _inner(A: Array, B: Array) -> Array:
    """Scalar products of matrices [N, D, D], as [N, 1, 1]."""
    N = len(A)
    return np.vecdot(A.reshape(N, 1, 1, -1), B.reshape(N, 1, 1, -1))


def _in_range(factors: Array) -> bool:
    """Whether entries that such factors scale have all their digits, and squares in range."""
    low, high = _bounds(factors.dtype)
    return bool(low < factors.min() and factors.max() < high)


@cache
def _bounds(dtype: np.dtype) -> tuple[float, float]:
    """The smallest and the largest factor.

    An entry is at most 1 / (u v), whose square has to be in range, and where it matters at least
    eps / (u v), which has to be a normal number.
    """
    limits = np.finfo(dtype)
    return float(limits.max) ** -0.25, float(limits.eps / limits.tiny) ** 0.5


def _size(x: Array) -> float:
    return float(abs(x).max())


def _warn(error: float) -> None:
    warnings.warn(
        f"project: row sums are still up to {error:.0e} from one after {ROUNDS} rounds, because "
        "logits lie very far apart; a smaller learning rate, or weight decay on the logits, keeps "
        "them together",
        stacklevel=2,
    )
