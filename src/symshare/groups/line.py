"""Shifts and reversals of lines and rings."""

from symshare.groups.exact import GroupAction
from symshare.groups.maps import LatticeMap
from symshare.groups.signed import LINE


def reversal() -> GroupAction:
    """The identity and the reversal of a line; acts on one-dimensional kernels of every size.

    Example:
        >>> reversal().lift(3)[1].int().tolist()
        [[0, 0, 1], [0, 1, 0], [1, 0, 0]]
    """
    return GroupAction(list(LINE), [LatticeMap(matrix, (0,)) for matrix in LINE.values()])


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
    return _ring([LatticeMap(((1,),), (s,)) for s in range(n)], n)


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
    return _ring([LatticeMap(((sign,),), (s,)) for sign in (1, -1) for s in range(n)], n)


def _ring(maps: list[LatticeMap], n: int) -> GroupAction:
    # On a line every map has a name; a ring of one position has the identity only.
    return GroupAction([m.name_on((n,)) or "id" for m in maps], maps, (n,))
