"""What every representation offers to the layers, and the checks that they share."""

import math
from abc import ABC, abstractmethod
from typing import ClassVar, Literal

import torch
from jaxtyping import Float
from torch import Tensor

from symshare.representations.expansion import check_theta, expand
from symshare.representations.measure import Measure
from symshare.representations.state import Versioned
from symshare.sinkhorn import entropy, marginal_error


class Representation(Versioned, ABC):
    """A stack R [G, D, D] that acts on the D positions of base weights theta [O, I, D].

    `forward()` returns R. One instance may serve several layers: a layer asks for the stack it
    needs with :meth:`on_kernel` (lifting layers) or :meth:`on_group` (group layers).

    Attributes:
        membership: the set that R lies in.
        group_size: G, the number of elements.
        gate: the module that computes the measure on the elements, or None.
    """

    membership: ClassVar[Literal["doubly stochastic", "row stochastic", "free"]]

    def __init__(self, group_size: int, gate: Measure | None = None):
        super().__init__()
        self.group_size = group_size
        self.gate = gate

    @property
    @abstractmethod
    def positions(self) -> int | None:
        """D, or None while the representation is not bound to a kernel."""

    @abstractmethod
    def forward(self) -> Float[Tensor, "G D D"]: ...

    @abstractmethod
    def on_kernel(self, kernel_size: tuple[int, ...]) -> "Representation":
        """The stack for a lifting layer: D = P, the number of kernel positions."""

    @abstractmethod
    def on_group(self, kernel_size: tuple[int, ...]) -> "Representation":
        """The stack for a group layer: D = K * P, the input element K slow, P fast."""

    @property
    def measure(self) -> Float[Tensor, " G"] | None:
        """Measure on the elements, honoured by every sum over the group; None means all ones."""
        return None if self.gate is None else self.gate()

    def expand(self, theta: Float[Tensor, "O I D"]) -> Float[Tensor, "O G I D"]:
        """Transformed base weights W = R theta; a subclass may do without forming R."""
        R = self()
        check_theta(type(self).__name__, theta, R.shape[-1])
        return expand(R, theta)

    def entropy(self) -> Float[Tensor, ""]:
        """The paper's entropy penalty, in nats: zero for permutations."""
        return entropy(self())

    def norm(self) -> Float[Tensor, ""]:
        """The paper's norm penalty, on the logits; zero where there are none."""
        return torch.zeros(())

    def penalties(self) -> dict[str, Float[Tensor, ""]]:
        """Both penalties, each to be minimised."""
        return {"entropy": self.entropy(), "norm": self.norm()}

    @property
    def marginal_error(self) -> Float[Tensor, ""]:
        """Largest distance of a row or column sum of R from 1."""
        with torch.no_grad():
            return marginal_error(self())


def check_positions(who: str, got: int, expected: int, kernel_size: tuple[int, ...]) -> None:
    """Refuse a stack whose positions are not those of the kernel."""
    if got != expected:
        raise ValueError(
            f"{who}: R acts on D={got} positions, but a kernel of size {kernel_size} has "
            f"{expected}; use positions={expected} or another kernel_size"
        )


def check_group_positions(who: str, got: int, kernel_size: tuple[int, ...]) -> None:
    """Refuse a stack whose positions are no input elements times the taps of the kernel."""
    taps = math.prod(kernel_size)
    if got % taps:
        raise ValueError(
            f"{who}: R acts on D={got} positions, which is no multiple of the {taps} taps of a "
            f"kernel of size {kernel_size}; a group layer needs positions = group_size * {taps}"
        )
