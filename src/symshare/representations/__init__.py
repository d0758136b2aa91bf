"""Representations: recipes for the stacks R [G, D, D] that act on base weights."""

from symshare.representations.base import Representation, Stack
from symshare.representations.birkhoff import Birkhoff
from symshare.representations.known import Fixed, Gated
from symshare.representations.kronecker import Kronecker
from symshare.representations.learned import Sinkhorn
from symshare.representations.measure import Measure
from symshare.representations.projection import Projection
from symshare.representations.sharing import shared

__all__ = [
    "Birkhoff",
    "Fixed",
    "Gated",
    "Kronecker",
    "Measure",
    "Projection",
    "Representation",
    "Sinkhorn",
    "Stack",
    "shared",
]
