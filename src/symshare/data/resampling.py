"""Images read between their pixels: the one place where pixels are interpolated."""

from __future__ import annotations

from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import affine_grid, grid_sample

Padding = Literal["zeros", "border"]
"""What lies outside of an image: zeros, or its nearest pixel."""


def resample(
    images: Float[Tensor, "N C *space"],
    matrices: Float[Tensor, "N d d"],
    shifts: Float[Tensor, "N d"] | None = None,
    padding: Padding = "zeros",
) -> Float[Tensor, "N C *space"]:
    """Read each image at M x + t for every pixel x, linearly between pixels.

    Args:
        images: Signals, images or volumes, with d axes of space.
        matrices: M of each image, on positions in pixels from the centre, in the order of the axes.
        shifts: t of each image in pixels; by default none.
        padding: What lies outside.

    Returns:
        The images that were read, in the type of those given.

    Example:
        >>> x = torch.tensor([[[1.0, 2.0, 3.0]]])
        >>> resample(x, torch.ones(1, 1, 1), torch.ones(1, 1), "border")
        tensor([[[2., 3., 3.]]])
    """
    if not len(images):
        return images
    d, space = matrices.shape[-1], images.shape[2:]
    dtype = torch.promote_types(images.dtype, torch.float32)
    # grid_sample has its axes in the other order, in units of half their lengths.
    half = torch.tensor(space[::-1], dtype=torch.float64, device=images.device) / 2
    M = matrices.double().flip(-1, -2) * half / half[:, None]
    t = torch.zeros_like(M[..., 0]) if shifts is None else shifts.double().flip(-1) / half
    theta = torch.cat([M, t[..., None]], dim=-1)
    if d == 1:
        # The line as an image of one row: there is no sampler for lines.
        row = theta.new_tensor([0.0, 1.0, 0.0]).expand(len(images), 1, 3)
        theta = torch.stack([theta[..., 0], torch.zeros_like(t), t], dim=-1)
        theta, images = torch.cat([theta, row], dim=1), images.unsqueeze(-2)
    grid = affine_grid(theta.to(dtype), list(images.shape), align_corners=False)
    read = grid_sample(images.to(dtype), grid, padding_mode=padding, align_corners=False)
    return (read.squeeze(-2) if d == 1 else read).to(images.dtype)
