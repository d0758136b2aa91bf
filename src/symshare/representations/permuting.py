"""Representations of known transformations: fixed, or with a learned measure."""

import math
from abc import abstractmethod

import torch
from jaxtyping import Float
from torch import Tensor

from symshare.groups import Action
from symshare.representations.base import (
    Representation,
    check_group_positions,
    check_positions,
)
from symshare.representations.constant import Constant
from symshare.representations.measure import Measure


class _Permuting(Representation):
    """A stack that does not learn: the matrices of an `Action`, or given ones."""

    membership = "doubly stochastic"

    def __init__(self, action: Action | Tensor, gate: Measure | None):
        super().__init__(len(action), gate)
        self.action = action if isinstance(action, Action) else None
        if isinstance(action, Action):
            stack = None if action.domain is None else action.lift(action.domain)
        else:
            _check_stack(type(self).__name__, action)
            stack = action
        self.stack = None if stack is None else Constant(stack)

    @property
    def positions(self) -> int | None:
        return None if self.stack is None else self.stack().shape[-1]

    def forward(self) -> Float[Tensor, "G D D"]:
        if self.stack is None:
            raise ValueError(
                f"{type(self).__name__}: this action has no kernel size yet; pass it to a layer, "
                "or use .on_kernel((k, k)) or .on_group((k, k))"
            )
        return self.stack()

    def on_kernel(self, kernel_size: tuple[int, ...]) -> Representation:
        if self.action is not None:
            return self._rebound(self.action.lift(kernel_size))
        taps = math.prod(kernel_size)
        check_positions(type(self).__name__, self().shape[-1], taps, kernel_size)
        return self

    def on_group(self, kernel_size: tuple[int, ...]) -> Representation:
        if self.action is not None:
            return self._rebound(self.action.regular(kernel_size))
        check_group_positions(type(self).__name__, self().shape[-1], kernel_size)
        return self

    @abstractmethod
    def _rebound(self, stack: Tensor) -> Representation: ...


class Fixed(_Permuting):
    """A known group: R is its permutation action. With it, the layers are a G-CNN's.

    Args:
        action: an `Action`, which serves lifting and group layers of every kernel size it
            acts on, or one stack [G, D, D] of matrices.

    >>> from symshare import groups
    >>> Fixed(groups.rotations(4)).on_kernel((5, 5))().shape
    torch.Size([4, 25, 25])
    """

    def __init__(self, action: Action | Float[Tensor, "G D D"]):
        super().__init__(action, gate=None)

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

    >>> from symshare import groups
    >>> Gated(groups.dihedral(4)).measure.shape
    torch.Size([8])
    """

    def __init__(self, action: Action | Float[Tensor, "G D D"], gate: Measure | None = None):
        gate = gate or Measure(len(action))
        if len(gate.logits) + 1 != len(action):
            raise ValueError(
                f"Gated: a measure on {len(gate.logits) + 1} elements, but the dictionary has "
                f"{len(action)}; leave gate out to start a new one"
            )
        super().__init__(action, gate)
        if self.stack is not None and not self.stack().is_meta:
            first = self.stack()[0]
            if not torch.equal(first, torch.eye(len(first)).to(first)):
                raise ValueError(
                    "Gated: the first matrix must be the identity, whose measure is fixed at 1; "
                    "put it first"
                )

    def _rebound(self, stack: Tensor) -> "Gated":
        return Gated(stack, self.gate)


def _check_stack(who: str, stack: Tensor) -> None:
    if stack.ndim != 3 or stack.shape[-1] != stack.shape[-2]:
        raise ValueError(
            f"{who}: expected a stack of square matrices [G, D, D], got {tuple(stack.shape)}; "
            "stack one matrix for each group element"
        )
