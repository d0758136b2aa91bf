"""Finite sets of transformations: how they act on signals, on kernels and on themselves.

An element `g` moves the value at position `x` to position `g x`. On a signal `f` over a grid
that is `(g f)[p] = f[perm[p]]`, where `perm[p]` is the *source* index of position `p`.
"""

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

Shape = int | Sequence[int]


@dataclass(frozen=True)
class LatticeMap:
    """The map `x -> M x + s` of a grid onto itself, on coordinates centred in the grid.

    Args:
        matrix: M, a signed permutation matrix, as rows; on images x = (row, column).
        shift: s, in pixels, cyclic over the grid.

    Example:
        >>> quarter = LatticeMap(((0, -1), (1, 0)), (0, 0))
        >>> f = torch.arange(9)
        >>> torch.equal(f[quarter.permutation((3, 3))].view(3, 3), f.view(3, 3).rot90())
        True
    """

    matrix: tuple[tuple[int, ...], ...]
    shift: tuple[int, ...]

    @property
    def linear(self) -> "LatticeMap":
        """The same map without its shift: what is left of it on a convolution kernel."""
        return LatticeMap(self.matrix, (0,) * len(self.shift))

    def fits(self, shape: Sequence[int]) -> bool:
        """Whether every axis is sent to an axis of the same length."""
        size = np.asarray(shape)
        return bool((abs(np.asarray(self.matrix)) @ size == size).all())

    def permutation(self, shape: Sequence[int]) -> Int[Tensor, " P"]:
        """Source index of every position of a grid that the map fits."""
        size = np.asarray(shape)[:, None]
        # Twice the centred coordinates: integers for even and odd lengths alike.
        target = 2 * np.indices(tuple(shape)).reshape(len(shape), -1) - (size - 1)
        source = np.asarray(self.matrix).T @ (target - 2 * np.asarray(self.shift)[:, None])
        index = (source + size - 1) // 2 % size
        return torch.from_numpy(np.ravel_multi_index(tuple(index), tuple(shape)))


_PLANE = {
    "id": ((1, 0), (0, 1)),
    "rot90": ((0, -1), (1, 0)),
    "rot180": ((-1, 0), (0, -1)),
    "rot270": ((0, 1), (-1, 0)),
    "flipW": ((1, 0), (0, -1)),
    "transpose": ((0, 1), (1, 0)),
    "flipH": ((-1, 0), (0, 1)),
    "antitranspose": ((0, -1), (-1, 0)),
}
_LINE = {"id": ((1,),), "reverse": ((-1,),)}
_LINEAR_NAMES = {matrix: name for kind in (_PLANE, _LINE) for name, matrix in kind.items()}


class GroupAction:
    """A finite set of transformations, the identity first.

    Elements without a shift act on every shape that they map to itself; cyclic shifts and
    explicit permutations act on `domain` only. Build one with the functions of this module.

    Args:
        names: one name per element; the first is "id".
        maps: each element as a lattice map, or None where it is none.
        domain: the grid that shifts and explicit permutations belong to, or None.
        pixels: source indices over `domain`; needed for elements that are no lattice map.

    Raises:
        ValueError: where the identity does not come first or elements coincide.

    Example:
        >>> action = rotations(4)
        >>> action
        GroupAction(id, rot90, rot180, rot270)
        >>> action.name, action.permutation(2)[1].tolist()
        ('C4', [1, 3, 0, 2])
    """

    def __init__(
        self,
        names: Sequence[str],
        maps: Sequence[LatticeMap | None],
        domain: Sequence[int] | None = None,
        pixels: Int[Tensor, "G P"] | None = None,
    ) -> None:
        self.names = tuple(names)
        self.maps = tuple(maps)
        self.domain = None if domain is None else tuple(domain)
        self._pixels = pixels
        if domain is None and any(m is None or any(m.shift) for m in maps):
            raise ValueError(
                "GroupAction: shifts and explicit permutations belong to one grid; pass domain="
            )
        self.dims = len(next(m.shift for m in maps if m) if domain is None else domain)
        if not len(self.names) == len(self.maps) == (len(maps) if pixels is None else len(pixels)):
            raise ValueError(
                f"GroupAction: {len(self.names)} names for {len(self.maps)} maps and "
                f"{0 if pixels is None else len(pixels)} permutations; give one of each per element"
            )
        if pixels is None and None in self.maps:
            raise ValueError(
                f"GroupAction: {self.names[self.maps.index(None)]} is no lattice map; pass pixels="
            )
        # Signed permutations are told apart by what they do to three positions per axis.
        self._reference = self.domain or (3,) * self.dims
        if len(set(self.names)) < len(self.names):
            raise ValueError(f"GroupAction: element names must differ, got {list(self.names)}")
        keys = self._index_of
        if self.names[0] != "id" or keys.get(_key(torch.arange(prod(self._reference)))) != 0:
            raise ValueError(
                f"GroupAction: the identity must come first and be called 'id', got "
                f"{self.names[0]!r}; put it first"
            )

    def __len__(self) -> int:
        return len(self.names)

    def __repr__(self) -> str:
        shown = self.names if len(self) <= 8 else (*self.names[:6], "...", self.names[-1])
        return f"GroupAction({', '.join(shown)})"

    @property
    def has_kernel_map(self) -> bool:
        """Whether every element has a linear part, which acts on kernels of other sizes."""
        return all(m is not None for m in self.maps)

    def acts_on(self, shape: Shape) -> bool:
        """Whether every element maps a grid of this shape to itself."""
        grid = self._grid(shape)
        return all(self._fits(g, grid) for g in range(len(self)))

    def permutation(self, shape: Shape) -> Int[Tensor, "G P"]:
        """Source indices of every element over a grid: `(g f)[p] = f[perm[g, p]]`.

        Args:
            shape: the grid; an int k means k along each axis. P = its number of positions.

        Raises:
            ValueError: where an element does not map the grid to itself.

        Example:
            >>> cyclic_shifts(4).permutation(4)[1].tolist()
            [3, 0, 1, 2]
        """
        grid = self._grid(shape)
        return torch.stack([self._permutation(g, grid) for g in range(len(self))])

    def apply(self, x: Tensor, g: int) -> Tensor:
        """`g x` over the last `dims` axes of x; exact, and any axes may lead.

        Raises:
            ValueError: where element g does not map these axes to themselves.

        Example:
            >>> x = torch.arange(6).view(2, 3)
            >>> flips("W").apply(x, 1).tolist()
            [[2, 1, 0], [5, 4, 3]]
        """
        if x.ndim < self.dims:
            raise ValueError(
                f"GroupAction.apply: needs at least {self.dims} axes, got shape {tuple(x.shape)}"
            )
        source = self._permutation(g, tuple(x.shape[-self.dims :])).to(x.device)
        return x.flatten(-self.dims).index_select(-1, source).view(x.shape)

    def lift(self, kernel: Shape) -> Float[Tensor, "G P P"]:
        """The action on a kernel, as permutation matrices B with `B[g] @ w = g w`.

        A convolution commutes with shifts, so on a kernel smaller than the signal only the
        linear part of an element is left. A kernel as large as `domain` covers the whole
        signal and is moved by the whole element.

        Args:
            kernel: kernel size; an int k means k along each axis. P = its number of positions.

        Raises:
            ValueError: where an element has no linear part, or does not map the kernel to itself.

        Example:
            The permutation tensor of C_4 and the convolution matrix W = P w (Section 4.1,
            arXiv:2412.04594):

            >>> P = cyclic_shifts(4).lift(4)
            >>> P[1].int().tolist()
            [[0, 0, 0, 1], [1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0]]
            >>> P[2].int().tolist()
            [[0, 0, 1, 0], [0, 0, 0, 1], [1, 0, 0, 0], [0, 1, 0, 0]]
            >>> P[3].int().tolist()
            [[0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1], [1, 0, 0, 0]]
            >>> torch.equal(P[0], torch.eye(4))
            True
            >>> w = torch.tensor([0.0, 1.0, 2.0, 3.0])
            >>> (P @ w).int()
            tensor([[0, 1, 2, 3],
                    [3, 0, 1, 2],
                    [2, 3, 0, 1],
                    [1, 2, 3, 0]], dtype=torch.int32)
        """
        grid = self._grid(kernel)
        if grid == self.domain:
            source = self.permutation(grid)
        else:
            source = torch.stack([self._kernel_permutation(g, grid) for g in range(len(self))])
        return torch.nn.functional.one_hot(source, prod(grid)).to(torch.get_default_dtype())

    def regular(self, kernel: Shape) -> Float[Tensor, "G D D"]:
        """The action on a group layer's kernel: `kron(A[g], B[g])`, with D = G*P and P fast.

        Example:
            >>> rotations(4).regular(3).shape
            torch.Size([4, 36, 36])
        """
        return torch.stack(
            [torch.kron(a, b) for a, b in zip(self.cayley, self.lift(kernel), strict=True)]
        )

    @property
    def table(self) -> Int[Tensor, "G G"]:
        """Multiplication table: `table[g, h]` is the index of gh (h acts first), or -1.

        Example:
            >>> rotations(4).subset(["rot90"]).table
            tensor([[ 0,  1],
                    [ 1, -1]])
        """
        return self._table.clone()

    @property
    def cayley(self) -> Float[Tensor, "G G G"]:
        """Left multiplication: `A[g][h, h'] = 1` iff g h' = h.

        Where the set is not closed, rows that no product reaches are zero.

        Example:
            >>> rotations(4).cayley[1].int().tolist()
            [[0, 0, 0, 1], [1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0]]
        """
        order = torch.arange(len(self))
        return (self._table[:, None, :] == order[:, None]).to(torch.get_default_dtype())

    @property
    def is_group(self) -> bool:
        """Whether the set is closed; for a finite set with the identity that makes a group."""
        return bool((self._table >= 0).all())

    @cached_property
    def name(self) -> str | None:
        """Name of the group up to isomorphism, or None where the set is not closed.

        "C4", "D4" (order 8), "C2xC2", "Q8", "A4", "S4", ...; pure shifts of a ring of twelve
        are "Z12". A group without a common short name is "G" with its order.

        Example:
            >>> dihedral(4).name, flips("HW").name, ring_dihedral(5).name
            ('D4', 'C2xC2', 'D5')
            >>> rotations(4).subset(["rot90"]).name is None
            True
        """
        if not self.is_group:
            return None
        identity = np.eye(self.dims, dtype=int)
        shifts = all(m is not None and np.array_equal(m.matrix, identity) for m in self.maps)
        return _name(self._table, "Z" if shifts else "C")

    def subset(self, names: Iterable[str]) -> "GroupAction":
        """The named elements in this action's order; the identity always stays.

        Raises:
            ValueError: where a name is unknown.

        Example:
            >>> dihedral(4).subset(["flipW", "rot180"])
            GroupAction(id, rot180, flipW)
        """
        wanted = {"id", *names}
        if unknown := sorted(wanted.difference(self.names)):
            raise ValueError(
                f"GroupAction.subset: no element {unknown}; choose from {list(self.names)}"
            )
        return self._take([g for g, name in enumerate(self.names) if name in wanted])

    def _take(self, indices: list[int]) -> "GroupAction":
        pixels = None if self._pixels is None else self._pixels[indices]
        maps = [self.maps[g] for g in indices]
        return GroupAction([self.names[g] for g in indices], maps, self.domain, pixels)

    def _grid(self, shape: Shape) -> tuple[int, ...]:
        grid = (shape,) * self.dims if isinstance(shape, int) else tuple(shape)
        if len(grid) != self.dims or min(grid) < 1:
            raise ValueError(
                f"GroupAction: expected a shape of {self.dims} positive lengths, got {shape}"
            )
        return grid

    def _fits(self, g: int, grid: tuple[int, ...]) -> bool:
        m = self.maps[g]
        if m is None or any(m.shift):
            return grid == self.domain
        return m.fits(grid)

    def _permutation(self, g: int, grid: tuple[int, ...]) -> Int[Tensor, " P"]:
        m = self.maps[g]
        if not self._fits(g, grid):
            if m is None or any(m.shift):
                remedy = f"it is defined on shape {self.domain} only"
            else:
                remedy = "use equal lengths along its axes, or a subset without it"
            raise ValueError(
                f"GroupAction: {self.names[g]} does not map shape {grid} to itself; {remedy}"
            )
        if m is None:
            assert self._pixels is not None
            return self._pixels[g]
        return m.permutation(grid)

    def _kernel_permutation(self, g: int, grid: tuple[int, ...]) -> Int[Tensor, " P"]:
        m = self.maps[g]
        if m is None:
            raise ValueError(
                f"GroupAction.lift: {self.names[g]} is no lattice map, so it has no action on a "
                f"kernel of size {grid}; use a kernel of size {self.domain}, or a "
                f"subset without it"
            )
        if not m.fits(grid):
            raise ValueError(
                f"GroupAction.lift: {self.names[g]} does not map a kernel of size {grid} to "
                f"itself; use equal lengths along its axes, or a subset without it"
            )
        return m.linear.permutation(grid)

    @cached_property
    def _index_of(self) -> dict[bytes, int]:
        index: dict[bytes, int] = {}
        for g, source in enumerate(self.permutation(self._reference)):
            first = index.setdefault(_key(source), g)
            if first != g:
                raise ValueError(
                    f"GroupAction: {self.names[first]} and {self.names[g]} are the same "
                    f"permutation of shape {self._reference}; give each element once"
                )
        return index

    @cached_property
    def _table(self) -> Int[Tensor, "G G"]:
        source = self.permutation(self._reference)
        # (g (h f))[p] = (h f)[perm_g[p]] = f[perm_h[perm_g[p]]]
        return torch.tensor([[self._index_of.get(_key(h[g]), -1) for h in source] for g in source])


def rotations(n: int) -> GroupAction:
    """Rotations of the plane by multiples of 360/n degrees, counter-clockwise as `torch.rot90`.

    Args:
        n: 1, 2 or 4: the rotations that map pixels to pixels.

    Raises:
        ValueError: for another n.

    Example:
        >>> rotations(2)
        GroupAction(id, rot180)
    """
    if n not in (1, 2, 4):
        raise ValueError(f"rotations: n must be 1, 2 or 4, got {n}; other angles need resampling")
    return _plane(["id", "rot90", "rot180", "rot270"][:: 4 // n])


def dihedral(n: int) -> GroupAction:
    """Rotations by multiples of 360/n degrees, then each of them after a left-right flip.

    Args:
        n: 2 or 4.

    Raises:
        ValueError: for another n.

    Example:
        >>> dihedral(4).names[4:]
        ('flipW', 'transpose', 'flipH', 'antitranspose')
    """
    if n not in (2, 4):
        raise ValueError(f"dihedral: n must be 2 or 4, got {n}; use flips('W') for a lone flip")
    return _plane(list(_PLANE)[:: 4 // n])


def flips(axes: str) -> GroupAction:
    """Flips of an image: "W" left-right, "H" up-down, "HW" both and their product.

    Raises:
        ValueError: for other axes.

    Example:
        >>> flips("HW")
        GroupAction(id, flipW, flipH, rot180)
    """
    elements = {
        "W": ["id", "flipW"],
        "H": ["id", "flipH"],
        "HW": ["id", "flipW", "flipH", "rot180"],
    }
    if axes not in elements:
        raise ValueError(f"flips: axes must be one of {list(elements)}, got {axes!r}")
    return _plane(elements[axes])


def cyclic_shifts(n: int) -> GroupAction:
    """All shifts of a ring of n positions; `shift1` moves each value to the next position.

    Example:
        >>> cyclic_shifts(12).name
        'Z12'
    """
    if n < 1:
        raise ValueError(f"cyclic_shifts: n must be at least 1, got {n}")
    return _lattice_action([LatticeMap(((1,),), (s,)) for s in range(n)], (n,))


def ring_dihedral(n: int) -> GroupAction:
    """All shifts of a ring of n positions, then each of them after a reversal.

    Example:
        >>> ring_dihedral(3)
        GroupAction(id, shift1, shift2, reverse, reverse_shift1, reverse_shift2)
    """
    if n < 3:
        raise ValueError(
            f"ring_dihedral: n must be at least 3, got {n}; on shorter rings a reversal is a shift"
        )
    maps = [LatticeMap(((sign,),), (s,)) for sign in (1, -1) for s in range(n)]
    return _lattice_action(maps, (n,))


def from_permutations(
    permutations: Int[Tensor, "G P"] | np.ndarray | Sequence[Sequence[int]],
    shape: Shape,
    names: Sequence[str] | None = None,
) -> GroupAction:
    """An action given by explicit source indices over a grid.

    Elements that are lattice maps are recognised: they get a name and act on kernels, and where
    all of them are and none shifts, the action serves every grid it maps to itself. The
    identity is put first, and added where it is missing.

    Args:
        permutations: `(g f)[p] = f[permutations[g, p]]`, for f flattened over `shape`.
        shape: the grid; an int is a ring.
        names: one per permutation; the identity is called "id" whatever its name here.

    Raises:
        ValueError: where a row is no permutation, or elements or names coincide.

    Example:
        >>> from_permutations([[1, 3, 0, 2], [3, 2, 1, 0]], (2, 2))
        GroupAction(id, rot90, rot180)
    """
    grid = (shape,) if isinstance(shape, int) else tuple(shape)
    rows = torch.as_tensor(permutations, dtype=torch.int64, device="cpu")
    identity = torch.arange(prod(grid))
    if rows.ndim != 2 or rows.shape[1] != prod(grid):
        raise ValueError(
            f"from_permutations: expected one row of {prod(grid)} source indices per element of "
            f"shape {grid}, got {tuple(rows.shape)}"
        )
    if (bad := (rows.sort(1).values != identity).any(1)).any():
        raise ValueError(
            f"from_permutations: row {int(bad.nonzero()[0])} is not a permutation of "
            f"0..{prod(grid) - 1}; give source indices, each once"
        )
    if names is not None and len(names) != len(rows):
        raise ValueError(f"from_permutations: {len(rows)} permutations but {len(names)} names")
    others = [g for g, row in enumerate(rows) if not torch.equal(row, identity)]
    if len(others) < len(rows) - 1:
        raise ValueError("from_permutations: the identity is given twice; give each element once")
    pixels = torch.cat([identity[None], rows[others]])
    maps = [lattice(row, grid) for row in pixels]
    if names is None:
        names = [_map_name(m) or f"g{g}" for g, m in enumerate(maps)]
    else:
        names = ["id", *(names[g] for g in others)]
    if all(m is not None and not any(m.shift) for m in maps):
        return GroupAction(names, maps)
    return GroupAction(names, maps, grid, pixels)


def lattice(permutation: Int[Tensor, " P"], shape: Sequence[int]) -> LatticeMap | None:
    """Recognise a pixel permutation as a signed axis permutation and a cyclic shift.

    Args:
        permutation: source indices over the grid.
        shape: the grid.

    Returns:
        The map (on grids where several agree, one without a shift if there is one), or None.

    Example:
        >>> lattice(torch.tensor([3, 0, 1, 2]), (4,))
        LatticeMap(matrix=((1,),), shift=(1,))
        >>> lattice(torch.tensor([1, 0, 2, 3]), (4,)) is None
        True
    """
    size, dims = np.asarray(shape), len(shape)
    origin = np.zeros(dims, dtype=int)
    source = np.asarray(np.unravel_index(int(permutation[0]), tuple(shape)))
    found = []
    for matrix in _signed_permutations(dims):
        if not LatticeMap(matrix, (0,) * dims).fits(shape):
            continue
        centred = np.asarray(matrix) @ (2 * source - (size - 1))
        shift = (2 * origin - (size - 1) - centred) // 2 % size
        candidate = LatticeMap(matrix, tuple(int(s) for s in shift))
        if torch.equal(candidate.permutation(shape), permutation.cpu()):
            found.append(candidate)
    return min(found, key=lambda m: any(m.shift), default=None)


def closure(action: GroupAction, cap: int = 48) -> GroupAction:
    """The smallest group that contains the action; its elements come first, in their order.

    Args:
        action: any set of transformations.
        cap: the largest number of elements allowed.

    Raises:
        ValueError: where the group is larger.

    Example:
        >>> closure(rotations(4).subset(["rot90"]))
        GroupAction(id, rot90, rot180, rot270)
    """
    grid = action._reference
    generators = action.permutation(grid)[1:]
    names, rows = list(action.names), list(action.permutation(grid))
    seen = {_key(row) for row in rows}
    # The list grows while it is read: a walk over the Cayley graph.
    for g, row in enumerate(rows):
        for h, generator in enumerate(generators, start=1):
            product = generator[row]
            if _key(product) in seen:
                continue
            if len(rows) >= cap:
                raise ValueError(
                    f"closure: {action} generates more than {cap} elements; "
                    f"leave elements out or pass a larger cap"
                )
            seen.add(_key(product))
            rows.append(product)
            known = _map_name(lattice(product, grid))
            names.append(known if known and known not in names else f"{names[g]}*{action.names[h]}")
    if action.domain is not None:
        return from_permutations(torch.stack(rows), grid, names)
    return GroupAction(names, [lattice(row, grid) for row in rows])


def _plane(names: list[str]) -> GroupAction:
    return GroupAction(names, [LatticeMap(_PLANE[name], (0, 0)) for name in names])


def _lattice_action(maps: list[LatticeMap], shape: tuple[int, ...]) -> GroupAction:
    return GroupAction([_map_name(m) or f"g{g}" for g, m in enumerate(maps)], maps, shape)


def _map_name(m: LatticeMap | None) -> str | None:
    if m is None or m.matrix not in _LINEAR_NAMES:
        return None
    linear = _LINEAR_NAMES[m.matrix]
    if not any(m.shift):
        return linear
    shift = "shift" + "_".join(str(s) for s in m.shift)
    return shift if linear == "id" else f"{linear}_{shift}"


def _signed_permutations(dims: int) -> Iterable[tuple[tuple[int, ...], ...]]:
    for signs in itertools.product((1, -1), repeat=dims):
        for axes in itertools.permutations(range(dims)):
            yield tuple(
                tuple(sign if column == axis else 0 for column in range(dims))
                for sign, axis in zip(signs, axes, strict=True)
            )


def _key(permutation: Tensor) -> bytes:
    return permutation.contiguous().numpy().tobytes()


def _generators(table: Tensor) -> list[int]:
    generated, generators = {0}, []
    for g in range(len(table)):
        if g in generated:
            continue
        generators.append(g)
        frontier = generated = {0}
        while frontier:
            frontier = {int(table[h, x]) for h in generators for x in frontier} - generated
            generated = generated | frontier
    return generators


def _name(table: Int[Tensor, "G G"], cyclic: str) -> str:
    """Name of a group by its table; `cyclic` is the letter of its cyclic factors."""
    from sympy.combinatorics import Permutation, PermutationGroup

    order = len(table)
    if order == 1:
        return "C1"
    group: Any = PermutationGroup([Permutation(table[g].tolist()) for g in _generators(table)])
    if group.is_cyclic:
        return f"{cyclic}{order}"
    if group.is_abelian:
        return "x".join(f"{cyclic}{n}" for n in _invariant_factors(group.abelian_invariants()))
    if group.is_dihedral:
        return f"D{order // 2}"
    if order == 8:
        return "Q8"
    # Among the groups of these orders, centre and derived subgroup single out S_n and A_n.
    centre, derived = group.center().order(), group.derived_subgroup().order()
    known = {(24, 12): "S4", (120, 60): "S5", (12, 4): "A4", (60, 60): "A5"}
    if centre == 1 and (order, derived) in known:
        return known[order, derived]
    return f"G{order}"


def _invariant_factors(prime_powers: Sequence[int]) -> list[int]:
    """Cyclic factors, each dividing the next, from the primary ones: [2, 2, 3] -> [2, 6]."""
    from sympy import factorint

    by_prime: dict[int, list[int]] = {}
    for q in sorted(prime_powers, reverse=True):
        by_prime.setdefault(min(factorint(q)), []).append(q)
    factors = itertools.zip_longest(*by_prime.values(), fillvalue=1)
    return sorted(prod(column) for column in factors)
