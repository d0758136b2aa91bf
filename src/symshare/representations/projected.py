"""The paper's representation: free logits, projected onto doubly stochastic matrices."""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from symshare.representations.base import (
    Representation,
    check_identity_first,
    check_sizes,
    membership_of,
)
from symshare.representations.expansion import check_stack
from symshare.representations.projection import Projection
from symshare.representations.starts import (
    SHARP_MASS,
    Init,
    near,
    starting_logits,
    with_identity,
)
from symshare.sinkhorn import norm_penalty


class Sinkhorn(Representation):
    r"""The paper's learned stack: R_g is the doubly stochastic matrix of free logits Theta_g.

    Args:
        group_size: number of elements G.
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

    Raises:
        ValueError: for an unknown `init` or sizes below 1.

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
    ):
        check_sizes("Sinkhorn", group_size, positions)
        if iterations is not None and iterations < 1:
            raise ValueError(
                f"Sinkhorn: iterations must be at least 1, got {iterations}; None projects to "
                "convergence"
            )
        super().__init__(group_size)
        self.anchor = anchor
        logits = starting_logits("Sinkhorn", init, group_size - anchor, positions)
        self.projection = Projection(logits, iterations)

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
        if membership_of(stack) != "doubly stochastic":
            raise ValueError(
                "Sinkhorn.near: expected a doubly stochastic stack, got one whose entries are "
                "negative or whose rows or columns do not sum to 1; project it first"
            )
        if anchor:
            why = "which anchor=True holds; put it first or use anchor=False"
            check_identity_first("Sinkhorn.near", stack, why)
        if not 0 < mass < 1:
            raise ValueError(f"Sinkhorn.near: mass must be above 0 and below 1, got {mass}")
        found = cls(len(stack), stack.shape[-1], anchor=anchor, init="paper", iterations=iterations)
        with torch.no_grad():
            found.logits.copy_(near(stack[int(anchor) :], mass))
        return found

    def _load_from_state_dict(self, state_dict: dict, prefix: str, *args: Any) -> None:
        """Also from the state of version 1, which had the logits alone."""
        logits = state_dict.pop(f"{prefix}logits", None)
        if logits is not None:
            state_dict[f"{prefix}projection.logits"] = logits
            state_dict[f"{prefix}projection.potentials"] = logits.new_zeros(logits.shape[:-1])
        super()._load_from_state_dict(state_dict, prefix, *args)

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
