"""Where learned stacks start: near matrices that they could become."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

# Mass on the matrix that an element starts at: enough for distinct kernels of full contrast,
# little enough that the gradient still reaches the other entries.
SHARP_MASS = 0.9


def near(stack: Float[Tensor, "*rows D"]) -> Float[Tensor, "*rows D"]:
    """Logits of 0.9 of each distribution in the last axis and 0.1 of the uniform one.

    Where the stack is doubly stochastic, so is their exponential: a projection has nothing to do.

    >>> near(torch.eye(2)[None]).exp()
    tensor([[[0.9500, 0.0500],
             [0.0500, 0.9500]]])
    """
    return (SHARP_MASS * stack + (1 - SHARP_MASS) / stack.shape[-1]).log()


def random_permutations(count: int, positions: int) -> Float[Tensor, "N D D"]:
    """Random permutation matrices.

    >>> random_permutations(2, 3).sum(-1)
    tensor([[1., 1., 1.],
            [1., 1., 1.]])
    """
    sources = torch.rand(count, positions).argsort(-1)
    return nn.functional.one_hot(sources, positions).to(torch.get_default_dtype())
