"""How far a stack is from doubly stochastic, and the paper's penalties."""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from symshare.sinkhorn.inputs import at_least_float32


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
    return entropies(R).sum()


def entropies(R: Float[Tensor, "*batch D D"]) -> Float[Tensor, "*batch"]:
    """Entropy of each matrix of a stack, in nats.

    >>> entropies(torch.stack([torch.eye(2), torch.full((2, 2), 0.5)]))
    tensor([0.0000, 1.3863])
    """
    return _Entropies.apply(R)


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
    logits = at_least_float32(logits)
    squares = logits.logsumexp(-1).square() + logits.logsumexp(-2).square()
    return squares.sum() / max(squares.numel(), 1)


class _Entropies(torch.autograd.Function):
    """Sums of -R log R, keeping R alone for the backward pass."""

    generate_vmap_rule = True

    @staticmethod
    def forward(R: Tensor) -> Tensor:
        return torch.special.entr(R).sum((-2, -1))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple, output: Tensor) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, *cotangents: Tensor) -> Tensor:
        (scale,), (R,) = cotangents, ctx.saved_tensors
        # The slope is infinite at zero, where optimisation would stop with NaN.
        slope = R.clamp_min(torch.finfo(R.dtype).tiny).log() + 1
        return -scale[..., None, None] * slope
