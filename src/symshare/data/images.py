"""Images with their labels, checked once for all sources."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

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
}


@dataclass(frozen=True, eq=False)
class LabelledImages:
    """Images, the index of each one's class, and the names of the classes.

    An image has one axis of space (a signal), two, or three (a volume). A vector has one position,
    at which it has a channel for each of its numbers, [N, C, 1].

    Args:
        images: Raw floating-point values, finite; N images of C channels.
        labels: Index into `classes` of each image, in [0, len(classes)).
        classes: Names of the classes, at least two.
        groups: Number of the group of each image, such as a patient, a film or a device, whose
            images depend on one another; None where images are independent.

    Raises:
        ValueError: If the images do not have 3 to 5 axes or are not finite floats, if the labels
            are not integers, are not as many as the images, or name no class, or if the groups
            are not one integer for each image.

    Example:
        >>> data = LabelledImages(torch.zeros(3, 1, 8, 8), torch.tensor([0, 1, 0]), ("a", "b"))
        >>> len(data), data.subset([2]).labels
        (3, tensor([0]))
    """

    images: Float[Tensor, "N C *space"]
    labels: Int[Tensor, " N"]
    classes: tuple[str, ...]
    groups: Int[Tensor, " N"] | None = None

    def __post_init__(self) -> None:
        _check_images(self.images)
        labels, images, classes = self.labels, len(self.images), len(self.classes)
        if labels.ndim != 1 or not _is_integer(labels):
            raise ValueError(
                f"labels: expected integers [N], got {labels.dtype} {list(labels.shape)}; give one "
                "class index per image"
            )
        if len(labels) != images:
            raise ValueError(
                f"labels: expected as many as images, got {images} images and {len(labels)} "
                "labels; give one label per image"
            )
        bad = ((labels < 0) | (labels >= classes)).nonzero().flatten()
        if classes and len(bad):
            raise ValueError(
                f"labels: expected 0..{classes - 1}, got {int(labels[bad[0]])} for image "
                f"{int(bad[0])}; number the classes 0, 1, 2, ..., and name each of them"
            )
        if classes < 2:
            raise ValueError(
                f"classes: expected at least 2 classes, got {classes}; name each of them, and add "
                "images of another class where there is but one"
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
    ) -> LabelledImages:
        """Read arrays or tensors: uint8 images are divided by 255, floats are kept.

        Args:
            images: Array-like in one of the layouts.
            labels: Array-like [N] or [N, 1] of integers.
            classes: Names of the classes; by default "0", "1", ... to the largest label.
            layout: Order of the axes, one letter each: "NC" for vectors, "NL", "NCL" or "NLC" for
                signals, "NHW", "NCHW" or "NHWC" for images, "NDHW", "NCDHW" or "NDHWC" for volumes.
                Where it is left out, the shape has to tell: square images are "NHW", one to four
                channels before longer axes "NCHW" or "NCDHW", and no axis of space has one
                position. Other shapes are refused.
            groups: Array-like [N] of numbers or text: images that depend on one another, as those
                of one patient, share a value.

        Returns:
            The data, with float32 images and int64 labels.

        Raises:
            ValueError: If the images differ in size, are neither floats nor uint8, may have their
                channels last, or are all of one class; and as for `LabelledImages`.

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
        index = _tensor(labels, "labels")
        if index.ndim == 2 and index.shape[1] == 1:
            index = index[:, 0]
        if _is_integer(index):
            index = index.to(torch.int64)
        if pixels.dtype == torch.uint8:
            pixels = pixels.to(torch.float32).div_(255)
        elif pixels.is_floating_point() or pixels.dtype == torch.bool:
            pixels = pixels.to(torch.float32)
        names = _number(index) if classes is None else tuple(map(_text, classes))
        data = cls(pixels, index, names, None if groups is None else _numbered(groups))
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
        return LabelledImages(self.images[where], self.labels[where], self.classes, groups)

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
        return LabelledImages(images, labels, self.classes, groups)

    def to(self, device: torch.device | str) -> LabelledImages:
        """Return the same data with both tensors on `device`."""
        groups = None if self.groups is None else self.groups.to(device)
        images, labels = self.images.to(device), self.labels.to(device)
        return LabelledImages(images, labels, self.classes, groups)


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
