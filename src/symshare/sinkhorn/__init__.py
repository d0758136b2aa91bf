"""The projection of a stack of logits onto (nearly) doubly stochastic matrices."""

from symshare.sinkhorn.operator import sinkhorn
from symshare.sinkhorn.penalties import entropy, marginal_error, norm_penalty

__all__ = ["entropy", "marginal_error", "norm_penalty", "sinkhorn"]
