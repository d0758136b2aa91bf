"""Finite sets of transformations: how they act on signals, on kernels and on themselves.

An element `g` moves the value at position `x` to position `g x`. On a signal `f` over a grid
that is `(g f)[p] = f[perm[p]]`, where `perm[p]` is the *source* index of position `p`.
"""

from symshare.groups.action import Action
from symshare.groups.exact import GroupAction
from symshare.groups.explicit import closure, from_permutations
from symshare.groups.interpolated import InterpolatedAction
from symshare.groups.line import cyclic_shifts, reversal, ring_dihedral
from symshare.groups.maps import LatticeMap, lattice
from symshare.groups.plane import dihedral, flips, rotations
from symshare.groups.products import compose, generated
from symshare.groups.shape import Shape
from symshare.groups.space import cube, cube_words, quarter_turns

__all__ = [
    "Action",
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
    "lattice",
    "quarter_turns",
    "reversal",
    "ring_dihedral",
    "rotations",
]
