"""Pictures of arrows."""

import itertools

import torch
from jaxtyping import Float
from torch import Tensor

# Deviation of the texture behind an arrow. Positions that no arrow reaches would be zero in all
# pictures, and then nothing could tell where a representation moves them.
TEXTURE = 0.1


def arrows(count: int, side: int, generator: torch.Generator) -> Float[Tensor, "C D"]:
    """Arrows that point right, of brightness 1, on a faint texture of their own.

    They differ in the lengths of shaft and barbs and in their place. Where there are fewer such
    arrows than pictures, they repeat on other textures. The texture is part of a picture, not
    noise.

    Args:
        count: number of pictures C.
        side: pixels of a side, at least 5; D = side * side.
        generator: of the choice of arrows and of the textures.

    >>> picture = arrows(1, 7, torch.Generator().manual_seed(1)).view(7, 7)
    >>> for row in (picture > 0.5).int().tolist():
    ...     print("".join("-#"[pixel] for pixel in row))
    ---#---
    ----#--
    -#####-
    ----#--
    ---#---
    -------
    -------
    """
    every = [
        (barb, row, tip, shaft)
        for barb in range(2, (side + 1) // 2)
        for row in range(barb, side - barb)
        for shaft in range(3, side)
        for tip in range(max(barb, shaft), side)
    ]
    order = torch.randperm(len(every), generator=generator).tolist()
    pictures = TEXTURE * torch.randn(count, side, side, generator=generator)
    for picture, which in zip(pictures, itertools.cycle(order), strict=False):
        barb, row, tip, shaft = every[which]
        picture[row, tip - shaft : tip + 1] += 1
        for step in range(1, barb + 1):
            picture[[row - step, row + step], tip - step] += 1
    return pictures.flatten(1)
