"""The figure of the method."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Real
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments.figures import style, tiles
from experiments.figures.checks import Array, arrays, check_size

__all__ = ["method"]

SHOWN = 4
TILE, GAP, TOP = 0.74, 0.14, 0.4
BASE, FLAT, MATRIX, COLUMN, COPY = 0.06, 1.32, 2.12, 3.42, 4.26
"""Left edges of the columns of the figure [inches]."""
THIN = 0.12


def method(theta: Real[Array, " P"], R: Real[Array, "G P P"], size: Sequence[int]) -> Figure:
    """The scheme: a base kernel, flattened, times each matrix of R, makes the kernel stack.

    Of more than four elements the first four are drawn, with dots below.

    Args:
        theta: a base kernel.
        R: the representation stack.
        size: of the kernel, one to three lengths.

    Raises:
        ValueError: if shapes or size do not fit.
    """
    theta, R = arrays("method", {"theta": "P", "R": "G P P"}, theta=theta, R=R)
    shape = check_size("method", size, len(theta))
    copies = R[:SHOWN] @ theta
    scale = style.signal_scale(np.concatenate([theta, copies.ravel()]))
    mass = style.mass_scale("")
    count = len(copies)
    end = TOP + count * (TILE + GAP) - GAP
    middle = (TOP + end) / 2
    tall = TILE * min(tiles.height_of(shape), 1.0)
    wide = tall / tiles.height_of(shape)
    with style.applied():
        figure, axes = tiles.sheet(style.PAGE, end + (0.2 if len(R) > count else 0.05))
        for x, width, lines in (
            (BASE, TILE, ("base kernel", "")),
            (FLAT, THIN, ("flattened", r"$\theta\in\mathbb{R}^{P}$")),
            (MATRIX, TILE, ("representations", r"$R_g\in\mathbb{R}^{P\times P}$")),
            (COLUMN, THIN, ("copies", r"$R_g\,\theta$")),
            (COPY, TILE, ("kernel stack", "")),
        ):
            for line, words in enumerate(lines):
                y = tiles.LINE * (line + 0.5)
                axes.text(x + width / 2, y, words, ha="center", va="center")

        tiles.draw(axes, theta.reshape(shape), _box(BASE, middle, wide, tall), scale)
        tiles.draw(axes, theta[:, None], _box(FLAT, middle, THIN, TILE, THIN), scale)
        _arrow(axes, BASE + TILE, middle, FLAT, middle)
        for g, (matrix, copy) in enumerate(zip(R, copies, strict=False)):
            y = TOP + g * (TILE + GAP) + TILE / 2
            tiles.draw(axes, matrix, _box(MATRIX, y, TILE, TILE), mass)
            tiles.draw(axes, copy[:, None], _box(COLUMN, y, THIN, TILE, THIN), scale)
            tiles.draw(axes, copy.reshape(shape), _box(COPY, y, wide, tall), scale)
            _arrow(axes, FLAT + THIN, middle, MATRIX, y)
            _arrow(axes, MATRIX + TILE, y, COLUMN, y)
            _arrow(axes, COLUMN + THIN, y, COPY, y)
            tiles.write(axes, COPY + TILE + 0.05, y, f"g = {g + 1}", "left")
        if len(R) > count:
            for x, width in ((MATRIX, TILE), (COLUMN, THIN), (COPY, TILE)):
                tiles.write(axes, x + width / 2, end + 0.1, "\N{MIDLINE HORIZONTAL ELLIPSIS}")
    return figure


def _box(left: float, middle: float, width: float, height: float, room: float = TILE) -> tiles.Box:
    """In the middle of a column of the figure that is `room` wide."""
    return tiles.Box(left + (room - width) / 2, middle - height / 2, width, height)


def _arrow(axes: Axes, x0: float, y0: float, x1: float, y1: float) -> None:
    axes.annotate(
        "",
        (x1 - 0.05, y1),
        (x0 + 0.05, y0),
        arrowprops={
            "arrowstyle": "-|>",
            "color": style.INK,
            "lw": 0.8,
            "mutation_scale": 7,
            "shrinkA": 0,
            "shrinkB": 0,
        },
    )
