"""Projection and adjoint by a fixed schedule, for accelerators and compiled programs.

Nothing here looks at a value, so nothing waits for the device.
"""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

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


TRAINING = Schedule(sweeps=2, newton=2, inner=8)
"""From the potentials of the optimiser step before.

One Newton step left row sums 2e-3 from one at a learning rate of 0.5, two leave rounding."""

CONVERGED = Schedule(sweeps=20, newton=4, inner=20)
"""For potentials that fit, however far apart logits are, or for any.

From none, rows of normal logits of standard deviation 5 are within 4e-6 of one, of 10 within 5e-3,
and of 30 by 1 away: a few steps cannot move potentials that far."""

ADJOINT_STEPS = 6
"""Iterations of conjugate gradients in each pass of the adjoint.

Near permutations 4 would do; chains of positions that share their mass would take many more."""


class Scaling(NamedTuple):
    """R = diag(e^f) exp(M) diag(e^g), with columns that sum to one to rounding.

    Attributes:
        R: [N, D, D].
        g: logarithms of the column factors, shifted so that those of the row factors have a mean
            of zero: exp(M + g) is of the size of R, whatever constant M holds, [N, D].
        entropy: of R in nats, [N].
    """

    R: Tensor
    g: Tensor
    entropy: Tensor


def scale(M: Tensor, start: Tensor, schedule: Schedule) -> Scaling:
    """Scale exp(M) to row and column sums of one.

    Args:
        M: logits, [N, D, D].
        start: logarithms of column factors to start from, [N, D].
        schedule: the work to do.
    """
    start = start.nan_to_num(0, 0, 0)
    # In the log domain no column can underflow; afterwards every column sums to about one.
    rows = (M + start[:, None]).logsumexp(-1, keepdim=True)
    start = -(M - rows).logsumexp(-2)
    X = M + start[:, None]
    top = X.amax(-1)
    A = (X - top[..., None]).exp()
    v = torch.ones_like(start)[:, None]
    u = times(v, A.mT).reciprocal()
    for _ in range(schedule.sweeps):
        v = times(u, A).reciprocal()
        u = times(v, A.mT).reciprocal()
    v = times(u, A).reciprocal()
    for _ in range(schedule.newton):
        u, v = _newton(A, u, v, schedule.inner)
        v = times(u, A).reciprocal()
    f, g = u[:, 0].log() - top, start + v[:, 0].log()
    total = (f + g).sum(-1)
    R = A * u.mT * v
    # log R = M + f + g, and the rows and columns of R sum to one.
    entropy = -((R * M).sum((-2, -1)) + total).clamp_max(0)
    return Scaling(R, g + f.mean(-1, keepdim=True), entropy)


def _newton(A: Tensor, u: Tensor, v: Tensor, steps: int) -> tuple[Tensor, Tensor]:
    """Newton's step for the logarithms of the factors; columns sum to one (Knight, Ruiz 2013)."""
    R, rows = A * u.mT * v, times(v, A.mT) * u
    short = 1 - rows
    a, b = solve(R, rows, short, torch.zeros_like(short), steps=steps, tolerance=1e-3)
    # Far from the solution a full step overshoots.
    size = torch.cat([a, b], -1).abs().amax(-1, keepdim=True)
    length = size.clamp_min(1).reciprocal()
    return u * (length * a).exp(), v * (length * b).exp()


def adjoint(G: Tensor | None, H: Tensor | None, M: Tensor, R: Tensor) -> Tensor:
    """As :func:`symshare.sinkhorn.adaptive.adjoint`, in two passes everywhere."""
    if G is None:
        G = torch.zeros_like(M)
    if H is not None:
        # The slope of the entropy is -log R - 1. All of it but -M is a row and a column, which
        # cancel.
        G = torch.addcmul(G, H[:, None, None], M, value=-1)
    rows, GR = R.sum(-1)[:, None], G * R
    tolerance = torch.finfo(R.dtype).eps ** 0.7
    for _ in range(2):
        p, q = GR.sum(-1)[:, None], GR.sum(-2)[:, None]
        a, b = solve(R, rows, p, q, steps=ADJOINT_STEPS, tolerance=tolerance)
        GR = torch.addcmul(GR, a.mT + b, R, value=-1)
    return GR
