"""Actions from source indices, and the group that a set generates."""

import itertools
from collections.abc import Callable, Sequence
from math import prod
from typing import TypeVar, overload

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from symshare.groups.abstract import CAP, compose, generated
from symshare.groups.action import Action
from symshare.groups.exact import GroupAction
from symshare.groups.interpolated import InterpolatedAction
from symshare.groups.maps import lattice
from symshare.groups.shape import Shape, each_axis

Element = TypeVar("Element")


def from_permutations(
    permutations: Int[Tensor, "G P"] | np.ndarray | Sequence[Sequence[int]],
    shape: Shape,
    names: Sequence[str] | None = None,
) -> GroupAction:
    """An action given by explicit source indices over a grid.

    Elements that are lattice maps are recognised: they get a name and act on kernels, and where
    all of them are and none shifts, the action serves every grid it maps to itself. The
    identity is put first, and added where it is missing.

    Args:
        permutations: `(g f)[p] = f[permutations[g, p]]`, for f flattened over `shape`.
        shape: the grid; an int is a ring.
        names: one per permutation; the identity is called "id" whatever its name here.

    Raises:
        ValueError: where a row is no permutation, or elements or names coincide.

    Example:
        >>> from_permutations([[1, 3, 0, 2], [3, 2, 1, 0]], (2, 2))
        GroupAction(id, rot90, rot180)
    """
    grid = each_axis(shape, 1)
    given = torch.as_tensor(permutations, device="cpu")
    if given.is_floating_point():
        raise ValueError(
            f"from_permutations: expected whole numbers, got {given.dtype}; a stack of matrices "
            "is turned into source indices by argmax(-1)"
        )
    rows = given.long()
    identity = torch.arange(prod(grid), device="cpu")
    if rows.ndim != 2 or rows.shape[1] != prod(grid):
        raise ValueError(
            f"from_permutations: expected one row of {prod(grid)} source indices per element of "
            f"shape {grid}, got {tuple(rows.shape)}"
        )
    if (bad := (rows.sort(1).values != identity).any(1)).any():
        raise ValueError(
            f"from_permutations: row {int(bad.nonzero()[0])} is not a permutation of "
            f"0..{prod(grid) - 1}; give source indices, each once"
        )
    if names is not None and len(names) != len(rows):
        raise ValueError(f"from_permutations: {len(rows)} permutations but {len(names)} names")
    others = [g for g, row in enumerate(rows) if not torch.equal(row, identity)]
    if len(others) < len(rows) - 1:
        raise ValueError("from_permutations: the identity is given twice; give each element once")
    pixels = torch.cat([identity[None], rows[others]])
    maps = [lattice(row, grid) for row in pixels]
    if names is None:
        names = [(m and m.name_on(grid)) or f"g{g}" for g, m in enumerate(maps)]
    else:
        names = ["id", *(names[g] for g in others)]
    if all(m is not None and not any(m.shift) for m in maps):
        return GroupAction(names, maps)
    return GroupAction(names, maps, grid, pixels)


@overload
def closure(action: GroupAction, cap: int = CAP) -> GroupAction: ...
@overload
def closure(action: Action, cap: int = CAP) -> Action: ...
def closure(action: Action, cap: int = CAP) -> Action:
    """The smallest group that contains the action; its elements come first, in their order.

    Args:
        action: any set of transformations.
        cap: the largest number of elements allowed.

    Raises:
        ValueError: where the group is larger.

    Example:
        >>> from symshare import groups
        >>> closure(groups.rotations(4).subset(["rot90"]))
        GroupAction(id, rot90, rot180, rot270)
        >>> len(closure(groups.rotations(16).subset(["rot45"])))
        8
    """
    if isinstance(action, InterpolatedAction):
        elements = _generated(action, list(action.elements), action._multiply, cap)
        return InterpolatedAction(action.n, elements)
    if not isinstance(action, GroupAction):
        raise TypeError(
            f"closure: expected a GroupAction or InterpolatedAction, got {type(action).__name__}"
        )
    grid = action._reference
    rows = map(tuple, action.permutation(grid).tolist())
    names: dict[tuple[int, ...], str] = dict(zip(rows, action.names, strict=True))

    def multiply(g: tuple[int, ...], h: tuple[int, ...]) -> tuple[int, ...]:
        product = compose(g, h)
        if product not in names:
            m = lattice(torch.tensor(product, device="cpu"), grid)
            known = m.name_on(grid) if m else None
            if known is None or known in names.values():
                known = f"{names[g]}*{names[h]}"
            names[product] = known
        return product

    rows = _generated(action, list(names), multiply, cap)
    return from_permutations(rows, grid, list(names.values()))


def _generated(
    action: Action,
    elements: list[Element],
    multiply: Callable[[Element, Element], Element],
    cap: int,
) -> list[Element]:
    # A set that is larger and closed already is no trouble.
    most = max(cap, len(action))
    found = list(itertools.islice(generated(elements, multiply), most + 1))
    if len(found) > most:
        raise ValueError(
            f"closure: {action} generates more than {cap} elements; leave elements out or pass a "
            "larger cap"
        )
    return found
