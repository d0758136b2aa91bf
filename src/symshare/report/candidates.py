"""One card per candidate: what it does, what it costs, what it keeps."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from symshare.report import charts, pictures, sentences
from symshare.report.results import Results

__all__ = ["Card", "Kept", "Mark", "cards", "class_name", "drawn_losses", "examples", "mark"]

STATUSES = ("symmetric", "approximate", "tolerated", "undecided", "broken")
CLASSES_SHOWN = 10
# Columns of the strip of classes, by the longest class name [letters].
ACROSS = ((4, 10), (8, 5), (11, 4), (15, 3))

Pair = tuple[pictures.Picture, pictures.Picture]


@dataclass(frozen=True)
class Mark:
    """An excess loss and its interval as positions on the common axis [percent]."""

    at: float
    low: float
    high: float


@dataclass(frozen=True)
class Kept:
    """Cells (class, share, percent) of the strip; `left_out` classes keep more than these."""

    cells: list[tuple[str, sentences.Number | None, int]]
    left_out: int
    across: int


@dataclass(frozen=True)
class Card:
    """One candidate; `entry` is its part of `verdict.json`, pictures are (before, after)."""

    entry: dict[str, Any]
    what: str
    partial: bool
    mark: Mark | None
    kept: Kept | None
    image: Pair | None
    kernel: Pair | None

    @property
    def order(self) -> tuple[int, sentences.Number]:
        """Symmetric candidates first, in their own order; the others by excess loss."""
        status, loss = self.entry["status"], self.entry["excess_loss"]
        rank = STATUSES.index(status) if status in STATUSES else len(STATUSES)
        return rank, 0.0 if rank == 0 else float("inf") if loss is None else loss


def drawn_losses(verdict: dict[str, Any]) -> list[sentences.Number]:
    """Every number that the common axis of excess losses has to reach [nats]."""
    randoms = (verdict.get("power") or {}).get("random_permutations") or []
    numbers = [
        number
        for item in [*verdict["elements"], *randoms]
        for number in [item["excess_loss"], *(item["interval"] or [])]
    ]
    return [number for number in numbers if number is not None and math.isfinite(number)]


def mark(axis: charts.Axis, item: dict[str, Any]) -> Mark | None:
    """Where an item of `verdict.json` with a loss and an interval stands on the axis."""
    numbers = [item["excess_loss"], *(item["interval"] or [None])]
    if not all(number is not None and math.isfinite(number) for number in numbers):
        return None
    return Mark(*(axis.at(number) for number in numbers))


def class_name(verdict: dict[str, Any], label: int) -> str:
    """The name of a class, or its number where it has none."""
    classes = verdict.get("classes") or []
    return str(classes[label]) if 0 <= label < len(classes) else str(label)


def _limits(images: Tensor) -> tuple[float, float]:
    return float(images.min()), float(images.max())


def examples(results: Results) -> list[tuple[str, pictures.Picture]]:
    """The held-out images that were kept, each with the name of its class."""
    if results.images is None or not len(results.images):
        return []
    labels = [] if results.labels is None else results.labels.tolist()
    shown = []
    for index, values in enumerate(results.images):
        name = class_name(results.verdict, int(labels[index])) if index < len(labels) else ""
        alt = f"held-out image of class {name}" if name else "held-out image"
        shown.append((name, pictures.image(values, None, _limits(results.images), alt)))
    return shown


def cards(results: Results, axis: charts.Axis) -> list[Card]:
    """All candidates, the most symmetric ones first."""
    draw_image = _image_drawer(results)
    made = [
        Card(
            entry=entry,
            what=sentences.element(entry["name"], entry["source"]),
            partial=entry["name"] in (results.verdict.get("partial") or []),
            mark=mark(axis, entry),
            kept=_kept(results.verdict, entry["kept_share_by_class"]),
            image=draw_image(entry),
            kernel=_kernel(entry),
        )
        for entry in results.verdict["elements"]
    ]
    return sorted(made, key=lambda card: card.order)


def _image_drawer(results: Results) -> Callable[[dict[str, Any]], Pair | None]:
    """Draw all candidates on one image: the one that the most harmless of them changes most."""
    if results.images is None or not len(results.images):
        return lambda entry: None
    images, limits = results.images, _limits(results.images)
    flat = images.float().flatten(2)
    permutations = {
        entry["name"]: torch.tensor(entry["permutation"])
        for entry in results.verdict["elements"]
        if len(entry["permutation"]) == flat.shape[-1]
    }
    chosen = images[0]
    if permutations:
        changes = [(flat[..., p] - flat).square().mean(dim=(1, 2)) for p in permutations.values()]
        chosen = images[int(torch.stack(changes).amin(0).argmax())]

    def draw(entry: dict[str, Any]) -> Pair | None:
        name = entry["name"]
        if name not in permutations:
            return None
        return (
            pictures.image(chosen, None, limits, "example image, original"),
            pictures.image(chosen, permutations[name], limits, f"the image after {name}"),
        )

    return draw


def _kernel(entry: dict[str, Any]) -> Pair | None:
    if entry["kernel_permutation"] is None:
        return None
    height, width = ([1, *entry["kernel_shape"]])[-2:]
    permutation = torch.tensor(entry["kernel_permutation"])
    return (
        pictures.positions((height, width), None, "kernel positions, original"),
        pictures.positions((height, width), permutation, f"kernel positions after {entry['name']}"),
    )


def _kept(verdict: dict[str, Any], shares: list[sentences.Number | None] | None) -> Kept | None:
    if not shares:
        return None
    cells = [
        (class_name(verdict, index), share, 0 if share is None else round(100 * share))
        for index, share in enumerate(shares)
    ]
    left_out = max(len(cells) - CLASSES_SHOWN, 0)
    if left_out:
        cells = sorted(cells, key=lambda cell: 2.0 if cell[1] is None else cell[1])[:CLASSES_SHOWN]
    longest = max(len(name) for name, _, _ in cells)
    return Kept(cells, left_out, next((n for most, n in ACROSS if longest <= most), 2))
