"""What all figures share: widths, fonts, colours, how they are saved, whatever the user has set."""

import io
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.colors import Normalize, PowerNorm
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.textpath import text_to_path

from symshare.files import write_atomically

__all__ = [
    "Scale",
    "applied",
    "legend",
    "legend_shape",
    "mass_scale",
    "save",
    "settled",
    "signal_scale",
    "text_width",
]

COLUMN, PAGE = 3.4, 5.5
"""Width of a column, and of the text of a page with one column [inches]."""
FAMILY, FONT = "DejaVu Sans", 8
"""Of all text; matplotlib brings the font along. Size in points."""
KEY = 0.55
"""Room for the mark of a legend's entry [inches]."""
LEGEND_LINE = 0.17
"""Height of a line of a legend [inches]."""
INK, FRAME, FAINT = "#1a1f29", "#8a919c", "#d9dde4"
# Okabe and Ito's colours, in an order in which neighbours also differ in lightness.
COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#d55e00", "#56b4e9", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
DASHES = ("-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1, 1, 1)), "-")

SETTINGS = {
    "font.family": FAMILY,
    "font.size": FONT,
    "axes.titlesize": FONT,
    "axes.labelsize": FONT,
    "xtick.labelsize": FONT,
    "ytick.labelsize": FONT,
    "legend.fontsize": FONT,
    "figure.titlesize": FONT,
    "figure.dpi": 300,
    "savefig.dpi": 300,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": FRAME,
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.axisbelow": True,
    "grid.color": FAINT,
    "grid.linewidth": 0.5,
    "xtick.color": FRAME,
    "ytick.color": FRAME,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "xtick.major.size": 2.5,
    "ytick.major.size": 2.5,
    "lines.linewidth": 1.2,
    "lines.markersize": 4,
    "legend.frameon": False,
    "legend.handlelength": 2.2,
    "legend.columnspacing": 1.2,
    # Text stays text, and identifiers do not change from run to run.
    "svg.fonttype": "none",
    "svg.hashsalt": "symshare",
    "pdf.fonttype": 42,
}

# What would make two files of the same figure differ: the date, and the version that drew it.
METADATA = {
    "svg": {"Date": None, "Creator": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
    "png": {"Software": None},
}


@contextmanager
def applied() -> Generator[None]:
    """These settings and otherwise matplotlib's own, within the block only."""
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(SETTINGS)
        yield


def text_width(words: str) -> float:
    """Length of one line of text [inches].

    >>> 0.3 < text_width("shift10") < 0.5
    True
    """
    font = FontProperties(family=FAMILY, size=FONT)
    width, _, _ = text_to_path.get_text_width_height_descent(words, font, ismath=False)
    return width / 72


def legend_shape(labels: Sequence[str], width: float) -> tuple[int, int]:
    """Rows and columns of a legend below a figure of this width.

    >>> legend_shape(["ours", "loop over elements", "plain convolution"], COLUMN)
    (2, 2)
    """
    widths = [text_width(label) + KEY for label in labels]
    columns = len(labels) if sum(widths) <= width else int(width / max(widths))
    rows = -(-len(labels) // max(columns, 1))
    return rows, -(-len(labels) // rows)


def legend(figure: Figure, handles: Sequence[Any]) -> None:
    """Below the figure, for artists and containers; a dollar sign in a label is a dollar sign."""
    labels = [str(handle.get_label()) for handle in handles]
    _, columns = legend_shape(labels, figure.get_size_inches()[0])
    made = figure.legend(handles, labels, loc="outside lower center", ncols=columns)
    for text in made.get_texts():
        text.set_parse_math(False)


def settled(figure: Figure) -> Figure:
    """The figure, laid out once and for all, so that each time it is saved it is the same."""
    with applied():
        figure.draw_without_rendering()
        figure.set_layout_engine("none")
    return figure


@dataclass(frozen=True)
class Scale:
    """From values to colours; `label` is what the colour bar says, nothing for no bar."""

    colours: str
    norm: Normalize
    ticks: tuple[float, ...]
    label: str = ""

    @property
    def limits(self) -> tuple[float, float]:
        """The values at the two ends."""
        return float(self.norm.vmin or 0.0), float(self.norm.vmax or 0.0)


def mass_scale(label: str) -> Scale:
    """Of entries in [0, 1]; the square root makes thin mass visible, and the bar shows it."""
    return Scale("Blues", PowerNorm(0.5, 0, 1, clip=True), (0.0, 0.1, 0.5, 1.0), label)


def signal_scale(values: np.ndarray, label: str = "") -> Scale:
    """Symmetric about zero where values are negative, else from white at zero to black.

    >>> signal_scale(np.array([-1.0, 3.0])).limits, signal_scale(np.array([0.0, 3.0])).limits
    ((-3.0, 3.0), (0.0, 3.0))
    """
    limit = float(np.abs(values).max()) or 1.0
    low, ticks = (-limit, (-limit, 0.0, limit)) if (values < 0).any() else (0.0, (0.0, limit))
    return Scale("RdBu_r" if low else "Greys", Normalize(low, limit), ticks, label)


def save(figure: Figure, path: Path) -> None:
    """Write a figure as `.svg`, `.pdf` or `.png`; the file appears whole or not at all.

    Args:
        figure: one that this package drew.
        path: its suffix says the form.

    Raises:
        ValueError: for other suffixes.
        OSError: if the folder cannot be written.
    """
    form = path.suffix.lower().removeprefix(".")
    if form not in METADATA:
        raise ValueError(
            f"save: expected a file name that ends in .svg, .pdf or .png, got {path.name!r}"
        )
    content = io.BytesIO()
    with applied():
        figure.savefig(content, format=form, metadata=METADATA[form])
    write_atomically(path, content.getvalue())
