"""The paper's representation: free logits, projected onto doubly stochastic matrices."""

import math
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from symshare.representations.base import (
    Representation,
    check_group_positions,
    check_positions,
)
from symshare.sinkhorn import entropy, norm_penalty, sinkhorn


class Sinkhorn(Representation):
    r"""The paper's learned stack: R_g = S^K(Theta_g), the Sinkhorn operator of free logits.

    Args:
        group_size: number of elements G.
        positions: D, the number of positions that R mixes: kernel positions P for a lifting
            layer, K * P for a group layer with K input elements.
        anchor: keep R_0 the identity, without parameters (the paper's choice).
        init: "paper" draws logits from U[0, 1), which makes every learned element start as the
            average over positions; "sharp" starts each element near another random permutation.
        iterations: sweeps of the Sinkhorn operator.

    Raises:
        ValueError: for an unknown `init` or sizes below 1.

    >>> R = Sinkhorn(group_size=4, positions=9)()
    >>> R.shape, bool(R[0].equal(torch.eye(9)))
    (torch.Size([4, 9, 9]), True)
    """

    membership = "doubly stochastic"

    # Mass on the permutation that an element starts at: enough for distinct kernels of full
    # contrast, little enough that the gradient still reaches the other entries.
    _SHARP_MASS = 0.9

    def __init__(
        self,
        group_size: int,
        positions: int,
        *,
        anchor: bool = True,
        init: Literal["sharp", "paper"] = "sharp",
        iterations: int = 20,
    ):
        if group_size < 1 or positions < 1:
            raise ValueError(
                "Sinkhorn: group_size and positions must be at least 1, got "
                f"group_size={group_size}, positions={positions}"
            )
        if iterations < 1:
            raise ValueError(f"Sinkhorn: iterations must be at least 1, got {iterations}")
        super().__init__(group_size)
        self.anchor = anchor
        self.iterations = iterations
        learned = group_size - anchor
        if init == "paper":
            logits = torch.rand(learned, positions, positions)
        elif init == "sharp":
            logits = self._sharp(learned, positions)
        else:
            raise ValueError(f"Sinkhorn: init must be 'sharp' or 'paper', got {init!r}")
        self.logits = nn.Parameter(logits)

    @classmethod
    def _sharp(cls, learned: int, positions: int) -> Tensor:
        identity = torch.eye(positions)
        permuted = [identity[torch.randperm(positions)] for _ in range(learned)]
        stack = torch.stack(permuted) if permuted else torch.empty(0, positions, positions)
        # Already doubly stochastic, so the first projection converges at once.
        return (cls._SHARP_MASS * stack + (1 - cls._SHARP_MASS) / positions).log()

    @property
    def positions(self) -> int:
        return self.logits.shape[-1]

    def forward(self) -> Float[Tensor, "G D D"]:
        learned = sinkhorn(self.logits, self.iterations)
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

    def penalties(self) -> dict[str, Float[Tensor, ""]]:
        return {"entropy": entropy(self()), "norm": norm_penalty(self.logits)}
