"""Labelled pictures of a source: listed first, then decoded once and kept as a copy."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from symshare.data.images import LabelledImages
from symshare.data.pictures import Colour, DamagedPictureError, picture
from symshare.data.reading import Arrays, cached
from symshare.data.scans import RECORD, VOLUMES, companions, signal, volume
from symshare.data.splits import PER_CLASS, TEST_SHARE, check_counts, draw
from symshare.data.strata import strata_of

Progress = Callable[[int, int], object]
"""Told how many pictures are decoded, and of how many."""

_CHUNK = 64
"""Pictures that a thread decodes at a time."""

_QUIET_SECONDS = 2.0
"""What is done sooner needs no bar."""

_FLOATS = 2
"""Copies in 32 bits that reading makes of decoded pictures: all of them, and their parts."""

_DRAW_SEED = 20241
"""Of the pictures that a limit leaves, so that a test part that is cut from them is the same for
every seed."""

_CGROUP, _MEMORY = Path("/sys/fs/cgroup/memory.max"), Path("/proc/meminfo")
"""Where Linux says how much memory a container may take, and how much is free."""


class Encoded(NamedTuple):
    """A picture before it is decoded.

    Attributes:
        name: What it is called in errors.
        content: Path of its file, its bytes, or None where it has neither.
    """

    name: str
    content: str | bytes | None


class Decoded(NamedTuple):
    """A picture, volume or signal.

    Attributes:
        pixels: Its values.
        axes: Letters of their axes: HW, HWC, DHW or CL.
    """

    pixels: np.ndarray
    axes: str


_KINDS = {"HW": "grey", "HWC": "in colour", "DHW": "a volume", "CL": "a signal"}
"""What things of such axes are."""


@dataclass(frozen=True)
class Decoding:
    """How pictures are decoded.

    Attributes:
        size: Height and width to resize to; None keeps theirs, which then have to be alike.
        colour: What all are converted to; None keeps theirs, which then have to be alike.
        skip_broken: Whether to leave out what cannot be decoded.
        progress: Told after every few pictures, once decoding has taken some seconds.
    """

    size: tuple[int, int] | None = None
    colour: Colour | None = None
    skip_broken: bool = False
    progress: Progress | None = None


@dataclass(frozen=True, eq=False)
class Listing:
    """Labelled pictures of a source, none of which is decoded yet.

    Attributes:
        where: Name of the source in errors.
        labels: Index into `classes` of each picture, or its numbers.
        classes: Names of the classes; empty where labels are numbers.
        files: Paths of all files that the pictures depend on.
        encoded: Gives the pictures at some positions.
        groups: Name of the group of each picture.
        test: Which pictures are an official test part.
        numbers: Names of the numbers; empty where labels are classes.
    """

    where: str
    labels: Int[Tensor, " N"] | Float[Tensor, "N d"]
    classes: tuple[str, ...]
    files: Sequence[str]
    encoded: Callable[[Sequence[int]], Sequence[Encoded]]
    groups: Sequence[str] | None = None
    test: Sequence[bool] | None = None
    numbers: tuple[str, ...] = ()


def numbered(
    names: Sequence[str], where: str, order: Sequence[str] | None = None
) -> tuple[Int[Tensor, " N"], tuple[str, ...]]:
    """Number the classes of some names.

    Args:
        names: Name of the class of each picture.
        where: Name of the source in errors.
        order: All names that there may be, in their order; by default they are sorted, by value
            where all are numbers.

    Returns:
        The number of the class of each picture, and the names of the classes.

    Raises:
        ValueError: If there are fewer than two classes.

    Example:
        >>> numbered(["10", "9", "9"], "FOLDER")
        (tensor([1, 0, 0]), ('9', '10'))
    """
    classes = sorted(set(names))
    if order is not None:
        classes = [name for name in order if name in set(classes)]
    elif all(name.isdecimal() for name in classes):
        classes.sort(key=int)
    if len(classes) < 2:
        got = f"only {classes[0]!r}" if classes else "no image"
        raise ValueError(
            f"{where}: expected images of at least 2 classes, got {got}; add images of "
            "another class"
        )
    index = {name: i for i, name in enumerate(classes)}
    return torch.tensor([index[name] for name in names]), tuple(classes)


def read(
    listing: Listing, decoding: Decoding, limit: int | None = None
) -> tuple[LabelledImages, LabelledImages | None]:
    """Decode listed pictures, or take the copy that an earlier call left.

    Args:
        listing: The pictures.
        decoding: How to decode them.
        limit: Most images for training and validation together. Only so many are decoded, and as
            many more as a test part takes that is yet to be cut; which, does not depend on a seed.

    Returns:
        The images, and those of the official test part, if there is one.

    Raises:
        ValueError: If a class has too few pictures, if pictures differ in size, channels or depth,
            if some are broken, or if memory does not hold them.
    """
    test = None if listing.test is None else torch.tensor(listing.test)
    chosen = _chosen(listing, test, limit)
    options = repr((decoding.size, decoding.colour, decoding.skip_broken, limit, len(chosen)))
    decode = partial(_decode_all, listing, chosen.tolist(), decoding)
    # Where no file is behind a source, nothing would notice its change.
    files = [*listing.files, *(other for file in listing.files for other in companions(file))]
    arrays = cached(files, decode, options) if files else decode()
    images, kept = arrays["images"], torch.from_numpy(arrays["kept"])
    if left_out := len(chosen) - len(kept):
        warnings.warn(
            f"{listing.where}: {left_out} of {len(chosen)} images are broken and were left out",
            stacklevel=2,
        )
    chosen = chosen[kept]
    groups = None if listing.groups is None else [listing.groups[i] for i in chosen.tolist()]
    layout = "N" + arrays["axes"].tobytes().decode()
    try:
        data = LabelledImages.from_arrays(
            images,
            listing.labels[chosen],
            listing.classes or None,
            layout,
            groups,
            "numbers" if listing.numbers else "classes",
            listing.numbers or None,
        )
    except ValueError as error:
        raise ValueError(f"{listing.where}: {error}") from error
    if test is None:
        return data, None
    held = test[chosen]
    return data.subset((~held).nonzero().flatten()), data.subset(held.nonzero().flatten())


def _chosen(listing: Listing, test: Tensor | None, limit: int | None) -> Int[Tensor, " M"]:
    """Positions of the pictures that are decoded."""
    pool = torch.ones(len(listing.labels), dtype=torch.bool) if test is None else ~test
    strata, needed = strata_of(listing).index, PER_CLASS + (test is None)
    labels = strata[pool]
    missing = (labels.bincount(minlength=len(listing.classes)) == 0).nonzero().flatten()
    if len(missing) and listing.classes:
        raise ValueError(
            f"{listing.where}: expected every class beside the test part, got class "
            f"{listing.classes[int(missing[0])]!r} in that alone; name it as in the other parts"
        )
    remedy = "add images or leave the class out"
    check_counts(listing.labels[pool], listing, needed, listing.where, remedy)
    if limit is not None:
        count = limit if test is not None else math.ceil(limit / (1 - TEST_SHARE))
        if count < len(labels):
            drawn = draw(labels, count, torch.Generator().manual_seed(_DRAW_SEED))
            where = f"{listing.where} with limit {limit}"
            check_counts(listing.labels[pool][drawn], listing, needed, where, "raise the limit")
            pool[pool.nonzero().flatten()[~drawn]] = False
    return (pool if test is None else pool | test).nonzero().flatten()


def _decode_all(listing: Listing, chosen: Sequence[int], decoding: Decoding) -> Arrays:
    """Images [N, ...], the letters of their axes, and which of the chosen pictures they are."""
    pictures = listing.encoded(chosen)
    broken: dict[int, str] = {}
    first = _first(pictures, decoding, broken)
    if first is None:
        raise ValueError(_broken(listing.where, pictures, broken))
    start, (model, like) = time.monotonic(), first
    _check_memory(listing.where, len(pictures), like.pixels)
    images = np.empty((len(pictures), *like.pixels.shape), like.pixels.dtype)
    fill = partial(_fill, images, pictures, decoding, (pictures[model].name, like))
    chunks = [range(i, min(i + _CHUNK, len(pictures))) for i in range(0, len(pictures), _CHUNK)]
    pool = ThreadPoolExecutor()
    try:
        for chunk, failed in zip(chunks, pool.map(fill, chunks), strict=True):
            broken |= failed
            if decoding.progress is not None and time.monotonic() - start > _QUIET_SECONDS:
                decoding.progress(chunk.stop, len(pictures))
    finally:
        pool.shutdown(cancel_futures=True)
    if broken and not decoding.skip_broken:
        raise ValueError(_broken(listing.where, pictures, broken))
    kept = np.array([i for i in range(len(pictures)) if i not in broken])
    axes = np.frombuffer(like.axes.encode(), np.uint8)
    return {"images": images[kept] if broken else images, "axes": axes, "kept": kept}


def _first(
    pictures: Iterable[Encoded], decoding: Decoding, broken: dict[int, str]
) -> tuple[int, Decoded] | None:
    """Position of the first picture that is sound, and its pixels."""
    for i, encoded in enumerate(pictures):
        try:
            return i, _decode(encoded, decoding)
        except DamagedPictureError as error:
            broken[i] = str(error)
    return None


def _fill(
    images: np.ndarray,
    pictures: Sequence[Encoded],
    decoding: Decoding,
    model: tuple[str, Decoded],
    positions: range,
) -> dict[int, str]:
    """Decode some pictures into their places; what is wrong with those that are broken."""
    broken = {}
    for i in positions:
        try:
            decoded = _decode(pictures[i], decoding)
        except DamagedPictureError as error:
            broken[i] = str(error)
        else:
            _check_alike(model, (pictures[i].name, decoded))
            images[i] = decoded.pixels
    return broken


def _decode(encoded: Encoded, decoding: Decoding) -> Decoded:
    """The pixels of a picture, or what a volume or signal has in their place."""
    name, content = encoded
    try:
        if isinstance(content, str) and content.endswith((*VOLUMES, RECORD)):
            if decoding.size is not None or decoding.colour is not None:
                raise ValueError(
                    "expected no size and no colour for volumes and signals; resample them first"
                )
            if content.endswith(VOLUMES):
                return Decoded(volume(content), "DHW")
            return Decoded(signal(content), "CL")
        if isinstance(content, str):
            try:
                content = Path(content).read_bytes()
            except OSError as error:
                raise DamagedPictureError(error.strerror) from error
        if content is None:
            raise DamagedPictureError("expected the bytes of an image file, got none")
        pixels = picture(content, decoding.size, decoding.colour)
        return Decoded(pixels, "HW" if pixels.ndim == 2 else "HWC")
    except DamagedPictureError:
        raise
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from error


def _check_alike(one: tuple[str, Decoded], other: tuple[str, Decoded]) -> None:
    """Refuse pictures that do not fit into one array."""
    (name, model), (another, decoded) = one, other
    if model.axes != decoded.axes:
        pictures = {model.axes, decoded.axes} == {"HW", "HWC"}
        remedy = "convert all with --data.colour grey or --data.colour rgb"
        raise ValueError(
            "expected images that are all grey, all in colour, or all of another kind, got "
            f"{name}, {_KINDS[model.axes]}, and {another}, {_KINDS[decoded.axes]}; "
            f"{remedy if pictures else 'keep those of one kind'}"
        )
    if model.pixels.shape != decoded.pixels.shape:
        space = [letter in "DHWL" for letter in model.axes]
        sizes = [
            "x".join(str(n) for n, kept in zip(x.pixels.shape, space, strict=True) if kept)
            for x in (model, decoded)
        ]
        remedy = "resize all with --data.size 32x32 or another HEIGHTxWIDTH"
        raise ValueError(
            f"expected images of one size, got {name} of {sizes[0]} and {another} of {sizes[1]}; "
            f"{remedy if model.axes in ('HW', 'HWC') else 'resample or cut them alike'}"
        )
    if model.pixels.dtype != decoded.pixels.dtype:
        kinds = ["8 bits" if x.pixels.dtype == np.uint8 else "more" for x in (model, decoded)]
        raise ValueError(
            f"expected images of as many bits a value, got {name} of {kinds[0]} and {another} of "
            f"{kinds[1]}; save all with 8 bits, or all with 16"
        )


def _broken(where: str, pictures: Sequence[Encoded], broken: dict[int, str]) -> str:
    """What to say of broken pictures."""
    first = min(broken)
    return (
        f"{where}: {len(broken)} of {len(pictures)} images are broken, first "
        f"{pictures[first].name} ({broken[first]}); repair or remove them, or leave them out with "
        "--data.skip_broken"
    )


def _check_memory(where: str, count: int, like: np.ndarray) -> None:
    """Refuse what memory does not hold."""
    needed = count * like.size * (like.itemsize + _FLOATS * 4)
    free = free_memory()
    if free is not None and needed > free:
        size = "x".join(map(str, like.shape))
        raise ValueError(
            f"{where}: {count} images of {size} take {needed / 2**30:.1f} GiB of memory, and "
            f"{free / 2**30:.1f} GiB are free; make them smaller with --data.size 32x32 or another "
            "HEIGHTxWIDTH, or read fewer with --data.limit N"
        )


def free_memory() -> int | None:
    """Bytes that this process may still take; None where the system does not say."""
    try:
        lines = _MEMORY.read_text().splitlines()
        free = 1024 * next(int(x.split()[1]) for x in lines if x.startswith("MemAvailable"))
    except (OSError, StopIteration):
        return None
    try:
        return min(free, int(_CGROUP.read_text()))
    except (OSError, ValueError):  # no such file, or "max"
        return free
