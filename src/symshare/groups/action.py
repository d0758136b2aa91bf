"""What every finite set of transformations can do."""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from functools import cached_property

import torch
from jaxtyping import Float, Int
from torch import Tensor

from symshare.groups.abstract import group_name
from symshare.groups.shape import Shape, each_axis


class Action(ABC):
    """A finite set of transformations, the identity first.

    It acts on kernels (`lift`), on itself (`table`, `cayley`) and on the kernels of group layers
    (`regular`). `GroupAction` also moves signals; `InterpolatedAction` reaches angles that do not
    map pixels to pixels. All tensors are on the CPU.

    Attributes:
        names: one name per element; the first is "id".
        dims: number of axes of the grid.
        domain: the only grid that the elements belong to, or None where many serve.
    """

    names: tuple[str, ...]
    dims: int
    domain: tuple[int, ...] | None

    def __len__(self) -> int:
        return len(self.names)

    def __repr__(self) -> str:
        shown = self.names if len(self) <= 8 else (*self.names[:6], "...", self.names[-1])
        return f"{type(self).__name__}({', '.join(shown)})"

    @property
    @abstractmethod
    def has_kernel_map(self) -> bool:
        """Whether every element acts on kernels of other sizes than `domain`."""

    @abstractmethod
    def acts_on(self, shape: Shape) -> bool:
        """Whether every element maps a grid of this shape to itself."""

    @abstractmethod
    def lift(self, kernel: Shape) -> Float[Tensor, "G P P"]:
        """The action on a kernel, as doubly stochastic matrices B with `B[g] @ w = g w`.

        Args:
            kernel: its size; an int k means k along each axis. P is its number of positions.

        Raises:
            ValueError: where an element has no action on kernels or does not map this one to
                itself.
        """

    @abstractmethod
    def _products(self) -> list[list[int]]:
        """Index of gh, or -1 where it is no element, for every g and h."""

    @property
    def _cyclic(self) -> str:
        """Letter of cyclic groups in `name`."""
        return "C"

    @abstractmethod
    def subset(self, names: Iterable[str]) -> "Action":
        """The named elements in this action's order; the identity always stays.

        Raises:
            ValueError: where a name is unknown.

        Example:
            >>> from symshare import groups
            >>> groups.dihedral(4).subset(["flipW", "rot180"])
            GroupAction(id, rot180, flipW)
        """

    def regular(self, kernel: Shape) -> Float[Tensor, "G D D"]:
        """The action on a group layer's kernel: `kron(A[g], B[g])`, with D = G*P and P fast.

        Args:
            kernel: as in `lift`.

        Raises:
            ValueError: as in `lift`.

        Example:
            >>> from symshare import groups
            >>> groups.rotations(4).regular(3).shape
            torch.Size([4, 36, 36])
        """
        return torch.stack(
            [torch.kron(a, b) for a, b in zip(self.cayley, self.lift(kernel), strict=True)]
        )

    @cached_property
    def _table(self) -> Int[Tensor, "G G"]:
        return torch.tensor(self._products(), device="cpu")

    @property
    def table(self) -> Int[Tensor, "G G"]:
        """Multiplication table: `table[g, h]` is the index of gh (h acts first), or -1.

        Example:
            >>> from symshare import groups
            >>> groups.rotations(4).subset(["rot90"]).table
            tensor([[ 0,  1],
                    [ 1, -1]])
        """
        return self._table.clone()

    @property
    def cayley(self) -> Float[Tensor, "G G G"]:
        """Left multiplication: `A[g][h, h'] = 1` iff g h' = h.

        Where the set is not closed, rows that no product reaches are zero.

        Example:
            >>> from symshare import groups
            >>> groups.rotations(4).cayley[1].int().tolist()
            [[0, 0, 0, 1], [1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0]]
        """
        order = torch.arange(len(self), device="cpu")
        return (self._table[:, None, :] == order[:, None]).to(torch.get_default_dtype())

    @property
    def is_group(self) -> bool:
        """Whether the set is closed; for a finite set with the identity that makes a group."""
        return bool((self._table >= 0).all())

    @cached_property
    def name(self) -> str | None:
        """Name of the group up to isomorphism, or None where the set is not closed.

        "C4", "D4" (order 8), "C2xC2", "Q8", "A4", "S4", "S4xC2", ...; pure shifts of a ring of
        twelve are "Z12". A group without a common short name is "G" with its order.

        Example:
            >>> from symshare import groups
            >>> groups.dihedral(4).name, groups.flips("HW").name, groups.ring_dihedral(5).name
            ('D4', 'C2xC2', 'D5')
            >>> groups.rotations(4).subset(["rot90"]).name is None
            True
        """
        return group_name(self._table.tolist(), self._cyclic) if self.is_group else None

    def _named(self, names: Iterable[str]) -> list[int]:
        wanted = {"id", *names}
        if unknown := sorted(wanted.difference(self.names)):
            raise ValueError(
                f"{type(self).__name__}.subset: no element {unknown}; "
                f"choose from {list(self.names)}"
            )
        return [g for g, name in enumerate(self.names) if name in wanted]

    def _grid(self, shape: Shape) -> tuple[int, ...]:
        grid = each_axis(shape, self.dims)
        if len(grid) != self.dims or min(grid) < 1:
            raise ValueError(
                f"{type(self).__name__}: expected a shape of {self.dims} positive lengths, "
                f"got {shape}"
            )
        return grid
