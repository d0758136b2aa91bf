"""Base weights theta, and the representation that transforms them: what every layer holds."""

import math
from abc import abstractmethod
from contextlib import nullcontext
from typing import Any

import torch
from torch import nn
from torch.types import Device

from symshare.representations import Representation, Stack
from symshare.representations.state import Versioned


class WeightSharing(Versioned):
    """A layer whose weights are base weights, transformed by the stack of a representation.

    Attributes:
        in_channels: I.
        out_channels: O, each with G copies.
        representation: what the layer was given. Another one may be put in its place.
        theta: base weights [O, I/groups, D]; [O, 1, D] where D counts the channels in.
        bias: [O], shared over G, or None.
    """

    representation: Representation
    bound: Stack | None
    theta: nn.Parameter
    bias: nn.Parameter | None

    def __init__(self, in_channels: int, out_channels: int):
        super().__init__()
        if in_channels < 1 or out_channels < 1:
            raise ValueError(
                f"{type(self).__name__}: in_channels and out_channels must be at least 1, got "
                f"in_channels={in_channels}, out_channels={out_channels}"
            )
        self.in_channels = in_channels
        self.out_channels = out_channels

    def _share(
        self,
        representation: Representation | None,
        groups: int,
        bias: bool,
        device: Device,
        dtype: torch.dtype | None,
    ) -> None:
        """Bind the representation, then draw theta and bias from U(-b, b), b = 1/sqrt(I D).

        This is how `torch.nn.Conv2d` starts.
        """
        with nullcontext() if device is None else torch.device(device):
            self.representation = check_representation(type(self).__name__, representation)
            I, D = self._blocks(groups), self.stack.positions
            bound = 1 / math.sqrt(I * D)
            theta = torch.empty(self.out_channels, I, D, dtype=dtype)
            self.theta = nn.Parameter(theta.uniform_(-bound, bound))
            self.bias = None
            if bias:
                numbers = torch.empty(self.out_channels, dtype=dtype)
                self.bias = nn.Parameter(numbers.uniform_(-bound, bound))

    def _blocks(self, groups: int) -> int:
        """Copies of the D positions in the weights of one output: one for each channel."""
        return self.in_channels // groups

    @property
    def stack(self) -> Stack:
        """The matrices of this layer: those that were given, or those that were made for it."""
        if self.bound is not None:
            return self.bound
        assert isinstance(self.representation, Stack)
        return self.representation

    @abstractmethod
    def _stack_of(self, representation: Representation) -> Stack:
        """The stack that this layer needs."""

    def __setattr__(self, name: str, value: Any) -> None:
        """As in torch; with the representation the stack changes."""
        if name == "representation":
            stack = self._stack_of(check_representation(type(self).__name__, value))
            theta = self._parameters.get("theta")
            if theta is not None and stack.positions != theta.shape[-1]:
                raise ValueError(
                    f"{type(self).__name__}: its base weights have {theta.shape[-1]} positions, "
                    f"and the new stack acts on {stack.positions}; make another layer"
                )
            super().__setattr__(name, value)
            # What is its own stack has one place.
            self.bound = None if stack is value else stack
        else:
            super().__setattr__(name, value)


def check_representation(who: str, representation: object) -> Representation:
    """Refuse what is no representation: most likely a group, or a stack of matrices."""
    if representation is None:
        raise TypeError(
            f"{who}: the representation is missing, which says how kernels are transformed; pass "
            "Fixed(groups.rotations(4)) for a known group, or Sinkhorn(group_size, positions) to "
            "learn one"
        )
    if not isinstance(representation, Representation):
        raise TypeError(
            f"{who}: expected a Representation, got {type(representation).__name__}; a group or "
            "a stack of matrices is not one yet, wrap it: Fixed(action)"
        )
    return representation
