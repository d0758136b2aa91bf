"""Where labelled images come from: data sets by name, and files and folders of many kinds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from symshare.data.arrays import labelled, read_arrays
from symshare.data.folders import list_folder
from symshare.data.images import LabelledImages
from symshare.data.listing import Decoding, Listing, Progress, read
from symshare.data.pictures import Colour
from symshare.data.reading import read_idx
from symshare.data.splits import Splits, split
from symshare.data.tables import Columns, list_csv, list_hub, list_parquet, list_saved
from symshare.names import Kind, Source, Target, check_size, check_source

_DIGITS = tuple("0123456789")
_CIFAR = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
_NAMED = {
    "mnist": ("ylecun/mnist", _DIGITS, (1, 28, 28), "train-images-idx3-ubyte.gz and its three "
              "companions"),
    "cifar10": ("uoft-cs/cifar10", _CIFAR, (3, 32, 32), "train.parquet and test.parquet"),
}  # fmt: skip
"""Data set of the Hugging Face Hub, its classes, shape of its images, and the files that hold the
same."""

_PICTURES = {"size", "colour", "skip_broken"}
_TABLES = {*_PICTURES, "groups", "image_column", "label_column", "target_columns"}
_READ: dict[Kind, set[str]] = {
    "arrays": {"groups", "layout", "target"},
    "classes": _PICTURES,
    "table": _TABLES,
    "parquet": _TABLES,
    "saved": _TABLES,
    "hub": _TABLES,
}
"""Options that sources of each kind have; the others have none."""


def load(
    source: str,
    *,
    root: Path | str | None = None,
    seed: int = 0,
    limit: int | None = None,
    groups: str | None = None,
    layout: str | None = None,
    size: str | None = None,
    colour: Colour | None = None,
    image_column: str | None = None,
    label_column: str | None = None,
    skip_broken: bool = False,
    target: Target | None = None,
    target_columns: tuple[str, ...] = (),
    progress: Progress | None = None,
) -> Splits:
    """Load a source of labelled images in three stratified parts.

    Args:
        source: `digits` (1797 images 8x8 in [0, 1], part of scikit-learn); `mnist` (70 000 images
            28x28 in [0, 1], with its official test part); `cifar10` (60 000 colour images 32x32 in
            [0, 1], with its official test part); or one of these:

            An `.npz` file with `images` and `labels` and, optionally, `classes`, `layout` and
            `groups`, all as in `LabelledImages.from_arrays`; labels that are numbers stand in
            `targets` in the place of `labels`, with names in `numbers`. Or with `train_images`,
            `train_labels`, `test_images`, `test_labels` and, optionally, `val_images` and
            `val_labels`, as the files of MedMNIST have: the test part is kept, and those for
            validation are drawn anew from the training and validation images together. There three
            colours may be last.

            A folder with `.npy` files of these names, or the path of its `images.npy`; a folder
            with the four idx files of MNIST.

            A folder with a folder of PNG, JPEG, TIFF, WebP or BMP files for each class, or with
            folders `train`, `test` and, optionally, `val` of such folders: the test part is kept.

            A `.csv` or `.tsv` file with columns `path` (or `file`, `image`), relative to it, and
            `label` (or `class`) and, optionally, `group`; a `.parquet` file with such columns,
            where images are bytes or structs of `bytes` and `path`; a folder that
            `datasets.save_to_disk` wrote; or `owner/name`, a data set of the Hugging Face Hub. A
            part `test` of these is kept, parts of other names than `train` and `validation` are
            passed over.

            In folders and tables NIfTI volumes (`.nii`, `.nii.gz`), turned so that their axes run
            from the feet to the head, from the back to the front and from left to right, and
            headers of WFDB records (`.hea`) stand in the place of pictures; their values are kept.

            Images of 8 bits are divided by 255, grey ones of 16 bits by 65 535.
        root: Folder of the MNIST idx files, plain or gzipped, or of CIFAR-10's `train.parquet` and
            `test.parquet` (the Hugging Face Hub if None), or the folder that a relative path starts
            from.
        seed: Seed of the train and validation parts; the test part does not depend on it.
        limit: Most images in train and validation together, drawn by class; None for all. Of
            files of pictures only so many are decoded, and a fourth more for a test part that is
            yet to be cut, so that it is smaller, too.
        groups: Name of the array or column that is read in the place of `groups` or `group`.
        layout: Order of the axes of arrays, where none of them says.
        size: Height and width, as in "32x32", that pictures are resized to, antialiased and
            whatever their proportions; they have to be of one size where it is left out.
        colour: What pictures are converted to, `grey` or `rgb`, and laid on black where they are
            transparent; they have to be opaque, and all grey or all in colour, where it is left
            out.
        image_column: Name of the column of images or paths of a table.
        label_column: Name of the column of labels of a table.
        skip_broken: Whether to leave out pictures that cannot be decoded, with a warning that
            counts them.
        target: What labels of arrays are, classes or numbers; needed where they are numbers and
            stand in `labels`, or where there are `labels` and `targets`.
        target_columns: Names of the columns of a table that hold the numbers of a label, in the
            place of a column of classes.
        progress: Told how many pictures are decoded, and of how many, once that has taken seconds.

    Returns:
        Train, validation and test: about 65, 15 and 20 % where there is no official test part.

    Raises:
        ValueError: If the source is unknown, has no such option, or its files or their content are
            malformed.
        OSError: If a file is missing or cannot be read, or the Hub cannot be reached.
        ModuleNotFoundError: If a package that reads the source is not installed.

    Example:
        >>> parts = load("digits")
        >>> len(parts.train), len(parts.validation), len(parts.test), parts.train.images.shape[1:]
        (1168, 270, 359, torch.Size([1, 8, 8]))
    """
    found = check_source(source, root)
    options = {
        "groups": groups,
        "layout": layout,
        "size": size,
        "colour": colour,
        "image_column": image_column,
        "label_column": label_column,
        "skip_broken": skip_broken or None,
        "target": target,
        "target_columns": target_columns or None,
    }
    known = _READ.get(found.kind, set())
    for name, value in options.items():
        if value is not None and name not in known:
            remedy = "leave it out"
            if name == "target" and "target_columns" in known:
                remedy = "name the columns of the numbers by target_columns"
            raise ValueError(
                f"{source}: expected no {name}, got {value!r}; sources of this kind have none, "
                f"{remedy}"
            )
    if label_column is not None and target_columns:
        raise ValueError(
            f"{source}: expected a column of classes or columns of numbers, got label_column and "
            "target_columns; leave one out"
        )
    columns = Columns(image_column, label_column, groups, tuple(target_columns))
    shape = None if size is None else check_size(size)
    decoding = Decoding(shape, colour, skip_broken, progress)
    if found.kind == "digits":
        pool, test = _digits(), None
    elif found.kind in _NAMED:
        pool, test = _named(found, decoding)
    elif found.kind == "arrays":
        pool, test = read_arrays(found.files[0], groups, layout, target)
    elif found.kind == "idx":
        pool, test = _idx(found.files)
    else:
        pool, test = read(_listing(source, found, columns), decoding, limit)
    return split(pool, test, name=source, seed=seed, limit=limit)


def _listing(source: str, found: Source, columns: Columns) -> Listing:
    """The pictures of a source of such files."""
    if found.kind == "hub":
        return list_hub(source, columns)
    (path,) = found.files
    if found.kind == "parquet":
        return list_parquet({"": path}, str(path), columns)
    lists: dict[Kind, Callable[[], Listing]] = {
        "classes": partial(list_folder, path),
        "table": partial(list_csv, path, columns),
        "saved": partial(list_saved, path, columns),
    }
    return lists[found.kind]()


def _digits() -> LabelledImages:
    from sklearn.datasets import load_digits

    pixels, target = load_digits(return_X_y=True)
    return LabelledImages.from_arrays(pixels.reshape(-1, 1, 8, 8) / 16, target, _DIGITS)


def _named(found: Source, decoding: Decoding) -> tuple[LabelledImages, LabelledImages]:
    """A data set of which classes and shape are known, from its files or from the Hub."""
    name, classes, shape, files = _NAMED[found.kind]
    if found.kind == "mnist" and found.files:
        return _idx(found.files, classes)
    again = f"fetch the files of {found.kind} again"
    try:
        if found.files:
            parts = dict(zip(("train", "test"), found.files, strict=True))
            listing = list_parquet(parts, str(found.files[0].parent), Columns())
        else:
            instead = f"or give the folder with {files} as --data.root"
            listing = list_hub(name, Columns(), instead)
        pool, test = read(listing, decoding)
    except ValueError as error:
        # The remedies are options, which a data set that everybody knows does not have.
        raise ValueError(f"{str(error).rpartition('; ')[0]}; {again}") from error
    got = None if test is None else (len(pool.classes), *pool.images.shape[1:])
    if test is None or got != (len(classes), *shape):
        raise ValueError(
            f"{listing.where}: expected two parts of {len(classes)} classes and images "
            f"{list(shape)}, got {got or 'one part'}; {again}"
        )
    return replace(pool, classes=classes), replace(test, classes=classes)


def _idx(
    files: tuple[Path, ...], classes: tuple[str, ...] | None = None
) -> tuple[LabelledImages, LabelledImages]:
    """Images for training and those of the official test part; classes are numbers by default."""
    parts = [
        (read_idx(images, axes=3), read_idx(labels, axes=1))
        for images, labels in (files[:2], files[2:])
    ]
    largest = max(int(labels.max(initial=0)) for _, labels in parts)
    named = {"classes": np.array(classes or range(largest + 1)), "layout": np.array("NHW")}
    train, test = (
        labelled({"images": images, "labels": labels, **named}, files[0].parent)
        for images, labels in parts
    )
    return train, test
