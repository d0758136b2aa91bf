"""How far a learned stack is from the axioms of a group."""

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from experiments.scores.inputs import stack_in_float64
from symshare.analysis.permutations import vertex_gap

# Vertex gap up to which a stack is sharp enough for its defects to mean something.
SHARP = 0.1


class GroupAxioms(NamedTuple):
    """Defects of a stack; all are 0 for a group of permutations.

    Args:
        closure: mean distance of products from the stack.
        identity: distance of the identity from the stack.
        inverse: mean distance of transposes from the stack.
        vertex_gap: the largest of the stack.
    """

    closure: float
    identity: float
    inverse: float
    vertex_gap: float

    @property
    def meaningful(self) -> bool:
        """Whether the stack is sharp; the uniform matrix too is closed under products."""
        return self.vertex_gap <= SHARP


def group_axioms(R: Float[Tensor, "G D D"]) -> GroupAxioms:
    r"""Defects of closure, identity and inverse of a soft stack.

    .. math:: \frac{1}{G^2} \sum_{g,h} \min_k \frac{|R_g R_h - R_k|_F^2}{2D}, \quad
              \min_k \frac{|I - R_k|_F^2}{2D}, \quad
              \frac1G \sum_g \min_k \frac{|R_g^\top - R_k|_F^2}{2D}

    For permutations these are shares of rows; unrelated random ones score about 1 - 1/D. A soft
    stack has small defects for no good reason, so look at `meaningful`. A partial symmetry is
    no group and fails by right.

    Raises:
        ValueError: where entries are negative or not finite.

    Example:
        >>> from symshare import groups
        >>> C4 = groups.rotations(4)
        >>> group_axioms(C4.lift(3))
        GroupAxioms(closure=0.0, identity=0.0, inverse=0.0, vertex_gap=0.0)
        >>> group_axioms(C4.lift(2)[:2])
        GroupAxioms(closure=0.25, identity=0.0, inverse=0.5, vertex_gap=0.0)
    """
    stack = stack_in_float64("group_axioms", "R", R)
    products = torch.stack([_nearest(g @ stack, stack).mean() for g in stack])
    identity = torch.eye(stack.shape[-1], dtype=stack.dtype)
    return GroupAxioms(
        closure=float(products.mean()),
        identity=float(_nearest(identity[None], stack)),
        inverse=float(_nearest(stack.mT, stack).mean()),
        vertex_gap=float(vertex_gap(stack).max()),
    )


def _nearest(x: Float[Tensor, "N D D"], stack: Float[Tensor, "G D D"]) -> Float[Tensor, " N"]:
    """Squared distance of each matrix from the stack, over 2D."""
    x, elements = x.flatten(1), stack.flatten(1)
    squares = x.square().sum(1)[:, None] + elements.square().sum(1)
    return (squares - 2 * x @ elements.T).amin(1).clamp_min(0) / (2 * stack.shape[-1])
