"""Write a figure."""

import io
from pathlib import Path

from matplotlib.figure import Figure

from experiments.figures import style
from symshare.files import write_atomically

__all__ = ["save"]

# What would make two files of the same figure differ: the date, and the version that drew it.
METADATA = {
    "svg": {"Date": None, "Creator": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
    "png": {"Software": None},
}


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
    with style.applied():
        figure.savefig(content, format=form, metadata=METADATA[form])
    write_atomically(path, content.getvalue())
