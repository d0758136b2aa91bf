"""Candidate transformations, and how they are written down."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from symshare.groups import (
    ChannelAction,
    ChannelMap,
    GroupAction,
    LatticeMap,
    from_permutations,
)

Permutation = tuple[int, ...]


@dataclass(frozen=True)
class Candidate:
    """One transformation of the image grid, or of channels with it, that may be a symmetry.

    Attributes:
        name: as in `symshare.groups`; `perm1`, `perm2`, ... for those that are no lattice map or
            move many channels.
        permutation: source indices, `(g f)[p] = f[permutation[p]]` for f flattened over space.
        source: "lattice" (exact for the shape), "statistics" (found by backtracking), "moments"
            (learned from the same second moments) or "user".
        map: the lattice map, whose linear part acts on kernels; None if there is none.
        residual: distance from an automorphism of the second moments in units of the tolerance
            (see `symshare.propose.residual`); None where the search grid cannot express it.
        channels: what it does to the channels; None where they stay.
    """

    name: str
    permutation: Permutation
    source: str
    map: LatticeMap | None
    residual: float | None
    channels: ChannelMap | None = None

    @property
    def has_kernel_map(self) -> bool:
        """Whether the transformation acts on kernels of every size."""
        return self.map is not None

    def to_json(self) -> dict[str, Any]:
        """Plain lists and numbers."""
        return {
            "name": self.name,
            "permutation": list(self.permutation),
            "source": self.source,
            "matrix": None if self.map is None else [list(row) for row in self.map.matrix],
            "shift": None if self.map is None else list(self.map.shift),
            "residual": self.residual,
            "channels": None if self.channels is None else list(self.channels.sources),
            "signs": None if self.channels is None else list(self.channels.signs),
        }


@dataclass(frozen=True)
class Candidates:
    """Candidates over one image grid, identity first.

    Attributes:
        shape: the grid, the length of each axis of space.
        elements: the candidates; `elements[0]` is the identity.
        grid: the grid, at most 100 positions, that statistics were searched on.
        capped: True if the search over statistics met a cap: positions are too alike to tell
            apart for so few images, and there may be more automorphisms.
        dropped: finds of the search that were not kept: those whose products with the others are
            no automorphisms, and those that are no lattice map where images were pooled or where
            most such finds contradict one another.
    """

    shape: tuple[int, ...]
    elements: tuple[Candidate, ...]
    grid: tuple[int, ...]
    capped: bool
    dropped: int

    def __len__(self) -> int:
        return len(self.elements)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all candidates, identity first."""
        return tuple(element.name for element in self.elements)

    @property
    def residuals(self) -> tuple[float | None, ...]:
        """Distances of all candidates but the identity from automorphisms of the moments."""
        return tuple(element.residual for element in self.elements[1:])

    def action(self, names: Iterable[str] | None = None) -> GroupAction | ChannelAction:
        """The named candidates (all by default) as an action; the identity always belongs.

        Its `table`, `is_group` and `name` tell how they multiply as maps of the image grid, and,
        where one of them moves channels, of these.

        Raises:
            ValueError: for a name that is no candidate.
        """
        wanted = set(self.names if names is None else names) | {"id"}
        if unknown := sorted(wanted.difference(self.names)):
            raise ValueError(
                f"Candidates.action: no candidate {unknown}; choose from {list(self.names)}"
            )
        chosen = [e for e in self.elements if e.name in wanted]
        # The first of each name the moves of space; those that only occur with channels come last.
        moves: dict[Permutation, str] = {}
        for e in sorted(chosen, key=lambda e: e.channels is not None):
            moves.setdefault(e.permutation, "id" if not moves else e.name)
        grid = from_permutations(list(moves), self.shape, list(moves.values()))
        of = next((e.channels for e in chosen if e.channels), None)
        if of is None:
            return grid
        still = ChannelMap.identity(len(of.sources))
        pairs = [(moves[e.permutation], e.channels or still) for e in chosen]
        return ChannelAction(grid, pairs, [e.name for e in chosen])

    def to_json(self) -> dict[str, Any]:
        """Content of candidates.json: plain lists, numbers and strings."""
        return {
            "shape": list(self.shape),
            "grid": list(self.grid),
            "capped": self.capped,
            "dropped": self.dropped,
            "elements": [element.to_json() for element in self.elements],
        }

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> "Candidates":
        """The inverse of `to_json`.

        Raises:
            ValueError: where an entry is missing.
        """
        try:
            return cls(
                shape=tuple(content["shape"]),
                elements=tuple(_candidate_from_json(entry) for entry in content["elements"]),
                grid=tuple(content["grid"]),
                capped=content["capped"],
                dropped=content["dropped"],
            )
        except KeyError as error:
            raise ValueError(
                f"Candidates.from_json: no entry {error}; was this written by Candidates.to_json?"
            ) from error


def _candidate_from_json(entry: Mapping[str, Any]) -> Candidate:
    map = None
    if entry["matrix"] is not None:
        map = LatticeMap(tuple(tuple(row) for row in entry["matrix"]), tuple(entry["shift"]))
    # Folders of version 0.1 know no channels.
    channels = entry.get("channels")
    return Candidate(
        entry["name"],
        tuple(entry["permutation"]),
        entry["source"],
        map,
        entry["residual"],
        None if channels is None else ChannelMap(tuple(channels), tuple(entry["signs"])),
    )
