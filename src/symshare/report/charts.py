"""Where marks stand in a chart, in percent of its width or height.

Percentages, because the page decides how wide a chart is: text keeps its size on a phone.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from symshare.records import NetworkName
from symshare.report.folder import Run
from symshare.report.sentences import decimals, minus

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


def _with_ticks(
    axis: Axis, values: Iterable[float], label: Callable[[float], str], apart: float = 8.0
) -> Axis:
    """Give `axis` ticks at the values in order, leaving out those too near to an earlier one."""
    ticks: list[tuple[float, str]] = []
    for value in values:
        here = axis.at(value)
        inside = axis.low <= value <= axis.high
        if inside and all(abs(here - other) >= apart for other, _ in ticks):
            ticks.append((here, label(value)))
    return replace(axis, ticks=tuple(sorted(ticks)))


def loss_axis(values: Sequence[float], delta: float) -> Axis:
    """The common axis of all excess losses, bent at delta.

    Args:
        values: every number that will be drawn [nats].
        delta: the threshold between symmetric and broken [nats].

    >>> [label for _, label in loss_axis([-0.01, 3.0], 0.05).ticks]
    ['0', '0.1', '0.3', '1', '3']
    """
    # Where the network knows next to nothing delta is next to nothing, or even below zero.
    bend = max(delta, 0.005)
    low = min([-bend, *values])
    high = max([4 * bend, *values])
    powers = [10.0**exponent for exponent in (2, 1, 0, -1, -2)]
    signed = [sign * power for power in powers for sign in (1, -1)]
    marks = [0.0, *signed, *(3 * power for power in powers[1:])]
    return _with_ticks(Axis(low, high, bend), marks, lambda x: minus(f"{x:g}"), apart=11.0)


def size_axis(low: float, high: float, label: Callable[[float], str]) -> Axis:
    """A linear axis of sizes around zero, in the words that sizes are written in.

    >>> [text for _, text in size_axis(-45.0, 90.0, "{:g}".format).ticks]
    ['−45', '−22.5', '0', '45', '90']
    """
    marks = [0.0, low, high, high / 2, low / 2]
    return _with_ticks(Axis(low, high), marks, lambda x: minus(label(x)), apart=14.0)


@dataclass(frozen=True)
class Scale:
    """The axis of one of the two tests, with the bounds of its verdict.

    Attributes:
        title: what is measured, with its unit.
        axis: common to all candidates.
        bound: what passes for zero.
        bound_at, looser_at: where it and the looser bound stand [percent]; the latter is None where
            it lies outside.
        bound_label, looser_label: what is written there.
    """

    title: str
    axis: Axis
    bound: float
    bound_at: float
    looser_at: float | None
    bound_label: str
    looser_label: str


def loss_scale(values: Sequence[float], bound: float, looser: float) -> Scale:
    """The scale of excess losses [nats]: every value to be drawn, delta, and the looser bound."""
    axis = loss_axis(values, bound)
    labels = f"δ {decimals(bound)}", decimals(looser)
    return Scale("excess loss [nats]", axis, bound, *_bounds_at(axis, bound, looser), *labels)


def change_scale(values: Sequence[float], bound: float, looser: float, things: str) -> Scale:
    """The linear scale of changes of the images: every value to be drawn, and the two bounds.

    >>> [label for _, label in change_scale([0.9], 0.05, 0.1, "images").axis.ticks]
    ['0', '0.2', '0.4', '0.6', '0.8', '1']
    """
    low, high = min([-0.1, *values]), max([1.0, *values])
    marks = sorted((i / 5 for i in range(-10, 11)), key=abs)
    axis = _with_ticks(Axis(low, high), marks, lambda x: minus(f"{x:g}"), apart=11.0)
    labels = f"{bound:g}", f"{looser:g}"
    return Scale(f"change of the {things}", axis, bound, *_bounds_at(axis, bound, looser), *labels)


def _bounds_at(axis: Axis, bound: float, looser: float) -> tuple[float, float | None]:
    return axis.at(bound), axis.at(looser) if bound < looser <= axis.high else None


def accuracy_axis(values: Sequence[float]) -> Axis:
    """A linear axis of accuracies, drawn in percent, around the given fractions.

    Only a share of variance may be below zero, which is drawn down to minus one.

    >>> accuracy_axis([-9.0, 0.9]).low
    -1.0
    """
    low, high = min(values), max(values)
    room = max(0.15 * (high - low), 0.005)
    low, high = max(0.0 if low >= 0 else -1.0, low - room), min(1.0, high + room)
    steps = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.25, 0.5)
    step = next(step for step in steps if (high - low) / step <= 5)
    first = math.ceil(low / step - 1e-9)
    marks = [first * step + i * step for i in range(6)]
    return _with_ticks(Axis(low, high), marks, lambda x: f"{100 * x:.4g}")


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


def curves(runs: Sequence[Run]) -> Curves | None:
    """Validation accuracies against steps, or epochs where these lack; None without any."""
    column = "step" if any(_points(run, "step") for run in runs) else "epoch"
    series = [(run, points) for run in runs if (points := _points(run, column))]
    if not series:
        return None
    end = max(x for _, points in series for x, _ in points)
    y = accuracy_axis([value for _, points in series for _, value in points])
    decade = 10 ** math.floor(math.log10(max(end, 1)))
    step = max(next(decade * f for f in (0.2, 0.5, 1, 2) if end / (decade * f) <= 5), 1)
    marks = [float(i * step) for i in range(int(end / step) + 1)]
    x = _with_ticks(Axis(0.0, end or 1.0), marks, "{:g}".format)
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
