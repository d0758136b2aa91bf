"""Images of one to three axes as means over cells."""

from __future__ import annotations

from typing import Any

from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d

_CELLS = {1: 64, 2: 8, 3: 4}
"""Most cells along each of so many axes: 64 in all."""

_POOLS: dict[int, Any] = {1: adaptive_avg_pool1d, 2: adaptive_avg_pool2d, 3: adaptive_avg_pool3d}


def few_cells(space: tuple[int, ...]) -> tuple[int, ...]:
    """A grid of at most 64 cells for images of this many positions along each axis.

    Example:
        >>> few_cells((28, 5)), few_cells((187,))
        ((8, 5), (64,))
    """
    return tuple(min(length, _CELLS[len(space)]) for length in space)


def pooled(
    images: Float[Tensor, "N C *space"], cells: tuple[int, ...]
) -> Float[Tensor, "N C *cells"]:
    """The mean of images over cells, so many along each axis; these overlap where none divide it.

    Example:
        >>> import torch
        >>> pooled(torch.tensor([[[1.0, 3.0, 5.0, 7.0]]]), (2,))
        tensor([[[2., 6.]]])
    """
    return _POOLS[len(cells)](images, cells)
