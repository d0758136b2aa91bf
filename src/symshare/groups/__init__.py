"""Finite sets of transformations: how they act on signals, on kernels and on themselves.

An element `g` moves the value at position `x` to position `g x`. On a signal `f` over a grid
that is `(g f)[p] = f[perm[p]]`, where `perm[p]` is the *source* index of position `p`.
"""

from symshare.groups.abstract import CAP, compose, generated
from symshare.groups.action import Action
from symshare.groups.channels import ChannelAction, ChannelMap
from symshare.groups.exact import GroupAction
from symshare.groups.explicit import closure, from_permutations
from symshare.groups.families import (
    cube,
    cube_words,
    cyclic_shifts,
    dihedral,
    flips,
    hyperoctahedral,
    quarter_turns,
    reversal,
    ring_dihedral,
    rotations,
)
from symshare.groups.interpolated import InterpolatedAction
from symshare.groups.maps import LatticeMap, lattice
from symshare.groups.shape import Shape

__all__ = [
    "CAP",
    "Action",
    "ChannelAction",
    "ChannelMap",
    "GroupAction",
    "InterpolatedAction",
    "LatticeMap",
    "Shape",
    "closure",
    "compose",
    "cube",
    "cube_words",
    "cyclic_shifts",
    "dihedral",
    "flips",
    "from_permutations",
    "generated",
    "hyperoctahedral",
    "lattice",
    "quarter_turns",
    "reversal",
    "ring_dihedral",
    "rotations",
]
