"""What a learned element does to the base kernels that a layer has."""

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from experiments.scores.inputs import refuse_not_finite
from symshare.analysis.permutations import refuse_other_positions


class FunctionalMatch(NamedTuple):
    """How far learned elements act on the base kernels like known ones.

    Args:
        error: `|R_g w - P_k w|_F / |P_k w|_F` for each learned g and known k; 0 is the same
            action, and sqrt(2) that of unrelated kernels of mean zero.
        rank: dimension of the span of the base kernels. Below D, elements that differ may still
            act alike: R is known on the span only.
    """

    error: Float[Tensor, "G K"]
    rank: int


def functional_match(
    R: Float[Tensor, "G D D"],
    permutations: Float[Tensor, "K D D"],
    theta: Float[Tensor, "*channels D"],
    tolerance: float = 1e-3,
) -> FunctionalMatch:
    """Compare learned with known elements by what they make of a layer's base kernels.

    Any matrices will do, free ones too. The result is float64 on the CPU.

    Args:
        R: learned stack.
        permutations: known elements.
        theta: base kernels w of the layer, one for each pair of channels.
        tolerance: size of a direction of the kernels, over the largest one, up to which it does
            not count in the rank.

    Raises:
        ValueError: where kernels are zero, entries are not finite, or the positions differ.

    Example:
        >>> swap = torch.tensor([[[0.0, 1.0], [1.0, 0.0]]])
        >>> functional_match(torch.eye(2)[None], swap, torch.tensor([[3.0, 3.0]]))
        FunctionalMatch(error=tensor([[0.]], dtype=torch.float64), rank=1)
    """
    for name, x in (("R", R), ("permutations", permutations), ("theta", theta)):
        refuse_not_finite("functional_match", name, x)
    refuse_other_positions("functional_match", R, permutations)
    if theta.shape[-1] != R.shape[-1]:
        raise ValueError(
            f"functional_match: R acts on {R.shape[-1]} positions, theta has {theta.shape[-1]}; "
            f"flatten the kernel's axes, for a group layer with the input element first"
        )
    if not theta.any():
        raise ValueError("functional_match: all base kernels are zero, so no error is defined")
    learned, known, kernels = (
        x.detach().to("cpu", torch.float64) for x in (R, permutations, theta)
    )
    # |A w| = |A u s| for w = u s v: as many kernels as directions serve.
    directions, sizes, _ = torch.linalg.svd(kernels.reshape(-1, R.shape[-1]).T, full_matrices=False)
    kernels = directions * sizes
    moved = known @ kernels
    error = torch.stack([(r @ kernels - moved).square().sum((1, 2)) for r in learned])
    return FunctionalMatch(
        error=(error / moved.square().sum((1, 2))).sqrt(),
        rank=int((sizes > tolerance * sizes[0]).sum()),
    )
