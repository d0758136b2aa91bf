"""Rotations and reflections by angles that do not map pixels to pixels."""

import math
from collections.abc import Iterable, Sequence

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from symshare.groups.action import Action
from symshare.groups.maps import linear_names
from symshare.groups.shape import Shape

TOLERANCE = 1e-12
# Of the dual, per position, below which a Newton step is not questioned.
ROUNDING = 1e-13


class InterpolatedAction(Action):
    r"""Rotations by multiples of 360/n degrees and reflections, on square kernels.

    How the elements multiply is exact: `table` and `cayley` are those of the abstract group.
    How they move a kernel is interpolated. B_g is the doubly stochastic matrix nearest to
    1 - |p - g q|^2 over pairs of positions, in pixels from the centre:

    .. math:: B_g = \arg\min_{B \in \mathcal{B}_P} \sum_{pq} B_{pq} |p - g q|^2
              + \tfrac12 \sum_{pq} B_{pq}^2

    a quadratically regularised transport of the kernel to the turned kernel (Lorenz, Manns and
    Meyer, arXiv:1903.01112). It moves each weight to a few positions close by; in one dimension
    the same rule is linear interpolation. Bilinear weights themselves cannot be balanced, as the
    corners leave the square: at 45 degrees, on kernels of 3, 5, 7 and 9, the only doubly
    stochastic matrix on their support is a permutation, and on larger ones there is often none.

    B[g^-1] is the transpose of B[g]; rows and columns sum to 1. Multiples of 90 degrees and the
    reflections flipW, flipH, transpose and antitranspose are exactly the permutations of
    `rotations(4)` and `dihedral(4)`, and products with them are exact. Otherwise B_g B_h is only
    near B_gh, as interpolating twice blurs: for n = 8 the entries differ by up to 0.33, 0.44 and
    0.65 on kernels of 3, 5 and 7.

    Names: `rot45`, angles in degrees to two decimals; `flipW_rot45` is the flip and then the
    rotation; elements of `dihedral(4)` have their names there.

    Args:
        n: rotations of a full circle.
        elements: (turn, flip) for the rotation by turn * 360/n degrees, after a left-right flip
            if flip is true; the identity (0, False) first.

    Raises:
        ValueError: for n below 1, or where the identity does not come first or elements coincide.

    Example:
        >>> from symshare import groups
        >>> groups.rotations(8)
        InterpolatedAction(id, rot45, rot90, rot135, rot180, rot225, rot270, rot315)
        >>> groups.rotations(8).lift(2)[1]
        tensor([[0.5000, 0.5000, 0.0000, 0.0000],
                [0.0000, 0.5000, 0.0000, 0.5000],
                [0.5000, 0.0000, 0.5000, 0.0000],
                [0.0000, 0.0000, 0.5000, 0.5000]])
    """

    dims = 2
    domain = None

    def __init__(self, n: int, elements: Sequence[tuple[int, bool]]) -> None:
        if n < 1:
            raise ValueError(f"InterpolatedAction: n must be at least 1, got {n}")
        self.n = n
        self.elements = tuple((turn % n, flip) for turn, flip in elements)
        if len(set(self.elements)) < len(self.elements):
            raise ValueError(f"InterpolatedAction: elements must differ, got {list(elements)}")
        if self.elements[:1] != ((0, False),):
            raise ValueError(
                f"InterpolatedAction: the identity (0, False) must come first, got {list(elements)}"
            )
        self.names = tuple(self._element_name(*element) for element in self.elements)

    @property
    def has_kernel_map(self) -> bool:
        return True

    def acts_on(self, shape: Shape) -> bool:
        return len(set(self._grid(shape))) == 1

    def lift(self, kernel: Shape) -> Float[Tensor, "G P P"]:
        """The action on a square kernel, as doubly stochastic matrices B with `B[g] @ w = g w`.

        Example:
            >>> from symshare import groups
            >>> B = groups.dihedral(6).lift(5)
            >>> B.shape, torch.allclose(B.sum(-1), torch.ones(12, 25))
            (torch.Size([12, 25, 25]), True)
        """
        grid = self._grid(kernel)
        if not self.acts_on(grid):
            raise ValueError(
                f"InterpolatedAction.lift: rotations need a square kernel, got {grid}; "
                f"use equal lengths"
            )
        positions = np.indices(grid).reshape(2, -1) - (grid[0] - 1) / 2
        stack = []
        for element in self.elements:
            matrix = self._matrix(*element)
            # The same up to rounding, and so transposes to the last bit.
            there, back = _nearest(positions, matrix), _nearest(positions, matrix.T)
            stack.append((there + back.T) / 2)
        return torch.from_numpy(np.stack(stack)).to(torch.get_default_dtype())

    def subset(self, names: Iterable[str]) -> "InterpolatedAction":
        return InterpolatedAction(self.n, [self.elements[g] for g in self._named(names)])

    def _products(self) -> list[list[int]]:
        index = {element: g for g, element in enumerate(self.elements)}
        return [[index.get(self._multiply(g, h), -1) for h in self.elements] for g in self.elements]

    def _multiply(self, g: tuple[int, bool], h: tuple[int, bool]) -> tuple[int, bool]:
        # A flip turns the rotations behind it round.
        return (g[0] - h[0] if g[1] else g[0] + h[0]) % self.n, g[1] != h[1]

    def _matrix(self, turn: int, flip: bool) -> np.ndarray:
        # Inverse turns have opposite angles to the last bit.
        angle = 2 * math.pi * (turn if 2 * turn <= self.n else turn - self.n) / self.n
        cos, sin = math.cos(angle), math.sin(angle)
        matrix = np.array([[cos, -sin], [sin, cos]]) @ np.diag([1, -1 if flip else 1])
        # Quarter turns without the rounding of pi, so that their B are exact.
        return np.round(matrix) if 4 * turn % self.n == 0 else matrix

    def _element_name(self, turn: int, flip: bool) -> str:
        if 4 * turn % self.n == 0:
            rows = self._matrix(turn, flip).astype(int).tolist()
            return linear_names(2)[tuple(map(tuple, rows))]
        name = f"rot{round(360 * turn / self.n, 2):g}"
        return f"flipW_{name}" if flip else name


def _nearest(positions: Float[np.ndarray, "2 P"], g: np.ndarray) -> Float[np.ndarray, "P P"]:
    """The doubly stochastic matrix nearest to `1 - |p - g q|^2`.

    It is `max(0, K[p, q] + u[p] + v[q])` with potentials u, v that make rows and columns sum
    to 1. They minimise a convex function, whose Newton step is a sparse linear system; see
    arXiv:1903.01112, Section 3.
    """
    turned = g @ positions
    K = 1 - ((positions[:, :, None] - turned[:, None, :]) ** 2).sum(0)
    P = len(K)
    potentials = np.zeros(2 * P)

    def primal(at: np.ndarray) -> np.ndarray:
        return np.maximum(0, K + at[:P, None] + at[P:])

    def dual(at: np.ndarray) -> float:
        return float((primal(at) ** 2).sum() / 2 - at.sum())

    for _ in range(100):
        B = primal(potentials)
        gradient = np.concatenate([B.sum(1), B.sum(0)]) - 1
        if abs(gradient).max() < TOLERANCE:
            return B
        support = (B > 0).astype(float)
        hessian = np.block(
            [[np.diag(support.sum(1)), support], [support.T, np.diag(support.sum(0))]]
        )
        # Constants move freely between u and v, hence the small ridge.
        step = np.linalg.solve(hessian + 1e-9 * np.eye(2 * P), -gradient)
        value, slope, length = dual(potentials), gradient @ step, 1.0
        while dual(potentials + length * step) > value + 1e-4 * length * slope + ROUNDING * P:
            length /= 2
        potentials += length * step
    raise AssertionError("the Newton iteration did not converge")
