"""From plain tensors to numbers: what a stack has learned, and how equivariant a network is."""

from symshare.analysis.equivariance import equivariance_error
from symshare.analysis.permutations import (
    Match,
    match,
    nearest_permutation,
    normalized_entropy,
    vertex_gap,
)

__all__ = [
    "Match",
    "equivariance_error",
    "match",
    "nearest_permutation",
    "normalized_entropy",
    "vertex_gap",
]
