"""Scaling exp(logits) to row and column sums of one, from potentials that are nearly right."""

import warnings
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from symshare.sinkhorn.inputs import adapts, check_finite
from symshare.sinkhorn.laplacian import solve, times


@dataclass(frozen=True)
class Schedule:
    """The work of a projection that cannot look at its error.

    Attributes:
        sweeps: row and column steps after the first one, which is taken in the log domain.
        newton: Newton steps after them.
        inner: iterations of conjugate gradients in each Newton step.
    """

    sweeps: int
    newton: int
    inner: int


TRAINING = Schedule(sweeps=2, newton=1, inner=8)
"""From the potentials of the optimiser step before."""

CONVERGED = Schedule(sweeps=20, newton=4, inner=20)
"""From any potentials."""

ROUNDS = 60
"""Sweeps and Newton steps, together, after which the adaptive method gives up."""

FAST = 0.25
"""A sweep that leaves less than this share of the error is worth another one."""

SETTLE = 20
"""Sweeps in the log domain where the exponentials of a whole row or column underflow."""


class Scaling(NamedTuple):
    """R = diag(e^f) exp(M) diag(e^g), with columns that sum to one to rounding.

    Attributes:
        R: [N, D, D].
        g: logarithms of the column factors, shifted to a mean of zero, [N, D].
        total: sum of all f and g, which does not depend on the shift, [N].
    """

    R: Tensor
    g: Tensor
    total: Tensor


def scale(M: Tensor, start: Tensor, schedule: Schedule) -> Scaling:
    """Scale exp(M) to row and column sums of one.

    On the CPU the work adapts to the error: sweeps while they are fast, Newton steps where they
    are not, until only rounding is left. Elsewhere, and in compiled and exported programs, the
    schedule decides, so that nothing has to wait for the device.

    Args:
        M: logits, [N, D, D].
        start: g to start from, [N, D].
        schedule: the work where it cannot adapt.
    """
    if not adapts(M):
        return _scheduled(M, start, schedule)
    found = _adaptive(M, start)
    if found is None:
        for _ in range(SETTLE):
            start = _log_sweep(M, start)
        found = _adaptive(M, start)
    if found is None:
        check_finite("project", M)
        raise ValueError(
            f"project: logits from {M.min():.3g} to {M.max():.3g} are too far apart to "
            "exponentiate; scale them down"
        )
    return found


def _adaptive(M: Tensor, start: Tensor) -> Scaling | None:
    """None where the exponentials underflow or the logits are not finite."""
    A, top = _exponentials(M, start)
    ones = torch.ones_like(start)[:, None]
    u = times(ones, A.mT).reciprocal_()
    v = times(u, A).reciprocal_()
    goal = 16 * torch.finfo(M.dtype).eps
    error, newton = float("inf"), False
    for _ in range(ROUNDS):
        before = error
        rows = times(v, A.mT).mul_(u)
        error = (rows - ones).abs_().max().item()
        if error != error:
            return None
        if error <= goal or (newton and FAST * before < error < 20 * goal):
            break
        newton = error > FAST * before
        u, v = _newton(A, u, v, rows, steps=50) if newton else (u / rows, v)
        v = times(u, A).reciprocal_()
    else:
        _warn(error)
    return _scaling(A, top, start, u, v)


def _scheduled(M: Tensor, start: Tensor, schedule: Schedule) -> Scaling:
    # In the log domain no column can underflow; afterwards every column sums to about one.
    start = _log_sweep(M, start)
    A, top = _exponentials(M, start)
    v = torch.ones_like(start)[:, None]
    u = times(v, A.mT).reciprocal()
    for _ in range(schedule.sweeps):
        v = times(u, A).reciprocal()
        u = times(v, A.mT).reciprocal()
    v = times(u, A).reciprocal()
    for _ in range(schedule.newton):
        rows = times(v, A.mT) * u
        u, v = _newton(A, u, v, rows, steps=schedule.inner)
        v = times(u, A).reciprocal()
    return _scaling(A, top, start, u, v)


def _scaling(A: Tensor, top: Tensor, start: Tensor, u: Tensor, v: Tensor) -> Scaling:
    g = start + v[:, 0].log()
    total = (u[:, 0].log() - top + g).sum(-1)
    return Scaling(A.mul_(u.mT).mul_(v), g - g.mean(-1, keepdim=True), total)


def _newton(A: Tensor, u: Tensor, v: Tensor, rows: Tensor, steps: int) -> tuple[Tensor, Tensor]:
    """Newton's step for the logarithms of the factors; columns sum to one (Knight, Ruiz 2013)."""
    R = A * u.mT * v
    short = torch.ones_like(rows) - rows
    a, b = solve(R, rows, short, torch.zeros_like(rows), steps=steps, tolerance=1e-3)
    # Far from the solution a full step overshoots.
    size = torch.cat([a, b], -1).abs().amax(-1, keepdim=True)
    length = size.clamp_min(1).reciprocal()
    return u * (length * a).exp(), v * (length * b).exp()


def _exponentials(M: Tensor, start: Tensor) -> tuple[Tensor, Tensor]:
    """exp(M + start), each row over its largest entry, and the logarithms of those [N, D]."""
    X = M + start[:, None]
    top = X.amax(-1)
    return X.sub_(top[..., None]).exp_(), top


def _log_sweep(M: Tensor, start: Tensor) -> Tensor:
    """Column potentials after one row and one column step."""
    rows = (M + start[:, None]).logsumexp(-1, keepdim=True)
    return -(M - rows).logsumexp(-2)


def _warn(error: float) -> None:
    warnings.warn(
        f"project: row sums are still up to {error:.0e} from one after {ROUNDS} rounds, because "
        "logits lie very far apart; a smaller learning rate, or weight decay on the logits, keeps "
        "them together",
        stacklevel=2,
    )
