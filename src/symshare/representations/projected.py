"""The paper's representation: free logits, projected onto doubly stochastic matrices."""

import math
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from symshare.representations.base import (
    Representation,
    check_group_positions,
    check_positions,
)
from symshare.representations.projection import Projection
from symshare.representations.starts import near, random_permutations
from symshare.sinkhorn import norm_penalty


class Sinkhorn(Representation):
    r"""The paper's learned stack: R_g is the doubly stochastic matrix of free logits Theta_g.

    Args:
        group_size: number of elements G.
        positions: D, the number of positions that R mixes: kernel positions P for a lifting
            layer, K * P for a group layer with K input elements.
        anchor: keep R_0 the identity, without parameters (the paper's choice).
        init: "paper" draws logits from U[0, 1), which makes every learned element start as the
            average over positions; "sharp" starts each element near another random permutation.
        iterations: None for the limit of the Sinkhorn operator and its exact derivative; a number
            for S^K as published, with K sweeps and the gradient through all of them.

    Raises:
        ValueError: for an unknown `init` or sizes below 1.

    >>> R = Sinkhorn(group_size=4, positions=9)()
    >>> R.shape, bool(R[0].equal(torch.eye(9)))
    (torch.Size([4, 9, 9]), True)
    """

    membership = "doubly stochastic"

    def __init__(
        self,
        group_size: int,
        positions: int,
        *,
        anchor: bool = True,
        init: Literal["sharp", "paper"] = "sharp",
        iterations: int | None = None,
    ):
        if group_size < 1 or positions < 1:
            raise ValueError(
                "Sinkhorn: group_size and positions must be at least 1, got "
                f"group_size={group_size}, positions={positions}"
            )
        if iterations is not None and iterations < 1:
            raise ValueError(
                f"Sinkhorn: iterations must be at least 1, got {iterations}; None projects to "
                "convergence"
            )
        super().__init__(group_size)
        self.anchor = anchor
        learned = group_size - anchor
        if init == "paper":
            logits = torch.rand(learned, positions, positions)
        elif init == "sharp":
            # Doubly stochastic already, so the first projection has nothing to do.
            logits = near(random_permutations(learned, positions))
        else:
            raise ValueError(f"Sinkhorn: init must be 'sharp' or 'paper', got {init!r}")
        self.projection = Projection(logits, iterations)

    @property
    def logits(self) -> Tensor:
        """Theta, the parameter behind the learned elements [N, D, D]."""
        return self.projection.logits

    @property
    def positions(self) -> int:
        return self.logits.shape[-1]

    def forward(self) -> Float[Tensor, "G D D"]:
        learned = self.projection()
        if not self.anchor:
            return learned
        identity = torch.eye(self.positions, dtype=learned.dtype, device=learned.device)
        return torch.cat([identity[None], learned])

    def on_kernel(self, kernel_size: tuple[int, ...]) -> Representation:
        check_positions("Sinkhorn", self.positions, math.prod(kernel_size), kernel_size)
        return self

    def on_group(self, kernel_size: tuple[int, ...]) -> Representation:
        check_group_positions("Sinkhorn", self.positions, kernel_size)
        return self

    def entropy(self) -> Float[Tensor, ""]:
        return self.projection.projected().entropy.sum()

    def norm(self) -> Float[Tensor, ""]:
        return norm_penalty(self.logits)
