"""The two factors of a Kronecker product: what they are, and how they start."""

import math
from typing import Literal, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from symshare.representations.base import (
    BALANCED,
    Membership,
    check_identity_first,
    membership_of,
    sums,
)
from symshare.representations.projection import Projection
from symshare.representations.starts import near, random_permutations, with_identity
from symshare.representations.state import Constant, Shareable
from symshare.sinkhorn import Projected, entropies, norm_penalty, project
from symshare.sinkhorn.inputs import at_least_float32, full_precision

Elements = Literal["transport", "learned"]

# Spread of the logits that a learned A starts from: enough to tell its elements apart. Sharp
# starts stay what they are (experiments/studies/kronecker.py).
_NOISE = 0.1


class Factor(NamedTuple):
    """One factor of the product.

    Attributes:
        R: its matrices.
        entropy: of each of them, in nats.
    """

    R: Float[Tensor, "G D D"]
    entropy: Float[Tensor, " G"]


class Held(Shareable):
    """A factor that does not learn."""

    def __init__(self, stack: Float[Tensor, "G D D"]):
        super().__init__()
        self.stack = Constant(stack)
        self.membership = membership_of(stack)
        self.count, self.size = stack.shape[:2]

    def forward(self) -> Factor:
        R = at_least_float32(self.stack())
        return Factor(R, entropies(R))

    def extra_repr(self) -> str:
        return _sizes(self.count, self.size)


class Learned(Shareable):
    """A factor behind the projection.

    Args:
        logits: where it starts.
        anchor: put the identity before the learned matrices.
    """

    membership: Membership = "doubly stochastic"

    def __init__(self, logits: Float[Tensor, "N D D"], anchor: bool):
        super().__init__()
        self.anchor = anchor
        self.projection = Projection(logits)
        self.count, self.size = len(logits) + anchor, logits.shape[-1]

    def forward(self) -> Factor:
        return _factor(self.projection.projected(), self.anchor)

    def entropy(self) -> Float[Tensor, ""]:
        """Entropy of all matrices together, in nats."""
        return self.projection.projected().entropy.sum()

    def norm(self) -> Float[Tensor, ""]:
        """Norm penalty of the logits."""
        return norm_penalty(self.projection.logits)

    def extra_repr(self) -> str:
        return _sizes(self.count, self.size) + ("" if self.anchor else ", anchor=False")


class Transport(Shareable):
    """The element action that best explains a spatial action; it has no parameters.

    Args:
        temperature: tau, in units of the mean squared distance of matrices.
        anchor: A_0 is the identity.

    >>> from symshare import groups
    >>> C4 = groups.rotations(4)
    >>> torch.allclose(Transport(0.05, anchor=True)(C4.lift(5)).R, C4.cayley, atol=1e-6)
    True
    """

    membership: Membership = "doubly stochastic"

    def __init__(self, temperature: float, anchor: bool):
        super().__init__()
        self.temperature = temperature
        self.anchor = anchor

    def forward(self, B: Float[Tensor, "G P P"]) -> Factor:
        with full_precision(B):
            products = torch.einsum("gpq,hqr->ghpr", B[1:] if self.anchor else B, B)
            # The squared norms are constant along rows and columns, which the projection ignores.
            overlaps = products.flatten(2) @ B.flatten(1).mT
            found = project(overlaps.mT / (B.shape[-1] * self.temperature))
        return _factor(found, self.anchor)

    def extra_repr(self) -> str:
        return f"temperature={self.temperature:g}"


def _factor(found: Projected, anchor: bool) -> Factor:
    """What was projected, after the identity if it is anchored."""
    if not anchor:
        return Factor(found.R, found.entropy)
    return Factor(with_identity(found.R), nn.functional.pad(found.entropy, (1, 0)))


def _sizes(count: int, size: int) -> str:
    return f"group_size={count}, positions={size}"


def spatial_factor(
    start: Tensor | None, group_size: int, kernel_size: tuple[int, ...], learn: bool, anchor: bool
) -> Held | Learned:
    """B: held at a stack, or learned from near it or from near random permutations.

    Raises:
        ValueError: for a stack of the wrong size, or that is not doubly stochastic.
    """
    P = math.prod(kernel_size)
    if start is None:
        if not learn:
            raise ValueError(
                "Kronecker: learn_space=False holds B at a given stack; pass space=, such as "
                "action.lift(kernel_size)"
            )
        return Learned(near(random_permutations(group_size - anchor, P)), anchor)
    _check_given("space", start, (group_size, P, P), anchor)
    if not learn:
        return Held(start)
    return Learned(near(start[int(anchor) :]).to(torch.get_default_device()), anchor)


def element_factor(
    elements: Elements | Tensor, group_size: int, taps: int, anchor: bool, temperature: float
) -> Held | Learned | Transport:
    """A: held at a stack, learned, or computed from B.

    Raises:
        ValueError: for a stack of the wrong size or that is not doubly stochastic, for a kernel
            that tells no elements apart, or a temperature that is not positive.
    """
    G = group_size
    if isinstance(elements, Tensor):
        _check_given("elements", elements, (G, G, G), anchor)
        return Held(elements)
    if elements == "learned":
        return Learned(_NOISE * torch.randn(G - anchor, G, G), anchor)
    if elements != "transport":
        raise ValueError(
            f"Kronecker: elements must be 'transport', 'learned' or a stack, got {elements!r}"
        )
    if taps == 1 and G > 1:
        raise ValueError(
            "Kronecker: a kernel of one position has one spatial action, which tells no elements "
            "apart; use elements='learned' or a stack [G, G, G]"
        )
    if not temperature > 0:
        raise ValueError(f"Kronecker: temperature must be positive, got {temperature}")
    return Transport(temperature, anchor)


def _check_given(what: str, stack: Tensor, expected: tuple[int, ...], anchor: bool) -> None:
    if tuple(stack.shape) != expected:
        raise ValueError(
            f"Kronecker: {what} must be a stack {list(expected)} for this group_size and "
            f"kernel_size, got {tuple(stack.shape)}"
        )
    if stack.is_meta:
        return
    off = torch.stack([(total - 1).abs() for total in sums(stack)])
    # A product that leaves a set of elements has no place to go.
    open_set = what == "elements"
    if open_set:
        off = torch.minimum(off, torch.stack(sums(stack)).abs())
    if not (stack.min() >= 0 and off.max() < BALANCED):
        raise ValueError(
            f"Kronecker: {what} must be doubly stochastic"
            f"{' up to empty rows and columns' if open_set else ''}, got entries down to "
            f"{stack.min().item():.3g} and sums off by {off.max().item():.3g}; project it first"
        )
    if anchor:
        why = f"which anchor=True holds; put it first in {what} or use anchor=False"
        check_identity_first("Kronecker", stack, why)
