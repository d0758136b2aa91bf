"""The projection as it was published, from its description: unrolled, checked, done twice a step.

See section 3.2 and appendix C.1 of arXiv:2412.04594. Written anew; held to tensors of the
published layers in the tests. It is here to be compared with, not to be used.
"""

import torch
from jaxtyping import Float
from torch import Tensor

__all__ = ["penalties", "project"]

ITERATIONS = 20


def project(logits: Float[Tensor, "G D D"]) -> Float[Tensor, "G D D"]:
    """Rows, then columns, at most 20 times, until all sums are within 1e-5 of 1.

    The check reads values, so a device waits for it in each iteration, and logits that are
    projected already come back as they are, with the gradient of `exp` alone.
    """
    log_r = logits
    for _ in range(ITERATIONS):
        if _is_doubly_stochastic(log_r.detach().exp()):
            break
        log_r = log_r - torch.logsumexp(log_r, -1, keepdim=True)
        log_r = log_r - torch.logsumexp(log_r, -2, keepdim=True)
    return log_r.exp()


def _is_doubly_stochastic(R: Tensor) -> bool:
    ones = R.new_ones(R.shape[:-1])
    return torch.allclose(R.sum(-1), ones) and torch.allclose(R.sum(-2), ones)


def penalties(logits: Float[Tensor, "G D D"]) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
    """Entropy, of a projection of its own, and norm penalty."""
    R = project(logits)
    rows, columns = logits.logsumexp(-1), logits.logsumexp(-2)
    return torch.special.entr(R).sum(), (rows.square() + columns.square()).mean()
