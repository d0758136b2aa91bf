"""How far a network is from equivariance, measured from outside."""

from collections.abc import Callable
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from symshare.groups import GroupAction


@torch.no_grad()
def equivariance_error(
    f: Callable[[Tensor], Tensor],
    action: GroupAction,
    images: Float[Tensor, "B C *space"],
    output: Literal["invariant", "regular"] = "invariant",
) -> Float[Tensor, " G"]:
    """Relative error of equivariance, `E|f(g x) - g f(x)| / E|f(x)|`, for every element g.

    Args:
        f: the network; put it in evaluation mode first where that matters.
        action: transformations of the images.
        images: x.
        output: how f(x) should transform. "invariant": not at all, as logits. "regular": as
            feature maps [B, C, G, *space], by g on space and left multiplication on the group
            axis, `(g f)[h, x] = f[g^-1 h, g^-1 x]`; [B, C, G] has no space left. Where the set
            is not closed, only the h with g^-1 h in the set are compared.

    Returns:
        Error per element; 0 is exact, about 1e-6 rounding in float32, above 0.1 no symmetry.

    Raises:
        ValueError: where f(x) is zero or has not the axes that `output` needs.

    Example:
        >>> from symshare.groups import rotations
        >>> equivariance_error(lambda x: x.amax((-2, -1)), rotations(4), torch.rand(2, 1, 6, 6))
        tensor([0., 0., 0., 0.])
    """
    reference = f(images)
    if reference.abs().max() == 0:
        raise ValueError("equivariance_error: f is zero on all images, so no error is defined")
    if output == "regular" and (
        reference.ndim not in (3, 3 + action.dims) or reference.shape[2] != len(action)
    ):
        raise ValueError(
            f"equivariance_error: expected [B, C, G={len(action)}, *space] from f, got "
            f"{tuple(reference.shape)}; pass output='invariant' or the action of its layers"
        )
    errors = []
    for g in range(len(action)):
        moved, expected = f(action.apply(images, g)), reference
        if output == "regular":
            # Row h of table[g] == h names the source g^-1 h; rows without one are left out.
            h, source = (action.table[g] == torch.arange(len(action))[:, None]).nonzero().unbind(1)
            moved, expected = moved[:, :, h], reference[:, :, source]
            if reference.ndim > 3:
                expected = action.apply(expected, g)
        errors.append((moved - expected).abs().mean() / reference.abs().mean())
    return torch.stack(errors)
