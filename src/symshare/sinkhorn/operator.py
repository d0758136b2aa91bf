"""The Sinkhorn operator as the paper defines it: a fixed number of sweeps, with their gradient."""

from jaxtyping import Float
from torch import Tensor

from symshare.sinkhorn.inputs import (
    adapts,
    at_least_float32,
    check_finite,
    check_square,
    full_precision,
)


def sinkhorn(
    logits: Float[Tensor, "*batch D D"], iterations: int = 20
) -> Float[Tensor, "*batch D D"]:
    r"""Sinkhorn operator: normalise rows, then columns, `iterations` times, in the log domain.

    .. math:: S^0(X) = \exp(X), \qquad S^l(X) = T_c(T_r(S^{l-1}(X)))

    (section 3.2 of arXiv:2412.04594). The gradient flows through all iterations. The arithmetic
    is at least float32, also inside autocast: exponents of a spread of 20 have no bits left in
    half precision.

    Args:
        logits: unconstrained, natural logarithms of unnormalised entries.
        iterations: number of row and column sweeps, at least 1. Convergence is linear with the
            square of the second singular value of the result, so sharp matrices need many.

    Returns:
        Entries in [0, 1]. Columns sum to 1 to rounding; rows within 1e-5 after 20 iterations for
        logits in [0, 1), and within :func:`marginal_error` otherwise.

    Raises:
        ValueError: if the last two axes differ, `iterations` is less than 1 or, on the CPU, logits
            are not finite.

    >>> import torch
    >>> R = sinkhorn(torch.tensor([[1.0, 0.0], [0.0, 1.0]]))
    >>> R.sum(-1), R.sum(-2)
    (tensor([1., 1.]), tensor([1., 1.]))
    """
    check_square("sinkhorn", logits)
    if iterations < 1:
        raise ValueError(
            f"sinkhorn: iterations must be at least 1, got {iterations}; the default is 20"
        )
    if adapts(logits):
        check_finite("sinkhorn", logits)
    with full_precision(logits):
        log_r = at_least_float32(logits)
        for _ in range(iterations):
            log_r = log_r - log_r.logsumexp(-1, keepdim=True)
            log_r = log_r - log_r.logsumexp(-2, keepdim=True)
        return log_r.exp()
