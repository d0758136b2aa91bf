"""The projection of a stack of logits onto (nearly) doubly stochastic matrices."""

from symshare.sinkhorn.operator import sinkhorn
from symshare.sinkhorn.penalties import entropies, entropy, marginal_error, norm_penalty
from symshare.sinkhorn.projection import Projected, project

__all__ = [
    "Projected",
    "entropies",
    "entropy",
    "marginal_error",
    "norm_penalty",
    "project",
    "sinkhorn",
]
