"""The groups of lines and rings, of images, and of the cube."""

import itertools
from collections.abc import Sequence
from functools import cache
from typing import Literal, overload

import torch
from jaxtyping import Int
from torch import Tensor

from symshare.groups.action import Action
from symshare.groups.exact import GroupAction
from symshare.groups.interpolated import InterpolatedAction
from symshare.groups.maps import LINE, PLANE, LatticeMap, Matrix, cube_matrices


def reversal() -> GroupAction:
    """The identity and the reversal of a line; acts on one-dimensional kernels of every size.

    Example:
        >>> reversal().lift(3)[1].int().tolist()
        [[0, 0, 1], [0, 1, 0], [1, 0, 0]]
    """
    return _linear(LINE, list(LINE))


def cyclic_shifts(n: int) -> GroupAction:
    """All shifts of a ring of n positions; `shift1` moves each value to the next position.

    Raises:
        ValueError: for n below 1.

    Example:
        >>> cyclic_shifts(12).name
        'Z12'
    """
    if n < 1:
        raise ValueError(f"cyclic_shifts: n must be at least 1, got {n}")
    return _ring(n, signs=(1,))


def ring_dihedral(n: int) -> GroupAction:
    """All shifts of a ring of n positions, then each of them after a reversal.

    Raises:
        ValueError: for n below 3.

    Example:
        >>> ring_dihedral(3)
        GroupAction(id, shift1, shift2, reverse, reverse_shift1, reverse_shift2)
    """
    if n < 3:
        raise ValueError(
            f"ring_dihedral: n must be at least 3, got {n}; on shorter rings a reversal is a shift"
        )
    return _ring(n, signs=(1, -1))


def _ring(n: int, signs: Sequence[int]) -> GroupAction:
    maps = [LatticeMap(((sign,),), (s,)) for sign in signs for s in range(n)]
    # On a line every map has a name; a ring of one position has the identity only.
    return GroupAction([m.name_on((n,)) or "id" for m in maps], maps, (n,))


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
        return _linear(PLANE, list(PLANE)[: 4 : 4 // n])
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
        return _linear(PLANE, list(PLANE)[:: 4 // n])
    return InterpolatedAction(n, [(turn, flip) for flip in (False, True) for turn in range(n)])


def flips(axes: str) -> GroupAction:
    """Flips of an image: "W" left-right, "H" up-down, "HW" both and their product.

    Raises:
        ValueError: for other axes.

    Example:
        >>> flips("HW")
        GroupAction(id, flipW, flipH, rot180)
    """
    elements = {"W": ["flipW"], "H": ["flipH"], "HW": ["flipW", "flipH", "rot180"]}
    if axes not in elements:
        raise ValueError(f"flips: axes must be one of {list(elements)}, got {axes!r}")
    return _linear(PLANE, ["id", *elements[axes]])


def _linear(matrices: dict[str, Matrix], names: Sequence[str]) -> GroupAction:
    no_shift = (0,) * len(matrices["id"])
    return GroupAction(names, [LatticeMap(matrices[name], no_shift) for name in names])


def cube(reflections: bool = False) -> GroupAction:
    """The 24 rotations of the cube, S4, on voxels [..., x, y, z]; with reflections 48, S4xC2.

    An element is named by its axis and its angle in degrees, right-handed about the axes of the
    array in their order: `x90` is `torch.rot90(v, 1, (-2, -1))`, `y90` is
    `torch.rot90(v, 1, (-1, -3))`, `z90` is `torch.rot90(v, 1, (-3, -2))`; `x-y180` turns about
    the edge axis x - y, `xyz120` about the corner axis x + y + z. With reflections the 24 come
    first, then each of them after the inversion v(p) -> v(-p): `invert`, `invert_x90`, ...; the
    mirrors across the axes are `flipx`, `flipy`, `flipz`.

    Example:
        >>> cube().name, len(cube(reflections=True))
        ('S4', 48)
        >>> v = torch.rand(5, 5, 5)
        >>> torch.equal(cube().apply(v, cube().names.index("x90")), v.rot90(1, (-2, -1)))
        True
    """
    matrices = cube_matrices()
    return _linear(matrices, list(matrices)[: 48 if reflections else 24])


@cache
def hyperoctahedral(dims: int) -> GroupAction:
    """All signed permutations of the axes: every linear map of a grid of so many to itself.

    The identity and the reversal of a line, the 8 symmetries of the square, the 48 of the cube.

    Raises:
        ValueError: for more than three axes, or none.

    Example:
        >>> [hyperoctahedral(dims).name for dims in (1, 2, 3)]
        ['C2', 'D4', 'S4xC2']
    """
    families = {1: reversal, 2: lambda: dihedral(4), 3: lambda: cube(reflections=True)}
    if dims not in families:
        raise ValueError(f"hyperoctahedral: dims must be 1, 2 or 3, got {dims}")
    return families[dims]()


def quarter_turns(axes: str) -> GroupAction:
    """All products of quarter turns of the cube about these axes, `r_x^i r_y^j` for "xy".

    "xy" is the set that arXiv:2412.04594 calls C4 x C4: 16 rotations that are no group. "xyz",
    "C4 x C4 x C4", are all 24.

    Args:
        axes: letters of x, y, z; the last acts first.

    Raises:
        ValueError: for no or other letters.

    Example:
        >>> quarter_turns("z").names
        ('id', 'z90', 'z180', 'z270')
        >>> len(quarter_turns("xy")), quarter_turns("xy").is_group
        (16, False)
    """
    _, elements = cube_words(axes)
    action = cube()
    return action.subset([action.names[g] for g in elements])


def cube_words(axes: str = "xyz") -> tuple[tuple[str, ...], Int[Tensor, " W"]]:
    """The words `r_x^i r_y^j r_z^k` in quarter turns, and which rotation of the cube each is.

    The 64 words in x, y, z make 24 rotations, so weights of words tell those of rotations, but
    not the other way round.

    Args:
        axes: letters of x, y, z; the last acts first.

    Returns:
        The W = 4^len(axes) words, such as "x1y0z3", the last exponent fastest, and the index of
        each in `cube()`.

    Raises:
        ValueError: for no or other letters.

    Example:
        >>> words, elements = cube_words()
        >>> words[:3], elements[:3].tolist(), len(elements.unique())
        (('x0y0z0', 'x0y0z1', 'x0y0z2'), [0, 7, 8], 24)
    """
    if not axes or not set(axes) <= set("xyz"):
        raise ValueError(f"cube_words: axes must be letters of 'xyz', got {axes!r}")
    action = cube()
    table = action.table.tolist()
    words = {"": 0}
    for axis in axes:
        turns = [0, *(action.names.index(f"{axis}{angle}") for angle in (90, 180, 270))]
        words = {
            f"{word}{axis}{power}": table[g][turns[power]]
            for (word, g), power in itertools.product(words.items(), range(4))
        }
    return tuple(words), torch.tensor(list(words.values()), device="cpu")
