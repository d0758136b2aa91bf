"""Learned stacks without the Sinkhorn projection: what it is compared with."""

from abc import abstractmethod

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.types import Device

from symshare.representations.base import Penalised, Stack
from symshare.representations.learned import check_sizes
from symshare.representations.starts import Init, starting_logits, with_identity
from symshare.sinkhorn import project
from symshare.sinkhorn.inputs import at_least_float32


class _Free(Stack):
    """Parameters [N, D, D] that a subclass turns into R, the identity before them if anchored."""

    def __init__(
        self,
        group_size: int,
        positions: int,
        *,
        anchor: bool = True,
        init: Init = "sharp",
        device: Device = None,
        dtype: torch.dtype | None = None,
    ):
        who = type(self).__name__
        check_sizes(who, group_size, positions)
        super().__init__(group_size)
        self.anchor = anchor
        self._positions = positions
        self._start(starting_logits(who, init, group_size - anchor, positions))
        self.to(device=device, dtype=dtype)

    @abstractmethod
    def _start(self, logits: Float[Tensor, "N D D"]) -> None:
        """Make the parameters of the start that `Sinkhorn` has from these logits."""

    @abstractmethod
    def _learned(self) -> Float[Tensor, "N D D"]: ...

    @property
    def positions(self) -> int:
        return self._positions

    def forward(self) -> Float[Tensor, "G D D"]:
        learned = self._learned()
        return with_identity(learned) if self.anchor else learned

    def learned_parts(self) -> tuple[Penalised, ...]:
        """The stack itself."""
        return (self,)

    def norm(self) -> Float[Tensor, ""]:
        """Zero: nothing is projected."""
        return torch.zeros(())

    def extra_repr(self) -> str:
        return super().extra_repr() + ("" if self.anchor else ", anchor=False")


class RowStochastic(_Free):
    r"""Rows on the simplex and nothing asked of columns: R_g = softmax of every row.

    Each transformed weight is a convex combination of base weights (Yeh et al., "Equivariance
    discovery by learned parameter-sharing", AISTATS 2022). Unlike that of `symshare.Sinkhorn`,
    whose arguments and errors it has, such a matrix can copy one base weight everywhere.

    >>> bool((RowStochastic(4, 9)().sum(-1) - 1).abs().max() < 1e-6)
    True
    """

    membership = "row stochastic"

    def _start(self, logits: Float[Tensor, "N D D"]) -> None:
        self.logits = nn.Parameter(logits)

    def _learned(self) -> Float[Tensor, "N D D"]:
        return at_least_float32(self.logits).softmax(-1)


class Unconstrained(_Free):
    r"""Free matrices R_g: every entry is a parameter.

    The reparametrisation of Zhou, Knowles and Finn, "Meta-learning symmetries by
    reparameterization", ICLR 2021, with a matrix for each element. A scale can move between R and
    the base weights, so nothing ties R to a transformation. Arguments and errors are those of
    `symshare.Sinkhorn`, and it starts at the matrices that `Sinkhorn` starts at.

    >>> Unconstrained(4, 9)().shape
    torch.Size([4, 9, 9])
    """

    membership = "free"

    def _start(self, logits: Float[Tensor, "N D D"]) -> None:
        self.matrices = nn.Parameter(project(logits).R)

    def _learned(self) -> Float[Tensor, "N D D"]:
        return at_least_float32(self.matrices)
