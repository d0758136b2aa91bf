"""What a discovery is, as plain dataclasses: importing them does not import torch."""

import shlex
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from symshare.names import RANGES, Storage, check_transform

BudgetName = Literal["quick", "standard", "thorough"]


@dataclass(frozen=True)
class Budget:
    """How much work a discovery may do.

    Attributes:
        judge_images: most images for the held-out test.
        judge_steps: optimiser steps of each of its networks.
        fit_steps: optimiser steps of each network that is compared; twice as many for images
            from 21 pixels a side.
        fit_seeds: number of runs of each.
    """

    judge_images: int
    judge_steps: int
    fit_steps: int
    fit_seeds: int


BUDGETS: dict[BudgetName, Budget] = {
    "quick": Budget(8_000, 500, 200, 1),
    "standard": Budget(8_000, 1_000, 500, 3),
    "thorough": Budget(30_000, 2_000, 2_000, 5),
}


@dataclass(frozen=True)
class DiscoveryConfig:
    """Everything, beside the images themselves, that decides what a discovery computes.

    Attributes:
        source: of the images, or "arrays".
        transform: random transformation put on every image.
        budget: quick, standard or thorough.
        seed: of everything random but the test part.
        periodic: axes along which images wrap around: "L" of signals, "H" and "W" of images, "D"
            too of volumes.
        channels: names of the channels; those that differ in left and right are exchanged.
        groups: name of the array or column that says which images depend on one another; by default
            `groups` or `group`, where there is one.
        data: where the source lies.
        ranges: families of moves with a size that are examined, or "all"; none where empty.
    """

    source: str
    transform: str = "none"
    budget: BudgetName = "standard"
    seed: int = 0
    periodic: tuple[str, ...] = ()
    groups: str | None = None
    channels: tuple[str, ...] = ()
    data: Storage = field(default_factory=Storage)
    ranges: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Refuse what would fail only later."""
        check_transform(self.transform)
        if self.budget not in BUDGETS:
            raise ValueError(f"budget must be one of {', '.join(BUDGETS)}, got {self.budget!r}")
        # Networks are compared with this seed and those after it.
        last = 2**32 - BUDGETS[self.budget].fit_seeds
        if not 0 <= self.seed <= last:
            raise ValueError(
                f"seed must be between 0 and {last}, got {self.seed}; leave it out for 0"
            )
        known = {name for names in RANGES.values() for name in names}
        if unknown := [n for n in self.ranges if n not in known and self.ranges != ("all",)]:
            raise ValueError(
                f"ranges: expected all, or some of {', '.join(sorted(known))}, got {unknown[0]!r}"
            )
        if not set(self.periodic) <= set("LDHW"):
            raise ValueError(f'periodic axes are "L", "D", "H" and "W", got {self.periodic}')

    def to_dict(self) -> dict[str, Any]:
        """Plain values, as `symshare discover --config` reads them back."""
        values = {**asdict(self), "periodic": list(self.periodic), "data": self.data.to_dict()}
        # Folders of version 0.1 know neither groups nor ranges.
        if self.groups is None:
            del values["groups"]
        # Nor names of channels.
        for name in ("channels", "ranges"):
            values[name] = list(values[name])
            if not values[name]:
                del values[name]
        return values

    def command(self, handed: Sequence[str] = ()) -> str:
        """The command line, or the call, that does it again.

        Args:
            handed: names of arguments of the call, beside images and labels, that are no settings.

        >>> DiscoveryConfig("digits", "rotate:90", seed=3).command()
        'symshare discover digits --transform rotate:90 --seed 3'
        >>> DiscoveryConfig("arrays").command(["candidates"])
        'symshare.discover(images, labels, candidates=candidates)'
        """
        options = ("transform", "budget", "seed", "groups")
        default = DiscoveryConfig("arrays")
        given = {n: v for n in options if (v := getattr(self, n)) != getattr(default, n)}
        stored = {n: v for n, v in self.data.to_dict().items() if v is not None}
        if self.source == "arrays":
            given |= stored
            for name in ("periodic", "channels", "ranges"):
                given |= {name: values} if (values := getattr(self, name)) else {}
            words = [
                *(f"{name}={name}" for name in handed),
                *(f"{n}={v!r}" for n, v in given.items()),
            ]
            return f"symshare.discover({', '.join(['images', 'labels', *words])})"
        given |= {f"data.{name}": value for name, value in stored.items()}
        lists = ("periodic", "channels", "ranges")
        given |= {n: list(v) for n in lists if (v := getattr(self, n))}
        written = {n: f"[{','.join(v)}]" if isinstance(v, list) else v for n, v in given.items()}
        words = [f"--{name} {shlex.quote(str(value))}" for name, value in written.items()]
        return " ".join(["symshare discover", shlex.quote(self.source), *words])
