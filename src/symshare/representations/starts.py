"""Where learned stacks start: near matrices that they could become."""

import itertools
import math
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

Init = Literal["sharp", "paper", "identity"]

# Mass on the matrix that an element starts at: enough for distinct kernels of full contrast,
# little enough that the gradient still reaches the other entries.
SHARP_MASS = 0.9

# Spread of the logits of elements that start at the identity: what tells them apart.
NOISE = 0.5


def starting_logits(who: str, init: Init, count: int, positions: int) -> Float[Tensor, "N D D"]:
    """Logits of learned elements, as `Sinkhorn` describes `init`; errors name `who`."""
    if init == "paper":
        return torch.rand(count, positions, positions)
    if init == "identity":
        return near(torch.eye(positions)) + NOISE * torch.randn(count, positions, positions)
    if init == "sharp":
        return near(random_permutations(count, positions))
    raise ValueError(f"{who}: init must be 'sharp', 'paper' or 'identity', got {init!r}")


def near(stack: Float[Tensor, "*rows D"], mass: float = SHARP_MASS) -> Float[Tensor, "*rows D"]:
    """Logits of a mixture: `mass` of each distribution in the last axis, the rest uniform.

    Where the stack is doubly stochastic, so is their exponential: a projection has nothing to do.

    >>> near(torch.eye(2)[None]).exp()
    tensor([[[0.9500, 0.0500],
             [0.0500, 0.9500]]])
    """
    return (mass * stack + (1 - mass) / stack.shape[-1]).log()


def random_permutations(count: int, positions: int) -> Float[Tensor, "N D D"]:
    """Random permutation matrices, distinct and none the identity, where there are so many.

    There are D! - 1 of them. Where `count` is larger, all come, then the identity, and then they
    repeat.

    >>> random_permutations(2, 3).sum(-1)
    tensor([[1., 1., 1.],
            [1., 1., 1.]])
    >>> [matrix.argmax(-1).tolist() for matrix in random_permutations(3, 2)]
    [[1, 0], [0, 1], [1, 0]]
    """
    # Draw all but a few where few exist; else draw again what is there already.
    if math.factorial(min(positions, 12)) <= 2 * count:
        identity, *others = itertools.permutations(range(positions))
        order = torch.randperm(len(others), device="cpu").tolist()
        every = itertools.cycle([*(others[i] for i in order), identity])
        rows = list(itertools.islice(every, count))
    else:
        found = {tuple(range(positions)): None}
        while len(found) <= count:
            missing = count + 1 - len(found)
            drawn = torch.rand(missing, positions, device="cpu").argsort(-1)
            found.update(dict.fromkeys(map(tuple, drawn.tolist())))
        rows = list(found)[1:]
    sources = torch.tensor(rows, dtype=torch.int64).view(count, positions)
    return nn.functional.one_hot(sources, positions).to(torch.get_default_dtype())


def with_identity(stack: Float[Tensor, "N D D"]) -> Float[Tensor, "G D D"]:
    """The identity before learned matrices."""
    identity = torch.eye(stack.shape[-1], dtype=stack.dtype, device=stack.device)
    return torch.cat([identity[None], stack])
