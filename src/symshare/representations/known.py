"""Representations of known transformations: fixed, or with a learned measure."""

import torch
from jaxtyping import Float
from torch import Tensor
from torch.types import Device

from symshare.groups import Action, ChannelAction
from symshare.representations.base import (
    Representation,
    Stack,
    check_identity_first,
    check_stack,
    membership_of,
)
from symshare.representations.measure import Measure
from symshare.representations.state import Constant


class OfElements(Representation):
    """A recipe from known elements: an `Action`, or one stack of matrices for all layers.

    Stacks hold the elements as they are, unless a subclass makes others of them.
    """

    def __init__(
        self, elements: Action | Float[Tensor, "N D D"], group_size: int, gate: Measure | None
    ):
        super().__init__(group_size, gate)
        self.action = elements if isinstance(elements, Action) else None
        self._given: Tensor | None = None
        if not isinstance(elements, (Action, Tensor)):
            raise TypeError(
                f"{type(self).__name__}: expected an action or matrices [G, D, D], got a "
                f"{type(elements).__name__}; build one, as symshare.groups.rotations(4)"
            )
        if isinstance(elements, Tensor):
            check_stack(type(self).__name__, elements)
            self._given = elements.detach().clone()

    def on_input(self, channels: int, kernel_size: tuple[int, ...]) -> Stack:
        if self.action is None:
            return self.on_domain().on_input(channels, kernel_size)
        if isinstance(self.action, ChannelAction) and self.action.channels != channels:
            raise ValueError(
                f"{type(self).__name__}: the elements move {self.action.channels} channels, but "
                f"the layer reads {channels}; use as many in_channels, in one group"
            )
        return self.on_kernel(kernel_size)

    def on_kernel(self, kernel_size: tuple[int, ...]) -> Stack:
        if self.action is None:
            return self.on_domain().on_kernel(kernel_size)
        return self._of(self.action.lift(kernel_size))

    def on_group(self, kernel_size: tuple[int, ...]) -> Stack:
        if self.action is None:
            return self.on_domain().on_group(kernel_size)
        return self._of_group(self.action, kernel_size)

    def on_domain(self) -> Stack:
        if self._given is not None:
            return self._of(self._given)
        assert self.action is not None
        if self.action.domain is None:
            raise ValueError(
                f"{type(self).__name__}: the elements have no positions of their own; use "
                ".on_kernel((k, k)) to choose a grid"
            )
        return self._of(self.action.lift(self.action.domain))

    def extra_repr(self) -> str:
        given = "" if self._given is None else f"positions={self._given.shape[-1]}"
        return f"{super().extra_repr()}, {self.action or given}"

    def _of(self, matrices: Float[Tensor, "N D D"]) -> Stack:
        """The stack from one matrix for each element."""
        return KnownStack(matrices, self.gate)

    def _of_group(self, action: Action, kernel_size: tuple[int, ...]) -> Stack:
        """The stack of a group layer."""
        return KnownStack(action.regular(kernel_size), self.gate)


class KnownStack(Stack):
    """Matrices that do not learn, and the measure of the representation that they come from."""

    def __init__(self, matrices: Float[Tensor, "G D D"], gate: Measure | None):
        super().__init__(len(matrices), gate)
        self.matrices = Constant(matrices)
        self.membership = membership_of(matrices)

    @property
    def positions(self) -> int:
        return self.matrices().shape[-1]

    def forward(self) -> Float[Tensor, "G D D"]:
        return self.matrices()


class Fixed(OfElements):
    """A known group: R is its permutation action. With it, the layers are a G-CNN's.

    Args:
        action: an `Action`, which serves lifting and group layers of every kernel size it
            acts on, or one stack [G, D, D] of any matrices.

    Raises:
        ValueError: if a stack is none of square matrices.

    >>> from symshare import groups
    >>> Fixed(groups.rotations(4)).on_kernel((5, 5))().shape
    torch.Size([4, 25, 25])
    """

    def __init__(self, action: Action | Float[Tensor, "G D D"]):
        super().__init__(action, len(action), None)


class Gated(OfElements):
    """A dictionary of permutations with a learned measure on it.

    mu = 1 on a subgroup is that subgroup's G-CNN, mu = 0 leaves an element out, values between
    say how far a partial symmetry reaches. One instance given to all layers shares one measure.

    Args:
        action: the dictionary, an `Action` or a stack [G, D, D], the identity first.
        gate: share this measure instead of starting a new one (every element but the identity
            at 1/2).
        device, dtype: of a new measure, as in torch.

    Raises:
        ValueError: if a stack is none of square matrices or does not begin with the identity, or
            the gate is on another number of elements.

    >>> from symshare import groups
    >>> Gated(groups.dihedral(4)).measure.shape
    torch.Size([8])
    """

    def __init__(
        self,
        action: Action | Float[Tensor, "G D D"],
        gate: Measure | None = None,
        *,
        device: Device = None,
        dtype: torch.dtype | None = None,
    ):
        super().__init__(action, len(action), gate)
        if isinstance(action, Tensor):
            check_identity_first("Gated", action, "whose measure is fixed at 1; put it first")
        self.gate = Measure(len(action), device=device, dtype=dtype) if gate is None else gate
        if len(self.gate.logits) + 1 != len(action):
            raise ValueError(
                f"Gated: a measure on {len(self.gate.logits) + 1} elements, but the dictionary "
                f"has {len(action)}; leave gate out to start a new one"
            )
