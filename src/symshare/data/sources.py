"""Where labelled images come from: scikit-learn's digits, MNIST, CIFAR-10, and `.npz` files."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import numpy as np
from numpy.lib.npyio import NpzFile

from symshare.data.images import LabelledImages
from symshare.data.reading import cached, decode, first_line, read_idx, read_parquet
from symshare.data.splits import Splits, split
from symshare.extras import needs
from symshare.names import check_source

_DIGITS = tuple("0123456789")
_CIFAR = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
_HUB = {
    "mnist": ("ylecun/mnist", (28, 28), "train-images-idx3-ubyte.gz and its three companions"),
    "cifar10": ("uoft-cs/cifar10", (32, 32, 3), "train.parquet and test.parquet"),
}
"""Data set of the Hugging Face Hub, shape of its images, and the files that hold the same."""


def load(
    source: str,
    *,
    root: Path | str | None = None,
    seed: int = 0,
    limit: int | None = None,
    groups: str | None = None,
    layout: str | None = None,
) -> Splits:
    """Load a source of labelled images in three stratified parts.

    Args:
        source: `digits` (1797 images 8x8 in [0, 1], part of scikit-learn); `mnist` (70 000 images
            28x28 in [0, 1], with its official test part); `cifar10` (60 000 colour images 32x32 in
            [0, 1], with its official test part); or the path of an `.npz` file.

            The file holds `images` and `labels` and, optionally, `classes`, `layout` and `groups`,
            all as in `LabelledImages.from_arrays`. Or it holds `train_images`, `train_labels`,
            `test_images`, `test_labels` and, optionally, `val_images` and `val_labels`, as the
            files of MedMNIST do: the test part is kept, and those for validation are drawn anew
            from the training and validation images together. There three colours may be last.
        root: Folder of the MNIST idx files, plain or gzipped, or of CIFAR-10's `train.parquet` and
            `test.parquet` (the Hugging Face Hub if None), or the folder that a relative `.npz`
            path starts from.
        seed: Seed of the train and validation parts; the test part does not depend on it.
        limit: Most images in train and validation together, drawn by class; None for all.
        groups: Name of the array of the file that is read in the place of `groups`.
        layout: Order of the axes of the images of the file, where it holds none.

    Returns:
        Train, validation and test: about 65, 15 and 20 % where there is no official test part.

    Raises:
        ValueError: If the source is unknown, or its files or their content are malformed.
        OSError: If a file is missing or cannot be read, or the Hub cannot be reached.
        ModuleNotFoundError: If a package that reads the source is not installed.

    Example:
        >>> parts = load("digits")
        >>> len(parts.train), len(parts.validation), len(parts.test), parts.train.images.shape[1:]
        (1168, 270, 359, torch.Size([1, 8, 8]))
    """
    files = check_source(source, root)
    for name, value in (("groups", groups), ("layout", layout)):
        if value is not None and source in ("digits", *_HUB):
            raise ValueError(
                f"{source}: expected no {name}, got {value!r}; it is for files of your own, leave "
                "it out"
            )
    if source == "digits":
        pool, test = _digits(), None
    elif source in _HUB:
        pool, test = _from_files(source, files) if files else _from_hub(source)
    else:
        pool, test = _from_npz(files[0], groups, layout)
    return split(pool, test, name=source, seed=seed, limit=limit)


def _digits() -> LabelledImages:
    from sklearn.datasets import load_digits

    pixels, target = load_digits(return_X_y=True)
    return LabelledImages.from_arrays(pixels.reshape(-1, 1, 8, 8) / 16, target, _DIGITS)


def _from_files(source: str, files: tuple[Path, ...]) -> tuple[LabelledImages, LabelledImages]:
    shape = _HUB[source][1]
    if source == "mnist":
        train, test = (
            _named(source, read_idx(images, axes=3), read_idx(labels, axes=1), images.parent)
            for images, labels in (files[:2], files[2:])
        )
    else:
        train, test = (
            _named(source, *cached(path, partial(read_parquet, path, shape)), path)
            for path in files
        )
    return train, test


def _from_hub(source: str) -> tuple[LabelledImages, LabelledImages]:
    name, shape, files = _HUB[source]
    instead = f"or give the folder with {files} as --data.root"
    try:
        datasets = needs("datasets", "data", f"read {name} from the Hugging Face Hub")
        hub = datasets.load_dataset(name)
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(f"{source}: {error}, {instead}", name=error.name) from error
    except OSError as error:
        raise FileNotFoundError(
            f"{source}: cannot read {name} from the Hugging Face Hub ({first_line(error)}); try "
            f"again, {instead}"
        ) from error
    train, test = (
        _named(source, *decode(hub[part].with_format("arrow")[:], shape, name), name)
        for part in ("train", "test")
    )
    return train, test


def _named(source: str, images: np.ndarray, labels: np.ndarray, where: object) -> LabelledImages:
    """Images of a source that names its classes; three colours are last."""
    classes = np.array(_DIGITS if source == "mnist" else _CIFAR)
    layout = np.array("NHWC" if images.ndim == 4 else "NHW")
    arrays = {"images": images, "labels": labels, "classes": classes, "layout": layout}
    return _from_arrays(arrays, where)


def _from_npz(
    path: Path, groups: str | None, layout: str | None
) -> tuple[LabelledImages, LabelledImages | None]:
    with np.load(path, allow_pickle=False) as archive:
        arrays = {key: _array(archive, key, path) for key in archive.files if key in _KEYS}
        found = ", ".join(archive.files) or "none"
        if groups is not None:
            if groups not in archive.files:
                raise ValueError(
                    f"{path}: expected an array {groups!r} of groups, got {found}; name one of "
                    "these"
                )
            arrays["groups"] = _array(archive, groups, path)
    if layout is not None:
        arrays["layout"] = np.array(layout)
    of_groups = {"groups", *(f"{part}_groups" for part in _PARTS)} & {*archive.files, *arrays}
    if of_groups and "images" not in arrays:
        raise ValueError(
            f"{path}: groups go with `images` and `labels`, got {found}; save all images as one "
            "array, and their groups as `groups`"
        )
    if "images" in arrays and (both := [f"{p}_images" for p in _PARTS if f"{p}_images" in arrays]):
        raise ValueError(
            f"{path}: expected `images` or {', '.join(both)}, got both; leave out which is not "
            "meant"
        )
    if {"images", "labels"} <= set(arrays):
        return _from_arrays(arrays, path), None
    parts = [part for part in _PARTS if f"{part}_images" in arrays]
    needed = {f"{part}_{kind}" for part in ("train", "test", *parts) for kind in _KINDS}
    if not needed <= set(arrays):
        raise ValueError(
            f"{path}: expected arrays `images` and `labels`, or `train_images`, `train_labels`, "
            f"`test_images` and `test_labels`, got {found}; save them with "
            "numpy.savez(path, images=images, labels=labels)"
        )
    pairs = [(arrays[f"{part}_images"], arrays[f"{part}_labels"]) for part in parts]
    if len(kinds := {str(x.dtype) for x, _ in pairs}) > 1:
        raise ValueError(
            f"{path}: expected images of one type in {', '.join(parts)}, got "
            f"{', '.join(sorted(kinds))}; save all as uint8 or all as floats"
        )
    alike = {(x.shape[1:], y.shape[1:]) for x, y in pairs}
    if len(alike) > 1 or any(x.shape[:1] != y.shape[:1] for x, y in pairs):
        got = ", ".join(f"{list(x.shape)} and {list(y.shape)}" for x, y in pairs)
        raise ValueError(
            f"{path}: expected images of one shape in {', '.join(parts)}, and as many labels in "
            f"each, got {got}; resize the images, or give one label per image"
        )
    images, labels = zip(*pairs, strict=True)
    arrays |= {"images": np.concatenate(images), "labels": np.concatenate(labels)}
    if arrays["images"].ndim == 4 and arrays["images"].shape[3] == 3:
        arrays.setdefault("layout", np.array("NHWC"))  # as MedMNIST writes colours
    together = _from_arrays(arrays, path)
    cut = len(together) - len(labels[-1])
    return together.subset(range(cut)), together.subset(range(cut, len(together)))


_KINDS = ("images", "labels")
_PARTS = ("train", "val", "test")
_KEYS = {
    "classes",
    "groups",
    "layout",
    *_KINDS,
    *(f"{part}_{kind}" for part in _PARTS for kind in _KINDS),
}


def _array(archive: NpzFile, key: str, path: Path) -> np.ndarray:
    try:
        return archive[key]
    except ValueError as error:
        raise ValueError(
            f"{path}: expected `{key}` as a plain array, got an object array (images of unequal "
            "size?), which is a pickle and is not read; save it as one plain array"
        ) from error
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError) as error:
        raise ValueError(
            f"{path}: `{key}` is damaged ({error}); save it with "
            "numpy.savez(path, images=images, labels=labels)"
        ) from error


def _from_arrays(arrays: Mapping[str, np.ndarray], where: object) -> LabelledImages:
    classes = arrays["classes"].ravel().tolist() if "classes" in arrays else None
    try:
        layout = "".join(arrays["layout"].astype(str).ravel()) if "layout" in arrays else None
        return LabelledImages.from_arrays(
            arrays["images"], arrays["labels"], classes, layout, arrays.get("groups")
        )
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from error
