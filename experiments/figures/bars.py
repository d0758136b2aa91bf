"""The figure of coefficients."""

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
from jaxtyping import Real
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from torch import Tensor

from experiments.figures import style
from experiments.figures.checks import Array, arrays, check_names

__all__ = ["coefficients"]

BARS = 34
"""Most bars beside each other, so that an upright name fits below each."""
SIDE, PITCH, PANEL = 0.6, 0.15, 1.25
"""Room left of the bars, for each bar in a narrow figure, and above the names [inches]."""
TRUE, FALSE = style.COLOURS[0], style.COLOURS[1]


def coefficients(
    c: Real[Array, "G K"],
    names: Sequence[str],
    true: Collection[int] | Real[Array, " K"],
    title: str = "",
) -> Figure:
    """How much of each known element is in the learned ones.

    A bar is the largest coefficient over the learned elements, a dash the mean over them. Bars of
    elements that occur in the data have another colour; where their shares are known, a diamond
    marks each.

    Args:
        c: coefficients of each learned element; rows sum to one in a simplex fit.
        names: of the known elements.
        true: indices of those that occur, or as an array the share of each in the data.
        title: above all.

    Raises:
        ValueError: if shapes, names or indices do not fit.
    """
    if isinstance(true, (Tensor, np.ndarray)):
        c, shares = arrays("coefficients", {"c": "G K", "true": "K"}, c=c, true=true)
        occurs = shares > 0
    else:
        (c,) = arrays("coefficients", {"c": "G K"}, c=c)
        shares, occurs = None, _members(true, c.shape[1])
    names = check_names("coefficients", names, c.shape[1])
    rows = -(-len(names) // BARS)
    length = -(-len(names) // rows)
    width = style.COLUMN if SIDE + PITCH * length <= style.COLUMN else style.PAGE
    longest = max(map(style.text_width, names))
    upright = longest + 0.06 > (width - SIDE) / length
    largest, mean = c.max(0), c.mean(0)
    top = 1.05 * max(largest.max(), 0 if shares is None else shares.max(), 1e-9)
    bottom = 1.05 * min(largest.min(), mean.min(), 0)
    handles = _handles(occurs, shares is not None)
    lines, _ = style.legend_shape([str(handle.get_label()) for handle in handles], width)
    height = rows * (PANEL + (longest if upright else 0.12)) + lines * style.LEGEND_LINE + 0.4
    with style.applied():
        figure = Figure((width, height + 0.2 * bool(title)), layout="constrained")
        for row, axes in enumerate(figure.subplots(rows, 1, squeeze=False)[:, 0]):
            cut = slice(row * length, (row + 1) * length)
            _bars(axes, largest[cut], mean[cut], occurs[cut])
            if shares is not None:
                at = np.flatnonzero(occurs[cut])
                axes.plot(at, shares[cut][at], "D", color=style.INK, mfc="white", ms=3, mew=0.8)
            axes.set(xlim=(-0.6, length - 0.4), ylim=(bottom, top), ylabel="largest coefficient")
            at = np.arange(len(names[cut]))
            axes.set_xticks(at, names[cut], rotation=90 if upright else 0, parse_math=False)
            axes.tick_params("x", length=0)
        axes.set_xlabel("known element")
        style.legend(figure, handles)
        if title:
            figure.suptitle(title, parse_math=False)
    return style.settled(figure)


def _members(indices: Collection[int], count: int) -> np.ndarray:
    outside = sorted(k for k in indices if not 0 <= k < count)
    if outside:
        raise ValueError(
            f"coefficients: true must hold indices from 0 to {count - 1}, got {outside}"
        )
    return np.isin(np.arange(count), list(indices))


def _bars(axes: Axes, largest: np.ndarray, mean: np.ndarray, occurs: np.ndarray) -> None:
    at = np.arange(len(largest))
    axes.bar(at, largest, 0.72, color=[TRUE if o else FALSE for o in occurs])
    axes.hlines(mean, at - 0.27, at + 0.27, color=style.INK, lw=1.2)


def _handles(occurs: np.ndarray, shares: bool) -> list[Patch | Line2D]:
    handles: list[Patch | Line2D] = []
    if occurs.any():
        handles.append(Patch(color=TRUE, label="in the data"))
    if not occurs.all():
        handles.append(Patch(color=FALSE, label="not in the data"))
    look: dict[str, Any] = {"linestyle": "", "color": style.INK}
    handles.append(Line2D([], [], marker="_", ms=6, mew=1.2, label="mean coefficient", **look))
    if shares:
        look |= {"marker": "D", "markerfacecolor": "white"}
        handles.append(Line2D([], [], ms=3, mew=0.8, label="share in the data", **look))
    return handles
