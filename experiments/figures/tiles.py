"""Signals, kernels and matrices as tiles on a sheet that is measured in inches."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from experiments.figures import style

__all__ = ["Band", "Box", "board", "draw", "height_of", "sheet", "write"]

LINE = 0.17
"""Height of a line of text [inches]."""
PAD = 0.04
WIDEST = 1.3
"""Most that a tile takes [inches]."""
BAR, THICK, LONGEST = 0.12, 0.1, 1.8
"""Colour bar: distance from the tiles, width, and greatest length [inches]."""
# A slice of a volume leans by half a cell for each row, and a row is half a cell high.
LEAN, FLAT, BETWEEN = 0.5, 0.5, 0.5


@dataclass(frozen=True)
class Box:
    """Where a tile stands: upper left corner, width and height [inches], y downwards."""

    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True)
class Band:
    """Rows of tiles under common column names; `values` are [rows, columns, *size]."""

    values: np.ndarray
    columns: Sequence[str]
    rows: Sequence[str]


def sheet(width: float, height: float) -> tuple[Figure, Axes]:
    """An empty figure, and axes over all of it in inches, y downwards."""
    figure = Figure((width, height))
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, width), ylim=(height, 0))
    axes.set_axis_off()
    axes.autoscale(False)
    return figure, axes


def write(
    axes: Axes, x: float, y: float, words: str, side: Literal["left", "center", "right"] = "center"
) -> None:
    """One line of text, in which a dollar sign is a dollar sign; `side` is what stands at x."""
    axes.text(x, y, words, ha=side, va="center", parse_math=False)


def height_of(size: Sequence[int]) -> float:
    """Height of a tile for a signal of this size, in widths of the tile."""
    if len(size) == 1:
        return 0.5
    if len(size) == 2:
        return size[0] / size[1]
    slices, rows, columns = size
    return (slices * rows * FLAT + (slices - 1) * BETWEEN) / (columns + rows * LEAN)


def draw(axes: Axes, values: np.ndarray, box: Box, scale: style.Scale, block: int = 0) -> None:
    """One signal: bars on a line, cells in a plane, leaning slices in space (first axis down).

    Args:
        axes: of a sheet.
        values: [*size].
        box: where it goes.
        scale: common to all tiles of a figure.
        block: side of the blocks that lines mark off in a plane; 0 for no lines.
    """
    if values.ndim == 1:
        _bars(axes, values, box, scale)
    elif values.ndim == 2:
        _cells(axes, values, box, scale, block)
    else:
        _slices(axes, values, box, scale)


def _bars(axes: Axes, values: np.ndarray, box: Box, scale: style.Scale) -> None:
    low, high = scale.limits
    rise = box.height / (high - low)
    zero = box.y + box.height + low * rise
    step = box.width / len(values)
    left = box.x + step * (np.arange(len(values)) + 0.1)
    top = zero - values * rise
    right, base = left + 0.8 * step, np.full_like(left, zero)
    corners = np.stack([left, base, left, top, right, top, right, base], 1).reshape(-1, 4, 2)
    colours = [style.COLOURS[0] if v >= 0 else style.COLOURS[4] for v in values]
    axes.add_collection(PolyCollection(list(corners), facecolors=colours, linewidths=0))
    ends = [[(box.x, zero), (box.x + box.width, zero)]]
    axes.add_collection(LineCollection(ends, colors=style.FRAME, linewidths=0.6))


def _cells(axes: Axes, values: np.ndarray, box: Box, scale: style.Scale, block: int) -> None:
    right, bottom = box.x + box.width, box.y + box.height
    axes.imshow(
        values,
        cmap=scale.colours,
        norm=scale.norm,
        extent=(box.x, right, bottom, box.y),
        aspect="auto",
        interpolation="nearest",
    )
    if block:
        down = box.y + box.height / len(values) * np.arange(block, len(values), block)
        across = box.x + box.width / len(values) * np.arange(block, len(values), block)
        lines = [[(box.x, y), (right, y)] for y in down]
        lines += [[(x, box.y), (x, bottom)] for x in across]
        axes.add_collection(LineCollection(lines, colors=style.FRAME, linewidths=0.4))
    axes.add_patch(
        Rectangle((box.x, box.y), box.width, box.height, fill=False, ec=style.FRAME, lw=0.6)
    )


def _slices(axes: Axes, values: np.ndarray, box: Box, scale: style.Scale) -> None:
    _, rows, columns = values.shape
    cell = box.width / (columns + rows * LEAN)
    s, j, k = np.indices(values.shape).reshape(3, -1)
    corners = []
    for dj, dk in ((0, 0), (0, 1), (1, 1), (1, 0)):
        x = box.x + cell * (k + dk + LEAN * (rows - j - dj))
        y = box.y + cell * (s * (rows * FLAT + BETWEEN) + FLAT * (j + dj))
        corners.append(np.stack([x, y], -1))
    colours = colormaps[scale.colours](scale.norm(values.ravel()))
    cells = PolyCollection(
        list(np.stack(corners, 1)), facecolors=colours, edgecolors=style.FRAME, linewidths=0.4
    )
    axes.add_collection(cells)


def board(
    bands: Sequence[Band], scale: style.Scale, title: str = "", header: str = "", block: int = 0
) -> Figure:
    """Bands of tiles of one size below each other, no wider than a page where names are short.

    Args:
        bands: at least one.
        scale: common to all tiles; its label stands beside a colour bar.
        title: above all.
        header: what the columns are, above their names.
        block: see :func:`draw`.
    """
    across = max(band.values.shape[1] for band in bands)
    left = max(style.text_width(name) for band in bands for name in band.rows) + 2 * PAD
    bar = _bar_width(scale) if scale.label else PAD
    room = style.PAGE - left - bar
    gap = max(0.05, 0.08 * room / across)
    tile = min((room + gap) / across - gap, WIDEST)
    named = max(style.text_width(name) for band in bands for name in band.columns)
    pitch = max(tile + gap, named + 2 * PAD)
    beyond = max((named - tile) / 2, 0.0)
    left = max(left, beyond + PAD)
    tall = tile * height_of(bands[0].values.shape[2:])
    rows = [len(band.values) * (tall + gap) - gap for band in bands]
    lines = [text for text in (title, header) if text]
    top = PAD + LINE * len(lines)
    height = max(top + sum(rows) + LINE * len(bands) + 2 * gap * (len(bands) - 1), top + LINE)
    # Half a line of text for the tick at the end of the colour bar.
    height = max(height + LINE / 2, style.text_width(scale.label) + 2 * PAD)
    tiles = across * pitch - (pitch - tile)
    longest = max(map(style.text_width, lines), default=0.0)
    width = max(left + tiles + beyond + bar, longest + 2 * PAD)

    with style.applied():
        figure, axes = sheet(width, height)
        for i, text in enumerate(lines):
            # A long title over few tiles cannot stand in their middle.
            half = style.text_width(text) / 2 + PAD
            x = min(max(left + tiles / 2, half), width - half)
            write(axes, x, PAD + LINE * (i + 0.5), text)
        y = top
        for band, extent in zip(bands, rows, strict=True):
            for column, name in enumerate(band.columns):
                write(axes, left + column * pitch + tile / 2, y + LINE / 2, name)
            y += LINE
            for row, line in enumerate(band.values):
                corner = y + row * (tall + gap)
                write(axes, left - PAD, corner + tall / 2, band.rows[row], "right")
                for column, values in enumerate(line):
                    draw(axes, values, Box(left + column * pitch, corner, tile, tall), scale, block)
            y += extent + 2 * gap
        if scale.label:
            _bar(figure, scale, left + tiles + beyond, top + LINE, min(rows[0], LONGEST))
    return figure


def _tick(value: float) -> str:
    return f"{value:.2g}".replace("-", "\N{MINUS SIGN}")


def _bar_width(scale: style.Scale) -> float:
    return BAR + THICK + 2 * PAD + max(map(style.text_width, map(_tick, scale.ticks))) + LINE


def _bar(figure: Figure, scale: style.Scale, x: float, y: float, height: float) -> None:
    """A colour bar to the right of x."""
    width, total = figure.get_size_inches()
    x += BAR
    axes = figure.add_axes((x / width, 1 - (y + height) / total, THICK / width, height / total))
    figure.colorbar(ScalarMappable(scale.norm, scale.colours), cax=axes)
    axes.minorticks_off()
    axes.set_yticks(scale.ticks, [_tick(tick) for tick in scale.ticks])
    axes.tick_params(pad=1.5)
    axes.grid(False)
    # The label may be longer than the bar.
    half = style.text_width(scale.label) / 2 + PAD
    where = min(max(y + height / 2, half), total - half)
    right = x - BAR + _bar_width(scale) - LINE / 2
    figure.text(
        right / width, 1 - where / total, scale.label, rotation=90, ha="center", va="center"
    )
