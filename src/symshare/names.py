"""Sources and transformations by name, checked before anything heavy is imported."""

import difflib
import re
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

TRANSFORMS = {
    **{name: name for name in ("none", "flip", "flips", "half", "quarter", "d4")},
    "rotate": "rotate:A",
    "scale": "scale:a-b",
}
"""How the transformation of each name is written."""

AXES = ("", "L", "HW", "DHW")
"""Letters of the axes of space, by their number: steps; height and width; depth too."""


class Things(NamedTuple):
    """What samples of so many axes of space are called."""

    one: str
    many: str
    positions: str

    @property
    def a(self) -> str:
        """One of them, with its article."""
        return f"an {self.one}" if self.one == "image" else f"a {self.one}"


THINGS = {
    1: Things("signal", "signals", "steps"),
    2: Things("image", "images", "pixels"),
    3: Things("volume", "volumes", "voxels"),
}
"""What is spoken of, by the number of axes of space."""

_SOURCES = ("digits", "mnist", "cifar10", "FILE.npz")
_MNIST = tuple(
    f"{part}-{kind}-ubyte" for part in ("train", "t10k") for kind in ("images-idx3", "labels-idx1")
)
_CIFAR10 = ("train.parquet", "test.parquet")
_NUMBER = r"(?:\d+\.?\d*|\.\d+)"


def exchange(label_map: Sequence[int], classes: Sequence[str]) -> str:
    """What a map of the classes does, in words; empty where it leaves them as they are.

    >>> exchange((1, 0, 2), ("left", "right", "round"))
    'left and right exchanged'
    >>> exchange((1, 2, 0), ("a", "b", "c"))
    'a becoming b, b becoming c, c becoming a'
    """
    moved = [(k, to) for k, to in enumerate(label_map) if to != k]
    if all(label_map[to] == k for k, to in moved):
        pairs = [f"{classes[k]} and {classes[to]} exchanged" for k, to in moved if k < to]
    else:
        pairs = [f"{classes[k]} becoming {classes[to]}" for k, to in moved]
    return ", ".join(pairs)


def check_source(source: str, root: Path | str | None = None) -> tuple[Path, ...]:
    """The files that a source of images is read from.

    Args:
        source: As for `symshare.data.load`.
        root: Folder of its files.

    Returns:
        Existing files; none for the digits, which scikit-learn holds, and where there is no
        `root` to look in but the Hugging Face Hub.

    Raises:
        ValueError: If there is no such source, or a file is of another kind.
        OSError: If a file is missing or cannot be read.

    Example:
        >>> check_source("digits")
        ()
    """
    if source == "digits":
        return ()
    if source in ("mnist", "cifar10"):
        if root is None:
            return ()
        names, ending = (_MNIST, ".gz") if source == "mnist" else (_CIFAR10, "")
        return _find(source, Path(root), names, ending)
    path = Path(root or "") / source
    if source.endswith(".npz"):
        if not path.is_file():
            raise FileNotFoundError(
                f"load: no file {path}; give the path of an .npz file with `images` and `labels`"
            )
        with path.open("rb") as file:
            if not zipfile.is_zipfile(file):
                raise ValueError(
                    f"{path}: expected an .npz archive, got another or a cut file; save it with "
                    "numpy.savez(path, images=images, labels=labels)"
                )
        return (path,)
    if source and path.exists():
        kind = "a folder" if path.is_dir() else "a file of another kind"
        raise ValueError(
            f"load: expected one of {', '.join(_SOURCES)}, got {path}, {kind}, which is not read; "
            "save it with numpy.savez('FILE.npz', images=images, labels=labels)"
        )
    near = difflib.get_close_matches(source.lower(), _SOURCES, n=2, cutoff=0.5)
    hint = f"did you mean {' or '.join(near)}?" if near else "use one of them"
    raise ValueError(f"load: expected one of {', '.join(_SOURCES)}, got {source!r}; {hint}")


def check_transform(spec: str) -> tuple[str, tuple[float, float]]:
    """Name of a transformation, and the numbers between which it draws.

    Args:
        spec: As for `symshare.data.transform`.

    Raises:
        ValueError: If `spec` is no such name or its numbers are malformed or out of range.

    Example:
        >>> check_transform("scale:0.5-1")
        ('scale', (0.5, 1.0))
    """
    name, colon, written = spec.partition(":")
    got = repr(written or "nothing")
    if name == "rotate":
        if not re.fullmatch(_NUMBER, written) or not 0 < float(written) <= 360:
            raise ValueError(
                f"transform {spec!r}: expected rotate:A with A in degrees, 0 < A <= 360, got "
                f"{got} for A; write for example rotate:90"
            )
        return name, (0.0, float(written))
    if name == "scale":
        match = re.fullmatch(f"({_NUMBER})-({_NUMBER})", written)
        low, high = map(float, match.groups()) if match else (0.0, 0.0)
        if not 0 < low <= high:
            raise ValueError(
                f"transform {spec!r}: expected scale:a-b with 0 < a <= b, got {got} for a-b; "
                "write for example scale:0.5-1"
            )
        return name, (low, high)
    if name in TRANSFORMS and not colon:
        return name, (0.0, 0.0)
    near = [TRANSFORMS[n] for n in difflib.get_close_matches(name.lower(), TRANSFORMS, n=3)]
    hint = f"did you mean {' or '.join(near)}?" if near else "use one of them"
    raise ValueError(
        f"transform: expected one of {', '.join(TRANSFORMS.values())}, got {spec!r}; {hint}"
    )


def _find(source: str, root: Path, names: tuple[str, ...], ending: str) -> tuple[Path, ...]:
    """The file of each name, as it is or with the ending."""
    paths = [root / name if (root / name).is_file() else root / (name + ending) for name in names]
    missing = [name for name, path in zip(names, paths, strict=True) if not path.is_file()]
    if missing:
        also = f" (or with {ending})" if ending else ""
        what = f"no {', '.join(missing)}{also}" if root.is_dir() else "no such folder"
        raise FileNotFoundError(
            f"{source}: {what}: {root}; give the folder that holds "
            f"{', '.join(names[:-1])} and {names[-1]}"
        )
    return tuple(paths)
