"""Rows of a study in one file, of which those that are missing are made."""

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from symshare.files import damaged, write_atomically

__all__ = ["resumed"]

Row = dict[str, Any]


def resumed(
    path: Path, names: tuple[str, ...], wanted: Iterable[tuple[Any, ...]], run: Callable[..., Row]
) -> list[Row]:
    """All rows of a file, after those that are wanted and not there have been added to it.

    Args:
        path: a list of rows as JSON; it is written whole after every row.
        names: of the entries that tell rows apart.
        wanted: their values, in the order of the runs.
        run: makes a row from such values; the row holds them under their names.

    Raises:
        ValueError: for a file that holds no such rows.
        OSError: where it cannot be written.
    """
    try:
        rows = json.loads(path.read_text(encoding="utf-8")) if path.exists() else []
        done = {tuple(row[name] for name in names) for row in rows}
    except (ValueError, TypeError, KeyError) as error:
        raise ValueError(damaged(path)) from error
    for values in wanted:
        if values not in done:
            rows.append(run(*values))
            write_atomically(path, json.dumps(rows, indent=1).encode())
    return rows
