"""Representations: modules that return the stack R [G, D, D] which acts on base weights."""

import math
from abc import ABC, abstractmethod
from typing import ClassVar, Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from symshare.groups import GroupAction
from symshare.sinkhorn import entropy, marginal_error, norm_penalty, sinkhorn

__all__ = ["Fixed", "Gated", "Measure", "Representation", "Sinkhorn"]


class Measure(nn.Module):
    """Learned measure mu [G] in [0, 1] on group elements; the identity is fixed at 1.

    Args:
        group_size: number of elements G, the identity first.

    >>> Measure(4)()
    tensor([1.0000, 0.5000, 0.5000, 0.5000], grad_fn=<CatBackward0>)
    """

    def __init__(self, group_size: int):
        super().__init__()
        self.logits = nn.Parameter(torch.zeros(group_size - 1))

    def forward(self) -> Float[Tensor, " G"]:
        return torch.cat([self.logits.new_ones(1), self.logits.sigmoid()])


class Representation(nn.Module, ABC):
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
        """Transformed base weights W = R theta, in float32 at least (Eq. 5, arXiv:2412.04594)."""
        with torch.autocast(theta.device.type, enabled=False):
            R = self()
            if R.shape[-1] != theta.shape[-1]:
                raise ValueError(
                    f"{type(self).__name__}: R acts on D={R.shape[-1]} positions, but theta "
                    f"{tuple(theta.shape)} has {theta.shape[-1]}; the last axis of theta is D"
                )
            return torch.einsum("gde,oie->ogid", R, theta.to(R.dtype)).to(theta.dtype)

    def penalties(self) -> dict[str, Float[Tensor, ""]]:
        """The paper's regularisers, each to be minimised: `entropy` of R and `norm`, the gauge."""
        R = self()
        return {"entropy": entropy(R), "norm": R.new_zeros(())}

    @property
    def marginal_error(self) -> Float[Tensor, ""]:
        """Largest distance of a row or column sum of R from 1."""
        with torch.no_grad():
            return marginal_error(self())


class Sinkhorn(Representation):
    r"""The paper's learned stack: R_g = S^K(Theta_g), the Sinkhorn operator of free logits.

    Args:
        group_size: number of elements G.
        positions: D, the number of positions that R mixes: kernel positions P for a lifting
            layer, K * P for a group layer with K input elements.
        anchor: keep R_0 the identity, without parameters (the paper's choice).
        init: "paper" draws logits from U[0, 1), which makes every learned element start as the
            average over positions; "sharp" starts each element near another random permutation.
        iterations: sweeps of the Sinkhorn operator.

    Raises:
        ValueError: for an unknown `init` or sizes below 1.

    >>> R = Sinkhorn(group_size=4, positions=9)()
    >>> R.shape, bool(R[0].equal(torch.eye(9)))
    (torch.Size([4, 9, 9]), True)
    """

    membership = "doubly stochastic"

    # Mass on the permutation that an element starts at: enough for distinct kernels of full
    # contrast, little enough that the gradient still reaches the other entries.
    _SHARP_MASS = 0.9

    def __init__(
        self,
        group_size: int,
        positions: int,
        *,
        anchor: bool = True,
        init: Literal["sharp", "paper"] = "sharp",
        iterations: int = 20,
    ):
        if group_size < 1 or positions < 1:
            raise ValueError(
                "Sinkhorn: group_size and positions must be at least 1, got "
                f"group_size={group_size}, positions={positions}"
            )
        if iterations < 1:
            raise ValueError(f"Sinkhorn: iterations must be at least 1, got {iterations}")
        super().__init__(group_size)
        self.anchor = anchor
        self.iterations = iterations
        learned = group_size - anchor
        if init == "paper":
            logits = torch.rand(learned, positions, positions)
        elif init == "sharp":
            logits = self._sharp(learned, positions)
        else:
            raise ValueError(f"Sinkhorn: init must be 'sharp' or 'paper', got {init!r}")
        self.logits = nn.Parameter(logits)

    @classmethod
    def _sharp(cls, learned: int, positions: int) -> Tensor:
        identity = torch.eye(positions)
        permuted = [identity[torch.randperm(positions)] for _ in range(learned)]
        stack = torch.stack(permuted) if permuted else torch.empty(0, positions, positions)
        # Already doubly stochastic, so the first projection converges at once.
        return (cls._SHARP_MASS * stack + (1 - cls._SHARP_MASS) / positions).log()

    @property
    def positions(self) -> int:
        return self.logits.shape[-1]

    def forward(self) -> Float[Tensor, "G D D"]:
        learned = sinkhorn(self.logits, self.iterations)
        if not self.anchor:
            return learned
        identity = torch.eye(self.positions, dtype=learned.dtype, device=learned.device)
        return torch.cat([identity[None], learned])

    def on_kernel(self, kernel_size: tuple[int, ...]) -> Representation:
        _check_positions("Sinkhorn", self.positions, math.prod(kernel_size), kernel_size)
        return self

    def on_group(self, kernel_size: tuple[int, ...]) -> Representation:
        _check_group_positions("Sinkhorn", self.positions, kernel_size)
        return self

    def penalties(self) -> dict[str, Float[Tensor, ""]]:
        return {"entropy": entropy(self()), "norm": norm_penalty(self.logits)}


class _Permuting(Representation):
    """A stack that does not learn: the matrices of a `GroupAction`, or given ones."""

    membership = "doubly stochastic"
    stack: Tensor | None

    def __init__(self, action: GroupAction | Tensor, gate: Measure | None):
        super().__init__(len(action), gate)
        self.action = action if isinstance(action, GroupAction) else None
        if isinstance(action, Tensor):
            _check_stack(type(self).__name__, action)
            stack = action
        else:
            stack = None if action.domain is None else action.lift(action.domain)
        # A constant of the architecture, so not in the state dict.
        self.register_buffer("stack", stack, persistent=False)

    @property
    def positions(self) -> int | None:
        return None if self.stack is None else self.stack.shape[-1]

    def forward(self) -> Float[Tensor, "G D D"]:
        if self.stack is None:
            raise ValueError(
                f"{type(self).__name__}: this action has no kernel size yet; pass it to a layer, "
                "or use .on_kernel((k, k)) or .on_group((k, k))"
            )
        return self.stack

    def on_kernel(self, kernel_size: tuple[int, ...]) -> Representation:
        if self.action is not None:
            return self._rebound(self.action.lift(kernel_size))
        taps = math.prod(kernel_size)
        _check_positions(type(self).__name__, self().shape[-1], taps, kernel_size)
        return self

    def on_group(self, kernel_size: tuple[int, ...]) -> Representation:
        if self.action is not None:
            return self._rebound(self.action.regular(kernel_size))
        _check_group_positions(type(self).__name__, self().shape[-1], kernel_size)
        return self

    @abstractmethod
    def _rebound(self, stack: Tensor) -> Representation: ...


class Fixed(_Permuting):
    """A known group: R is its permutation action. With it, the layers are a G-CNN's.

    Args:
        action: a `GroupAction`, which serves lifting and group layers of every kernel size it
            acts on, or one stack [G, D, D] of matrices.

    >>> from symshare import groups
    >>> Fixed(groups.rotations(4)).on_kernel((5, 5))().shape
    torch.Size([4, 25, 25])
    """

    def __init__(self, action: GroupAction | Float[Tensor, "G D D"]):
        super().__init__(action, gate=None)

    def _rebound(self, stack: Tensor) -> "Fixed":
        return Fixed(stack)


class Gated(_Permuting):
    """A dictionary of permutations with a learned measure on it.

    mu = 1 on a subgroup is that subgroup's G-CNN, mu = 0 leaves an element out, values between
    say how far a partial symmetry reaches. One instance given to all layers shares one measure.

    Args:
        action: the dictionary, a `GroupAction` or a stack [G, D, D], the identity first.
        gate: share this measure instead of starting a new one (every element but the identity
            at 1/2).

    >>> from symshare import groups
    >>> Gated(groups.dihedral(4)).measure.shape
    torch.Size([8])
    """

    def __init__(self, action: GroupAction | Float[Tensor, "G D D"], gate: Measure | None = None):
        gate = gate or Measure(len(action))
        if len(gate.logits) + 1 != len(action):
            raise ValueError(
                f"Gated: a measure on {len(gate.logits) + 1} elements, but the dictionary has "
                f"{len(action)}; leave gate out to start a new one"
            )
        super().__init__(action, gate)

    def _rebound(self, stack: Tensor) -> "Gated":
        return Gated(stack, self.gate)


def _check_stack(who: str, stack: Tensor) -> None:
    if stack.ndim != 3 or stack.shape[-1] != stack.shape[-2]:
        raise ValueError(
            f"{who}: expected a stack of square matrices [G, D, D], got {tuple(stack.shape)}; "
            "stack one matrix for each group element"
        )


def _check_positions(who: str, got: int, expected: int, kernel_size: tuple[int, ...]) -> None:
    if got != expected:
        raise ValueError(
            f"{who}: R acts on D={got} positions, but a kernel of size {kernel_size} has "
            f"{expected}; use positions={expected} or another kernel_size"
        )


def _check_group_positions(who: str, got: int, kernel_size: tuple[int, ...]) -> None:
    taps = math.prod(kernel_size)
    if got % taps:
        raise ValueError(
            f"{who}: R acts on D={got} positions, which is no multiple of the {taps} taps of a "
            f"kernel of size {kernel_size}; a group layer needs positions = group_size * {taps}"
        )
