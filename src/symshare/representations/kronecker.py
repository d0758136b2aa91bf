"""One element action and one spatial action for a whole network, multiplied only when applied."""

import math
from typing import Literal, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.types import Device

from symshare.groups import Action
from symshare.groups.shape import each_axis
from symshare.representations.base import (
    Membership,
    Penalised,
    Representation,
    Stack,
    check_balanced,
    check_identity_first,
    check_theta,
    membership_of,
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


class Kronecker(Representation):
    r"""R_g = A_g (x) B_g: an element action A [G, G, G] and a spatial action B [G, P, P].

    Lifting layers use B, group layers the product. One instance given to all layers makes the
    network share one symmetry, at a fraction of the parameters of a free stack for every layer,
    and the product is never formed: a kernel is expanded by two small contractions.

    .. math:: W_{og}(i, h, x) = \sum_k A_g(h, k) \sum_y B_g(x, y) \, \theta_{oi}(k, y)

    A known group has this form. It is the sharing across layers that arXiv:2412.04594 leaves to
    future work, A being its "Cayley tensor".

    `elements="transport"` computes A from B: A_g is the entropic transport plan between the sets
    {B_g B_h} over h and {B_k} over k,

    .. math:: A_g = \arg\min_A \sum_{k,h} A(k, h) \, \frac{\|B_g B_h - B_k\|^2}{2P} - \tau H(A),

    the doubly stochastic A that best explains B as a representation. Where B is a group of
    permutations, A is its Cayley table; while B is blurred, so is A, and it cannot settle before
    B does.

    Args:
        group_size: G, the number of elements.
        kernel_size: lengths of the kernel; an int means a square. Every layer that shares the
            instance has kernels of this size.
        space: where B starts, a doubly stochastic stack [G, P, P]; by default random
            permutations, as `Sinkhorn`'s. Learned ones start near it, with 0.9 of their mass.
        learn_space: learn B, or hold it at `space`.
        elements: "transport"; "learned", logits of its own, which start near the average over
            elements; or a stack [G, G, G] to hold, nonnegative with sums of 1, or of 0 where
            nothing flows.
        anchor: keep A_0 and B_0 the identity, without parameters.
        temperature: tau of "transport". Two elements that differ in a share s of the positions
            are told apart up to exp(-s / tau).
        device, dtype: of the factors, as in torch.

    Raises:
        ValueError: for sizes below 1, stacks that do not fit them or are not what they have to
            be, or unknown `elements`.

    >>> shared = Kronecker(4, 5)
    >>> sum(p.numel() for p in shared.parameters())
    1875
    >>> shared.on_kernel((5, 5))().shape, shared.on_group((5, 5))().shape
    (torch.Size([4, 25, 25]), torch.Size([4, 100, 100]))
    """

    def __init__(
        self,
        group_size: int,
        kernel_size: int | tuple[int, ...],
        *,
        space: Float[Tensor, "G P P"] | None = None,
        learn_space: bool = True,
        elements: Elements | Float[Tensor, "G G G"] = "transport",
        anchor: bool = True,
        temperature: float = 0.05,
        device: Device = None,
        dtype: torch.dtype | None = None,
    ):
        size = each_axis(kernel_size, 2)
        if group_size < 1 or not size or min(size) < 1:
            raise ValueError(
                "Kronecker: group_size and kernel_size must be at least 1, got "
                f"group_size={group_size}, kernel_size={kernel_size}"
            )
        super().__init__(group_size)
        self.kernel_size = size
        self.space = spatial_factor(space, group_size, size, learn_space, anchor)
        self.elements = element_factor(elements, group_size, math.prod(size), anchor, temperature)
        self.to(device=device, dtype=dtype)

    @classmethod
    def from_action(
        cls,
        action: Action,
        kernel_size: int | tuple[int, ...],
        *,
        learn: bool = False,
        temperature: float = 0.05,
        device: Device = None,
        dtype: torch.dtype | None = None,
    ) -> "Kronecker":
        """The Kronecker form of known transformations.

        Args:
            action: the elements, such as a group or the candidates of `propose`.
            kernel_size: as in the constructor; an int means that length along each axis.
            learn: False holds A and B, the same layers as `Fixed(action)` for less memory and
                time. True starts B near the action and learns it, with A by "transport": unlike
                in `Fixed`, a product that leaves the set goes to the elements nearest to it.
            temperature: as in the constructor.
            device: as in the constructor.
            dtype: as in the constructor.

        Raises:
            ValueError: where the action does not fit the kernel.

        >>> from symshare import groups
        >>> cube = Kronecker.from_action(groups.cube(), 3)
        >>> cube.group_size, cube.on_kernel((3, 3, 3)).positions
        (24, 27)
        """
        size = each_axis(kernel_size, action.dims)
        return cls(
            len(action),
            size,
            space=action.lift(size),
            learn_space=learn,
            elements="transport" if learn else action.cayley,
            temperature=temperature,
            device=device,
            dtype=dtype,
        )

    def on_kernel(self, kernel_size: tuple[int, ...]) -> "KroneckerSpace":
        self._check_kernel(kernel_size)
        return KroneckerSpace(self.space)

    def on_group(self, kernel_size: tuple[int, ...]) -> "KroneckerProduct":
        self._check_kernel(kernel_size)
        return KroneckerProduct(self.elements, self.space)

    def on_domain(self) -> Stack:
        raise ValueError(
            "Kronecker: it has one stack for lifting and another for group layers; use "
            f".on_kernel({self.kernel_size}) or .on_group({self.kernel_size})"
        )

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, kernel_size={self.kernel_size}"

    def _check_kernel(self, kernel_size: tuple[int, ...]) -> None:
        if tuple(kernel_size) != self.kernel_size:
            raise ValueError(
                f"Kronecker: its spatial action is on kernels of size {self.kernel_size}, but the "
                f"layer has {tuple(kernel_size)}; make another Kronecker for this size"
            )


class Factor(NamedTuple):
    """One factor of the product: its matrices, and the entropy of each, in nats."""

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


class Learned(Penalised):
    """A factor behind the projection, which starts at logits; the identity first if anchored."""

    membership: Membership = "doubly stochastic"

    def __init__(self, logits: Float[Tensor, "N D D"], anchor: bool):
        super().__init__()
        self.anchor = anchor
        self.projection = Projection(logits)
        self.count, self.size = len(logits) + anchor, logits.shape[-1]

    def forward(self) -> Factor:
        return _factor(self.projection.projected(), self.anchor)

    def entropy(self) -> Float[Tensor, ""]:
        return self.projection.projected().entropy.sum()

    def norm(self) -> Float[Tensor, ""]:
        return norm_penalty(self.projection.logits)

    def extra_repr(self) -> str:
        return _sizes(self.count, self.size) + ("" if self.anchor else ", anchor=False")


class Transport(Shareable):
    """The element action that best explains a spatial action; it has no parameters.

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


class KroneckerSpace(Stack):
    """The stack B [G, P, P] of a `Kronecker`, for lifting layers."""

    membership = "doubly stochastic"

    def __init__(self, space: Held | Learned):
        super().__init__(space.count)
        self.space = space

    @property
    def positions(self) -> int:
        return self.space.size

    def forward(self) -> Float[Tensor, "G D D"]:
        return self.space().R

    def entropy(self) -> Float[Tensor, ""]:
        return self.space().entropy.sum()


class KroneckerProduct(Stack):
    """The stack A_g (x) B_g of a `Kronecker`, for group layers."""

    # Above this many entries (64 MB in float32) R is not formed.
    _LARGEST = 2**24

    def __init__(self, elements: Held | Learned | Transport, space: Held | Learned):
        super().__init__(space.count)
        self.elements = elements
        self.space = space
        self.membership = elements.membership

    @property
    def positions(self) -> int:
        return self.group_size * self.space.size

    def factors(self) -> tuple[Factor, Factor]:
        """A and B."""
        B, elements = self.space(), self.elements
        return elements(B.R) if isinstance(elements, Transport) else elements(), B

    def forward(self) -> Float[Tensor, "G D D"]:
        """R, up to 64 MB.

        Raises:
            ValueError: where it is larger; `expand` and :meth:`factors` do without it.
        """
        entries = self.group_size * self.positions**2
        if entries > self._LARGEST:
            raise ValueError(
                f"Kronecker: R [{self.group_size}, {self.positions}, {self.positions}] would need "
                f"{4 * entries / 2**20:.0f} MB in float32; use expand(theta) or factors()"
            )
        A, B = self.factors()
        return torch.einsum("ghk,gpq->ghpkq", A.R, B.R).flatten(3).flatten(1, 2)

    def expand(self, theta: Float[Tensor, "O I D"]) -> Float[Tensor, "O G I D"]:
        check_theta("Kronecker", theta, self.positions)
        with full_precision(theta):
            A, B = self.factors()
            dtype = torch.promote_types(B.R.dtype, theta.dtype)
            base = theta.to(dtype).unflatten(-1, (self.group_size, -1))
            # In either order G * K * P * (K + P) products; theta, which has no g, is read once.
            moved = torch.einsum("gpq,oikq->ogikp", B.R.to(dtype), base)
            expanded = torch.einsum("ghk,ogikp->ogihp", A.R.to(dtype), moved)
            return expanded.flatten(-2).to(theta.dtype)

    def entropy(self) -> Float[Tensor, ""]:
        A, B = self.factors()
        # -sum ab log(ab), for each g: the entropy of each factor times the sum of the other.
        return (A.entropy * B.R.sum((-2, -1)) + B.entropy * A.R.sum((-2, -1))).sum()

    @property
    def marginal_error(self) -> Float[Tensor, ""]:
        with torch.no_grad():
            A, B = (factor.R for factor in self.factors())
            both = [A.sum(axis)[:, :, None] * B.sum(axis)[:, None] for axis in (-1, -2)]
            return (torch.stack(both) - 1).abs().max()


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
    """B: held at a stack, or learned from near it or from near random permutations."""
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
    """A: held at a stack, learned, or computed from B."""
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
    # A product that leaves a set of elements has no place to go.
    empty = what == "elements"
    up_to = " up to empty rows and columns" if empty else ""
    check_balanced(f"Kronecker: {what} must be doubly stochastic{up_to}", stack, empty)
    if anchor:
        why = f"which anchor=True holds; put it first in {what} or use anchor=False"
        check_identity_first("Kronecker", stack, why)
