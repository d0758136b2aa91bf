"""The paper's learned stack."""

import math
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.types import Device

from symshare.representations.base import (
    Penalised,
    Stack,
    check_balanced,
    check_identity_first,
    check_stack,
)
from symshare.representations.projection import Projection
from symshare.representations.starts import SHARP_MASS, Init, near, starting_logits, with_identity
from symshare.sinkhorn import norm_penalty


class Sinkhorn(Stack):
    r"""The paper's learned stack: R_g is the doubly stochastic matrix of free logits Theta_g.

    Args:
        group_size: number of elements G; from D = 4 on at most D!, the number of permutations.
        positions: D, the number of positions that R mixes: kernel positions P for a lifting
            layer, K * P for a group layer with K input elements.
        anchor: keep R_0 the identity, without parameters (the paper's choice).
        init: "paper" draws logits from U[0, 1), which makes every learned element start as the
            average over positions; "sharp" starts each element near another random permutation,
            none of them the identity, as far as there are so many: D! - 1; "identity" starts all
            near the identity, so that a network begins as a plain CNN and keeps what is near
            together.
        iterations: None for the limit of the Sinkhorn operator and its exact derivative; a number
            for the paper's S^K: K sweeps, with the gradient through all of them. The published
            code has K = 20 and stops as soon as sums are within 1e-5.
        device, dtype: of the parameters, as in torch.

    Raises:
        ValueError: for an unknown `init`, sizes below 1, or too many elements.

    >>> R = Sinkhorn(group_size=4, positions=9)()
    >>> R.shape, bool((R.sum(1) - 1).abs().max() < 1e-5)
    (torch.Size([4, 9, 9]), True)
    """

    membership = "doubly stochastic"
    _version = 2

    def __init__(
        self,
        group_size: int,
        positions: int,
        *,
        anchor: bool = True,
        init: Init = "sharp",
        iterations: int | None = None,
        device: Device = None,
        dtype: torch.dtype | None = None,
    ):
        if iterations is not None and iterations < 1:
            raise ValueError(
                f"Sinkhorn: iterations must be at least 1, got {iterations}; None projects to "
                "convergence"
            )
        check_sizes("Sinkhorn", group_size, positions)
        super().__init__(group_size)
        self.anchor = anchor
        logits = starting_logits("Sinkhorn", init, group_size - anchor, positions)
        self.projection = Projection(logits, iterations)
        self.to(device=device, dtype=dtype)

    @classmethod
    def near(
        cls,
        stack: Float[Tensor, "G D D"],
        mass: float = SHARP_MASS,
        *,
        anchor: bool = True,
        iterations: int | None = None,
    ) -> "Sinkhorn":
        """Free logits that start near a stack, such as that of candidate transformations.

        With less mass in the start training leaves it more easily, but every layer mixes in more
        of an average, and a network of several layers learns slowly.

        Args:
            stack: doubly stochastic; with `anchor` the first matrix is the identity.
            mass: share of the stack in the start, the rest is uniform; above 0 and below 1.
            anchor: as in the constructor.
            iterations: as in the constructor.

        Raises:
            ValueError: for a stack that is not doubly stochastic or does not begin with the
                identity that `anchor` holds, or a mass outside (0, 1).

        >>> from symshare import groups
        >>> Sinkhorn.near(groups.rotations(4).lift(3))()[1].max(-1).values
        tensor([0.9111, 0.9111, 0.9111, 0.9111, 0.9111, 0.9111, 0.9111, 0.9111, 0.9111],
               grad_fn=<MaxBackward0>)
        """
        check_stack("Sinkhorn.near", stack)
        check_balanced("Sinkhorn.near: expected a doubly stochastic stack", stack)
        if anchor:
            check_identity_first("Sinkhorn.near", stack)
        if not 0 < mass < 1:
            raise ValueError(f"Sinkhorn.near: mass must be above 0 and below 1, got {mass}")
        found = cls(len(stack), stack.shape[-1], anchor=anchor, init="paper", iterations=iterations)
        with torch.no_grad():
            found.logits.copy_(near(stack[int(anchor) :], mass))
        return found

    def _load_from_state_dict(self, *args: Any, **kwargs: Any) -> None:
        """Also from the state of version 1, which had the logits alone."""
        state_dict, prefix = args[:2]
        logits = state_dict.pop(f"{prefix}logits", None)
        if logits is not None:
            state_dict[f"{prefix}projection.logits"] = logits
            state_dict[f"{prefix}projection.potentials"] = logits.new_zeros(logits.shape[:-1])
        super()._load_from_state_dict(*args, **kwargs)

    @property
    def logits(self) -> Tensor:
        """Theta, the parameter behind the learned elements [N, D, D]."""
        return self.projection.logits

    @property
    def positions(self) -> int:
        return self.logits.shape[-1]

    def forward(self) -> Float[Tensor, "G D D"]:
        learned = self.projection()
        return with_identity(learned) if self.anchor else learned

    def learned_parts(self) -> tuple[Penalised, ...]:
        """The stack itself."""
        return (self,)

    def entropy(self) -> Float[Tensor, ""]:
        return self.projection.projected().entropy.sum()

    def norm(self) -> Float[Tensor, ""]:
        return norm_penalty(self.logits)

    def extra_repr(self) -> str:
        iterations = self.projection.iterations
        return (
            super().extra_repr()
            + ("" if self.anchor else ", anchor=False")
            + ("" if iterations is None else f", iterations={iterations}")
        )


def check_sizes(who: str, group_size: int, positions: int) -> None:
    """Refuse a stack without elements or positions, or with more elements than permutations."""
    if group_size < 1 or positions < 1:
        raise ValueError(
            f"{who}: group_size and positions must be at least 1, got "
            f"group_size={group_size}, positions={positions}"
        )
    # 13! is more than any memory holds. A line of 3 taps has 6 permutations, of which more elements
    # than that may be mixtures; from 4 on so many are a slip.
    permutations = math.factorial(min(positions, 13))
    if positions > 3 and group_size > permutations:
        raise ValueError(
            f"{who}: group_size={group_size} is more than the {positions}! = {permutations} "
            f"permutations of positions={positions}; are the two exchanged? The number of elements "
            "comes first"
        )
