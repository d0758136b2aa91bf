"""What every representation offers to the layers, and the checks that they share."""

import math
from abc import ABC, abstractmethod
from typing import Literal, Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor

from symshare.representations.expansion import check_theta, expand
from symshare.representations.measure import Measure, check_gate
from symshare.representations.state import Versioned
from symshare.sinkhorn import entropy, marginal_error

Membership = Literal["doubly stochastic", "row stochastic", "nonnegative", "free"]

# Error of sums up to which given matrices count as balanced.
BALANCED = 1e-3


@runtime_checkable
class Penalised(Protocol):
    """Something learned that has penalties."""

    def entropy(self) -> Float[Tensor, ""]:
        """Entropy of what is learned, in nats."""
        ...

    def norm(self) -> Float[Tensor, ""]:
        """Norm penalty of the logits, where they are projected."""
        ...


class Representation(Versioned, ABC):
    """A stack R [G, D, D] that acts on the D positions of base weights theta [O, I, D].

    `forward()` returns R. One instance may serve several layers: a layer asks for the stack it
    needs with :meth:`on_kernel` (lifting layers) or :meth:`on_group` (group layers). A subclass
    that serves several kernel sizes overrides both; while it is not bound to one, its penalties
    are those of what is learned.

    Attributes:
        membership: the smallest of these sets that R is known to lie in; before it is bound to a
            kernel, R of every layer.
        group_size: G, the number of elements.
        gate: the module that computes the measure on the elements, or None.
    """

    membership: Membership

    def __init__(self, group_size: int, gate: Measure | None = None):
        super().__init__()
        check_gate(self._get_name(), gate)
        self.group_size = group_size
        self.gate = gate

    @property
    @abstractmethod
    def positions(self) -> int | None:
        """D, or None while the representation is not bound to a kernel."""

    @abstractmethod
    def forward(self) -> Float[Tensor, "G D D"]: ...

    def on_kernel(self, kernel_size: tuple[int, ...]) -> "Representation":
        """The stack for a lifting layer: D = P, the number of kernel positions."""
        D, taps = self.positions, math.prod(kernel_size)
        if taps != D:
            raise ValueError(
                f"{self._get_name()}: R acts on D={D} positions, but a kernel of size "
                f"{kernel_size} has {taps}; use positions={taps} or another kernel_size"
            )
        return self

    def on_group(self, kernel_size: tuple[int, ...]) -> "Representation":
        """The stack for a group layer: D = K * P, the input element K slow, P fast."""
        D, taps = self.positions, math.prod(kernel_size)
        if D is None or D % taps:
            raise ValueError(
                f"{self._get_name()}: R acts on D={D} positions, which is no multiple of the "
                f"{taps} taps of a kernel of size {kernel_size}; a group layer needs "
                f"positions = group_size * {taps}"
            )
        return self

    @property
    def measure(self) -> Float[Tensor, " G"] | None:
        """Measure on the elements, honoured by every sum over the group; None means all ones."""
        return None if self.gate is None else self.gate()

    def expand(self, theta: Float[Tensor, "O I D"]) -> Float[Tensor, "O G I D"]:
        """Transformed base weights W = R theta; a subclass may do without forming R."""
        R = self()
        check_theta(self._get_name(), theta, R.shape[-1])
        return expand(R, theta)

    def entropy(self) -> Float[Tensor, ""]:
        """The paper's entropy penalty of R, in nats: zero for permutations.

        Zero for free matrices too, as entries of either sign have no entropy.
        """
        return torch.zeros(()) if self.membership == "free" else entropy(self())

    def norm(self) -> Float[Tensor, ""]:
        """The paper's norm penalty on logits that are projected; zero where none are."""
        return torch.zeros(())

    def penalties(self) -> dict[str, Float[Tensor, ""]]:
        """Both penalties, each to be minimised."""
        return {"entropy": self.entropy(), "norm": self.norm()}

    def learned_parts(self) -> tuple[Penalised, ...]:
        """What R is learned by, the measure apart, each part with penalties of its own.

        The representations of several layers may share parts. An objective counts each once.
        """
        return (self,)

    @property
    def marginal_error(self) -> Float[Tensor, ""]:
        """Largest distance of a row or column sum of R from 1; unbound, over all layers."""
        with torch.no_grad():
            return marginal_error(self())

    def extra_repr(self) -> str:
        D = self.positions
        return f"group_size={self.group_size}" + ("" if D is None else f", positions={D}")


def check_sizes(who: str, group_size: int, positions: int) -> None:
    """Refuse a stack without elements or positions."""
    if group_size < 1 or positions < 1:
        raise ValueError(
            f"{who}: group_size and positions must be at least 1, got "
            f"group_size={group_size}, positions={positions}"
        )


def check_identity_first(who: str, stack: Tensor, why: str) -> None:
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
    rows, columns = ((total - 1).abs().max() < BALANCED for total in sums(stack))
    if rows and columns:
        return "doubly stochastic"
    return "row stochastic" if rows else "nonnegative"


def sums(stack: Float[Tensor, "G D D"]) -> tuple[Float[Tensor, "G D"], Float[Tensor, "G D"]]:
    """Row and column sums, in float32 at least."""
    dtype = torch.promote_types(stack.dtype, torch.float32)
    return stack.sum(-1, dtype=dtype), stack.sum(-2, dtype=dtype)
