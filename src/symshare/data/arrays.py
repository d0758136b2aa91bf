"""Images that are arrays already: `.npz` archives, and folders of `.npy` files."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Mapping, Set
from pathlib import Path

import numpy as np

from symshare.data.images import LabelledImages
from symshare.data.reading import first_line
from symshare.names import Target

_KINDS = ("images", "labels", "targets")
_PARTS = ("train", "val", "test")
_KEYS = {
    "classes",
    "numbers",
    "groups",
    "layout",
    *_KINDS,
    *(f"{part}_{kind}" for part in _PARTS for kind in _KINDS),
}


def read_arrays(
    path: Path, groups: str | None, layout: str | None, target: Target | None = None
) -> tuple[LabelledImages, LabelledImages | None]:
    """Read an `.npz` file, or a folder of `.npy` files that are named as its arrays would be.

    Args:
        path: The file or folder, see `symshare.data.load`.
        groups: Name of the array that is read in the place of `groups`.
        layout: Order of the axes of the images, where no array says.
        target: What labels are; by default numbers where an array `targets` stands in the place of
            `labels`, else classes.

    Returns:
        The images, and those of the official test part, if there is one.

    Raises:
        ValueError: If arrays are missing, damaged, or do not belong together.
    """
    names, arrays = (_mapped if path.is_dir() else _unpacked)(path, {*_KEYS, groups})
    found = ", ".join(names) or "none"
    if groups is not None:
        if groups not in arrays:
            raise ValueError(
                f"{path}: expected an array {groups!r} of groups, got {found}; name one of these"
            )
        arrays["groups"] = arrays[groups]
    if layout is not None:
        arrays["layout"] = np.array(layout)
    of_groups = {"groups", *(f"{part}_groups" for part in _PARTS)} & {*names, *arrays}
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
    target = _named_labels(arrays, target, path)
    if {"images", "labels"} <= set(arrays):
        return labelled(arrays, path, target), None
    parts = [part for part in _PARTS if f"{part}_images" in arrays]
    needed = {f"{part}_{kind}" for part in ("train", "test", *parts) for kind in _KINDS[:2]}
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
    together = labelled(arrays, path, target)
    cut = len(together) - len(labels[-1])
    return together.subset(range(cut)), together.subset(range(cut, len(together)))


def _named_labels(arrays: dict[str, np.ndarray], target: Target | None, path: Path) -> Target:
    """What the labels are; arrays `targets`, which are numbers, are named `labels` then."""
    of_numbers = [name for name in arrays if name.endswith("targets")]
    both = [name for name in of_numbers if name.replace("targets", "labels") in arrays]
    if both and target is None:
        raise ValueError(
            f"{path}: expected `labels` or `targets`, got both; say which are meant by "
            "--data.target classes or --data.target numbers"
        )
    if not of_numbers or target == "classes":
        return target or "classes"
    for name in of_numbers:
        arrays[name.replace("targets", "labels")] = arrays.pop(name)
    return "numbers"


def _unpacked(path: Path, wanted: Set[str | None]) -> tuple[list[str], dict[str, np.ndarray]]:
    """Names of all arrays of an archive, and those that are wanted."""
    with np.load(path, allow_pickle=False) as archive:
        arrays = {}
        for name in archive.files:
            if name in wanted:
                try:
                    arrays[name] = archive[name]
                except ValueError as error:
                    raise ValueError(_pickled(path, name)) from error
                except (zipfile.BadZipFile, zlib.error, EOFError, OSError) as error:
                    raise ValueError(
                        f"{path}: `{name}` is damaged ({error}); save it with "
                        "numpy.savez(path, images=images, labels=labels)"
                    ) from error
        return list(archive.files), arrays


def _mapped(path: Path, wanted: Set[str | None]) -> tuple[list[str], dict[str, np.ndarray]]:
    """Names of all arrays of a folder, and those that are wanted, mapped from their files."""
    files = {file.stem: file for file in sorted(path.glob("*.npy"))}
    arrays = {}
    for name in files.keys() & wanted:
        try:
            with files[name].open("rb") as file:
                np.lib.format.read_magic(file)
            arrays[name] = np.load(files[name], mmap_mode="r", allow_pickle=False)
        except (ValueError, EOFError) as error:
            pickled = "object" in str(error).lower()
            raise ValueError(
                _pickled(path, name)
                if pickled
                else f"{files[name]}: not a sound .npy file ({first_line(error)}); save it with "
                "numpy.save"
            ) from error
    return list(files), arrays


def _pickled(path: Path, name: str) -> str:
    """What to say of an array that holds objects."""
    return (
        f"{path}: expected `{name}` as a plain array, got an object array (images of unequal "
        "size?), which is a pickle and is not read; save it as one plain array"
    )


def labelled(
    arrays: Mapping[str, np.ndarray], where: object, target: Target = "classes"
) -> LabelledImages:
    """The images of arrays that are named as in a file; errors begin with where they are from."""
    names = arrays[target].ravel().tolist() if target in arrays else None
    try:
        layout = "".join(arrays["layout"].astype(str).ravel()) if "layout" in arrays else None
        return LabelledImages.from_arrays(
            arrays["images"],
            arrays["labels"],
            layout=layout,
            groups=arrays.get("groups"),
            target=target,
            **{target: names},
        )
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from error
