"""Learned stacks without the Sinkhorn projection: what it is compared with."""

from jaxtyping import Float
from torch import Tensor, nn

from symshare.representations.base import Representation, check_sizes
from symshare.representations.starts import Init, starting_logits, with_identity
from symshare.sinkhorn import project
from symshare.sinkhorn.inputs import at_least_float32


class _Free(Representation):
    """Parameters [G, D, D], the identity apart, that a subclass turns into R."""

    def __init__(self, group_size: int, positions: int, anchor: bool, init: Init):
        who = type(self).__name__
        check_sizes(who, group_size, positions)
        super().__init__(group_size)
        self.anchor = anchor
        self._positions = positions
        self._start(starting_logits(who, init, group_size - anchor, positions))

    def _start(self, logits: Float[Tensor, "n D D"]) -> None:
        """Make the parameters of a start that `Sinkhorn` would have from these logits."""
        raise NotImplementedError

    def _learned(self) -> Float[Tensor, "n D D"]:
        raise NotImplementedError

    @property
    def positions(self) -> int:
        return self._positions

    def forward(self) -> Float[Tensor, "G D D"]:
        learned = self._learned()
        return with_identity(learned) if self.anchor else learned

    def extra_repr(self) -> str:
        return super().extra_repr() + ("" if self.anchor else ", anchor=False")


class RowStochastic(_Free):
    r"""Rows on the simplex and nothing asked of columns: R_g = softmax of every row.

    Each transformed weight is a convex combination of base weights (Yeh et al., "Equivariance
    discovery by learned parameter-sharing", AISTATS 2022). Unlike :class:`Sinkhorn`'s, such a
    matrix can copy one base weight everywhere.

    Args:
        group_size: number of elements G.
        positions: D, the number of positions that R mixes: kernel positions P for a lifting
            layer, K * P for a group layer with K input elements.
        anchor: keep R_0 the identity, without parameters.
        init: the same starts as :class:`Sinkhorn`'s: "sharp" near random permutations, "paper"
            with logits from U[0, 1), "identity" near the identity.

    Raises:
        ValueError: for an unknown `init` or sizes below 1.

    >>> bool((RowStochastic(4, 9)().sum(-1) - 1).abs().max() < 1e-6)
    True
    """

    membership = "row stochastic"

    def __init__(
        self, group_size: int, positions: int, *, anchor: bool = True, init: Init = "sharp"
    ):
        super().__init__(group_size, positions, anchor, init)

    def _start(self, logits: Float[Tensor, "n D D"]) -> None:
        self.logits = nn.Parameter(logits)

    def _learned(self) -> Float[Tensor, "n D D"]:
        return at_least_float32(self.logits).softmax(-1)


class Unconstrained(_Free):
    r"""Free matrices R_g: every entry is a parameter.

    The reparametrisation of Zhou, Knowles and Finn, "Meta-learning symmetries by
    reparameterization", ICLR 2021, with a matrix for each element. A scale can move between R and
    the base weights, so nothing ties R to a transformation.

    Args:
        group_size, positions, anchor: as in :class:`RowStochastic`.
        init: start at the matrices that :class:`Sinkhorn` starts at: "sharp" near random
            permutations, "paper" the projection of logits from U[0, 1), "identity" near the
            identity.

    Raises:
        ValueError: for an unknown `init` or sizes below 1.

    >>> Unconstrained(4, 9)().shape
    torch.Size([4, 9, 9])
    """

    membership = "free"

    def __init__(
        self, group_size: int, positions: int, *, anchor: bool = True, init: Init = "sharp"
    ):
        super().__init__(group_size, positions, anchor, init)

    def _start(self, logits: Float[Tensor, "n D D"]) -> None:
        self.matrices = nn.Parameter(project(logits).R)

    def _learned(self) -> Float[Tensor, "n D D"]:
        return at_least_float32(self.matrices)
