"""Transformations that move channels as well: signed permutations of them, with moves of space."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Float, Int
from torch import Tensor

from symshare.groups.action import Action
from symshare.groups.exact import GroupAction
from symshare.groups.shape import Shape


@dataclass(frozen=True)
class ChannelMap:
    """A signed permutation of channels: `(m x)[c] = signs[c] x[sources[c]]`.

    Attributes:
        sources: the channel that each channel takes its values from, counted from 0.
        signs: 1, or -1 where the values change sign on the way.

    Raises:
        ValueError: where the sources are no permutation or a sign is neither 1 nor -1.

    >>> swap = ChannelMap((1, 0, 2), (1, 1, -1))
    >>> swap.word(), swap.word(("left", "right", "middle")), swap.then(swap).word()
    ('(0 1)*negate2', '(left right)*negate:middle', '')
    """

    sources: tuple[int, ...]
    signs: tuple[int, ...]

    def __post_init__(self) -> None:
        order = list(range(len(self.sources)))
        if sorted(self.sources) != order or len(self.signs) != len(order):
            raise ValueError(
                f"ChannelMap: expected each of the channels {order} once, and as many signs, got "
                f"{list(self.sources)} and {list(self.signs)}; (m x)[c] = signs[c] x[sources[c]]"
            )
        if not set(self.signs) <= {1, -1}:
            raise ValueError(f"ChannelMap: signs are 1 or -1, got {list(self.signs)}")

    @classmethod
    def identity(cls, channels: int) -> "ChannelMap":
        """That leaves all channels as they are."""
        return cls(tuple(range(channels)), (1,) * channels)

    @property
    def is_identity(self) -> bool:
        """Whether it leaves all channels as they are."""
        return self == ChannelMap.identity(len(self.sources))

    def then(self, other: "ChannelMap") -> "ChannelMap":
        """The product of the other and this one, which acts first."""
        signs = [s * self.signs[c] for s, c in zip(other.signs, other.sources, strict=True)]
        return ChannelMap(tuple(self.sources[c] for c in other.sources), tuple(signs))

    def matrix(self) -> Float[Tensor, "C C"]:
        """`M` with `M x = m x`: one entry of 1 or -1 in each row and column."""
        C = len(self.sources)
        M = torch.zeros(C, C)
        M[torch.arange(C), torch.tensor(self.sources)] = torch.tensor(self.signs, dtype=M.dtype)
        return M

    def word(self, names: Sequence[str] = ()) -> str:
        """Its cycles, and the channels that change sign; empty for the identity.

        A cycle (a b c) puts a in the place of b, b in that of c and c in that of a.

        Args:
            names: of the channels; by default their numbers.
        """
        called = [str(c) for c in range(len(self.sources))] if not names else list(names)
        goes_to = {source: c for c, source in enumerate(self.sources)}
        cycles, seen = "", set()
        for start in goes_to:
            cycle, c = [], start
            while c not in seen:
                seen.add(c)
                cycle.append(c)
                c = goes_to[c]
            if len(cycle) > 1:
                first = cycle.index(min(cycle))
                cycles += f"({' '.join(called[c] for c in cycle[first:] + cycle[:first])})"
        negative = [c for c, sign in enumerate(self.signs) if sign < 0]
        negated = ""
        if len(negative) == len(self.signs):
            negated = "negate"
        elif negative:
            colon = ":" if names else ""
            negated = f"negate{colon}{','.join(called[c] for c in negative)}"
        return "*".join(part for part in (cycles, negated) if part)

    def phrase(self, names: Sequence[str] = ()) -> str:
        """What it does in words, for at most four exchanges; empty where there is no short way.

        Args:
            names: of the channels; by default their numbers.

        >>> ChannelMap((1, 0, 2), (1, 1, -1)).phrase()
        'channels 0 and 1 exchanged and the sign of channel 2 changed'
        >>> ChannelMap((1, 0), (-1, -1)).phrase(("left", "right"))
        'left and right exchanged and all signs changed'
        """
        C = len(self.sources)
        called = list(names) or [f"channel {c}" for c in range(C)]
        moved = [c for c in range(C) if self.sources[c] != c]
        negative = [called[c] for c in range(C) if self.signs[c] < 0]
        if len(moved) > 8 or any(self.sources[self.sources[c]] != c for c in moved):
            return ""
        pairs = [(c, self.sources[c]) for c in moved if c < self.sources[c]]
        parts = [
            f"{called[a]} and {called[b]} exchanged" if names else f"channels {a} and {b} exchanged"
            for a, b in pairs
        ]
        if len(negative) == C:
            parts.append("all signs changed")
        elif negative:
            of = " and ".join(negative)
            parts.append(f"the sign{'s' * (len(negative) > 1)} of {of} changed")
        *most, last = parts or [""]
        return f"{', '.join(most)} and {last}" if most else last


class ChannelAction(Action):
    """A finite set of transformations that move positions and channels, the identity first.

    An element acts on signals x [..., C, *space] by `(g x)[c, p] = s[c] x[sigma(c), pi(p)]`, with a
    permutation pi of positions, one sigma of channels, and signs s. Its kernels are those of a
    lifting layer that reads all C channels at once: `lift` acts on D = C * P numbers, channels slow
    and positions fast. Group layers see the moves of space only, as channels end in the first one.

    Args:
        grid: the moves of space.
        elements: pairs of a name in `grid` and a map of the channels; the identity first.
        names: one for each element; by default the name of the move of space and the word of the
            map, such as "reverse*(0 1)".

    Raises:
        ValueError: where maps have different numbers of channels, the identity is not first, or
            elements or names coincide.

    Example:
        >>> from symshare import groups
        >>> still, swap = groups.ChannelMap.identity(2), groups.ChannelMap((1, 0), (1, 1))
        >>> elements = [("id", still), ("reverse", swap)]
        >>> action = groups.ChannelAction(groups.reversal(), elements)
        >>> action, action.name
        (ChannelAction(id, reverse*(0 1)), 'C2')
        >>> action.apply(torch.tensor([[1, 2, 3], [4, 5, 6]]), 1).tolist()
        [[6, 5, 4], [3, 2, 1]]
    """

    def __init__(
        self,
        grid: GroupAction,
        elements: Sequence[tuple[str, ChannelMap]],
        names: Sequence[str] | None = None,
    ) -> None:
        self.grid, self.elements = grid, tuple(elements)
        self.dims, self.domain = grid.dims, grid.domain
        sizes = {len(channels.sources) for _, channels in self.elements}
        if len(sizes) != 1:
            raise ValueError(
                f"ChannelAction: expected maps of one number of channels, got {sorted(sizes)}; "
                "give every element a map of all channels"
            )
        if unknown := [name for name, _ in self.elements if name not in grid.names]:
            raise ValueError(
                f"ChannelAction: no move of space {unknown[0]!r}; choose from {list(grid.names)}"
            )
        (self.channels,) = sizes
        self.names = tuple(called(*e) for e in self.elements) if names is None else tuple(names)
        self._places = [grid.names.index(name) for name, _ in self.elements]
        first = self.elements[0]
        if first != ("id", ChannelMap.identity(self.channels)) or self.names[0] != "id":
            raise ValueError(
                f"ChannelAction: the identity must come first and be called 'id', got "
                f"{self.names[0]!r}; put it first"
            )
        if len(set(self.names)) < len(self.elements) or len(self._index_of) < len(self.elements):
            raise ValueError(
                f"ChannelAction: elements and their names must differ, got {list(self.names)}; "
                "give each once"
            )

    @property
    def has_kernel_map(self) -> bool:
        return self._moves.has_kernel_map

    def acts_on(self, shape: Shape) -> bool:
        return self._moves.acts_on(shape)

    def permutation(self, shape: Shape) -> Int[Tensor, "G P"]:
        """What each element does to positions, as :meth:`GroupAction.permutation`."""
        used = self._moves
        rows = used.permutation(shape)
        return rows[[used.names.index(name) for name, _ in self.elements]]

    def entries(
        self, channels: int, shape: Shape
    ) -> tuple[Int[Tensor, "G E"], Float[Tensor, "G E"]]:
        """What each element does to all E = C * P numbers of a signal, as sources and signs.

        Raises:
            ValueError: for another number of channels, and as :meth:`GroupAction.permutation`.
        """
        if channels != self.channels:
            raise ValueError(
                f"ChannelAction: its elements move {self.channels} channels, got {channels}; give "
                "signals of as many, or elements of these"
            )
        space = self.permutation(shape)
        sources = torch.tensor([m.sources for _, m in self.elements])
        signs = torch.tensor([m.signs for _, m in self.elements]).float()
        P = space.shape[1]
        flat = (sources[..., None] * P + space[:, None]).flatten(1)
        return flat, signs.repeat_interleave(P, 1)

    def apply(self, x: Tensor, g: int) -> Tensor:
        """`g x` over the channels and the `dims` axes of space behind them; any axes may lead.

        Raises:
            ValueError: where element g does not map these axes to themselves, or x has another
                number of channels.
        """
        if x.ndim <= self.dims or x.shape[-1 - self.dims] != self.channels:
            raise ValueError(
                f"ChannelAction.apply: expected [..., {self.channels} channels, and {self.dims} "
                f"axes of space], got shape {tuple(x.shape)}"
            )
        name, map = self.elements[g]
        moved = self.grid.apply(x, self.grid.names.index(name)).movedim(-1 - self.dims, 0)
        signs = torch.tensor(map.signs, device=x.device).to(x.dtype)
        moved = moved[list(map.sources)] * signs.reshape(-1, *[1] * (x.ndim - 1))
        return moved.movedim(0, -1 - self.dims)

    def lift(self, kernel: Shape) -> Float[Tensor, "G D D"]:
        """The action on a kernel of all channels: `kron(M[g], B[g])`, with D = C * P, P fast.

        M is the matrix of the map of channels, B the action on kernel positions; entries are 0, 1
        and -1.

        Raises:
            ValueError: as :meth:`GroupAction.lift`.
        """
        maps = [m.matrix().to(torch.get_default_dtype()) for _, m in self.elements]
        return torch.stack(
            [torch.kron(a, b) for a, b in zip(maps, self._in_space(kernel), strict=True)]
        )

    def regular(self, kernel: Shape) -> Float[Tensor, "G D D"]:
        """The action on a group layer's kernel: `kron(A[g], B[g])`, as channels end when lifted."""
        return torch.stack(
            [torch.kron(a, b) for a, b in zip(self.cayley, self._in_space(kernel), strict=True)]
        )

    def subset(self, names: Iterable[str]) -> "ChannelAction":
        indices = self._named(names)
        return ChannelAction(
            self.grid, [self.elements[g] for g in indices], [self.names[g] for g in indices]
        )

    @cached_property
    def _moves(self) -> GroupAction:
        """The moves of space that are used; others of the grid may not fit."""
        return self.grid.subset([name for name, _ in self.elements])

    def _in_space(self, kernel: Shape) -> Float[Tensor, "G P P"]:
        used = self._moves
        return used.lift(kernel)[[used.names.index(name) for name, _ in self.elements]]

    @cached_property
    def _index_of(self) -> dict[tuple[int, ChannelMap], int]:
        maps = [channels for _, channels in self.elements]
        return {pair: g for g, pair in enumerate(zip(self._places, maps, strict=True))}

    def _products(self) -> list[list[int]]:
        table, pairs = self.grid.table.tolist(), list(self._index_of)
        return [
            [self._index_of.get((table[p][q], n.then(m)), -1) for q, n in pairs] for p, m in pairs
        ]


def called(move: str, channels: ChannelMap, names: Sequence[str] = ()) -> str:
    """The name of an element, from that of its move of space and, where given, those of channels.

    >>> called("reverse", ChannelMap((1, 0), (1, 1))), called("id", ChannelMap((0, 1), (-1, 1)))
    ('reverse*(0 1)', 'negate0')
    """
    word = channels.word(names)
    return move if not word else word if move == "id" else f"{move}*{word}"
