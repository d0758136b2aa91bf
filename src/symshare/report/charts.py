"""Where marks stand in a chart, in percent of its width or height.

Percentages, because the page decides how wide a chart is: text keeps its size on a phone.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass

from symshare.records import NetworkName
from symshare.report.folder import Run

__all__ = ["Axis", "Curve", "Curves", "accuracy_axis", "curves", "loss_axis"]

MARGIN = 3.0
POINTS = 240


@dataclass(frozen=True)
class Axis:
    """An axis from `low` to `high`; with `bend` it is linear near zero, logarithmic beyond.

    at(x) ~ asinh(x / bend), or x itself where bend is None.

    >>> Axis(0.0, 10.0).at(5.0)
    50.0
    >>> axis = Axis(-0.1, 10.0, bend=0.1)
    >>> axis.at(0.0) < axis.at(0.1) < axis.at(1.0) < axis.at(10.0)
    True
    """

    low: float
    high: float
    bend: float | None = None
    ticks: tuple[tuple[float, str], ...] = ()

    def at(self, value: float) -> float:
        """Position of `value` in percent, kept inside the chart."""
        low, high, here = self._bent(self.low), self._bent(self.high), self._bent(value)
        share = (here - low) / ((high - low) or 1.0)
        return round(MARGIN + (100 - 2 * MARGIN) * min(max(share, 0.0), 1.0), 2)

    def _bent(self, value: float) -> float:
        return value if self.bend is None else math.asinh(value / self.bend)


def _with_ticks(axis: Axis, candidates: Iterable[tuple[float, str]], apart: float) -> Axis:
    """Give `axis` the candidate ticks in order, leaving out those too near to an earlier one."""
    ticks: list[tuple[float, str]] = []
    for value, label in candidates:
        here = axis.at(value)
        inside = axis.low <= value <= axis.high
        if inside and all(abs(here - other) >= apart for other, _ in ticks):
            ticks.append((here, label))
    return Axis(axis.low, axis.high, axis.bend, tuple(sorted(ticks)))


def loss_axis(values: Iterable[float], delta: float) -> Axis:
    """The common axis of all excess losses, bent at delta.

    Args:
        values: every number that will be drawn [nats].
        delta: the threshold between symmetric and broken [nats].

    >>> [label for _, label in loss_axis([-0.01, 3.0], 0.05).ticks]
    ['0', '0.1', '0.3', '1', '3']
    """
    drawn = list(values)
    # Where the network knows next to nothing delta is next to nothing, or even below zero.
    bend = max(delta, 0.005)
    low = min([-bend, *drawn])
    high = max([4 * bend, *drawn])
    candidates = [(0.0, "0")]
    for exponent in (2, 1, 0, -1, -2):
        candidates += [(sign * 10.0**exponent, _tick(sign * 10.0**exponent)) for sign in (1, -1)]
    for exponent in (1, 0, -1, -2):
        candidates.append((3 * 10.0**exponent, _tick(3 * 10.0**exponent)))
    return _with_ticks(Axis(low, high, bend), candidates, apart=11.0)


def _tick(value: float) -> str:
    return f"{value:g}".replace("-", "\N{MINUS SIGN}")


def accuracy_axis(values: Iterable[float]) -> Axis:
    """A linear axis of accuracies, drawn in percent, around the given fractions."""
    drawn = list(values)
    low, high = min(drawn), max(drawn)
    room = max(0.15 * (high - low), 0.005)
    low, high = max(0.0, low - room), min(1.0, high + room)
    step = next(
        s for s in (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.25) if (high - low) / s <= 5
    )
    first = math.ceil(low / step - 1e-9)
    marks = [first * step + i * step for i in range(6)]
    return _with_ticks(Axis(low, high), [(m, f"{100 * m:.4g}") for m in marks], apart=8.0)


@dataclass(frozen=True)
class Curve:
    """One run's validation accuracy: `path` holds "x,y x,y ..." with y counted downwards."""

    model: NetworkName
    seed: int
    path: str
    last: float


@dataclass(frozen=True)
class Curves:
    """All runs on common axes; `horizontal` says what x counts."""

    lines: tuple[Curve, ...]
    x: Axis
    y: Axis
    horizontal: str


def curves(runs: Iterable[Run]) -> Curves | None:
    """Validation accuracy of every run against its step (its epoch where steps are missing).

    Returns:
        None if no run has written a validation accuracy.
    """
    runs = tuple(runs)
    column = "step" if any(_points(run, "step") for run in runs) else "epoch"
    series = [(run, points) for run in runs if (points := _points(run, column))]
    if not series:
        return None
    end = max(x for _, points in series for x, _ in points)
    y = accuracy_axis([value for _, points in series for _, value in points])
    x = Axis(0.0, end or 1.0)
    step = 10 ** math.floor(math.log10(end)) if end >= 1 else 1
    step = next((step * f for f in (0.2, 0.5, 1, 2) if end / (step * f) <= 5), 2 * step)
    step = max(step, 1)
    marks = [(float(i * step), f"{i * step:g}") for i in range(int(end / step) + 1)]
    x = _with_ticks(x, marks, apart=8.0)
    lines = []
    for run, points in series:
        stride = -(-len(points) // POINTS)
        kept = points[::-1][::stride][::-1]
        path = " ".join(f"{x.at(a):g},{round(100 - y.at(b), 2):g}" for a, b in kept)
        lines.append(Curve(run.model, run.seed, path, points[-1][1]))
    return Curves(tuple(lines), x, y, column)


def _points(run: Run, column: str) -> list[tuple[float, float]]:
    points = []
    for row in run.metrics:
        x, y = row.get(column), row.get("val_accuracy")
        if x and y and math.isfinite(float(y)):
            points.append((float(x), float(y)))
    return points
