"""One panel per family of moves with a size: curves against size, and the sizes that are safe."""

from __future__ import annotations

from dataclasses import dataclass

from symshare.advice import FAMILIES, at_least, augmentation, interval, libraries_of, network, sized
from symshare.records import ExaminedSize, Range, Reach, VerdictRecord
from symshare.report import charts
from symshare.report.candidates import Mark


@dataclass(frozen=True)
class Dot:
    """One size: where it stands, what it stands for, and its mark on the axis of the test."""

    x: float
    label: str
    mark: Mark
    status: str


@dataclass(frozen=True)
class Panel:
    """One family; `band` and `line` hold "x,y x,y ..." with y counted downwards [percent].

    `left` and `right` are the ends of the safe sizes on the axis of sizes; None where none is safe.
    """

    entry: Range
    title: str
    safe: str
    looser: str
    same: str
    x: charts.Axis
    loss: charts.Scale
    band: str
    line: str
    losses: tuple[Dot, ...]
    changes: tuple[Dot, ...]
    left: float | None
    right: float | None


def panels(verdict: VerdictRecord) -> list[Panel]:
    """All families that were examined, on a common axis of losses."""
    ranges = verdict.ranges
    if ranges is None or not ranges.families:
        return []
    drawn = [n for r in ranges.families for s in r.sizes for n in (s.excess_loss, *s.interval)]
    loss = charts.loss_scale(drawn, ranges.delta, ranges.delta_approximate)
    change = charts.change_scale(
        [], verdict.change, verdict.change_approximate, verdict.things.many
    )
    return [_panel(entry, loss, change) for entry in ranges.families]


def _panel(entry: Range, loss: charts.Scale, change: charts.Scale) -> Panel:
    values = [s.size for s in entry.sizes]
    low, high = min(values, default=0.0), max(values, default=1.0)
    x = charts.size_axis(min(low, 0.0), max(high, 0.0), lambda size: sized(entry, size))

    def loss_mark(s: ExaminedSize) -> Mark:
        return Mark(*(round(100 - loss.axis.at(n), 2) for n in (s.excess_loss, *s.interval)))

    def change_mark(s: ExaminedSize) -> Mark | None:
        if s.change is None or s.change_interval is None:
            return None
        return Mark(*(round(100 - change.axis.at(n), 2) for n in (s.change, *s.change_interval)))

    zero = round(100 - loss.axis.at(0.0), 2)
    curve = [(x.at(s.size), loss_mark(s)) for s in entry.sizes]
    # Size zero moves nothing, and costs nothing.
    curve = sorted([*curve, (x.at(0.0), Mark(zero, zero, zero))], key=lambda point: point[0])
    upper = [f"{at:g},{mark.high:g}" for at, mark in curve]
    lower = [f"{at:g},{mark.low:g}" for at, mark in reversed(curve)]
    some = entry.safe.low < entry.safe.high
    return Panel(
        entry=entry,
        title=FAMILIES[entry.family],
        safe=_reach(entry, entry.safe),
        looser=_reach(entry, entry.safe_approximate),
        same=_reach(entry, entry.unnoticed),
        x=x,
        loss=loss,
        band=" ".join(upper + lower),
        line=" ".join(f"{at:g},{mark.at:g}" for at, mark in curve),
        losses=tuple(
            Dot(x.at(s.size), sized(entry, s.size), loss_mark(s), _status(s)) for s in entry.sizes
        ),
        changes=tuple(
            Dot(x.at(s.size), sized(entry, s.size), mark, "changed")
            for s in entry.sizes
            if (mark := change_mark(s)) is not None
        ),
        left=x.at(entry.safe.low) if some else None,
        right=x.at(entry.safe.high) if some else None,
    )


def _reach(entry: Range, reach: Reach) -> str:
    if reach.low == reach.high:
        return "shown of no size"
    return interval(entry, reach.low, reach.high) + at_least(entry, reach)


def _status(s: ExaminedSize) -> str:
    if s.safe:
        return "symmetric"
    if s.safe_approximate:
        return "approximate"
    return "broken" if s.broken else "undecided"


def snippets(verdict: VerdictRecord) -> list[tuple[str, str]]:
    """What can be pasted, each with its title: the network, and augmentation by each library."""
    if not verdict.advice:
        return []
    made = [("symshare: built in", network(verdict))]
    made += [(name, augmentation(verdict, name)) for name in libraries_of(verdict)]
    return [(title, code) for title, code in made if code]
