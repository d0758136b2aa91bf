"""Files of images as arrays: idx, parquet, and copies of what takes long to decode."""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import io
import math
import os
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from symshare.extras import needs
from symshare.files import write_atomically

Arrays = tuple[np.ndarray, np.ndarray]

_UNSIGNED_BYTE = 0x08
_GZIP, _PNG = b"\x1f\x8b", b"\x89PNG"
_PNG_DEPTH = 24
"""Where a PNG file keeps its bits per value; decoded, 16 are silently cut to 8."""


def read_idx(path: Path, axes: int) -> np.ndarray:
    """Read an array of unsigned bytes in the format of MNIST, plain or gzipped.

    The header is two zero bytes, the type (8), the number of axes, then each axis' length as a
    big-endian uint32.

    Raises:
        ValueError: If the file is no such array, or is cut short or too long.
    """
    content = path.read_bytes()
    if content.startswith(_GZIP):
        try:
            content = gzip.decompress(content)
        except (OSError, EOFError, zlib.error) as error:
            raise ValueError(
                f"{path}: not a sound gzip file ({first_line(error)}); fetch it again"
            ) from error
    magic = bytes((0, 0, _UNSIGNED_BYTE, axes))
    start = len(magic) + 4 * axes
    if len(content) < start:
        raise ValueError(
            f"{path}: expected an idx header of {start} bytes, found {len(content)} bytes; "
            "fetch the file again"
        )
    if content[:4] != magic:
        raise ValueError(
            f"{path}: expected magic number 0x{magic.hex()} ({axes}-axis unsigned bytes), found "
            f"0x{content[:4].hex()}; is it another file under this name?"
        )
    shape = struct.unpack_from(f">{axes}I", content, len(magic))
    expected = start + math.prod(shape)
    if len(content) != expected:
        raise ValueError(
            f"{path}: expected {expected} bytes for shape {list(shape)}, found {len(content)}; "
            "fetch the file again"
        )
    return np.frombuffer(content, np.uint8, offset=start).reshape(shape)


def read_parquet(path: Path, shape: tuple[int, ...]) -> Arrays:
    """Read and decode all images of a parquet file, see `decode`."""
    parquet = needs("pyarrow.parquet", "data", "read parquet files")
    arrow = needs("pyarrow", "data", "read parquet files")
    try:
        with parquet.ParquetFile(path) as file:
            table = file.read()
    except (arrow.ArrowException, OSError) as error:
        raise ValueError(
            f"{path}: not a sound parquet file ({first_line(error)}); fetch it again"
        ) from error
    return decode(table, shape, str(path))


def decode(table: Any, shape: tuple[int, ...], where: str) -> Arrays:
    """Decode the images of an Arrow table, as the Hugging Face Hub keeps them.

    Args:
        table: With a column `img` or `image` of structs whose `bytes` are a PNG or JPEG file, and
            a column `label`.
        shape: Height and width that each image must have, and 3 where they are in colour.
        where: Name of the table in errors.

    Returns:
        The images [N, *shape], uint8, and the labels [N].

    Raises:
        ValueError: If a column is missing, or an image is damaged or has another shape.
    """
    names = table.column_names
    column = next((name for name in ("img", "image") if name in names), None)
    if column is None or "label" not in names:
        raise ValueError(
            f"{where}: expected columns `img` or `image`, and `label`, got "
            f"{', '.join(names) or 'none'}; is it another file under this name?"
        )
    cells = table[column].to_pylist()
    pixels = np.empty((len(cells), *shape), np.uint8)
    for i, cell in enumerate(cells):
        content = cell.get("bytes") if isinstance(cell, dict) else None
        if not isinstance(content, bytes):
            raise ValueError(
                f"{where}: expected the bytes of a PNG or JPEG file for image {i}, got none; save "
                "images as structs with `bytes`"
            )
        image = _decoded(content, "RGB" if len(shape) == 3 else "L", f"{where}: image {i}")
        if image.shape != shape:
            raise ValueError(
                f"{where}: expected images of shape {list(shape)}, got {list(image.shape)} for "
                f"image {i}; is it another file under this name?"
            )
        pixels[i] = image
    return pixels, table["label"].to_numpy()


def cached(path: Path, decode: Callable[[], Arrays]) -> Arrays:
    """Images and labels of a file: decoded, or as an earlier call left them.

    The copy belongs to the path, size and time of change of the file. It lies in `symshare` below
    `XDG_CACHE_HOME`, by default `~/.cache`, and may be deleted at any time. Where nothing can be
    written there, every call decodes.
    """
    from safetensors import SafetensorError
    from safetensors.numpy import load, save

    stat, caches = path.stat(), os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    key = hashlib.sha256(f"{path.resolve()} {stat.st_size} {stat.st_mtime_ns}".encode())
    copy = Path(caches) / "symshare" / f"{path.stem}-{key.hexdigest()[:16]}.safetensors"
    with contextlib.suppress(OSError, SafetensorError):
        arrays = load(copy.read_bytes())
        return arrays["images"], arrays["labels"]
    images, labels = decode()
    content = save({"images": images, "labels": np.ascontiguousarray(labels)})
    with contextlib.suppress(OSError):
        write_atomically(copy, content)
    return images, labels


def _decoded(content: bytes, mode: str, where: str) -> np.ndarray:
    """Pixels in the mode "RGB" or "L", where nothing is lost by it."""
    pillow = needs("PIL.Image", "data", "decode images")
    try:
        image = pillow.open(io.BytesIO(content))
        image.load()
    except (OSError, SyntaxError, ValueError) as error:
        raise ValueError(
            f"{where} is damaged ({first_line(error)}); fetch the file again"
        ) from error
    got = image.mode
    if content.startswith(_PNG) and content[_PNG_DEPTH] == 16:
        got += " of 16 bits a value"
    elif image.has_transparency_data and image.convert("RGBA").getextrema()[3][0] < 255:
        got += " with transparent pixels"
    elif got == mode:
        return np.asarray(image)
    elif mode == "RGB" and got in ("P", "RGBA"):
        # By way of RGBA, as Pillow warns of palettes with opacities.
        return np.asarray(image.convert("RGBA").convert("RGB"))
    raise ValueError(
        f"{where}: expected an image of 8 bits a value in mode {mode}, got mode {got}; convert the "
        "images, or save them with their labels as arrays in an .npz file"
    )


def first_line(error: Exception) -> str:
    """What an error says first."""
    return str(error).partition("\n")[0]
