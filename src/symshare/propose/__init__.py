"""Candidate transformations: exact ones of the data's shape, and automorphisms of its statistics.

`propose` is the entry; what it returns is judged elsewhere. Second moments propose too much (any
stationary field admits the half turn, any ring the reversal) and know nothing of labels.
"""

from symshare.propose.automorphisms import Automorphisms, Moments, automorphisms, estimate, residual
from symshare.propose.candidates import Candidate, Candidates
from symshare.propose.channels import check_names
from symshare.propose.proposing import check_shape, propose

__all__ = [
    "Automorphisms",
    "Candidate",
    "Candidates",
    "Moments",
    "automorphisms",
    "check_names",
    "check_shape",
    "estimate",
    "propose",
    "residual",
]
