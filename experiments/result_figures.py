"""The paper's figures from finished runs."""

import csv
import json
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, get_args

import torch
from torch import Tensor

from experiments.catalogue import select
from experiments.finished import FinishedCost, FinishedImages, FinishedRun, Record
from experiments.jobs import digest
from experiments.result_page import Sample
from experiments.scores import align, simplex_fit
from experiments.toys.setup import Task
from symshare import groups
from symshare.analysis import match
from symshare.files import open_tensors

__all__ = ["draw", "few_images"]

NETWORKS = ("rotated-sinkhorn", "rotated-sinkhorn-found", "rotated-kronecker")
"""Rows of Table 1 whose learned stacks are shown."""

MEASURED = "table1/rotated-gated"
"""The row whose measure is shown over training, a figure for each seed."""

FEW_IMAGES = "ablations/images"
"""How rows of the curve of accuracy against the number of images begin."""

SAMPLES = 8


Curve = tuple[list[float], list[float], list[float]]


class Drawing(NamedTuple):
    """A figure that has yet to be drawn."""

    name: str
    figure: Callable[[], Any]


def draw(record: Record, form: str) -> list[Path]:
    """Draw every figure whose runs are there: stacks from the first seed, curves from all.

    Args:
        record: of one budget; the folders of its runs lie beside its file, and figures go to
            `figures` there.
        form: svg, pdf or png.

    Returns:
        The paths of all figures; those newer than what they show are not drawn again.
    """
    from experiments.figures import save

    paths = []
    for source, drawing in _drawings(record):
        path = record.path.parent / "figures" / f"{drawing.name}.{form}"
        if not path.exists() or path.stat().st_mtime_ns < source.stat().st_mtime_ns:
            save(drawing.figure(), path)
        paths.append(path)
    return paths


def _drawings(record: Record) -> Iterator[tuple[Path, Drawing]]:
    """Every figure, after the file that it shows."""
    for network in NETWORKS:
        source = _source(record, f"table1/{network}", "stacks.safetensors")
        if source is not None:
            yield from ((source, figure) for figure in _of_network(network, *_read(source)))
    for task in get_args(Task):
        source = _source(record, f"{task}/{task.removeprefix('toy-')}", "stack.safetensors")
        if source is not None:
            yield from ((source, figure) for figure in _of_toy(task, *_read(source)))
    yield from _of_measure(record)
    yield from ((record.path, figure) for figure in _of_few_images(record))
    for run in _of_today(record, "cost/layer"):
        if isinstance(run, FinishedCost):
            from experiments.figures import cost

            yield record.path, Drawing("cost", partial(cost, run.rows))


def _of_today(record: Record, name: str) -> list[FinishedRun]:
    """The runs of a row whose settings are those of the row today."""
    (row,) = select(name)
    runs = (run for run in record.runs.values() if run.row == name)
    return [run for run in runs if run.digest == digest(row, record.budget, run.seed)]


def _source(record: Record, name: str, file: str, seed: int = 0) -> Path | None:
    """A file of a run of a row, where its settings are those of the row today."""
    path = record.path.parent / f"{name}-seed{seed}" / file
    there = path.exists() and any(run.seed == seed for run in _of_today(record, name))
    return path if there else None


def _of_network(name: str, tensors: dict[str, Tensor], _: dict[str, str]) -> Iterator[Drawing]:
    from experiments import figures

    C4 = groups.rotations(4)
    R, W = tensors["lift.R"], tensors["lift.kernels"]
    side = W.shape[-1]
    truth, target = C4.lift(side), C4.regular(side)
    size, elements = (side, side), [f"element {g}" for g in range(len(R))]
    yield Drawing(f"{name}-scheme", lambda: figures.method(W[0, 0, 0].flatten(), R, size))
    yield Drawing(f"{name}-kernels", lambda: figures.kernels(W[:, :, 0], elements))
    c = simplex_fit(R, truth).coefficients
    title = "lifting layer, by elements of C4"
    everything = set(range(len(C4)))
    yield Drawing(
        f"{name}-coefficients", lambda: figures.coefficients(c, C4.names, everything, title)
    )
    if R.shape != truth.shape:
        return
    order = _order(match(R, truth).index)
    yield Drawing(
        f"{name}-representations",
        lambda: figures.representations(R[order], truth, C4.names),
    )
    hidden = [align(t, target, len(C4)) for key, t in tensors.items() if key.startswith("layer")]
    stacks = [found.R[_order(match(found.R, target).index)] for found in hidden]
    layers = [f"layer {i}" for i in range(2, len(stacks) + 2)]
    yield Drawing(
        f"{name}-shift-twist", lambda: figures.shift_twist(target, stacks, C4.names, layers)
    )


def _of_measure(record: Record) -> Iterator[tuple[Path, Drawing]]:
    for run in _of_today(record, MEASURED):
        source = _source(record, MEASURED, "metrics.csv", run.seed)
        if not isinstance(run, FinishedImages) or source is None:
            continue
        if series := _courses(source, run.measure or {}):
            from experiments.figures import curves

            name = f"rotated-gated-measure-seed{run.seed}"
            yield source, Drawing(name, partial(curves, series, "step", "measure", ylim=(0, 1)))


def _courses(source: Path, names: Iterable[str]) -> dict[str, Curve]:
    """The measure of each element but the identity against steps, if noted from the start."""
    with source.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    steps, still = [float(row["step"]) for row in rows], [0.0] * len(rows)
    noted = [name for name in names if name != "id" and rows[0].get(name)]
    return {name: (steps, [float(row[name]) for row in rows], still) for name in noted}


def _of_few_images(record: Record) -> Iterator[Drawing]:
    series = few_images(record)
    if series:
        from experiments.figures import curves

        labels = "images for training and validation", "test accuracy [%]"
        yield Drawing("few-images", lambda: curves(series, *labels, log=True))


def few_images(record: Record) -> dict[str, Curve]:
    """Numbers of images, mean accuracies and spreads, of models with two numbers at least.

    Runs whose settings are not those of their row's file are left out.
    """
    found: dict[str, dict[int, dict[int, float]]] = {}
    for row in select("ablations"):
        model, _, _ = row.title.rpartition(", ")
        for run in _of_today(record, row.name) if row.name.startswith(FEW_IMAGES) else ():
            if isinstance(run, FinishedImages):
                (accuracy,) = run.test_accuracy.values()
                by_number = found.setdefault(model, {})
                by_seed = by_number.setdefault(row.config["images"]["limit"], {})
                by_seed[run.seed] = 100 * accuracy
    series: dict[str, Curve] = {}
    for model, by_number in found.items():
        samples = [Sample(by_number[number]) for number in sorted(by_number)]
        means, spreads = [s.mean for s in samples], [s.spread or 0.0 for s in samples]
        if len(samples) > 1:
            series[model] = ([float(number) for number in sorted(by_number)], means, spreads)
    return series


def _order(index: Tensor) -> Tensor:
    """Learned elements in the order of the known ones that they are assigned to."""
    return torch.where(index < 0, len(index), index).argsort(stable=True)


def _of_toy(task: str, tensors: dict[str, Tensor], metadata: dict[str, str]) -> Iterator[Drawing]:
    from experiments import figures

    size, names = json.loads(metadata["size"]), json.loads(metadata["names"])
    R, truth, mu = tensors["R"], tensors["truth"], tensors["mu"]
    labels = [
        f"class {c}" if task.endswith("invariant") else f"class {c}, {names[g]}"
        for c, g in tensors["sample_labels"][:SAMPLES].tolist()
    ]
    x = tensors["samples"][:SAMPLES]
    yield Drawing(f"{task}-samples", lambda: figures.samples(x, size, labels))
    named = len(names) == len(R)
    # With a fixed label elements come in no order of their own.
    shown = R[_order(match(R, truth).index)] if task.endswith("invariant") and named else R
    kernels = torch.einsum("gij,cj->gci", shown, tensors["theta"][:4])
    learned = names if named else [f"element {g}" for g in range(len(R))]
    yield Drawing(f"{task}-kernels", lambda: figures.stack(kernels, size, learned))
    if len(size) == 1:
        yield Drawing(f"{task}-matrices", lambda: figures.matrices(shown, names, truth))
    c = simplex_fit(R, truth).coefficients
    share = mu / mu.sum()
    yield Drawing(f"{task}-coefficients", lambda: figures.coefficients(c, names, share, task))
    if task == "toy-cube-partial":
        words, elements = groups.cube_words()
        index = [names.index(groups.cube().names[element]) for element in elements]
        fit = simplex_fit(R, truth[index]).coefficients
        true = {word for word, element in enumerate(index) if mu[element] > 0}
        yield Drawing(
            f"{task}-words", lambda: figures.coefficients(fit, words, true, f"{task}, 64 words")
        )


def _read(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    with open_tensors(path) as file:
        tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
        return tensors, file.metadata() or {}
