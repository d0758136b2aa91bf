"""Representations of known transformations: fixed, or with a learned measure."""

from abc import abstractmethod

import torch
from jaxtyping import Float
from torch import Tensor

from symshare.groups import Action
from symshare.representations.base import (
    Penalised,
    Representation,
    check_identity_first,
    membership_of,
)
from symshare.representations.constant import Constant
from symshare.representations.expansion import check_stack
from symshare.representations.measure import Measure, check_gate
from symshare.sinkhorn import marginal_error


class _Permuting(Representation):
    """A stack that does not learn: the matrices of an `Action`, or given ones."""

    def __init__(self, action: Action | Tensor):
        if isinstance(action, Action):
            stack = None if action.domain is None else action.lift(action.domain)
        else:
            check_stack(self._get_name(), action)
            stack = action
        super().__init__(len(action))
        self.action = action if isinstance(action, Action) else None
        self.stack = None if stack is None else Constant(stack)
        if stack is not None:
            self.membership = membership_of(stack)
        else:
            closed = self.action is not None and self.action.is_group
            self.membership = "doubly stochastic" if closed else "nonnegative"

    @property
    def positions(self) -> int | None:
        return None if self.stack is None else self.stack().shape[-1]

    def forward(self) -> Float[Tensor, "G D D"]:
        if self.stack is None:
            raise ValueError(
                f"{self._get_name()}: this action has no kernel size yet; pass it to a layer, or "
                "use .on_kernel((k, k)) or .on_group((k, k))"
            )
        return self.stack()

    def on_kernel(self, kernel_size: tuple[int, ...]) -> Representation:
        if self.action is None:
            return super().on_kernel(kernel_size)
        return self._rebound(self.action.lift(kernel_size))

    def on_group(self, kernel_size: tuple[int, ...]) -> Representation:
        if self.action is None:
            return super().on_group(kernel_size)
        return self._rebound(self.action.regular(kernel_size))

    def entropy(self) -> Float[Tensor, ""]:
        """That of R; before it is bound to a kernel zero, as nothing is learned."""
        return torch.zeros(()) if self.stack is None else super().entropy()

    def learned_parts(self) -> tuple[Penalised, ...]:
        """None: the matrices are known."""
        return ()

    @property
    def marginal_error(self) -> Float[Tensor, ""]:
        """As everywhere; where a product leaves a set, group layers are off by 1."""
        if self.stack is None and self.action is not None:
            # On kernels the matrices of every action are doubly stochastic.
            return marginal_error(self.action.cayley)
        return super().marginal_error

    def extra_repr(self) -> str:
        return super().extra_repr() + ("" if self.action is None else f", {self.action}")

    @abstractmethod
    def _rebound(self, stack: Tensor) -> Representation: ...


class Fixed(_Permuting):
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
        super().__init__(action)

    def _rebound(self, stack: Tensor) -> "Fixed":
        return Fixed(stack)


class Gated(_Permuting):
    """A dictionary of permutations with a learned measure on it.

    mu = 1 on a subgroup is that subgroup's G-CNN, mu = 0 leaves an element out, values between
    say how far a partial symmetry reaches. One instance given to all layers shares one measure.

    Args:
        action: the dictionary, an `Action` or a stack [G, D, D], the identity first.
        gate: share this measure instead of starting a new one (every element but the identity
            at 1/2).

    Raises:
        ValueError: if a stack is none of square matrices or does not begin with the identity, or
            the gate is on another number of elements.

    >>> from symshare import groups
    >>> Gated(groups.dihedral(4)).measure.shape
    torch.Size([8])
    """

    def __init__(self, action: Action | Float[Tensor, "G D D"], gate: Measure | None = None):
        super().__init__(action)
        if isinstance(action, Tensor):
            why = "whose measure is fixed at 1; put it first"
            check_identity_first("Gated", action, why)
        check_gate("Gated", gate)
        self.gate = Measure(len(action)) if gate is None else gate
        if len(self.gate.logits) + 1 != len(action):
            raise ValueError(
                f"Gated: a measure on {len(self.gate.logits) + 1} elements, but the dictionary "
                f"has {len(action)}; leave gate out to start a new one"
            )

    def _rebound(self, stack: Tensor) -> "Gated":
        return Gated(stack, self.gate)
