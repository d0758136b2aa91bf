"""Figures of lines: cost, and curves with their spread."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from torch import Tensor

from experiments.figures import style
from experiments.figures.checks import Array, arrays

__all__ = ["cost", "curves"]

PLOT, AXIS = 2.2, 2.5
"""In a figure of a column's width: height without the legend, length of the x axis [inches]."""
MARKED = 20
"""Most points of a line that has marks."""
MARGIN = 0.03
"""Room beyond the limits of an axis, for marks that lie on them, as a share of its length."""
UNITS = {"time": ("ms", 1e3), "memory": ("MiB", 2.0**-20)}
AXES = {"group_size": ("|G|", "kernel_size", "k"), "kernel_size": ("k", "group_size", "|G|")}

Numbers = Sequence[float | int] | Array


def cost(
    rows: Sequence[Mapping[str, Any]],
    input_shape: tuple[int, int, int, int] = (32, 3, 100, 100),
    out_channels: int = 16,
) -> Figure:
    """Time and memory of a layer at inference, against |G| and against the kernel size.

    Each panel holds the other number at its largest. Error bars are as long as the
    interquartile range.

    Args:
        rows: of `python -m benchmarks layer`; ratios and the summary are passed over.
        input_shape: (batch, channels, height, width) that they were taken on.
        out_channels: channels out for each element.

    Raises:
        ValueError: if there are no rows of time or of memory.
    """
    chosen = {m: [row for row in rows if row.get("measures") == m] for m in UNITS}
    for measures, found in chosen.items():
        if not found:
            raise ValueError(
                f"cost: expected rows that measure {measures!r}, got none among {len(rows)} rows; "
                "pass the rows of `python -m benchmarks layer`"
            )
    names = list(dict.fromkeys(row["contender"] for row in chosen["time"]))
    batch, channels, *space = input_shape
    first = chosen["time"][0]
    threads = f", {first['threads']} threads" if first["device"].startswith("cpu") else ""
    title = (
        f"Inference; {channels} channels in, {out_channels} out for each element; "
        f"batch of {batch}, {'×'.join(map(str, space))}\n{first['device']}{threads}\n"
        f"time: median and interquartile range of {first['n']} rounds"
    )
    with style.applied():
        figure = Figure((style.PAGE, 4.5), layout="constrained")
        grid = figure.subplots(2, 2, sharey="row")
        for line, (measures, found) in zip(grid, chosen.items(), strict=True):
            for axes, axis in zip(line, AXES, strict=True):
                _cost_panel(axes, found, measures, axis, names)
            # Panels of a row share the axis, so that its end waits for both.
            line[0].set_ylim(bottom=0)
            line[0].set_ylabel(f"{measures} [{UNITS[measures][0]}]")
        handles, _ = grid[0, 0].get_legend_handles_labels()
        style.legend(figure, handles)
        figure.suptitle(title)
    return style.settled(figure)


def _cost_panel(
    axes: Axes, found: Sequence[Mapping[str, Any]], measures: str, axis: str, names: Sequence[str]
) -> None:
    label, other, other_label = AXES[axis]
    fixed = max(row[other] for row in found)
    factor = UNITS[measures][1]
    for i, name in enumerate(names):
        line = [row for row in found if row[other] == fixed and row["contender"] == name]
        line = sorted(line, key=lambda row: row[axis])
        # Earlier marks are larger, so that they show where lines coincide.
        axes.errorbar(
            [row[axis] for row in line],
            [factor * row["median"] for row in line],
            [factor * row["iqr"] / 2 for row in line],
            label=name,
            elinewidth=0.8,
            ms=3 + 1.3 * (len(names) - 1 - i),
            **_look(i),
        )
    axes.set_title(f"{measures} at {other_label} = {fixed}")
    axes.set_xlabel(label)
    axes.set_xticks(sorted({row[axis] for row in found}))


def _look(i: int) -> dict[str, Any]:
    """Colour, mark and dashes of the i-th line."""
    kinds = (("color", style.COLOURS), ("marker", style.MARKERS), ("linestyle", style.DASHES))
    return {key: values[i % len(values)] for key, values in kinds}


def curves(
    series: Mapping[str, tuple[Numbers, Numbers, Numbers]],
    xlabel: str,
    ylabel: str,
    log: bool = False,
    ylim: tuple[float | int, float | int] | None = None,
) -> Figure:
    """Lines with a band of their spread, such as accuracy against the number of images.

    Args:
        series: by name: x, the mean, and how far the band reaches to both sides.
        xlabel: what x is, with its unit.
        ylabel: what is drawn, with its unit.
        log: whether the x axis is logarithmic; its ticks are values of x that occur.
        ylim: least and largest value that y can have, so that figures can be compared; by
            default the axis holds what is drawn.

    Raises:
        ValueError: for no series, if the three parts of one differ in length, or for x <= 0 on a
            logarithmic axis.
    """
    if not series:
        raise ValueError("curves: expected at least one series, got none")
    parts = {name: _line(name, *line) for name, line in series.items()}
    least = min(float(x.min()) for x, _, _ in parts.values())
    if log and least <= 0:
        raise ValueError(f"curves: x must be positive on a logarithmic axis, got {least:g}")
    lines, _ = style.legend_shape(list(parts), style.COLUMN)
    with style.applied():
        figure = Figure((style.COLUMN, PLOT + lines * style.LEGEND_LINE), layout="constrained")
        axes = figure.subplots()
        handles: list[Line2D] = []
        for i, (name, (x, mean, spread)) in enumerate(parts.items()):
            look = _look(i)
            axes.fill_between(
                x, mean - spread, mean + spread, color=look["color"], alpha=0.2, linewidth=0
            )
            if len(x) > MARKED:
                look["marker"] = ""
            handles += axes.plot(x, mean, label=name, **look)
        axes.set(xlabel=xlabel, ylabel=ylabel)
        if ylim is not None:
            room = MARGIN * (ylim[1] - ylim[0])
            axes.set_ylim(ylim[0] - room, ylim[1] + room)
        if log:
            axes.set_xscale("log")
            ticks = _ticks({value for x, _, _ in parts.values() for value in x.tolist()})
            axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
            axes.minorticks_off()
        style.legend(figure, handles)
    return style.settled(figure)


def _line(name: str, *parts: Numbers) -> list[np.ndarray]:
    known = dict(zip(("x", "mean", "spread"), parts, strict=True))
    values = {k: v if isinstance(v, Tensor) else np.asarray(v) for k, v in known.items()}
    return arrays(f"curves of {name!r}", dict.fromkeys(known, "N"), **values)


def _ticks(values: Collection[float]) -> list[float]:
    """Values with room for a label each on a logarithmic axis, the smallest first.

    >>> _ticks({100.0, 101.0, 1000.0})
    [100.0, 1000.0]
    """
    low, high = np.log10([min(values), max(values)])
    ticks: list[float] = []
    end = -np.inf
    for value in sorted(values):
        half = style.text_width(f"{value:g}") / 2 + 0.04
        here = AXIS * (np.log10(value) - low) / ((high - low) or 1.0)
        if here - half >= end:
            ticks.append(value)
            end = here + half
    return ticks
