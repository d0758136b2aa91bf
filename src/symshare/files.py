"""Files that are either whole or absent, and folders that belong to one run."""

import json
import os
import platform
import tempfile
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any


def write_atomically(path: Path, content: bytes) -> None:
    """Write a file so that an interrupt leaves the old content or the new one, never a part.

    Args:
        path: the file; its folder is made where missing.
        content: the whole content.

    Raises:
        OSError: if the folder cannot be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        temporary.chmod(0o644)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def damaged(path: Path) -> str:
    """What to say of a file that cannot be read."""
    return f"{path} is damaged; delete it and repeat the same command"


def read_json(path: Path, *keys: str) -> dict[str, Any]:
    """Content of a JSON file that has to hold these keys.

    Raises:
        ValueError: if it is cut or holds something else.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise ValueError(damaged(path)) from error
    if not isinstance(content, dict) or not set(keys) <= set(content):
        raise ValueError(damaged(path))
    return content


@contextmanager
def open_tensors(path: Path) -> Generator[Any]:
    """An open safetensors file.

    Raises:
        ValueError: if it is cut.
    """
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, "pt") as file:
            yield file
    except SafetensorError as error:
        raise ValueError(damaged(path)) from error


@contextmanager
def claimed(folder: Path, config: Mapping[str, Any], fingerprint: str) -> Generator[None]:
    """A folder as the run of a configuration on some data, and of this call until it is left.

    A process that ends, however it ends, leaves its folders to others.

    Args:
        folder: made where missing.
        config: content of `config.yaml`, which marks the folder.
        fingerprint: hash of the data, kept there as a comment.

    Raises:
        ValueError: if the folder holds anything else.
        BlockingIOError: if another call works there.
        OSError: if it cannot be written.
    """
    path = folder / "config.yaml"
    if not path.exists() and folder.exists() and (not folder.is_dir() or any(_visible(folder))):
        raise ValueError(
            f"{folder} exists and is no run of symshare; choose another folder with --out"
        )
    with alone(folder):
        _mark(path, f"# data: sha256 {fingerprint}\n", config)
        yield


def _mark(path: Path, data: str, config: Mapping[str, Any]) -> None:
    """Write the settings of a run, or compare them, however they are written, with what stands."""
    from jsonargparse import ArgumentParser, Namespace, get_loader

    read = get_loader("yaml")
    settings = ArgumentParser().dump(Namespace(config), skip_unset=False, skip_validation=True)
    if not path.exists():
        write_atomically(path, (data + settings).encode())
        return
    written, ours = path.read_text(encoding="utf-8", errors="replace"), read(settings)
    try:
        theirs = read(written)
    except Exception:  # jsonargparse does not name what its loaders raise
        theirs = None
    if written.startswith(data) and theirs == ours:
        return
    holds = "holds a run of another configuration or of other data"
    if isinstance(theirs, dict) and theirs.keys() == ours.keys() and _keys(theirs) != _keys(ours):
        holds = "was written by symshare 0.1 or another version, whose settings have other names"
    raise ValueError(f"{path.parent} {holds} (see {path}); choose another folder with --out")


def _keys(settings: Any) -> Any:
    """Names of settings in place of settings."""
    return {k: _keys(v) for k, v in settings.items()} if isinstance(settings, dict) else None


@contextmanager
def alone(folder: Path) -> Generator[None]:
    """Keep other calls out of a folder, which is made where missing.

    Raises:
        BlockingIOError: if another call works there.
        OSError: if it cannot be written.
    """
    from filelock import FileLock, Timeout

    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OSError(
            f"{folder} cannot be made ({error.strerror}); choose another folder with --out"
        ) from error
    lock = FileLock(folder / ".lock")
    # Beside the lock, as some systems let nobody read a file that is locked.
    holder = folder / ".holder"
    try:
        lock.acquire(timeout=0)
    except Timeout as error:
        who = holder.read_text() if holder.exists() else "another process"
        raise BlockingIOError(
            f"{folder} is in use by {who}; wait until it ends, or choose another folder with --out"
        ) from error
    try:
        write_atomically(holder, f"process {os.getpid()} on {platform.node()}".encode())
        yield
    finally:
        holder.unlink(missing_ok=True)
        lock.release()


def _visible(folder: Path) -> list[Path]:
    """Content of a folder, without what an interrupted write may have left."""
    return [path for path in folder.iterdir() if not path.name.startswith(".")]
