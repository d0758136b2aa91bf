"""What sources, transformations, axes and things are called, checked without heavy imports."""

import difflib
import re
import zipfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Literal, NamedTuple

TRANSFORMS = {
    **{name: name for name in ("none", "flip", "flips", "half", "quarter", "d4")},
    "rotate": "rotate:A",
    "scale": "scale:a-b",
}
"""How the transformation of each name is written."""

AXES = ("", "L", "HW", "DHW")
"""Letters of the axes of space, by their number: steps; height and width; depth too."""


RANGES = {
    1: ("shift", "warp", "gain", "offset", "blur", "noise"),
    2: (
        *("turn", "scale", "shiftH", "shiftW", "shear"),
        *("brightness", "contrast", "blur", "noise"),
    ),
    3: (
        *("turnx", "turny", "turnz", "scale", "shiftx", "shifty", "shiftz"),
        *("brightness", "contrast", "blur", "noise"),
    ),
}
"""Families of moves with a size that signals, images and volumes have, by the axes of space."""


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
    0: Things("vector", "vectors", "numbers"),
    1: Things("signal", "signals", "steps"),
    2: Things("image", "images", "pixels"),
    3: Things("volume", "volumes", "voxels"),
}
"""What is spoken of, by the number of axes of space."""

VECTOR = (1,)
"""The space of a vector: one position, at which it has a channel for each number."""


def things_of(space: Sequence[int]) -> Things:
    """What samples with axes of these lengths are called.

    >>> things_of((8, 8)).many, things_of((1,)).many
    ('images', 'vectors')
    """
    return THINGS[0 if tuple(space) == VECTOR else len(space)]


Target = Literal["classes", "numbers"]
"""What labels are: each the index of a class, or one or several numbers."""

Kind = Literal[
    "digits", "mnist", "cifar10", "arrays", "idx", "classes", "table", "parquet", "saved", "hub"
]
"""How a source is read."""


class Source(NamedTuple):
    """How a source is read, and from which files.

    Attributes:
        kind: "digits", "mnist" and "cifar10" by these names; "arrays" of an `.npz` file or a folder
            of `.npy` files; "idx" files in a folder; "classes", a folder with a folder for each; a
            "table" of paths and labels; a "parquet" file; a folder "saved" by Hugging Face
            datasets; or a data set of their "hub".
        files: Existing files or folders; none where scikit-learn or the Hub holds the source.
    """

    kind: Kind
    files: tuple[Path, ...] = ()


_NAMES = ("digits", "mnist", "cifar10")
_FORMS = (
    "a folder with a folder for each class, FILE.csv, FILE.parquet, FILE.npz, or images.npy beside "
    "labels.npy"
)
_FILES: dict[str, tuple[Kind, str]] = {
    ".npz": ("arrays", "an .npz file with `images` and `labels`"),
    ".npy": ("arrays", "images.npy, with labels.npy or targets.npy beside it"),
    ".csv": ("table", "a .csv file with columns `path` and `label`"),
    ".tsv": ("table", "a .tsv file with columns `path` and `label`"),
    ".parquet": ("parquet", "a .parquet file with columns `image` and `label`"),
}
"""How files of each ending are read, and what they are."""

_ARRAYS = (
    ("images.npy", "labels.npy"),
    ("images.npy", "targets.npy"),
    ("train_images.npy", "train_labels.npy"),
    ("train_images.npy", "train_targets.npy"),
)
"""Files one of which pairs makes a folder one of arrays."""

_SAVED = ("dataset_info.json", "dataset_dict.json")
"""Files one of which `datasets.save_to_disk` leaves."""

_MNIST = tuple(
    f"{part}-{kind}-ubyte" for part in ("train", "t10k") for kind in ("images-idx3", "labels-idx1")
)
_CIFAR10 = ("train.parquet", "test.parquet")
_NUMBER = r"(?:\d+\.?\d*|\.\d+)"


@dataclass(frozen=True, kw_only=True)
class Storage:
    """Where a source lies, how it is read, and how much of it is used.

    Attributes:
        root: folder of the MNIST idx files or of CIFAR-10's parquet files, or that a relative path
            starts from.
        limit: most images for training and validation together.
        layout: order of the axes of arrays, such as NCL for signals; by default their array
            `layout`, or what the shape tells.
        size: HEIGHTxWIDTH, such as 32x32, that pictures in files are resized to.
        colour: what pictures in files are converted to, grey or rgb, and laid on black where they
            are transparent.
        image_column: column of a table that holds the images or their paths; by default image, img,
            path or file.
        label_column: column of a table that holds the labels; by default label or class.
        skip_broken: leave out pictures that cannot be decoded, and count them.
        target: what the labels of arrays are, classes or numbers; by default numbers where an array
            `targets` stands in the place of `labels`, else classes.
        target_columns: columns of a table that hold the numbers of a label, as in row,column.
    """

    root: str | None = None
    limit: int | None = None
    layout: str | None = None
    size: str | None = None
    colour: Literal["grey", "rgb"] | None = None
    image_column: str | None = None
    label_column: str | None = None
    skip_broken: bool = False
    target: Target | None = None
    target_columns: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Refuse a size that is none."""
        if self.size is not None:
            check_size(self.size)

    def options(self) -> dict[str, Any]:
        """All but the source and its transformation, as `symshare.data.load` takes them."""
        return {option.name: getattr(self, option.name) for option in fields(Storage)}

    def to_dict(self) -> dict[str, Any]:
        """Plain values; folders of version 0.1 know none of those behind the limit."""
        values = {name: v for name, v in asdict(self).items() if v not in (None, False, ())}
        values = {n: list(v) if isinstance(v, tuple) else v for n, v in values.items()}
        return {"root": self.root, "limit": self.limit} | values


def check_ranges(names: Sequence[str], axes: int) -> tuple[str, ...]:
    """The families of moves that are asked for, "all" for every one.

    Args:
        names: Of families, or "all".
        axes: Axes of space of the data.

    Raises:
        ValueError: If the data has no such family.

    Example:
        >>> check_ranges(["all"], 1)
        ('shift', 'warp', 'gain', 'offset', 'blur', 'noise')
    """
    if axes not in RANGES:
        raise ValueError(
            f"ranges: {THINGS[axes].many} have no moves with a size, got {', '.join(names)}; leave "
            "ranges out"
        )
    known = RANGES[axes]
    if tuple(names) == ("all",):
        return known
    if unknown := [name for name in names if name not in known]:
        near = difflib.get_close_matches(unknown[0].lower(), known, n=2)
        hint = f"did you mean {' or '.join(near)}?" if near else "use some of them"
        raise ValueError(
            f"ranges: expected all, or some of {', '.join(known)} for {THINGS[axes].many}, got "
            f"{unknown[0]!r}; {hint}"
        )
    return tuple(name for name in known if name in names)


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


def becoming(target_map: Sequence[Sequence[float]], numbers: Sequence[str]) -> str:
    """What a map [A | b] of the numbers of a label does, in words; empty where they stay.

    >>> becoming(((0.0, -1.0, 0.0), (1.0, 0.0, 0.0)), ("row", "column"))
    '(row, column) becoming (-column, row)'
    >>> becoming(((-1.0, 11.0),), ("x",))
    'x becoming -x + 11'
    """
    made = {
        name: _sum(row, numbers)
        for i, (name, row) in enumerate(zip(numbers, target_map, strict=True))
        if list(row) != [float(j == i) for j in range(len(row))]
    }
    before, after = ", ".join(made), ", ".join(made.values())
    if len(made) > 1:
        return f"({before}) becoming ({after})"
    return f"{before} becoming {after}" if made else ""


def _sum(row: Sequence[float], numbers: Sequence[str]) -> str:
    """A sum of numbers with factors, and a constant."""
    *factors, offset = row
    terms = [(f, name) for f, name in zip(factors, numbers, strict=True) if abs(f) >= _SEEN]
    words: list[str] = []
    for factor, name in [*terms, (offset, "")] if offset or not terms else terms:
        sign = ("- " if words else "-") if factor < 0 else ("+ " if words else "")
        size = "" if name and abs(factor) == 1 else f"{abs(factor):.3g}"
        words.append(sign + " ".join(filter(None, (size, name))))
    return " ".join(words)


_SEEN = 5e-3
"""Least factor of a number that is spoken of."""


def check_source(source: str, root: Path | str | None = None) -> Source:
    """How a source of images is read, and from which files.

    Args:
        source: As for `symshare.data.load`.
        root: Folder of its files, or that a relative path starts from.

    Returns:
        Its kind and its files, without a look into most of them.

    Raises:
        ValueError: If there is no such source, or a file is of another kind.
        OSError: If a file is missing or cannot be read.

    Example:
        >>> check_source("digits")
        Source(kind='digits', files=())
        >>> check_source("owner/name").kind
        'hub'
    """
    if source == "digits":
        return Source("digits")
    if source == "mnist":
        return Source(source, _find(source, root, _MNIST, ".gz"))
    if source == "cifar10":
        return Source(source, _find(source, root, _CIFAR10, ""))
    path = Path(root or "") / source
    if source and path.is_dir():
        return _folder(path)
    if (ending := path.suffix.lower()) in _FILES:
        return _file(path, *_FILES[ending])
    if source and path.exists():
        raise ValueError(
            f"load: expected one of {', '.join(_NAMES)}, or {_FORMS}, got {path}, a file of "
            "another kind, which is not read; save it with numpy.savez('FILE.npz', images=images, "
            "labels=labels)"
        )
    if root is None and re.fullmatch(r"\w[\w.-]*/[\w.-]+", source):
        return Source("hub")
    near = difflib.get_close_matches(source.lower(), _NAMES, n=2, cutoff=0.5)
    hint = f"did you mean {' or '.join(near)}?" if near else "use one of them"
    raise ValueError(
        f"load: expected one of {', '.join(_NAMES)}, or {_FORMS}, got {source!r}, which does not "
        f"exist; {hint}"
    )


def check_size(size: str) -> tuple[int, int]:
    """Height and width that images are resized to.

    Raises:
        ValueError: If they are not written as HEIGHTxWIDTH, each at least 2 pixels.

    Example:
        >>> check_size("32x48")
        (32, 48)
    """
    match = re.fullmatch(r"(\d{1,5})x(\d{1,5})", size)
    height, width = map(int, match.groups()) if match else (0, 0)
    if min(height, width) < 2:
        raise ValueError(
            f"size: expected HEIGHTxWIDTH in pixels, each at least 2, got {size!r}; write for "
            "example 32x32"
        )
    return height, width


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


def _folder(path: Path) -> Source:
    """How a folder is read, by what lies in it."""
    idx = tuple(_either(path, name, ".gz") for name in _MNIST)
    if all(file.is_file() for file in idx):
        return Source("idx", idx)
    if any(all((path / name).is_file() for name in names) for names in _ARRAYS):
        return Source("arrays", (path,))
    if any((path / name).is_file() for name in _SAVED):
        return Source("saved", (path,))
    if any(entry.is_dir() and not entry.name.startswith(".") for entry in path.iterdir()):
        return Source("classes", (path,))
    raise ValueError(
        f"load: expected a folder with a folder for each class, with images.npy and labels.npy, or "
        f"with the four idx files of MNIST, got {path}, a folder without any of these; move the "
        "images of each class into a folder of its name, or list them in FILE.csv with columns "
        "`path` and `label`"
    )


def _file(path: Path, kind: Kind, what: str) -> Source:
    """How a file is read that has the ending of a kind."""
    if not path.is_file():
        raise FileNotFoundError(f"load: no file {path}; give the path of {what}")
    if path.suffix.lower() == ".npy":
        if not any(path.name == one and (path.parent / two).is_file() for one, two in _ARRAYS):
            raise ValueError(
                f"{path}: expected {what}; save both by numpy.save in a folder of their own"
            )
        return Source(kind, (path.parent,))
    with path.open("rb") as file:
        if path.suffix.lower() == ".npz" and not zipfile.is_zipfile(file):
            raise ValueError(
                f"{path}: expected an .npz archive, got another or a cut file; save it with "
                "numpy.savez(path, images=images, labels=labels)"
            )
    return Source(kind, (path,))


def _either(root: Path, name: str, ending: str) -> Path:
    """The file of a name as it is, where there is one, else with the ending."""
    return root / name if (root / name).is_file() else root / (name + ending)


def _find(
    source: str, folder: Path | str | None, names: tuple[str, ...], ending: str
) -> tuple[Path, ...]:
    """The file of each name, as it is or with the ending; none where no folder is named."""
    if folder is None:
        return ()
    root = Path(folder)
    paths = [_either(root, name, ending) for name in names]
    missing = [name for name, path in zip(names, paths, strict=True) if not path.is_file()]
    if missing:
        also = f" (or with {ending})" if ending else ""
        what = f"no {', '.join(missing)}{also}" if root.is_dir() else "no such folder"
        raise FileNotFoundError(
            f"{source}: {what}: {root}; give the folder that holds "
            f"{', '.join(names[:-1])} and {names[-1]}"
        )
    return tuple(paths)
