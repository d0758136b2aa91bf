"""The converged projection and its gradient in float64: dense, slow, and independent of the rest.

R = diag(e^f) exp(logits) diag(e^g) with all row and column sums 1. Newton's method and the
gradient both solve the same linear system, whose null vector (1, -1) is taken out by adding its
outer product.
"""

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

__all__ = ["gradient", "project", "second_singular_value"]

TOLERANCE = 1e-13
"""Marginal error of the converged projection."""


def project(logits: Float[Tensor, "*batch D D"]) -> Float[Tensor, "*batch D D"]:
    """The doubly stochastic matrices that the logits stand for, to 1e-13.

    Raises:
        RuntimeError: if they are not reached.

    >>> R = project(torch.tensor([[5.0, 0.0], [0.0, 0.0]]))
    >>> bool((R.sum(-1) - 1).abs().max() < 1e-12)
    True
    """
    logits = logits.detach().double()
    f, g = torch.zeros_like(logits[..., 0]), torch.zeros_like(logits[..., 0])
    for _ in range(100):
        f = -(logits + g[..., None, :]).logsumexp(-1)
        g = -(logits + f[..., :, None]).logsumexp(-2)
    for _ in range(50):
        R = (logits + f[..., :, None] + g[..., None, :]).exp()
        excess = torch.cat([R.sum(-1) - 1, R.sum(-2) - 1], -1)
        if excess.abs().amax() <= TOLERANCE:
            return R
        df, dg = _solve(R, excess).chunk(2, -1)
        # Far from the solution a full step overshoots; one that changes no entry by more than
        # a factor of e does not.
        step = 1 / (df.abs().amax(-1, True) + dg.abs().amax(-1, True)).clamp(min=1)
        f, g = f - step * df, g - step * dg
        if (step == 1).all():
            # One sweep wipes out the part of the rounding error that Newton's method amplifies.
            f = -(logits + g[..., None, :]).logsumexp(-1)
            g = -(logits + f[..., :, None]).logsumexp(-2)
    raise RuntimeError(f"truth: no convergence, marginal error {excess.abs().amax():.1e}")


def gradient(
    R: Float[Tensor, "*batch D D"], cotangent: Float[Tensor, "*batch D D"]
) -> Float[Tensor, "*batch D D"]:
    """dL/dlogits at the converged R, given dL/dR, by implicit differentiation.

    Args:
        R: from :func:`project`.
        cotangent: dL/dR.
    """
    G = cotangent.detach().double()
    sums = torch.cat([(R * G).sum(-1), (R * G).sum(-2)], -1)
    a, b = _solve(R, sums).chunk(2, -1)
    return R * (G - a[..., :, None] - b[..., None, :])


def _solve(R: Tensor, sums: Tensor) -> Tensor:
    """Solve [[diag r, R], [R', diag c]] x = sums, r and c the row and column sums of R."""
    D = R.shape[-1]
    null = torch.cat([R.new_ones(D), -R.new_ones(D)]) / (2 * D) ** 0.5
    rows, columns = torch.diag_embed(R.sum(-1)), torch.diag_embed(R.sum(-2))
    top, bottom = torch.cat([rows, R], -1), torch.cat([R.mT, columns], -1)
    system = torch.cat([top, bottom], -2) + torch.outer(null, null)
    # Not torch's: its batches of 8 such systems fail in oneMKL with two threads (torch 2.13).
    solution = np.linalg.solve(system.cpu().numpy(), sums[..., None].cpu().numpy())
    return torch.from_numpy(solution[..., 0]).to(R.device)


def second_singular_value(R: Float[Tensor, "*batch D D"]) -> Float[Tensor, "*batch"]:
    """Second largest singular value: its square is the rate of convergence of the sweeps.

    >>> second_singular_value(torch.eye(3)).item()
    1.0
    """
    return torch.linalg.svdvals(R.detach().double())[..., 1]
