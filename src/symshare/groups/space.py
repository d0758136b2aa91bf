"""Rotations and reflections of the cube."""

import itertools

import torch
from jaxtyping import Int
from torch import Tensor

from symshare.groups.exact import GroupAction
from symshare.groups.maps import LatticeMap
from symshare.groups.signed import cube_matrices


def cube(reflections: bool = False) -> GroupAction:
    """The 24 rotations of the cube, S4, on voxels [..., x, y, z]; with reflections 48, S4xC2.

    An element is named by its axis and its angle in degrees, right-handed about the axes of the
    array in their order: `x90` is `torch.rot90(v, 1, (-2, -1))`, `y90` is
    `torch.rot90(v, 1, (-1, -3))`, `z90` is `torch.rot90(v, 1, (-3, -2))`; `x-y180` turns about
    the edge axis x - y, `xyz120` about the corner axis x + y + z. With reflections the 24 come
    first, then each of them after the inversion v(p) -> v(-p): `invert`, `invert_x90`, ...; the
    mirrors across the axes are `flipx`, `flipy`, `flipz`.

    Args:
        reflections: whether reflections belong.

    Example:
        >>> cube().name, len(cube(reflections=True))
        ('S4', 48)
        >>> v = torch.rand(5, 5, 5)
        >>> torch.equal(cube().apply(v, cube().names.index("x90")), v.rot90(1, (-2, -1)))
        True
    """
    matrices = cube_matrices()
    names = list(matrices) if reflections else list(matrices)[:24]
    return GroupAction(names, [LatticeMap(matrices[name], (0, 0, 0)) for name in names])


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
