"""Representations: modules that return the stack R [G, D, D] which acts on base weights."""

from symshare.representations.ablations import RowStochastic, Unconstrained
from symshare.representations.base import Representation
from symshare.representations.birkhoff import Birkhoff
from symshare.representations.kronecker import Kronecker
from symshare.representations.measure import Measure
from symshare.representations.permuting import Fixed, Gated
from symshare.representations.projected import Sinkhorn
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
    "RowStochastic",
    "Sinkhorn",
    "Unconstrained",
    "shared",
]
