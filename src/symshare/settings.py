"""What a network is, as a plain dataclass: importing it does not import torch."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Literal

__all__ = ["READERS", "Kind", "NetworkConfig"]

Kind = Literal["cnn", "gcnn", "sinkhorn", "sinkhorn-near", "gated", "birkhoff", "kronecker"]

READERS = {
    "group": ("gcnn", "gated", "birkhoff", "kronecker", "sinkhorn-near"),
    "elements": ("sinkhorn", "birkhoff"),
    "init": ("sinkhorn", "birkhoff", "gated"),
    "anchor": ("sinkhorn", "birkhoff"),
    "iterations": ("sinkhorn",),
    "within": ("sinkhorn",),
    "label_map": ("gcnn",),
    "channels": ("gcnn", "gated"),
    "signs": ("gcnn", "gated"),
    "target_map": ("gcnn",),
}
"""Kinds that read an option; all read the others."""


@dataclass(frozen=True)
class NetworkConfig:
    """Which network.

    Attributes:
        architecture: "mnist" (the paper's: 5 blocks, kernel 5), "small" (3 blocks, kernel 3), or
            "auto": the first from 21 pixels a side, the second below.
        kind: what its representations are. "cnn": no sharing; "gcnn": a fixed set of elements;
            "gated": a learned measure on a dictionary; "birkhoff": convex combinations over one;
            "kronecker": one learned symmetry for all layers; "sinkhorn": free learned stacks, the
            paper's network; "sinkhorn-near": the same from near known elements.
        group: elements of "gcnn", dictionary of "gated" and "birkhoff", start of "kronecker" and
            "sinkhorn-near": C1, C2, C4, C8, D2, D4, flipW, or the names of moves of a kernel beside
            the identity, such as (rot90, rot180, rot270), (reverse) or (x90, x180, x270).
        elements: elements of layers that have no dictionary, slots of "birkhoff".
        width: channels of the plain CNN; every other network gets the width at which it has
            nearest to as many free parameters, those of its representations left out.
        norm: "layer", "instance", or "auto", that of the architecture.
        init: how learned stacks start, "sharp", "paper", "identity", or, of "sinkhorn", "moments":
            at the permutations that leave the law of what each layer sees unchanged. Then
            `elements` is the most that there may be; the network gets as many as were found. Of
            "gated" "moments" opens the gates of the elements that do so and closes the others;
            by default all start half open.
        iterations: sweeps of the projection of free stacks, unrolled as in the paper (20 there);
            null projects to convergence, with the exact gradient.
        anchor: hold the first element at the identity.
        within: of init moments, the moves of a kernel that may be chosen, such as
            (rot90, rot180, rot270); empty for whatever is found.
        label_map: of a "gcnn" whose elements move the classes, the class that each element of its
            group but the identity makes of each class, such as ((1, 0, 2),) for a flip that
            exchanges the first two of three; empty where labels stay.
        channels: of elements that move channels too, the channel that each channel takes its values
            from, for each name of the group: with group (reverse, id) and channels ((1, 0), (1, 0))
            both elements exchange two channels, and the first reverses time. Names may repeat, and
            "id" moves channels alone; empty where channels stay.
        signs: with them 1, or -1 where the values change sign; empty where no sign changes.
        target_map: the same of labels that are d numbers y: for each element but the identity
            the d rows of [A | b], y becoming A y + b, such as (((-1, 0),),) for a flip that turns
            the sign of one number; empty where they stay.
    """

    architecture: Literal["auto", "mnist", "small"] = "auto"
    kind: Kind = "cnn"
    group: str | tuple[str, ...] = "C4"
    elements: int = 4
    width: int = 64
    norm: Literal["auto", "layer", "instance"] = "auto"
    init: Literal["sharp", "paper", "identity", "moments"] = "sharp"
    iterations: int | None = None
    anchor: bool = True
    within: tuple[str, ...] = ()
    label_map: tuple[tuple[int, ...], ...] = ()
    channels: tuple[tuple[int, ...], ...] = ()
    signs: tuple[tuple[int, ...], ...] = ()
    target_map: tuple[tuple[tuple[float, ...], ...], ...] = ()
    readers: ClassVar[Mapping[str, tuple[str, ...]]] = READERS
    free_kinds: ClassVar[tuple[str, ...]] = ("sinkhorn",)

    def __post_init__(self) -> None:
        """Refuse a network without channels or elements, and options that nothing reads."""
        for name in ("width", "elements", "iterations"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"network: {name} must be at least 1, got {value}")
        free = self.free_kinds
        if self.init == "identity" and self.kind not in free:
            raise ValueError(
                f"network: {self.kind} cannot start at the identity, only {', '.join(free)}"
            )
        if self.init == "moments" and self.kind not in ("sinkhorn", "gated"):
            raise ValueError(
                f"network: only sinkhorn and gated start from moments, got {self.kind}"
            )
        if self.init == "paper" and self.kind == "gated":
            raise ValueError("network: the paper has no gates; use init sharp or moments")
        if self.signs and len(self.signs) != len(self.channels):
            raise ValueError(
                f"network: signs go with channels, a row for each, got {len(self.signs)} rows of "
                f"signs and {len(self.channels)} of channels"
            )
        if self.within and self.init != "moments":
            raise ValueError(
                f"network: within is of init moments, and means nothing for init {self.init}; "
                "leave it out"
            )
        for option in fields(self):
            readers = self.readers.get(option.name, (self.kind, self.architecture))
            unread = {self.kind, self.architecture}.isdisjoint(readers)
            if unread and getattr(self, option.name) != option.default:
                raise ValueError(
                    f"network: {option.name} is of {', '.join(readers)}, and means nothing for "
                    f"kind {self.kind} of architecture {self.architecture}; leave it at "
                    f"{option.default}"
                )

    def to_dict(self) -> dict[str, Any]:
        """Plain values, as they are read back from YAML."""
        values = {option.name: getattr(self, option.name) for option in fields(self)}
        # Folders of version 0.1 know none of these.
        for name in ("label_map", "channels", "signs"):
            values[name] = [list(row) for row in values[name]]
        values["target_map"] = [[list(row) for row in rows] for rows in self.target_map]
        for name in ("label_map", "channels", "signs", "target_map"):
            if not values[name]:
                del values[name]
        return {name: list(v) if isinstance(v, tuple) else v for name, v in values.items()}
