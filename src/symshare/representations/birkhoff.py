"""Learned elements that are convex combinations of a dictionary of permutations."""

from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.types import Device

from symshare.groups import Action
from symshare.representations.base import Penalised, Stack, check_identity_first, check_theta
from symshare.representations.known import OfElements
from symshare.representations.starts import near
from symshare.representations.state import Constant
from symshare.sinkhorn import marginal_error
from symshare.sinkhorn.inputs import at_least_float32, full_precision


class Coefficients(Penalised):
    """Convex coefficients c [G, N] of a `Birkhoff`: each of G slots is a distribution.

    >>> Coefficients(2, 2, anchor=True, init="sharp")()
    tensor([[1.0000, 0.0000],
            [0.0500, 0.9500]], grad_fn=<CatBackward0>)
    """

    def __init__(
        self, group_size: int, elements: int, anchor: bool, init: Literal["sharp", "paper"]
    ):
        if init not in ("sharp", "paper"):
            raise ValueError(f"Birkhoff: init must be 'sharp' or 'paper', got {init!r}")
        super().__init__()
        self.anchor = anchor
        if init == "paper":
            logits = torch.rand(group_size - anchor, elements)
        else:
            logits = near(torch.eye(elements)[torch.arange(anchor, group_size) % elements])
        self.logits = nn.Parameter(logits)

    @property
    def count(self) -> int:
        """G, the number of slots."""
        return len(self.logits) + self.anchor

    def forward(self) -> Float[Tensor, "G N"]:
        c = at_least_float32(self.logits).softmax(-1)
        if not self.anchor:
            return c
        first = nn.functional.pad(c.new_ones(1, 1), (0, c.shape[1] - 1))
        return torch.cat([first, c])

    def entropy(self) -> Float[Tensor, ""]:
        logits = at_least_float32(self.logits)
        # Finite slopes also where coefficients underflow.
        return -(logits.softmax(-1) * logits.log_softmax(-1)).sum()

    def norm(self) -> Float[Tensor, ""]:
        return self.logits.new_zeros(())

    def extra_repr(self) -> str:
        G, N = self.count, self.logits.shape[-1]
        return f"group_size={G}, elements={N}" + ("" if self.anchor else ", anchor=False")


class Birkhoff(OfElements):
    r"""Every slot g is a convex combination of N known permutations P_n.

    .. math:: R_g = \sum_n c_{gn} P_n, \qquad c_g = \mathrm{softmax}(\mathrm{logits}_g)

    Doubly stochastic to rounding, without iterations (Birkhoff's theorem read backwards), and an
    exact permutation where a slot has settled on one element.

    Built from an `Action` it serves lifting and group layers of every kernel size, and all of
    them share the coefficients c [G, N]. In a group layer the input elements are the slots
    themselves, K = G, so what a slot does to them follows from the coefficients:

    .. math:: R_g = \sum_n c_{gn} \, (c A_n c^\top) \otimes B_n

    with B_n the dictionary's action on the kernel and A_n its left multiplication. Read from
    right to left: the weights of slot k are laid on the elements that k stands for, moved by n,
    and read off where slot h stands. Where each slot has settled on an element of its own, this
    is `Fixed` of those elements in that order: a subgroup gives its G-CNN, and where a product
    leaves the chosen set nothing flows. Slots that settled on one element act alike. This stack
    of a group layer is nonnegative, but doubly stochastic only where the dictionary is a group
    and the columns of c sum to one or, where slots have settled, these are a group.

    Args:
        dictionary: an `Action`, or permutation matrices [N, D, D], which serve one kernel.
        group_size: G, the number of slots; by default N.
        anchor: keep slot 0 at element 0, the identity, without parameters.
        init: "sharp" starts slot g near element g (modulo N); "paper" draws the logits from
            U[0, 1), so that every slot starts near the average over the dictionary.
        device, dtype: of the coefficients, as in torch.

    Raises:
        ValueError: for sizes below 1, an unknown `init`, matrices that are no permutations, or a
            first one that is not the identity, which `anchor` holds.

    >>> from symshare import groups
    >>> slots = Birkhoff(groups.dihedral(4), group_size=4)
    >>> slots.coefficients().shape, slots.on_kernel((3, 3))().shape
    (torch.Size([4, 8]), torch.Size([4, 9, 9]))
    """

    def __init__(
        self,
        dictionary: Action | Float[Tensor, "N D D"],
        group_size: int | None = None,
        *,
        anchor: bool = True,
        init: Literal["sharp", "paper"] = "sharp",
        device: Device = None,
        dtype: torch.dtype | None = None,
    ):
        N = len(dictionary)
        G = N if group_size is None else group_size
        if G < 1:
            raise ValueError(
                f"Birkhoff: group_size must be at least 1, got {G}; leave it out for as many "
                f"slots as the dictionary has elements, {N}"
            )
        super().__init__(dictionary, G, None)
        if isinstance(dictionary, Tensor):
            _sources(dictionary)
            if anchor:
                check_identity_first("Birkhoff", dictionary)
        self.coefficients = Coefficients(G, N, anchor, init).to(device=device, dtype=dtype)

    def _of(self, matrices: Float[Tensor, "N D D"]) -> Stack:
        return BirkhoffSpace(self.coefficients, _sources(matrices))

    def _of_group(self, action: Action, kernel_size: tuple[int, ...]) -> Stack:
        sources = _sources(action.lift(kernel_size))
        return BirkhoffProduct(self.coefficients, sources, _left(action))


class _Slots(Stack):
    """Slots of a dictionary: what the stacks of a `Birkhoff` have in common."""

    def __init__(self, coefficients: Coefficients, sources: Int[Tensor, "N P"]):
        super().__init__(coefficients.count)
        self.coefficients = coefficients
        self.sources = Constant(sources)

    def entropy(self) -> Float[Tensor, ""]:
        """Entropy of the coefficients for each of D rows: that of R where no elements agree."""
        return self.coefficients.entropy() * self.positions

    def _operands(
        self, theta: Float[Tensor, "O I D"]
    ) -> tuple[Float[Tensor, "G N"], Float[Tensor, "O I D"]]:
        """The coefficients and theta, both as precise as the more precise of them."""
        check_theta("Birkhoff", theta, self.positions)
        c = self.coefficients()
        dtype = torch.promote_types(c.dtype, theta.dtype)
        return c.to(dtype), theta.to(dtype)


class BirkhoffSpace(_Slots):
    """Convex combinations of permutations of one kernel's positions."""

    membership = "doubly stochastic"

    @property
    def positions(self) -> int:
        return self.sources().shape[-1]

    def forward(self) -> Float[Tensor, "G D D"]:
        sources = self.sources()
        with full_precision(sources):
            c = self.coefficients()
            return torch.einsum("gn,nde->gde", c, _matrices(sources, c))

    def expand(self, theta: Float[Tensor, "O I D"]) -> Float[Tensor, "O G I D"]:
        with full_precision(theta):
            c, base = self._operands(theta)
            return torch.einsum("gn,oind->ogid", c, base[..., self.sources()]).to(theta.dtype)


class BirkhoffProduct(_Slots):
    """The stack of a group layer: slots of a dictionary acting on slots and kernel positions."""

    membership = "nonnegative"

    def __init__(
        self, coefficients: Coefficients, sources: Int[Tensor, "N P"], left: Int[Tensor, "N N"]
    ):
        super().__init__(coefficients, sources)
        self.left = Constant(left)

    @property
    def positions(self) -> int:
        return self.group_size * self.sources().shape[-1]

    def forward(self) -> Float[Tensor, "G D D"]:
        with full_precision(self.sources()):
            c = self.coefficients()
            A, B = _on_elements(c, self.left()), _matrices(self.sources(), c)
            return torch.einsum("gn,nhk,npq->ghpkq", c, A, B).flatten(3).flatten(1, 2)

    def expand(self, theta: Float[Tensor, "O I D"]) -> Float[Tensor, "O G I D"]:
        with full_precision(theta):
            c, base = self._operands(theta)
            sources = self.sources()
            P = sources.shape[-1]
            by_element = torch.einsum("kl,oikp->oilp", c, base.unflatten(-1, (-1, P)))
            # Row N is zero: what comes from outside the dictionary.
            padded = nn.functional.pad(by_element, (0, 0, 0, 1)).flatten(-2)
            moved = padded[..., self.left()[:, :, None] * P + sources[:, None]]
            mixed = torch.einsum("gn,oinmp->ogimp", c, moved)
            return torch.einsum("hm,ogimp->ogihp", c, mixed).flatten(-2).to(theta.dtype)

    @property
    def marginal_error(self) -> Float[Tensor, ""]:
        with torch.no_grad():
            # Permutations of positions leave sums alone.
            c = self.coefficients()
            return marginal_error(torch.einsum("gn,nhk->ghk", c, _on_elements(c, self.left())))


def _left(action: Action) -> Int[Tensor, "N N"]:
    """left[n, m] = l where n l = m, or N where no element does."""
    moves = action.cayley
    return torch.where(moves.sum(-1) > 0, moves.argmax(-1), len(action))


def _on_elements(c: Float[Tensor, "G N"], left: Int[Tensor, "N N"]) -> Float[Tensor, "N G G"]:
    """What each element of the dictionary does to slots, c A_n c'."""
    N = c.shape[1]
    A = nn.functional.one_hot(left, N + 1)[..., :N].to(c.dtype)
    return torch.einsum("hm,nml,kl->nhk", c, A, c)


def _matrices(sources: Int[Tensor, "N D"], like: Tensor) -> Float[Tensor, "N D D"]:
    return nn.functional.one_hot(sources, sources.shape[-1]).to(like.dtype)


def _sources(stack: Float[Tensor, "N D D"]) -> Int[Tensor, "N D"]:
    """Source indices of permutation matrices: (P_n x)[d] = x[sources[n, d]]."""
    sources = stack.argmax(-1)
    permutes = (_matrices(sources, stack) == stack).all((-2, -1)) & (stack.sum(-2) == 1).all(-1)
    if not permutes.all():
        raise ValueError(
            f"Birkhoff: matrix {int((~permutes).nonzero()[0])} of the dictionary is no "
            "permutation; leave it out, or use Fixed or Gated, which take any matrices"
        )
    return sources
