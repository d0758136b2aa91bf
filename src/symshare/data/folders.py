"""Folders with a folder of pictures for each class."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from symshare.data.listing import Encoded, Listing, numbered
from symshare.data.pictures import ENDINGS as PICTURES
from symshare.data.scans import RECORD, VOLUMES

ENDINGS = (*PICTURES, *VOLUMES, RECORD)
"""Names of the files that are read end in one of these."""

PARTS = ("train", "val", "valid", "validation", "test")
"""Parts that a source may come in. "test" is the official test part, the others are one pool."""


def list_folder(root: Path) -> Listing:
    """List the pictures of a folder that has a folder for each class, or for each part.

    Where all its folders are named after `PARTS`, one of them "train", each holds a folder for each
    class. What is hidden and files of other endings are passed over; pictures may lie deeper.

    Raises:
        ValueError: If there are fewer than two classes, or a class without pictures.
    """
    folders = _folders(root)
    names = {folder.name for folder in folders}
    in_parts = "train" in names and names <= set(PARTS)
    parts = {folder.name: _folders(folder) for folder in folders} if in_parts else {"": folders}
    files: list[str] = []
    classes: list[str] = []
    test: list[bool] = []
    for part, inside in parts.items():
        for folder in inside:
            found = sorted(_pictures(folder))
            if not found:
                raise ValueError(
                    f"{root}: expected images ({', '.join(ENDINGS)}) in the folder of every class, "
                    f"got none in {folder}; add some, or remove the folder"
                )
            files += found
            classes += [folder.name] * len(found)
            test += [part == "test"] * len(found)
    labels, ordered = numbered(classes, str(root))

    def encoded(positions: Sequence[int]) -> list[Encoded]:
        return [Encoded(files[i], files[i]) for i in positions]

    return Listing(str(root), labels, ordered, files, encoded, test=test if any(test) else None)


def _folders(root: Path) -> list[Path]:
    """Folders in a folder that are not hidden, in order."""
    inside = sorted(root.iterdir()) if root.is_dir() else []
    return [path for path in inside if path.is_dir() and not path.name.startswith(".")]


def _pictures(folder: Path) -> Iterator[str]:
    """Paths of pictures in a folder and those below it; objects for each would take seconds."""
    for path, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in names:
            if name.lower().endswith(ENDINGS) and not name.startswith("."):
                yield os.path.join(path, name)
