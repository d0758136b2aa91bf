"""Average pooling to a grid that the search over statistics can handle."""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from symshare.groups import LatticeMap
from symshare.propose.candidates import Permutation

# Positions that the search over statistics can handle in about a second.
POSITIONS = 100


@dataclass(frozen=True)
class Pool:
    """Average pooling of images to a grid of at most 100 positions, and maps of that grid."""

    shape: tuple[int, int]
    grid: tuple[int, int]

    @classmethod
    def of(cls, shape: tuple[int, int]) -> "Pool":
        """The finest grid that divides the image, of at least 4 cells along each axis."""
        for factor in range(1, max(shape) + 1):
            grid = tuple(side if side == 1 else side // factor for side in shape)
            exact = all(side == 1 or side % factor == 0 for side in shape)
            coarse = any(cells < min(4, side) for cells, side in zip(grid, shape, strict=True))
            if exact and not coarse and grid[0] * grid[1] <= POSITIONS:
                return cls(shape, (grid[0], grid[1]))
        # No common divisor: overlapping windows, which mirror and transpose like the image.
        return cls(shape, (min(shape[0], 8), min(shape[1], 8)))

    @property
    def is_identity(self) -> bool:
        return self.shape == self.grid

    def __call__(self, images: Tensor) -> Float[np.ndarray, "N C P"]:
        pooled = torch.nn.functional.adaptive_avg_pool2d(images.float(), self.grid)
        return pooled.flatten(2).detach().cpu().numpy()

    def coarsen(self, map: LatticeMap) -> Permutation | None:
        """A lattice map of the image as a permutation of the grid, if it is one."""
        shift = self._scale(map.shift, self.grid, self.shape)
        if shift is None or not map.fits(self.grid):
            return None
        return tuple(LatticeMap(map.matrix, shift).permutation(self.grid).tolist())

    def refine(self, map: LatticeMap) -> LatticeMap | None:
        """A lattice map of the grid as one of the image, if it is one."""
        shift = self._scale(map.shift, self.shape, self.grid)
        if shift is None or not map.fits(self.shape):
            return None
        return LatticeMap(map.matrix, shift)

    @staticmethod
    def _scale(
        shift: tuple[int, ...], to: tuple[int, int], of: tuple[int, int]
    ) -> tuple[int, ...] | None:
        if any(s * t % o for s, t, o in zip(shift, to, of, strict=True)):
            return None
        if any(s and max(t, o) % min(t, o) for s, t, o in zip(shift, to, of, strict=True)):
            return None
        return tuple(s * t // o for s, t, o in zip(shift, to, of, strict=True))
