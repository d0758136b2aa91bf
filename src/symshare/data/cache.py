"""Decoded copies of files that take long to decode, in the user's cache folder."""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np

from symshare.files import write_atomically

Arrays = tuple[np.ndarray, np.ndarray]


def cached(path: Path, decode: Callable[[], Arrays]) -> Arrays:
    """Images and labels of a file: decoded, or as an earlier call left them.

    The copy belongs to the path, size and time of change of the file. It lies in `symshare` below
    `XDG_CACHE_HOME`, by default `~/.cache`, and may be deleted at any time. Where nothing can be
    written there, every call decodes.

    Args:
        path: The file.
        decode: What reads it.
    """
    from safetensors import SafetensorError
    from safetensors.numpy import load, save

    copy = _folder() / f"{path.stem}-{_key(path)}.safetensors"
    with contextlib.suppress(OSError, SafetensorError):
        arrays = load(copy.read_bytes())
        return arrays["images"], arrays["labels"]
    images, labels = decode()
    content = save({"images": images, "labels": np.ascontiguousarray(labels)})
    with contextlib.suppress(OSError):
        write_atomically(copy, content)
    return images, labels


def _folder() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "symshare"


def _key(path: Path) -> str:
    stat = path.stat()
    text = f"{path.resolve()} {stat.st_size} {stat.st_mtime_ns}"
    return hashlib.sha256(text.encode()).hexdigest()[:16]
