"""Maps of a lattice onto itself: a signed permutation of the axes and a cyclic shift."""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

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
        for rows in itertools.permutations(np.eye(dims, dtype=int).tolist()):
            yield tuple(tuple(s * x for x in row) for s, row in zip(signs, rows, strict=True))


@cache
def cube_matrices() -> dict[str, Matrix]:
    """The 24 rotations of the cube by name, the identity first, then each of them inverted.

    A rotation is named by its axis and its angle in degrees, as `x90`, `xy180`, `x-yz120`: the
    axis is the sum of the signed letters, the first of which is positive; x, y, z are the axes
    of the array in their order, and turns are right-handed. `invert` is the map x -> -x, and
    `invert_x90` is it and then the rotation; the mirrors `invert_x180`, ... are called `flipx`,
    `flipy`, `flipz`.
    """
    turns = []
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
            turns.append((order, f"{letters}{angle}" if angle else "id", matrix))
    rotations = {name: matrix for _, name, matrix in sorted(turns)}
    inverted = {
        _INVERTED.get(name, f"invert_{name}"): tuple(tuple(-x for x in row) for row in matrix)
        for name, matrix in rotations.items()
    }
    return rotations | inverted


_INVERTED = {"id": "invert", "x180": "flipx", "y180": "flipy", "z180": "flipz"}


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


@cache
def linear_names(dims: int) -> dict[Matrix, str]:
    """Names of the signed permutation matrices of up to three dimensions."""
    kinds = {1: LINE, 2: PLANE, 3: cube_matrices() if dims == 3 else {}}
    return {matrix: name for name, matrix in kinds.get(dims, {}).items()}


@dataclass(frozen=True)
class LatticeMap:
    """The map `x -> M x + s` of a grid onto itself, on coordinates centred in the grid.

    Args:
        matrix: M, a signed permutation matrix, as rows; on images x = (row, column).
        shift: s, in pixels, cyclic over the grid.

    Example:
        >>> quarter = LatticeMap(((0, -1), (1, 0)), (0, 0))
        >>> f = torch.arange(9)
        >>> torch.equal(f[quarter.permutation((3, 3))].view(3, 3), f.view(3, 3).rot90())
        True
    """

    matrix: Matrix
    shift: tuple[int, ...]

    @property
    def linear(self) -> "LatticeMap":
        """The same map without its shift: what is left of it on a convolution kernel."""
        return LatticeMap(self.matrix, (0,) * len(self.shift))

    def fits(self, shape: Sequence[int]) -> bool:
        """Whether every axis is sent to an axis of the same length."""
        size = np.asarray(shape)
        return bool((abs(np.asarray(self.matrix)) @ size == size).all())

    def permutation(self, shape: Sequence[int]) -> Int[Tensor, " P"]:
        """Source index of every position of a grid that the map fits."""
        size = np.asarray(shape)[:, None]
        # Twice the centred coordinates: integers for even and odd lengths alike.
        target = 2 * np.indices(tuple(shape)).reshape(len(shape), -1) - (size - 1)
        source = np.asarray(self.matrix).T @ (target - 2 * np.asarray(self.shift)[:, None])
        index = (source + size - 1) // 2 % size
        return torch.from_numpy(np.ravel_multi_index(tuple(index), tuple(shape)))

    def name_on(self, shape: Sequence[int]) -> str | None:
        """Name of the map, linear part first; None in more than three dimensions.

        Shifts along axes of length 1 are left out.

        Example:
            >>> LatticeMap(((1, 0), (0, -1)), (0, 2)).name_on((4, 4))
            'flipW_shift0_2'
            >>> LatticeMap(((1, 0), (0, 1)), (0, 2)).name_on((1, 4))
            'shift2'
        """
        linear = linear_names(len(self.shift)).get(self.matrix)
        if linear is None or not any(self.shift):
            return linear
        steps = [str(s) for s, length in zip(self.shift, shape, strict=True) if length > 1]
        shift = "shift" + "_".join(steps)
        return shift if linear == "id" else f"{linear}_{shift}"


def lattice(permutation: Int[Tensor, " P"], shape: Sequence[int]) -> LatticeMap | None:
    """Recognise a pixel permutation as a signed axis permutation and a cyclic shift.

    Args:
        permutation: source indices over the grid.
        shape: the grid.

    Returns:
        The map (on grids where several agree, one without a shift if there is one), or None.

    Example:
        >>> lattice(torch.tensor([3, 0, 1, 2]), (4,))
        LatticeMap(matrix=((1,),), shift=(1,))
        >>> lattice(torch.tensor([1, 0, 2, 3]), (4,)) is None
        True
    """
    permutation = permutation.cpu()
    size, dims = np.asarray(shape), len(shape)
    source = np.asarray(np.unravel_index(int(permutation[0]), tuple(shape)))
    found = []
    for matrix in signed_permutations(dims):
        if not LatticeMap(matrix, (0,) * dims).fits(shape):
            continue
        centred = np.asarray(matrix) @ (2 * source - (size - 1))
        shift = (1 - size - centred) // 2 % size
        candidate = LatticeMap(matrix, tuple(int(s) for s in shift))
        if torch.equal(candidate.permutation(shape), permutation):
            found.append(candidate)
    return min(found, key=lambda m: any(m.shift), default=None)
