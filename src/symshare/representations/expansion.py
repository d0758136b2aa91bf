"""From base weights to the weights of every element."""

import torch
from jaxtyping import Float
from torch import Tensor

from symshare.sinkhorn.inputs import full_precision


def expand(R: Float[Tensor, "G D D"], theta: Float[Tensor, "O I D"]) -> Float[Tensor, "O G I D"]:
    r"""Transformed base weights, in float32 at least and also under autocast.

    .. math:: W_{o g i} = R_g \theta_{o i}

    Eq. (5) of arXiv:2412.04594.

    Args:
        R: stack of matrices [G, D, D].
        theta: base weights [O, I, D]; the result has their dtype.

    Raises:
        ValueError: if R is no stack of square matrices, or R and theta differ in D.

    >>> turn = torch.eye(4).roll(1, 0)
    >>> expand(torch.stack([torch.eye(4), turn]), torch.arange(4.0)[None, None]).int().tolist()
    [[[[0, 1, 2, 3]], [[3, 0, 1, 2]]]]
    """
    check_stack("expand", R)
    check_theta("expand", theta, R.shape[-1])
    dtype = torch.promote_types(torch.promote_types(R.dtype, theta.dtype), torch.float32)
    with full_precision(theta):
        W = torch.einsum("gde,oie->ogid", R.to(dtype), theta.to(dtype))
    return W.to(theta.dtype)


def check_theta(who: str, theta: Tensor, positions: int) -> None:
    """Refuse base weights on other positions than R's."""
    if theta.shape[-1] != positions:
        raise ValueError(
            f"{who}: R acts on D={positions} positions, but theta {tuple(theta.shape)} has "
            f"{theta.shape[-1]}; the last axis of theta is D"
        )


def check_stack(who: str, stack: Tensor) -> None:
    """Refuse what is no stack of square matrices."""
    if stack.ndim != 3 or stack.shape[-1] != stack.shape[-2] or not stack.numel():
        raise ValueError(
            f"{who}: expected a stack of square matrices [G, D, D], got {tuple(stack.shape)}; "
            "stack one matrix for each group element"
        )
