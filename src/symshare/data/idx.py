"""The idx format of MNIST, plain or gzipped."""

from __future__ import annotations

import math
import struct
import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np

_UNSIGNED_BYTE = 0x08


def find_idx(root: Path, names: Sequence[str]) -> list[Path]:
    """Return the file of each name in `root`, plain or with `.gz`.

    Args:
        root: The folder.
        names: File names without `.gz`.

    Raises:
        FileNotFoundError: If a file is missing; the message lists all that are.
    """
    paths = [root / name if (root / name).is_file() else root / f"{name}.gz" for name in names]
    missing = [name for name, path in zip(names, paths, strict=True) if not path.is_file()]
    if missing:
        what = f"no {', '.join(missing)} (or with .gz)" if root.is_dir() else "no such folder"
        raise FileNotFoundError(
            f"mnist: {what}: {root}; give the folder that holds the four idx files"
        )
    return paths


def read_idx(path: Path, axes: int) -> np.ndarray:
    """Read an array of unsigned bytes.

    The header is two zero bytes, the type (8), the number of axes, then each axis' length as a
    big-endian uint32.

    Args:
        path: The file; gzipped if its name ends in `.gz`.
        axes: Number of axes it must have.

    Returns:
        The array, uint8, read-only.

    Raises:
        ValueError: If the file is no such array, or is cut short or too long.
    """
    content = _content(path)
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
            f"{path}: expected {expected} bytes for shape {list(shape)}, found {len(content)}"
            f"{' after decompression' if path.suffix == '.gz' else ''}; fetch the file again"
        )
    return np.frombuffer(content, np.uint8, offset=start).reshape(shape)


def _content(path: Path) -> bytes:
    raw = path.read_bytes()
    if path.suffix != ".gz":
        return raw
    try:
        # Not gzip.decompress: of a cut file this gives what is there, so both counts can be named.
        return zlib.decompressobj(wbits=31).decompress(raw)
    except zlib.error as error:
        raise ValueError(f"{path}: not a sound gzip file ({error}); fetch it again") from error
