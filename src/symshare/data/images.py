"""Images with their labels, checked once for all sources."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from typing import Any, get_args

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from symshare.names import Target

_LAYOUTS = {
    2: ("NL", "NC"),
    3: ("NHW", "NCL", "NLC"),
    4: ("NCHW", "NHWC", "NDHW"),
    5: ("NCDHW", "NDHWC"),
}
"""Orders of the axes that arrays of so many may have: samples N, channels C, and in space the steps
L of a signal, height and width of an image, depth too of a volume; of a vector its C numbers."""

_COLOURS = (1, 2, 3, 4)
"""Numbers of channels that tell a leading axis from one of space."""

_LARGEST = 1e12
"""Largest pixel: squares of larger ones are lost in float32."""

_REMEDIES = {
    "images": "hand over arrays; those of a torch Dataset are torch.stack([x for x, _ in data]) "
    "and torch.tensor([y for _, y in data])",
    "labels": "give one integer per image; text is numbered by classes, labels = numpy.unique("
    "labels, return_inverse=True), and its names are handed over as classes=classes",
    "targets": "give one number per image, or as many of each in a row",
}

MOST_NUMBERS = 32
"""Most numbers of a label: maps of them, which are fitted, have as many entries as the square."""


@dataclass(frozen=True, eq=False)
class LabelledImages:
    """Images with their labels: of each the index of its class, or d numbers.

    An image has one axis of space (a signal), two, or three (a volume). A vector has one position,
    at which it has a channel for each of its numbers, [N, C, 1].

    Args:
        images: Raw floating-point values, finite; N images of C channels.
        labels: Index into `classes` of each image, in [0, len(classes)); or d numbers of each
            image, finite, in any unit.
        classes: Names of the classes, at least two; empty where labels are numbers.
        groups: Number of the group of each image, such as a patient, a film or a device, whose
            images depend on one another; None where images are independent.
        numbers: Names of the d numbers of a label, different ones; empty where labels are classes.

    Raises:
        ValueError: If the images do not have 3 to 5 axes or are not finite floats, if the labels
            are not integers, are not as many as the images, or name no class, if they are neither
            classes nor finite numbers, or if the groups are not one integer for each image.

    Example:
        >>> data = LabelledImages(torch.zeros(3, 1, 8, 8), torch.tensor([0, 1, 0]), ("a", "b"))
        >>> len(data), data.subset([2]).labels, data.outputs
        (3, tensor([0]), 2)
        >>> ages = torch.tensor([[31.0], [8.0], [77.0]])
        >>> LabelledImages(torch.zeros(3, 1, 8, 8), ages, (), numbers=("age",)).outputs
        1
    """

    images: Float[Tensor, "N C *space"]
    labels: Int[Tensor, " N"] | Float[Tensor, "N d"]
    classes: tuple[str, ...]
    groups: Int[Tensor, " N"] | None = None
    numbers: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        _check_images(self.images)
        images = len(self.images)
        if self.numbers:
            _check_numbers(self.labels, self.numbers)
        else:
            _check_classes(self.labels, len(self.classes))
        if len(self.labels) != images:
            raise ValueError(
                f"labels: expected as many as images, got {images} images and {len(self.labels)} "
                "labels; give one label per image"
            )
        if not self.numbers and len(self.classes) < 2:
            raise ValueError(
                f"classes: expected at least 2 classes, got {len(self.classes)}; name each of "
                "them, and add images of another class where there is but one"
            )
        if (groups := self.groups) is not None and list(groups.shape) != [images]:
            raise ValueError(
                f"groups: expected one for each of {images} images, got {list(groups.shape)}; "
                "give the group of every image, in their order"
            )
        if groups is not None and not _is_integer(groups):
            raise ValueError(
                f"groups: expected integers, got {groups.dtype}; number the groups 0, 1, 2, ..."
            )

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def outputs(self) -> int:
        """What a network answers with: a score for each class, or d numbers."""
        return len(self.numbers or self.classes)

    @property
    def space(self) -> tuple[int, ...]:
        """Length of each axis of space."""
        return tuple(self.images.shape[2:])

    @classmethod
    def from_arrays(
        cls,
        images: Any,
        labels: Any,
        classes: Iterable[object] | None = None,
        layout: str | None = None,
        groups: Any = None,
        target: Target = "classes",
        numbers: Iterable[object] | None = None,
    ) -> LabelledImages:
        """Read arrays or tensors: uint8 images are divided by 255, floats are kept.

        Args:
            images: Array-like in one of the layouts.
            labels: Array-like [N] or [N, 1] of integers; or of numbers, [N] or [N, d].
            classes: Names of the classes; by default "0", "1", ... to the largest label.
            layout: Order of the axes, one letter each: "NC" for vectors, "NL", "NCL" or "NLC" for
                signals, "NHW", "NCHW" or "NHWC" for images, "NDHW", "NCDHW" or "NDHWC" for volumes.
                Where it is left out, the shape has to tell: square images are "NHW", one to four
                channels before longer axes "NCHW" or "NCDHW", and no axis of space has one
                position. Other shapes are refused.
            groups: Array-like [N] of numbers or text: images that depend on one another, as those
                of one patient, share a value.
            target: What labels are, "classes" or "numbers": it is never guessed.
            numbers: Names of the numbers; by default "y", or "y1", "y2", ... of several.

        Returns:
            The data, with float32 images, and int64 classes or float32 numbers.

        Raises:
            ValueError: If the images differ in size, are neither floats nor uint8, may have their
                channels last, or are all of one class; if names are given of what labels are not;
                and as for `LabelledImages`.

        Example:
            >>> data = LabelledImages.from_arrays(np.full((2, 8, 8), 255, np.uint8), [0, 1])
            >>> data.images.shape, data.images.max().item(), data.classes
            (torch.Size([2, 1, 8, 8]), 1.0, ('0', '1'))
        """
        pixels = _channels_first(_tensor(images, "images"), layout)
        if not len(pixels):
            raise ValueError(
                f"images: expected images of at least 2 classes, got none, {list(pixels.shape)}; "
                "hand over some"
            )
        if pixels.dtype == torch.uint8:
            pixels = pixels.to(torch.float32).div_(255)
        elif pixels.is_floating_point() or pixels.dtype == torch.bool:
            pixels = pixels.to(torch.float32)
        joined = None if groups is None else _numbered(groups)
        _check_target(target, classes, numbers)
        if target == "numbers":
            values = _tensor(labels, "targets").to(torch.float32)
            values = values[:, None] if values.ndim == 1 else values
            data = cls(pixels, values, (), joined, _names(values, numbers))
            _check_varied(data)
            return data
        index = _tensor(labels, "labels")
        if index.ndim == 2 and index.shape[1] == 1:
            index = index[:, 0]
        if _is_integer(index):
            index = index.to(torch.int64)
        names = _number(index) if classes is None else tuple(map(_text, classes))
        data = cls(pixels, index, names, joined)
        present = data.labels.unique().tolist()
        if len(present) < 2:
            only = f"only class {names[present[0]]!r}" if present else "no image"
            raise ValueError(
                f"images: expected some of at least 2 classes, got {only}; add images of another "
                "class"
            )
        return data

    def subset(self, indices: Int[Tensor, " M"] | Sequence[int]) -> LabelledImages:
        """Return the images at these positions, in that order."""
        where = torch.as_tensor(indices, dtype=torch.int64, device=self.labels.device)
        groups = None if self.groups is None else self.groups[where]
        return replace(self, images=self.images[where], labels=self.labels[where], groups=groups)

    def joined(self, other: LabelledImages) -> LabelledImages:
        """Return these images and then those of another part of the same data.

        Example:
            >>> data = LabelledImages(torch.zeros(3, 1, 8, 8), torch.tensor([0, 1, 0]), ("a", "b"))
            >>> data.subset([2]).joined(data).labels
            tensor([0, 0, 1, 0])
        """
        images = torch.cat([self.images, other.images])
        labels = torch.cat([self.labels, other.labels])
        groups = None
        if self.groups is not None and other.groups is not None:
            groups = torch.cat([self.groups, other.groups])
        return replace(self, images=images, labels=labels, groups=groups)

    def to(self, device: torch.device | str) -> LabelledImages:
        """Return the same data with both tensors on `device`."""
        groups = None if self.groups is None else self.groups.to(device)
        images, labels = self.images.to(device), self.labels.to(device)
        return replace(self, images=images, labels=labels, groups=groups)


def _tensor(values: Any, what: str) -> Tensor:
    if isinstance(values, Tensor):
        return values.detach()
    remedy = _REMEDIES[what]
    if isinstance(values, str | PathLike):
        got = f"the path {str(values)!r}"
        remedy = "read the file first; the command `symshare discover FILE.npz` reads such files"
    elif not isinstance(values, Sequence) and not hasattr(values, "__array__"):
        got = "None" if values is None else f"a {type(values).__name__}"
    else:
        try:
            array = np.asarray(values)
        except (ValueError, TypeError):
            got, remedy = "a ragged sequence", "resize or pad what is of unequal size"
        else:
            if array.dtype.kind in "biuf":
                # torch reads native byte order only, and negative strides not at all.
                return torch.from_numpy(np.array(array, array.dtype.newbyteorder("="), order="C"))
            got = f"values of type {array.dtype}"
            if array.dtype.kind == "c":
                remedy = "take their size, or make two channels of the real and imaginary parts"
    raise ValueError(f"{what}: expected one array of numbers, got {got}; {remedy}")


def _channels_first(pixels: Tensor, layout: str | None) -> Tensor:
    """The same as [N, C, *space]."""
    shape = list(pixels.shape)
    if pixels.ndim not in _LAYOUTS:
        raise ValueError(
            f"images: expected 2 to 5 axes, samples, channels and one to three of space, got "
            f"{pixels.ndim} axes {shape}; join or split some"
        )
    allowed = _LAYOUTS[pixels.ndim]
    if layout is None and (layout := _plain(shape)) is None:
        choices = " or ".join(f"layout={one!r}" for one in allowed)
        raise ValueError(
            f"images: the axes of {shape} may be several things; say which by {choices} (in the "
            "terminal by --data.layout, in an .npz file by an array `layout` beside the images). "
            "N: samples, C: channels, or the numbers of a vector, L: steps of a signal, H and W: "
            "height and width, D: depth"
        )
    if layout not in allowed:
        raise ValueError(
            f"layout: expected {' or '.join(map(repr, allowed))} for images {shape}, got "
            f"{layout!r}; name the order of their axes"
        )
    if layout == "NC":
        return pixels.unsqueeze(2).contiguous()
    pixels = pixels.movedim(layout.index("C"), 1) if "C" in layout else pixels.unsqueeze(1)
    for letter, length in zip(layout.replace("C", "")[1:], pixels.shape[2:], strict=True):
        if length == 1:
            raise ValueError(
                f"images: expected more than one position along each axis of space, got 1 along "
                f"{letter} of {layout} {shape}; drop that axis, and name the layout of what is left"
            )
    return pixels.contiguous()


def _plain(shape: list[int]) -> str | None:
    """The layout that a shape tells by itself; None where it may be another."""
    if len(shape) == 2:
        return None  # rows of a table look the same
    # No axis of space has one position.
    possible = [
        layout
        for layout in _LAYOUTS[len(shape)]
        if all(n != 1 for letter, n in zip(layout, shape, strict=True) if letter not in "NC")
    ]
    if len(possible) == 1:
        return possible[0]
    first, last = shape[1], shape[-1]
    if len(shape) == 3:
        return "NHW" if first == last else None
    # Few channels before longer axes, unless as few at the end are as likely.
    few = first in _COLOURS and first < min(shape[2:]) and last not in _COLOURS
    return {4: "NCHW", 5: "NCDHW"}[len(shape)] if few else None


def _numbered(groups: Any) -> Tensor:
    """Groups of any name as numbers from 0."""
    try:
        values = np.asarray(groups.detach().cpu() if isinstance(groups, Tensor) else groups)
    except (ValueError, TypeError) as error:
        raise ValueError(
            "groups: expected one number or text for each image, got a ragged sequence or another "
            "type of numbers; give the group of every image, in their order"
        ) from error
    if values.dtype.kind == "O":
        raise ValueError(
            "groups: expected one array of numbers or text, got values of type object; give every "
            "image a group (one of its own where none is known, in the place of None), and name "
            "all of them by numbers, or all by text, such as [str(group) for group in groups]"
        )
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.ndim != 1 or values.dtype.kind not in "biufUS":
        raise ValueError(
            f"groups: expected one number or text for each image, got {values.dtype} "
            f"{list(values.shape)}; give the group of every image, in their order"
        )
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        raise ValueError(
            "groups: expected a group for every image, got NaN or infinity; give images without "
            "a known group one of their own"
        )
    return torch.from_numpy(np.unique(values, return_inverse=True)[1].astype(np.int64))


def _text(name: object) -> str:
    return name.decode("utf-8", "backslashreplace") if isinstance(name, bytes) else str(name)


def _number(labels: Tensor) -> tuple[str, ...]:
    if not _is_integer(labels) or labels.ndim != 1:
        return ()  # such labels are refused, whatever the classes
    low, high = (int(label) for label in labels.aminmax()) if labels.numel() else (0, 0)
    # Without the upper bound one stray label such as 10**9 would make as many classes.
    if low < 0 or high >= max(labels.numel(), 2):
        raise ValueError(
            f"labels: {low if low < 0 else high} is out of range for "
            f"{labels.numel()} images; number the classes 0, 1, 2, ..."
        )
    if low > 0:
        raise ValueError(
            f"labels: the smallest is {low}; number the classes 0, 1, 2, ..., or name them all "
            "with classes="
        )
    return tuple(map(str, range(high + 1)))


def _check_target(target: Target, classes: object, numbers: object) -> None:
    """Refuse a kind of labels that there is not, and names of another kind."""
    if target not in get_args(Target):
        raise ValueError(
            f"target: expected {' or '.join(map(repr, get_args(Target)))}, got {target!r}; say "
            "what the labels are"
        )
    other, names = ("classes", classes) if target == "numbers" else ("numbers", numbers)
    if names is not None:
        raise ValueError(
            f"{other}: expected no names of {other}, as labels are {target}; leave them out, or "
            f"say target={other!r} (in the terminal --data.target {other})"
        )


def _names(values: Tensor, numbers: Iterable[object] | None) -> tuple[str, ...]:
    """Names of the numbers of a label."""
    if numbers is not None:
        return tuple(map(_text, numbers))
    count = values.shape[-1]
    return ("y",) if count == 1 else tuple(f"y{i}" for i in range(1, count + 1))


def _check_numbers(labels: Tensor, numbers: tuple[str, ...]) -> None:
    if labels.ndim != 2 or not labels.is_floating_point() or not labels.shape[1]:
        raise ValueError(
            f"labels: expected numbers [N] or [N, d], got {labels.dtype} {list(labels.shape)}; "
            "give every image as many numbers, in a row"
        )
    count = labels.shape[1]
    if count > MOST_NUMBERS:
        raise ValueError(
            f"labels: expected at most {MOST_NUMBERS} numbers of an image, got {count}; labels "
            "that are images or sequences themselves are not read, give a few numbers of each"
        )
    if len(numbers) != count or len(set(numbers)) != count:
        raise ValueError(
            f"numbers: expected {count} different names, one of each number, got "
            f"{', '.join(numbers)}; name the columns of the labels in their order"
        )
    bad = (~(labels.abs() <= _LARGEST).all(1)).nonzero().flatten()
    if len(bad):
        raise ValueError(
            f"labels: expected finite numbers of at most {_LARGEST:.0e}, got NaN, infinity or a "
            f"fill value in {len(bad)} of {len(labels)}, first of image {int(bad[0])}; remove "
            "these images"
        )


def _check_varied(data: LabelledImages) -> None:
    constant = (data.labels == data.labels[:1]).all(0)
    if constant.any():
        name = data.numbers[int(constant.nonzero()[0])]
        raise ValueError(
            f"labels: expected numbers that vary, got one value of {name!r} for all {len(data)} "
            "images; leave that number out"
        )


def _check_classes(labels: Tensor, classes: int) -> None:
    if labels.ndim != 1 or not _is_integer(labels):
        remedy = "give one class index per image"
        if labels.is_floating_point():
            remedy += (
                ", or say that labels are numbers by target='numbers' (in the terminal by "
                "--data.target numbers)"
            )
        elif labels.ndim == 2:
            remedy += "; several classes of one image are not read"
        raise ValueError(
            f"labels: expected integers [N], got {labels.dtype} {list(labels.shape)}; {remedy}"
        )
    bad = ((labels < 0) | (labels >= classes)).nonzero().flatten()
    if classes and len(bad):
        raise ValueError(
            f"labels: expected 0..{classes - 1}, got {int(labels[bad[0]])} for image "
            f"{int(bad[0])}; number the classes 0, 1, 2, ..., and name each of them"
        )


def _is_integer(labels: Tensor) -> bool:
    return not (labels.is_floating_point() or labels.is_complex() or labels.dtype == torch.bool)


def _check_images(images: Tensor) -> None:
    if not 3 <= images.ndim <= 5:
        raise ValueError(
            f"images: expected [N, C] and one to three axes of space, got {images.ndim} axes "
            f"{list(images.shape)}; join or split some"
        )
    if not images.is_floating_point():
        raise ValueError(
            f"images: expected floats, or uint8 in arrays, got {images.dtype}; divide them by "
            "their largest possible value"
        )
    if 0 in images.shape[1:]:
        raise ValueError(
            f"images: expected at least one pixel, got shape {list(images.shape)}; leave no axis "
            "empty"
        )
    low, high = images.aminmax() if len(images) else (torch.zeros(()), torch.zeros(()))
    # The extremes are NaN or infinite where any pixel is.
    if not max(-float(low), float(high)) <= _LARGEST:
        wrong = ~(images.abs().flatten(1).amax(1) <= _LARGEST)
        bad = wrong.nonzero().flatten()
        raise ValueError(
            f"images: expected finite values of at most {_LARGEST:.0e}, got NaN, infinity or "
            f"a fill value in {len(bad)} of {len(images)}, first in image {int(bad[0])}; "
            "remove or repair them"
        )
