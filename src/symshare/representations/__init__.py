"""Representations: modules that return the stack R [G, D, D] which acts on base weights."""

from symshare.representations.base import Representation
from symshare.representations.measure import Measure
from symshare.representations.permuting import Fixed, Gated
from symshare.representations.projected import Sinkhorn

__all__ = ["Fixed", "Gated", "Measure", "Representation", "Sinkhorn"]
