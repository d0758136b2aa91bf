"""Parquet files of encoded images with labels, as the Hugging Face Hub keeps them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

_IMAGE_COLUMNS = ("img", "image")


def find_parquet(root: Path) -> tuple[Path, Path]:
    """Return `train.parquet` and `test.parquet` in `root`.

    Args:
        root: The folder.

    Raises:
        FileNotFoundError: If a file is missing; the message lists all that are.
    """
    train, test = root / "train.parquet", root / "test.parquet"
    missing = [path.name for path in (train, test) if not path.is_file()]
    if missing:
        what = f"no {', '.join(missing)}" if root.is_dir() else "no such folder"
        raise FileNotFoundError(
            f"cifar10: {what}: {root}; give the folder that holds train.parquet and test.parquet"
        )
    return train, test


def read_parquet(path: Path, shape: tuple[int, int, int]) -> tuple[np.ndarray, np.ndarray]:
    """Read and decode all images of a file.

    Args:
        path: The file, with a column `img` or `image` of structs whose `bytes` are a PNG or JPEG
            file, and a column `label`.
        shape: Height, width and channels that each image must have.

    Returns:
        The images [N, H, W, C], uint8, and the labels [N].

    Raises:
        ValueError: If the file or an image is damaged, a column is missing, or an image has
            another shape.
    """
    import pyarrow
    from pyarrow.parquet import ParquetFile

    try:
        with ParquetFile(path) as file:
            table = file.read()
    except (pyarrow.ArrowException, OSError) as error:
        raise ValueError(
            f"{path}: not a sound parquet file ({_line(error)}); fetch it again"
        ) from error
    names = table.column_names
    column = next((name for name in _IMAGE_COLUMNS if name in names), None)
    if column is None or "label" not in names:
        raise ValueError(
            f"{path}: expected columns `img` or `image`, and `label`, got "
            f"{', '.join(names) or 'none'}; is it another file under this name?"
        )
    return _decoded(table[column].to_pylist(), shape, path), table["label"].to_numpy()


def _decoded(cells: Sequence[Any], shape: tuple[int, int, int], path: Path) -> np.ndarray:
    from datasets import Image

    decode = Image().decode_example
    pixels = np.empty((len(cells), *shape), np.uint8)
    for i, cell in enumerate(cells):
        content = cell.get("bytes") if isinstance(cell, dict) else None
        if not isinstance(content, bytes):
            raise ValueError(
                f"{path}: expected the bytes of a PNG or JPEG file for image {i}, got none; save "
                "images as structs with `bytes`"
            )
        try:
            image = np.asarray(decode({"bytes": content, "path": None}))
        except (OSError, SyntaxError, ValueError) as error:
            raise ValueError(
                f"{path}: image {i} is damaged ({_line(error)}); fetch the file again"
            ) from error
        if image.shape != shape:
            raise ValueError(
                f"{path}: expected images of shape {list(shape)}, got {list(image.shape)} for "
                f"image {i}; is it another file under this name?"
            )
        pixels[i] = image
    return pixels


def _line(error: Exception) -> str:
    return str(error).partition("\n")[0]
