"""Which moves of the pixels are symmetries of data, as far as that follows from how they are made.

A move is written as everywhere in symshare: source indices over the pixels, `(g f)[p] = f[g[p]]`.
One that moves channels is written over all numbers of a sample, channels slow, and a number that
changes its sign on the way by the complement `~s` of its source.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

import numpy as np

from symshare.groups import CAP

Permutation = tuple[int, ...]
LabelMap = tuple[int, ...]

LAWS: dict[str, tuple[str, ...]] = {
    "none": ("id",),
    "flip": ("id", "flipW"),
    "flips": ("id", "flipW", "flipH", "rot180"),
    "half": ("id", "rot180"),
    "quarter": ("id", "rot90", "rot180", "rot270"),
    "d4": ("id", "rot90", "rot180", "rot270", "flipW", "flipH", "transpose", "antitranspose"),
}
"""The group that each random transformation of `symshare.data.transform` draws from uniformly."""


@dataclass(frozen=True)
class Truth:
    """The symmetries of labelled images.

    Attributes:
        true: all symmetries, the identity among them.
        open: moves of which nothing is known, such as a mirror for photographs; all others are
            no symmetries.
        group: name of the group of the true ones, None where there is but the identity.
        exchanges: moves that are symmetries together with a map of the classes, and that map: the
            class that the move makes of each.
        exchange_group: name of the group of the true ones and these.
    """

    true: frozenset[Permutation]
    open: frozenset[Permutation] = field(default=frozenset())
    group: str | None = None
    exchanges: frozenset[tuple[Permutation, LabelMap]] = field(default=frozenset())
    exchange_group: str | None = None

    @property
    def moves(self) -> frozenset[Permutation]:
        """The true moves without the identity, in which all pixels stay."""
        return frozenset(g for g in self.true if list(g) != sorted(g))

    def group_for(self, exchanging: bool) -> str | None:
        """What a method should name that may move labels, or that takes them as fixed."""
        return self.exchange_group if exchanging and self.exchanges else self.group

    def of_numbers(self, numbers: int) -> "Truth":
        """The same with moves of so many numbers."""

        def every(moves: Iterable[Permutation]) -> frozenset[Permutation]:
            return frozenset(of_numbers(move, numbers) for move in moves)

        return replace(
            self,
            true=every(self.true),
            open=every(self.open),
            exchanges=frozenset((of_numbers(g, numbers), m) for g, m in self.exchanges),
        )

    @property
    def large(self) -> bool:
        """Whether there are more than are judged, so that an answer has to say "contains"."""
        return len(self.true) > CAP


def lattice(shape: tuple[int, int]) -> dict[str, Permutation]:
    """The moves of a rectangle, or of a square, by their names in `symshare.groups`.

    >>> lattice((1, 2))["flipW"]
    (1, 0)
    """
    grid = np.arange(shape[0] * shape[1]).reshape(shape)
    moved = {"id": grid, "rot180": np.rot90(grid, 2), "flipW": grid[:, ::-1], "flipH": grid[::-1]}
    if shape[0] == shape[1]:
        moved |= {"rot90": np.rot90(grid), "rot270": np.rot90(grid, 3)}
        moved |= {"transpose": grid.T, "antitranspose": np.rot90(grid, 2).T}
    return {name: tuple(image.ravel().tolist()) for name, image in moved.items()}


def product(g: Permutation, h: Permutation) -> Permutation:
    """The move that does h first and then g.

    >>> square = lattice((3, 3))
    >>> product(square["flipW"], square["flipH"]) == square["rot180"]
    True
    """
    return tuple(h[source] for source in g)


def lattice_truth(
    shape: tuple[int, int],
    law: str,
    own: Iterable[str] = (),
    maybe: Iterable[str] = (),
    exchanges: Mapping[str, LabelMap] = MappingProxyType({}),
) -> Truth:
    """The symmetries of images that were moved by a uniform element of a group of the lattice.

    The images before are mu, those after the mixture of g mu over the group G. Poses g mu and h mu
    are the same law where h = g s for a symmetry s of mu, and as laws of images with different
    content no others are. So h is a symmetry where h G S has each coset of S as often as G S; with
    what mu may or may not have in the place of S, that says which moves are open.

    Where a move e of the images before makes class pi(k) of each class k, h is a symmetry with the
    map pi if h G S has each coset of S as often as G e S.

    Args:
        shape: of the images.
        law: a name in `LAWS`.
        own: the symmetries of mu, without the identity; they have to make a group.
        maybe: further moves that mu may have; with its own they have to make a group.
        exchanges: moves that mu has together with a map of the classes, and that map.

    >>> lattice_truth((8, 8), "quarter", own=["flipH"]).group
    'D4'
    >>> len(lattice_truth((8, 8), "none", maybe=["flipW"]).open)
    1
    >>> truth = lattice_truth((8, 8), "half", exchanges={"flipW": (1, 0)})
    >>> len(truth.exchanges), truth.group, truth.exchange_group
    (2, 'C2', 'C2xC2')
    """
    moves = lattice(shape)
    group = [moves[name] for name in LAWS[law]]

    def keeping(symmetries: set[str], exchange: str = "id") -> set[str]:
        known = [moves[name] for name in symmetries]

        def poses(before: Permutation, inside: Permutation) -> Counter[frozenset[Permutation]]:
            moved = [product(product(before, g), inside) for g in group]
            return Counter(frozenset(product(pose, s) for s in known) for pose in moved)

        wanted = poses(moves["id"], moves[exchange])
        return {name for name, move in moves.items() if poses(move, moves["id"]) == wanted}

    true = keeping({"id", *own})
    possible = keeping({"id", *own, *maybe}) | true
    exchanging = {
        (name, label_map)
        for exchange, label_map in exchanges.items()
        for name in keeping({"id", *own}, exchange)
    }
    return Truth(
        frozenset(moves[name] for name in true),
        frozenset(moves[name] for name in possible - true),
        _name(true),
        frozenset((moves[name], label_map) for name, label_map in exchanging),
        _name(true | {name for name, _ in exchanging}),
    )


def _name(members: set[str]) -> str | None:
    """What the group of these moves of a square is called."""
    if len(members) == 4:
        return "C4" if "rot90" in members else "C2xC2"
    return {1: None, 2: "C2", 8: "D4"}[len(members)]


def scrambled(truth: Truth, order: Permutation) -> Truth:
    """The truth of images whose pixels were put into another order: `new[p] = old[order[p]]`.

    >>> scrambled(Truth(frozenset([(0, 1, 2), (1, 0, 2)])), (2, 0, 1)).moves
    frozenset({(0, 2, 1)})
    """
    back = {old: new for new, old in enumerate(order)}

    def moved(moves: Iterable[Permutation]) -> frozenset[Permutation]:
        return frozenset(tuple(back[g[old]] for old in order) for g in moves)

    return Truth(moved(truth.true), moved(truth.open), truth.group)


def signed(sources: Iterable[int], signs: Iterable[float]) -> Permutation:
    """A move of numbers, of which some change sign.

    >>> signed([1, 0, 2], [1.0, 1.0, -1.0])
    (1, 0, -3)
    """
    return tuple(int(s) if sign > 0 else ~int(s) for s, sign in zip(sources, signs, strict=True))


def of_numbers(move: Permutation, numbers: int) -> Permutation:
    """A move as one of so many numbers, where it is one of positions, alike for all channels.

    >>> of_numbers((1, 0), 4)
    (1, 0, 3, 2)
    """
    positions = len(move)
    return tuple(start + s for start in range(0, numbers, positions) for s in move)


def same_on(images: np.ndarray, g: Permutation, h: Permutation) -> bool:
    """Whether two moves make the same of every image, as they do where they differ on dead pixels.

    Args:
        images: [N, ...].
        g: a move of all numbers of an image.
        h: another.
    """
    where = np.flatnonzero(np.asarray(g) != np.asarray(h))
    one, other = np.asarray(g)[where], np.asarray(h)[where]
    flat = images.reshape(len(images), -1)

    def moved(x: np.ndarray, sources: np.ndarray) -> np.ndarray:
        return np.where(sources >= 0, x[:, sources], -x[:, ~sources])

    # Most moves differ on the first images; only those that do not are compared on all.
    return all(np.array_equal(moved(x, one), moved(x, other)) for x in (flat[:9], flat))


def verify(truth: Truth, named: Mapping[str, Permutation], images: np.ndarray) -> dict[str, str]:
    """Say of each named move whether it is "true", "open" or "false" on these images."""
    said = {}
    for name, move in named.items():
        if any(move == g or same_on(images, move, g) for g in truth.true):
            said[name] = "true"
        elif any(move == g or same_on(images, move, g) for g in truth.open):
            said[name] = "open"
        else:
            said[name] = "false"
    return said
