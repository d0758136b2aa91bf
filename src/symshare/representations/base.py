"""What representations and their stacks offer to the layers, and the checks that they share."""

import math
from abc import ABC, abstractmethod
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from symshare.representations.measure import Measure, check_gate
from symshare.representations.state import Shareable
from symshare.sinkhorn import entropy, marginal_error
from symshare.sinkhorn.inputs import full_precision

Membership = Literal["doubly stochastic", "row stochastic", "nonnegative", "free"]

# Error of sums up to which given matrices count as balanced.
BALANCED = 1e-3

ANCHORED = "which anchor=True holds; put it first or use anchor=False"


class Penalised(Shareable, ABC):
    """Something learned that has the paper's penalties."""

    @abstractmethod
    def entropy(self) -> Float[Tensor, ""]:
        """Entropy of what is learned, in nats."""

    @abstractmethod
    def norm(self) -> Float[Tensor, ""]:
        """Norm penalty of the logits that are projected; zero where none are."""


class Representation(Penalised):
    """How G elements transform the base weights of any layer: a recipe for stacks of matrices.

    A layer asks for the :class:`Stack` that it needs. One instance may serve several layers,
    which then share what it learns.

    Attributes:
        group_size: G, the number of elements.
        gate: the module that computes the measure on the elements, or None.
    """

    def __init__(self, group_size: int, gate: Measure | None = None):
        super().__init__()
        check_gate(type(self).__name__, gate)
        self.group_size = group_size
        self.gate = gate

    @abstractmethod
    def on_kernel(self, kernel_size: tuple[int, ...]) -> "Stack":
        """The stack for a lifting layer: D = P, the number of kernel positions."""

    def on_input(self, channels: int, kernel_size: tuple[int, ...]) -> "Stack":
        """The stack for a lifting layer that reads so many channels.

        It is that of :meth:`on_kernel`, alike for all channels, unless the elements move channels
        too: then D = channels * P, channels slow.
        """
        return self.on_kernel(kernel_size)

    @abstractmethod
    def on_group(self, kernel_size: tuple[int, ...]) -> "Stack":
        """The stack for a group layer: D = K * P, the input element K slow, P fast."""

    @abstractmethod
    def on_domain(self) -> "Stack":
        """The stack on the points that the elements move by themselves, for `GroupLinear`.

        Raises:
            ValueError: if they have no points of their own.
        """

    @property
    def measure(self) -> Float[Tensor, " G"] | None:
        """Measure on the elements, honoured by every sum over the group; None means all ones."""
        return None if self.gate is None else self.gate()

    def learned_parts(self) -> tuple[Penalised, ...]:
        """What stacks are learned by, the measure apart, each part with penalties of its own.

        By default its modules that have penalties. The representations of several layers may
        share parts. An objective counts each once.
        """
        return tuple(part for part in self.children() if isinstance(part, Penalised))

    def entropy(self) -> Float[Tensor, ""]:
        return sum((part.entropy() for part in self.learned_parts()), start=torch.zeros(()))

    def norm(self) -> Float[Tensor, ""]:
        return sum((part.norm() for part in self.learned_parts()), start=torch.zeros(()))

    def penalties(self) -> dict[str, Float[Tensor, ""]]:
        """Both penalties, each to be minimised."""
        return {"entropy": self.entropy(), "norm": self.norm()}

    def extra_repr(self) -> str:
        return f"group_size={self.group_size}"


class Stack(Representation):
    """The matrices R [G, D, D] of one layer, which act on the D positions of theta [O, I, D].

    `forward()` returns R. A stack is its own recipe for the layers that it fits.

    Attributes:
        membership: the smallest of these sets that R is known to lie in.
    """

    membership: Membership

    @property
    @abstractmethod
    def positions(self) -> int:
        """D."""

    @abstractmethod
    def forward(self) -> Float[Tensor, "G D D"]: ...

    def on_input(self, channels: int, kernel_size: tuple[int, ...]) -> "Stack":
        if channels > 1 and self.positions == channels * math.prod(kernel_size):
            return self
        return self.on_kernel(kernel_size)

    def on_kernel(self, kernel_size: tuple[int, ...]) -> "Stack":
        taps = math.prod(kernel_size)
        if taps != self.positions:
            raise ValueError(
                f"{self}: R acts on D={self.positions} positions, but a kernel of size "
                f"{kernel_size} has {taps}; use positions={taps} or another kernel_size"
            )
        return self

    def on_group(self, kernel_size: tuple[int, ...]) -> "Stack":
        D, G, taps = self.positions, self.group_size, math.prod(kernel_size)
        # A layer that reads one element is a lifting layer.
        if D % taps or (taps == D and G > 1):
            raise ValueError(
                f"{self}: a group layer on maps of {G} elements, with a kernel of size "
                f"{kernel_size}, needs positions = group_size * taps = {G}*{taps} = {G * taps}, "
                f"but R acts on D={D} positions; use positions={G * taps} or another kernel_size"
            )
        return self

    def on_domain(self) -> "Stack":
        return self

    def expand(self, theta: Float[Tensor, "O I D"]) -> Float[Tensor, "O G I D"]:
        """Transformed base weights W = R theta; a subclass may do without forming R."""
        R = self()
        check_theta(type(self).__name__, theta, R.shape[-1])
        return expand(R, theta)

    def entropy(self) -> Float[Tensor, ""]:
        """The paper's entropy penalty of R, in nats: zero for permutations.

        Zero for free matrices too, as entries of either sign have no entropy.
        """
        return torch.zeros(()) if self.membership == "free" else entropy(self())

    @property
    def marginal_error(self) -> Float[Tensor, ""]:
        """Largest distance of a row or column sum of R from 1."""
        with torch.no_grad():
            return marginal_error(self())

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, positions={self.positions}"

    def __repr__(self) -> str:
        """One line: what it learns by is often printed with the recipe already."""
        return f"{type(self).__name__}({self.extra_repr()})"


def expand(R: Float[Tensor, "G D D"], theta: Float[Tensor, "O I D"]) -> Float[Tensor, "O G I D"]:
    r"""Transformed base weights, in float32 at least and also under autocast.

    .. math:: W_{o g i} = R_g \theta_{o i}

    Eq. (5) of arXiv:2412.04594.

    Args:
        R: stack of matrices [G, D, D].
        theta: base weights [O, I, D]; the result has their dtype.

    Raises:
        ValueError: if R is no stack of square matrices, or R and theta differ in D.

    >>> turn = torch.eye(4).roll(1, 0)
    >>> expand(torch.stack([torch.eye(4), turn]), torch.arange(4.0)[None, None]).int().tolist()
    [[[[0, 1, 2, 3]], [[3, 0, 1, 2]]]]
    """
    check_stack("expand", R)
    check_theta("expand", theta, R.shape[-1])
    dtype = torch.promote_types(torch.promote_types(R.dtype, theta.dtype), torch.float32)
    with full_precision(theta):
        W = torch.einsum("gde,oie->ogid", R.to(dtype), theta.to(dtype))
    return W.to(theta.dtype)


def check_theta(who: str, theta: Tensor, positions: int) -> None:
    """Refuse base weights on other positions than R's."""
    if theta.shape[-1] != positions:
        raise ValueError(
            f"{who}: R acts on D={positions} positions, but theta {tuple(theta.shape)} has "
            f"{theta.shape[-1]}; the last axis of theta is D"
        )


def check_stack(who: str, stack: Tensor) -> None:
    """Refuse what is no stack of square matrices."""
    if stack.ndim != 3 or stack.shape[-1] != stack.shape[-2] or not stack.numel():
        raise ValueError(
            f"{who}: expected a stack of square matrices [G, D, D], got {tuple(stack.shape)}; "
            "stack one matrix for each group element"
        )


def check_identity_first(who: str, stack: Tensor, why: str = ANCHORED) -> None:
    """Refuse a stack whose first matrix is not the identity."""
    if stack.is_meta:
        return
    identity = torch.eye(stack.shape[-1], dtype=stack.dtype, device=stack.device)
    if not torch.equal(stack[0], identity):
        raise ValueError(f"{who}: the first matrix is not the identity, {why}")


def membership_of(stack: Float[Tensor, "G D D"]) -> Membership:
    """The smallest set that given matrices lie in.

    >>> membership_of(torch.eye(3)[None]), membership_of(-torch.eye(3)[None])
    ('doubly stochastic', 'free')
    """
    if stack.is_meta or not stack.min() >= 0:
        return "free"
    rows, columns = ((total - 1).abs().max() < BALANCED for total in _sums(stack))
    if rows and columns:
        return "doubly stochastic"
    return "row stochastic" if rows else "nonnegative"


def check_balanced(wanted: str, stack: Float[Tensor, "G D D"], empty: bool = False) -> None:
    """Refuse what is not doubly stochastic; rows and columns of zeros pass if `empty`."""
    if stack.is_meta:
        return
    totals = _sums(stack)
    off = (totals - 1).abs()
    if empty:
        off = torch.minimum(off, totals.abs())
    if not (stack.min() >= 0 and off.max() < BALANCED):
        raise ValueError(
            f"{wanted}, got entries down to {stack.min().item():.3g} and sums off by "
            f"{off.max().item():.3g}; project it first"
        )


def _sums(stack: Float[Tensor, "G D D"]) -> Float[Tensor, "2 G D"]:
    """Row and column sums, in float32 at least."""
    dtype = torch.promote_types(stack.dtype, torch.float32)
    return torch.stack([stack.sum(axis, dtype=dtype) for axis in (-1, -2)])
