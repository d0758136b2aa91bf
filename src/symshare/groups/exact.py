"""Transformations that map positions of a grid to positions."""

from collections.abc import Iterable, Sequence
from functools import cached_property
from math import prod

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from symshare.groups.action import Action
from symshare.groups.maps import LatticeMap
from symshare.groups.shape import Shape


class GroupAction(Action):
    """A finite set of transformations that permute positions, the identity first.

    Elements without a shift act on every shape that they map to itself; cyclic shifts and
    explicit permutations act on `domain` only. Build one with the functions of
    `symshare.groups`.

    Args:
        names: one name per element; the first is "id".
        maps: each element as a lattice map, or None where it is none.
        domain: the grid that shifts and explicit permutations belong to, or None.
        pixels: source indices over `domain`; needed for elements that are no lattice map.

    Raises:
        ValueError: where the identity does not come first or elements coincide.

    Example:
        >>> from symshare import groups
        >>> action = groups.rotations(4)
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
        self._pixels = None if pixels is None else pixels.cpu()
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
        if self._pixels is not None:
            self._check_pixels(self._pixels)
        # Signed permutations are told apart by what they do to three positions per axis.
        self._reference = self.domain or (3,) * self.dims
        if len(set(self.names)) < len(self.names):
            raise ValueError(f"GroupAction: element names must differ, got {list(self.names)}")
        identity = torch.arange(prod(self._reference), device="cpu")
        if self.names[0] != "id" or self._index_of.get(_key(identity)) != 0:
            raise ValueError(
                f"GroupAction: the identity must come first and be called 'id', got "
                f"{self.names[0]!r}; put it first"
            )

    def _check_pixels(self, pixels: Int[Tensor, "G P"]) -> None:
        if self.domain is None:
            raise ValueError("GroupAction: pixels are positions of one grid; pass domain=")
        identity = torch.arange(prod(self.domain), device="cpu")
        for name, m, row in zip(self.names, self.maps, pixels, strict=True):
            if not torch.equal(row.sort().values, identity):
                raise ValueError(
                    f"GroupAction: pixels of {name} are no permutation of 0..{len(identity) - 1}; "
                    "give source indices, each once"
                )
            if m is not None and not torch.equal(row, m.permutation(self.domain)):
                raise ValueError(
                    f"GroupAction: pixels of {name} are not what its map does to shape "
                    f"{self.domain}; give one of the two"
                )

    @property
    def has_kernel_map(self) -> bool:
        return all(m is not None for m in self.maps)

    def acts_on(self, shape: Shape) -> bool:
        grid = self._grid(shape)
        return all(self._fits(g, grid) for g in range(len(self)))

    def permutation(self, shape: Shape) -> Int[Tensor, "G P"]:
        """Source indices of every element over a grid: `(g f)[p] = f[perm[g, p]]`.

        Args:
            shape: the grid; an int k means k along each axis. P = its number of positions.

        Raises:
            ValueError: where an element does not map the grid to itself.

        Example:
            >>> from symshare import groups
            >>> groups.cyclic_shifts(4).permutation(4)[1].tolist()
            [3, 0, 1, 2]
        """
        grid = self._grid(shape)
        return torch.stack([self._permutation(g, grid) for g in range(len(self))])

    def entries(
        self, channels: int, shape: Shape
    ) -> tuple[Int[Tensor, "G E"], Float[Tensor, "G E"]]:
        """What each element does to all E = C * P numbers of a signal, as sources and signs.

        Every channel is moved alike, and no sign changes.

        Example:
            >>> from symshare import groups
            >>> groups.reversal().entries(2, 3)[0][1].tolist()
            [2, 1, 0, 5, 4, 3]
        """
        space = self.permutation(shape)
        start = torch.arange(channels)[None, :, None] * space.shape[1]
        flat = (start + space[:, None]).flatten(1)
        return flat, torch.ones(flat.shape)

    def apply(self, x: Tensor, g: int) -> Tensor:
        """`g x` over the last `dims` axes of x; exact, and any axes may lead.

        Raises:
            ValueError: where element g does not map these axes to themselves.

        Example:
            >>> from symshare import groups
            >>> x = torch.arange(6).view(2, 3)
            >>> groups.flips("W").apply(x, 1).tolist()
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

        Example:
            The permutation tensor of C_4 and the convolution matrix W = P w (Section 4.1,
            arXiv:2412.04594):

            >>> from symshare import groups
            >>> P = groups.cyclic_shifts(4).lift(4)
            >>> P[1].int().tolist()
            [[0, 0, 0, 1], [1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0]]
            >>> w = torch.tensor([0.0, 1.0, 2.0, 3.0])
            >>> (P @ w).int()
            tensor([[0, 1, 2, 3],
                    [3, 0, 1, 2],
                    [2, 3, 0, 1],
                    [1, 2, 3, 0]], dtype=torch.int32)
        """
        grid = self._grid(kernel)
        of_element = self._permutation if grid == self.domain else self._kernel_permutation
        source = torch.stack([of_element(g, grid) for g in range(len(self))])
        return torch.nn.functional.one_hot(source, prod(grid)).to(torch.get_default_dtype())

    @property
    def _cyclic(self) -> str:
        identity = np.eye(self.dims, dtype=int)
        shifts = all(m is not None and np.array_equal(m.matrix, identity) for m in self.maps)
        return "Z" if shifts else "C"

    def subset(self, names: Iterable[str]) -> "GroupAction":
        indices = self._named(names)
        pixels = None if self._pixels is None else self._pixels[indices]
        maps = [self.maps[g] for g in indices]
        return GroupAction([self.names[g] for g in indices], maps, self.domain, pixels)

    def _fits(self, g: int, grid: tuple[int, ...]) -> bool:
        m = self.maps[g]
        if m is None or any(m.shift):
            return grid == self.domain
        return m.fits(grid)

    def _permutation(self, g: int, grid: tuple[int, ...]) -> Int[Tensor, " P"]:
        m = self.maps[g]
        if not self._fits(g, grid):
            remedy = "use equal lengths along its axes, or a subset without it"
            if m is None or any(m.shift):
                remedy = f"it is defined on shape {self.domain} only"
            raise ValueError(
                f"GroupAction: {self.names[g]} does not map shape {grid} to itself; {remedy}"
            )
        if m is not None:
            return m.permutation(grid)
        assert self._pixels is not None
        return self._pixels[g]

    def _kernel_permutation(self, g: int, grid: tuple[int, ...]) -> Int[Tensor, " P"]:
        m = self.maps[g]
        if m is None:
            raise ValueError(
                f"GroupAction.lift: {self.names[g]} is no lattice map, so it has no action on a "
                f"kernel of size {grid}; use a kernel of size {self.domain}, or a subset without it"
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

    def _products(self) -> list[list[int]]:
        source = self.permutation(self._reference)
        # As in `compose`: gh takes its values from perm_h[perm_g[p]].
        return [[self._index_of.get(_key(h[g]), -1) for h in source] for g in source]


def _key(permutation: Tensor) -> bytes:
    return permutation.contiguous().numpy().tobytes()
