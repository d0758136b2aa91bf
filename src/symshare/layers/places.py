"""Where features lie, for labels that are numbers: a mean over space alone forgets it."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

LEAST = 1e-6
"""Least sum of features that a centre of mass is divided by."""


class GroupPlaces(nn.Module):
    r"""Mean over space and centre of mass of each feature: [B, C, G, *space] to [B, C*(1+dims), G].

    .. math:: c[b, c, g] = \Phi_g^{-1} \frac{\sum_p f[b, c, g, p] \, p}{\sum_p f[b, c, g, p]}

    Features are not negative, as after a ReLU. Positions p run from -1 to 1 along the longest axis,
    from the middle of the map, and the centre of mass at element g is read in the frame of g: its
    matrix \Phi_g moves positions as g does. So moving the input by h sends element g of the result
    to element h g, as it does with the features themselves.

    Args:
        frames: \Phi, what each element makes of a position, orthogonal; the identity for elements
            of which it is not known.

    Raises:
        ValueError: in forward, for features of other elements or axes of space.

    >>> from symshare import groups
    >>> turns = groups.rotations(4)
    >>> places = GroupPlaces(torch.tensor([map.matrix for map in turns.maps]).float())
    >>> f = torch.rand(2, 3, 4, 5, 5)
    >>> moved = f.rot90(1, (-2, -1)).roll(1, 2)         # element 1 of the group, rot90
    >>> torch.allclose(places(moved), places(f).roll(1, 2), atol=1e-6)
    True
    """

    frames: Tensor

    def __init__(self, frames: Float[Tensor, "G dims dims"]):
        super().__init__()
        self.register_buffer("frames", frames)

    def forward(self, f: Float[Tensor, "B C G *space"]) -> Float[Tensor, "B features G"]:
        G, dims = self.frames.shape[:2]
        if f.ndim != 3 + dims or f.shape[2] != G:
            raise ValueError(
                f"GroupPlaces: expected features [B, C, {G}, ...] with {dims} axes of space, got "
                f"{list(f.shape)}; keep the axis of the group, and give a frame for each element"
            )
        flat = f.flatten(3)
        positions = _positions(tuple(f.shape[3:])).to(f)
        centre = (flat @ positions) / flat.sum(-1, keepdim=True).clamp_min(LEAST)
        # The inverse of an orthogonal matrix is its transpose.
        centre = torch.einsum("gji,bcgj->bcig", self.frames, centre)
        return torch.cat([flat.mean(-1), centre.flatten(1, 2)], dim=1)


def _positions(space: tuple[int, ...]) -> Float[Tensor, "P dims"]:
    """Coordinates of every position from the middle, 1 at the ends of the longest axis."""
    half = max(max(space) - 1, 1) / 2
    axes = [(torch.arange(length) - (length - 1) / 2) / half for length in space]
    return torch.stack(torch.meshgrid(*axes, indexing="ij"), dim=-1).flatten(0, -2)
