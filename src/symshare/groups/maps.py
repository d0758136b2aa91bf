"""Maps of a lattice onto itself: a signed permutation of the axes and a cyclic shift."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from symshare.groups.signed import Matrix, linear_names, signed_permutations


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
    origin = np.zeros(dims, dtype=int)
    source = np.asarray(np.unravel_index(int(permutation[0]), tuple(shape)))
    found = []
    for matrix in signed_permutations(dims):
        if not LatticeMap(matrix, (0,) * dims).fits(shape):
            continue
        centred = np.asarray(matrix) @ (2 * source - (size - 1))
        shift = (2 * origin - (size - 1) - centred) // 2 % size
        candidate = LatticeMap(matrix, tuple(int(s) for s in shift))
        if torch.equal(candidate.permutation(shape), permutation):
            found.append(candidate)
    return min(found, key=lambda m: any(m.shift), default=None)
