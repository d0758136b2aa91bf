"""Known elements that a network is given, by name."""

from collections.abc import Sequence

from symshare import groups
from symshare.groups import Action, generated

__all__ = ["closed", "named"]

_NAMED = {
    "C1": lambda: groups.rotations(1),
    "C2": lambda: groups.rotations(2),
    "C4": lambda: groups.rotations(4),
    "C8": lambda: groups.rotations(8),
    "D2": lambda: groups.dihedral(2),
    "D4": lambda: groups.dihedral(4),
    "flipW": lambda: groups.flips("W"),
}


def named(name: str) -> Action:
    """The elements of a group.

    Raises:
        ValueError: for a name that is not known.

    >>> named("C2")
    GroupAction(id, rot180)
    """
    if name not in _NAMED:
        raise ValueError(
            f"network.group: expected one of {', '.join(_NAMED)} or found, got {name!r}"
        )
    return _NAMED[name]()


def closed(names: Sequence[str]) -> Action:
    """The group that the named symmetries of the square generate.

    >>> closed(["rot90"])
    GroupAction(id, rot90, rot180, rot270)
    """
    square = groups.dihedral(4)
    table = square.table.tolist()
    members = generated(map(square.names.index, names), lambda g, h: table[g][h])
    return square.subset([square.names[g] for g in members])
