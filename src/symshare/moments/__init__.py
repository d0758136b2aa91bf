"""Stacks from second moments: the permutations that leave the law of what a layer sees unchanged.

No list of groups and no training on labels is needed; see :func:`learn_stacks`.
"""

from symshare.moments.alignment import Commutant, commutant, commutant_among
from symshare.moments.network import (
    LearnedLayer,
    learn_stacks,
    learned_network,
    of_layer,
    open_gates,
)
from symshare.moments.statistics import Moments, of_samples

__all__ = [
    "Commutant",
    "LearnedLayer",
    "Moments",
    "commutant",
    "commutant_among",
    "learn_stacks",
    "learned_network",
    "of_layer",
    "of_samples",
    "open_gates",
]
