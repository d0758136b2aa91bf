"""Signed permutations of the axes of a grid, and their names."""

import itertools
from collections.abc import Iterator
from functools import cache

import numpy as np

Matrix = tuple[tuple[int, ...], ...]

LINE: dict[str, Matrix] = {"id": ((1,),), "reverse": ((-1,),)}
PLANE: dict[str, Matrix] = {
    "id": ((1, 0), (0, 1)),
    "rot90": ((0, -1), (1, 0)),
    "rot180": ((-1, 0), (0, -1)),
    "rot270": ((0, 1), (-1, 0)),
    "flipW": ((1, 0), (0, -1)),
    "transpose": ((0, 1), (1, 0)),
    "flipH": ((-1, 0), (0, 1)),
    "antitranspose": ((0, -1), (-1, 0)),
}


def signed_permutations(dims: int) -> Iterator[Matrix]:
    """All signed permutation matrices of a lattice: 2, 8, 48, ... of them."""
    for signs in itertools.product((1, -1), repeat=dims):
        for axes in itertools.permutations(range(dims)):
            yield tuple(
                tuple(sign if column == axis else 0 for column in range(dims))
                for sign, axis in zip(signs, axes, strict=True)
            )


@cache
def cube_matrices() -> dict[str, Matrix]:
    """The 24 rotations of the cube by name, the identity first, then each of them inverted.

    A rotation is named by its axis and its angle in degrees, as `x90`, `xy180`, `x-yz120`: the
    axis is the sum of the signed letters, the first of which is positive; x, y, z are the axes
    of the array in their order, and turns are right-handed. `invert` is the map x -> -x, and
    `invert_x90` is it and then the rotation; the mirrors `invert_x180`, ... are called `flipx`,
    `flipy`, `flipz`.
    """
    turns = {}
    for matrix in signed_permutations(3):
        if round(np.linalg.det(matrix)) == 1:
            axis, angle = _axis_angle(np.asarray(matrix))
            letters = "".join(
                ("-" if sign < 0 else "") + letter
                for sign, letter in zip(axis, "xyz", strict=True)
                if sign
            )
            # Faces, edges, corners; x before y before z; plus before minus; small angles first.
            unsigned = [-abs(sign) for sign in axis]
            order = (-sum(unsigned), unsigned, [-sign for sign in axis], angle)
            turns[f"{letters}{angle}" if angle else "id"] = (order, matrix)
    names = sorted(turns, key=lambda name: turns[name][0])
    rotations = {name: turns[name][1] for name in names}
    inverted = {
        _inverted_name(name): tuple(tuple(-entry for entry in row) for row in matrix)
        for name, matrix in rotations.items()
    }
    return rotations | inverted


def _axis_angle(turn: np.ndarray) -> tuple[tuple[int, ...], int]:
    """Axis with entries in -1, 0, 1, the first nonzero one positive, and angle in degrees."""
    angle = {3: 0, 1: 90, 0: 120, -1: 180}[int(np.trace(turn))]
    if angle in (0, 180):
        # The columns of R + 1 lie on the axis of a half turn; this one is not zero.
        column = turn.diagonal().argmax()
        axis = np.sign(turn[:, column] + np.eye(3)[column])
    else:
        axis = np.sign([turn[2, 1] - turn[1, 2], turn[0, 2] - turn[2, 0], turn[1, 0] - turn[0, 1]])
    first = next(int(sign) for sign in axis if sign)
    return tuple(int(first * sign) for sign in axis), angle if first > 0 else 360 - angle


def _inverted_name(turn: str) -> str:
    if turn == "id":
        return "invert"
    return f"flip{turn[0]}" if turn in ("x180", "y180", "z180") else f"invert_{turn}"


@cache
def linear_names(dims: int) -> dict[Matrix, str]:
    """Names of the signed permutation matrices of up to three dimensions."""
    kinds = {1: LINE, 2: PLANE, 3: cube_matrices() if dims == 3 else {}}
    return {matrix: name for name, matrix in kinds.get(dims, {}).items()}
