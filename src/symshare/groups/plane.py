"""Rotations and reflections of images."""

from typing import Literal, overload

from symshare.groups.action import Action
from symshare.groups.exact import GroupAction
from symshare.groups.interpolated import InterpolatedAction
from symshare.groups.maps import LatticeMap
from symshare.groups.signed import PLANE


@overload
def rotations(n: Literal[1, 2, 4]) -> GroupAction: ...
@overload
def rotations(n: int) -> Action: ...
def rotations(n: int) -> Action:
    """Rotations of the plane by multiples of 360/n degrees, counter-clockwise as `torch.rot90`.

    Args:
        n: 1, 2 or 4 for a `GroupAction`: these map pixels to pixels. Any other number for an
            `InterpolatedAction`.

    Raises:
        ValueError: for n below 1.

    Example:
        >>> rotations(2)
        GroupAction(id, rot180)
        >>> rotations(8).subset(["rot45", "rot315"])
        InterpolatedAction(id, rot45, rot315)
    """
    if n < 1:
        raise ValueError(f"rotations: n must be at least 1, got {n}")
    if 4 % n == 0:
        return _plane(["id", "rot90", "rot180", "rot270"][:: 4 // n])
    return InterpolatedAction(n, [(turn, False) for turn in range(n)])


@overload
def dihedral(n: Literal[2, 4]) -> GroupAction: ...
@overload
def dihedral(n: int) -> Action: ...
def dihedral(n: int) -> Action:
    """Rotations by multiples of 360/n degrees, then each of them after a left-right flip.

    Args:
        n: 2 or 4 for a `GroupAction`, any other number from 3 on for an `InterpolatedAction`.

    Raises:
        ValueError: for n below 2.

    Example:
        >>> dihedral(4).names[4:]
        ('flipW', 'transpose', 'flipH', 'antitranspose')
        >>> dihedral(3).names
        ('id', 'rot120', 'rot240', 'flipW', 'flipW_rot120', 'flipW_rot240')
    """
    if n < 2:
        raise ValueError(f"dihedral: n must be at least 2, got {n}; use flips('W') for a lone flip")
    if 4 % n == 0:
        return _plane(list(PLANE)[:: 4 // n])
    return InterpolatedAction(n, [(turn, flip) for flip in (False, True) for turn in range(n)])


def flips(axes: str) -> GroupAction:
    """Flips of an image: "W" left-right, "H" up-down, "HW" both and their product.

    Raises:
        ValueError: for other axes.

    Example:
        >>> flips("HW")
        GroupAction(id, flipW, flipH, rot180)
    """
    elements = {
        "W": ["id", "flipW"],
        "H": ["id", "flipH"],
        "HW": ["id", "flipW", "flipH", "rot180"],
    }
    if axes not in elements:
        raise ValueError(f"flips: axes must be one of {list(elements)}, got {axes!r}")
    return _plane(elements[axes])


def _plane(names: list[str]) -> GroupAction:
    return GroupAction(names, [LatticeMap(PLANE[name], (0, 0)) for name in names])
