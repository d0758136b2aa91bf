"""Files of images as arrays: idx, and copies of what takes long to decode."""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import math
import os
import struct
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np

from symshare.files import write_atomically

Arrays = dict[str, np.ndarray]

_UNSIGNED_BYTE = 0x08
_GZIP = b"\x1f\x8b"


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


def cached(files: Sequence[str], decode: Callable[[], Arrays], options: str = "") -> Arrays:
    """Arrays of files: decoded, or as an earlier call left them.

    The copy belongs to the paths, sizes and times of change of the files. It lies in `symshare`
    below `XDG_CACHE_HOME`, by default `~/.cache`, and may be deleted at any time. Where nothing can
    be written there, every call decodes.

    Args:
        files: Paths of all that the arrays depend on; the copy is named after the first.
        decode: What makes the arrays.
        options: What else the arrays depend on.
    """
    from safetensors import SafetensorError
    from safetensors.numpy import load, save

    digest = hashlib.sha256("\n".join(_states(files)).encode("utf-8", "surrogateescape"))
    digest.update(options.encode())
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    copy = folder / "symshare" / f"{Path(files[0]).stem}-{digest.hexdigest()[:16]}.safetensors"
    with contextlib.suppress(OSError, SafetensorError):
        return load(copy.read_bytes())
    arrays = decode()
    content = save({name: np.ascontiguousarray(array) for name, array in arrays.items()})
    with contextlib.suppress(OSError):
        write_atomically(copy, content)
    return arrays


def _states(files: Sequence[str]) -> Iterator[str]:
    """Path, size and time of change of each file; of one that cannot be read, its path."""
    for file in files:
        # The folders above are not asked whether they are links, which takes longer than the rest.
        path = os.path.abspath(file)
        try:
            stat = os.stat(path)
        except OSError:
            yield path
        else:
            yield f"{path} {stat.st_size} {stat.st_mtime_ns}"


def first_line(error: Exception) -> str:
    """What an error says first."""
    return str(error).partition("\n")[0]
