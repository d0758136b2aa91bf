"""The projection of a stack of logits onto (nearly) doubly stochastic matrices."""

import torch
from jaxtyping import Float
from torch import Tensor

__all__ = ["entropy", "marginal_error", "norm_penalty", "sinkhorn"]


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
        ValueError: if the last two axes differ or `iterations` is less than 1.

    >>> R = sinkhorn(torch.tensor([[1.0, 0.0], [0.0, 1.0]]))
    >>> R.sum(-1), R.sum(-2)
    (tensor([1., 1.]), tensor([1., 1.]))
    """
    _check_square("sinkhorn", logits)
    if iterations < 1:
        raise ValueError(
            f"sinkhorn: iterations must be at least 1, got {iterations}; the default is 20"
        )
    with torch.autocast(logits.device.type, enabled=False):
        log_r = _at_least_float32(logits)
        for _ in range(iterations):
            log_r = log_r - log_r.logsumexp(-1, keepdim=True)
            log_r = log_r - log_r.logsumexp(-2, keepdim=True)
        return log_r.exp()


def marginal_error(R: Float[Tensor, "*batch D D"]) -> Float[Tensor, ""]:
    """Largest distance of a row or column sum from 1 over the whole stack.

    >>> marginal_error(torch.full((3, 4, 4), 0.25)).item()
    0.0
    """
    rows = (R.sum(-1) - 1).abs()
    columns = (R.sum(-2) - 1).abs()
    return torch.maximum(rows, columns).max()


def entropy(R: Float[Tensor, "*batch D D"]) -> Float[Tensor, ""]:
    r"""Entropy penalty of the paper, in nats: :math:`-\sum_{ijk} R_{ijk} \log R_{ijk}`.

    A sum over all matrices and rows, zero exactly for permutations (appendix C.1).

    >>> entropy(torch.eye(3)).item()
    0.0
    >>> round(entropy(torch.full((2, 4, 4), 0.25)).item(), 4)  # 2 matrices x 4 rows x ln 4
    11.0904
    """
    return torch.special.entr(R).sum()


def norm_penalty(logits: Float[Tensor, "*batch D D"]) -> Float[Tensor, ""]:
    r"""Norm penalty as the published code computes it, on the logits, per matrix and row.

    .. math:: \tfrac{1}{ND} \sum_{n,i} \mathrm{LSE}_j(\Theta_{nij})^2
              + \mathrm{LSE}_j(\Theta_{nji})^2

    It vanishes exactly where exp(logits) is doubly stochastic already. As printed in the paper,
    on R itself, the penalty is constant. It only picks one of the many logits of the same R
    (a gauge), which makes few iterations suffice.

    >>> norm_penalty(torch.full((1, 4, 4), 0.25).log()).item()
    0.0
    """
    logits = _at_least_float32(logits)
    squares = logits.logsumexp(-1).square() + logits.logsumexp(-2).square()
    return squares.sum() / max(squares.numel(), 1)


def _at_least_float32(x: Tensor) -> Tensor:
    return x.to(torch.promote_types(x.dtype, torch.float32))


def _check_square(who: str, x: Tensor) -> None:
    if x.ndim < 2 or x.shape[-1] != x.shape[-2]:
        raise ValueError(
            f"{who}: expected square matrices [..., D, D], got shape {tuple(x.shape)}; "
            "one matrix acts on the D positions of a base kernel"
        )
