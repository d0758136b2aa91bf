"""One card per candidate: what it does, what it costs, what it keeps."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from symshare.records import Element, RandomPermutation, Status, VerdictRecord
from symshare.report import charts, pictures, sentences
from symshare.report.folder import Folder

STATUSES: tuple[Status, ...] = ("symmetric", "approximate", "tolerated", "undecided", "broken")
CLASSES_SHOWN = 10
# Columns of the strip of classes, by the longest class name [letters].
ACROSS = ((4, 10), (7, 5), (9, 4), (13, 3))

Pair = tuple[pictures.Picture, pictures.Picture]


@dataclass(frozen=True)
class Mark:
    """A mean and its interval as positions on the common axis of a test [percent]."""

    at: float
    low: float
    high: float


@dataclass(frozen=True)
class Kept:
    """Cells (class, share, percent) of the strip; `left_out` classes keep more than these."""

    cells: list[tuple[str, float | None, int]]
    left_out: int
    across: int


@dataclass(frozen=True)
class Card:
    """One candidate; pictures are (before, after).

    `exchange` is what the candidate does to labels, empty where they stay; `broken` and `open` name
    the classes, or strata, that were shown to break, and those left open.
    """

    entry: Element
    what: str
    exchange: str
    partial: bool
    loss: Mark
    change: Mark
    kept: Kept
    broken: str
    open: str
    image: Pair | None
    kernel: Pair | None


def drawn_losses(verdict: VerdictRecord) -> list[float]:
    """Every number that the common axis of excess losses has to reach [nats]."""
    items = (*verdict.elements, *verdict.power.random_permutations)
    return [number for item in items for number in (item.excess_loss, *item.interval)]


def drawn_changes(verdict: VerdictRecord) -> list[float]:
    """Every number that the common axis of changes has to reach."""
    items = (*verdict.elements, *verdict.power.random_permutations)
    return [number for item in items for number in (item.change, *item.change_interval)]


def loss_mark(scale: charts.Scale, item: Element | RandomPermutation) -> Mark:
    """Where an excess loss and its interval stand."""
    return Mark(*(scale.axis.at(number) for number in (item.excess_loss, *item.interval)))


def change_mark(scale: charts.Scale, item: Element | RandomPermutation) -> Mark:
    """Where a change of the images and its interval stand."""
    return Mark(*(scale.axis.at(number) for number in (item.change, *item.change_interval)))


def _limits(images: Tensor) -> tuple[float, float]:
    return float(images.min()), float(images.max())


def examples(folder: Folder) -> list[tuple[str, pictures.Picture]]:
    """The held-out images that were kept, each with the name of its class, or its numbers."""
    shown, verdict = [], folder.verdict
    for values, label in zip(folder.images, folder.labels.tolist(), strict=True):
        if verdict.numbers:
            name = sentences.numbers(label, verdict.numbers)
            alt = f"held-out image with {name}"
        else:
            name = verdict.classes[label]
            alt = f"held-out image of class {name}"
        shown.append((name, pictures.image(values, _limits(folder.images), alt)))
    return shown


def _moved_in_words(entry: Element, verdict: VerdictRecord) -> str:
    """What a candidate does to labels; minus signs of classes stay as they are."""
    words = verdict.labels.moved(entry)
    return sentences.minus(words) if verdict.numbers else words


def cards(folder: Folder, loss: charts.Scale, change: charts.Scale) -> list[Card]:
    """All candidates, the most symmetric ones first."""
    verdict = folder.verdict
    on_image = _on_image(folder)
    made = [
        Card(
            entry=entry,
            what=sentences.element(
                entry.name, entry.source, entry.channels, entry.signs, verdict.channels
            ),
            exchange=_moved_in_words(entry, verdict),
            partial=entry.name in verdict.partial,
            loss=loss_mark(loss, entry),
            change=change_mark(change, entry),
            kept=_kept(verdict.labels.parts, entry.kept_share_by_class),
            broken=sentences.broken_classes(entry.classes_broken, verdict.labels.parts),
            open=sentences.open_classes(entry.classes_open, verdict.labels.parts),
            image=on_image.get(entry.name),
            kernel=_on_kernel(entry),
        )
        for entry in verdict.elements
    ]

    def order(card: Card) -> tuple[int, float]:
        """Symmetric candidates in their own order, the others by excess loss."""
        rank = STATUSES.index(card.entry.status)
        return rank, card.entry.excess_loss if rank else 0.0

    return sorted(made, key=order)


def _on_image(folder: Folder) -> dict[str, Pair]:
    """Each candidate on one image: the one that the most harmless of them changes most."""
    images, elements = folder.images, folder.verdict.elements
    if not len(images) or not elements:
        return {}
    limits, values = _limits(images), images.float()
    moved = {e.name: _moved(values, e) for e in elements if e.permutation is not None}
    changes = [(after - values).square().flatten(1).mean(1) for after in moved.values()]
    which = int(torch.stack(changes).amin(0).argmax())
    before = pictures.image(images[which], limits, "example image, original")
    pairs = {
        name: (before, pictures.image(after[which], limits, f"the image after {name}"))
        for name, after in moved.items()
    }
    for name, after in folder.moved.items():
        pairs[name] = before, pictures.image(after[which], limits, f"the image after {name}")
    return pairs


def _moved(images: Float[Tensor, "N C *space"], entry: Element) -> Float[Tensor, "N C *space"]:
    """Images after a candidate that moves positions, channels or both."""
    moved = images.flatten(2)[..., list(entry.permutation or ())].view_as(images)
    if entry.channels is None or entry.signs is None:
        return moved
    signs = torch.tensor(entry.signs, dtype=images.dtype)
    return moved[:, list(entry.channels)] * signs.view(-1, *[1] * (images.ndim - 2))


def _on_kernel(entry: Element) -> Pair | None:
    order = entry.kernel_permutation
    # What moves channels only has nothing to show here.
    only_channels = entry.channels is not None and order == tuple(range(len(order or ())))
    if order is None or entry.kernel_shape is None or only_channels:
        return None
    permutation = torch.tensor(order)
    before = pictures.positions(entry.kernel_shape, None, "kernel positions, original")
    alt = f"kernel positions after {entry.name}"
    return before, pictures.positions(entry.kernel_shape, permutation, alt)


def _kept(classes: tuple[str, ...], shares: tuple[float | None, ...]) -> Kept:
    cells = [
        (name, share, 0 if share is None else round(100 * share))
        for name, share in zip(classes, shares, strict=True)
    ]
    left_out = max(len(cells) - CLASSES_SHOWN, 0)
    if left_out:
        cells = sorted(cells, key=lambda cell: 2.0 if cell[1] is None else cell[1])[:CLASSES_SHOWN]
    longest = max(len(name) for name, _, _ in cells)
    return Kept(cells, left_out, next((n for most, n in ACROSS if longest <= most), 2))
