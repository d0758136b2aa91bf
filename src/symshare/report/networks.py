"""What the trained networks learned, as panels of pictures: kernels, stacks, measures."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from symshare import groups
from symshare.records import Element, NetworkName
from symshare.report import pictures, sentences
from symshare.report.folder import Folder, Run

CHANNELS = 8
ELEMENTS = 12
WITH_STACK: tuple[NetworkName, ...] = ("found", "gated", "sinkhorn")


@dataclass(frozen=True)
class KernelPanel:
    """Kernels of one network's lifting layer; without rows, `why` says what is missing."""

    model: NetworkName
    seed: int | None = None
    rows: Sequence[tuple[str, pictures.Picture]] = ()
    note: str = ""
    why: str = ""


@dataclass(frozen=True)
class StackPair:
    """R[g] beside its nearest permutation.

    `mass` is the mean entry of R on that permutation, in [0, 1] where R is doubly stochastic;
    `known` is the candidate that acts on kernels by this permutation, if there is one.
    """

    name: str
    learned: pictures.Picture
    nearest: pictures.Picture
    mass: float
    known: str | None


@dataclass(frozen=True)
class StackPanel:
    """The pairs of one network's lifting layer; `exact` if every R[g] is a permutation."""

    model: NetworkName
    seed: int
    pairs: list[StackPair]
    note: str
    exact: bool
    rendering: str


@dataclass(frozen=True)
class LearnedRow:
    """What one layer was learned to be: numbers as text, and elements on their way."""

    layer: str
    elements: str
    ratios: str
    nearest: str
    seconds: str
    ways: list[pictures.Picture]
    note: str


@dataclass(frozen=True)
class LearnedPanel:
    """The layers of the free stacks with the lowest seed that were learned from the images."""

    seed: int
    steps: str
    rows: list[LearnedRow]


@dataclass(frozen=True)
class MeasureRow:
    """The learned measure of one element: each seed's value and their mean.

    `member` says whether the verdict's group holds it.
    """

    name: str
    mean: float
    values: list[float]
    member: bool


def _element_names(run: Run, count: int) -> list[str]:
    return list(run.names) if len(run.names) == count else [f"element {i}" for i in range(count)]


def _which(run: Run, count: int) -> list[int]:
    """The elements to show: all, or the ones with the largest measure, in their own order."""
    if count <= ELEMENTS:
        return list(range(count))
    measure = run.tensors.get("measure")
    if measure is None:
        return list(range(ELEMENTS))
    return sorted(measure.float().argsort(descending=True, stable=True)[:ELEMENTS].tolist())


def kernel_panels(folder: Folder) -> list[KernelPanel]:
    """Learned kernels of the lifting layer, [elements x channels], for each network."""
    panels = []
    for model in WITH_STACK:
        run = folder.first(model, "lift.kernels")
        if run is None:
            why = sentences.missing_tensors(folder.verdict, model)
            panels.append(KernelPanel(model, why=why))
            continue
        kernels = run.tensors["lift.kernels"]
        out, count, inputs = kernels.shape[:3]
        plane = kernels[:, :, 0].float()
        # A signal's kernel becomes one row.
        plane = plane.unsqueeze(2) if plane.ndim == 3 else plane.flatten(2, -2)
        strongest = plane.flatten(1).norm(dim=1).argsort(descending=True, stable=True)
        channels = sorted(strongest[:CHANNELS].tolist())
        elements = _which(run, count)
        names = _element_names(run, count)
        shown = plane[channels][:, elements].contiguous()
        rows = pictures.kernel_rows(shown, [names[i] for i in elements])
        note = f"{len(channels)} of {out} channels, the strongest ones"
        if inputs > 1:
            note += f"; the first of {inputs} input channels"
        if len(elements) < count:
            note += f"; {len(elements)} of {count} elements"
        panels.append(KernelPanel(model, run.seed, rows, note))
    return panels


def stack_panels(folder: Folder) -> list[StackPanel]:
    """R of the lifting layer beside the nearest permutations, for each network that has one."""
    from symshare.analysis import nearest_permutation

    panels = []
    for model in reversed(WITH_STACK):
        run = folder.first(model, "lift.R")
        if run is None:
            continue
        stack = run.tensors["lift.R"].float().nan_to_num(nan=0.0, posinf=0.0, neginf=0.0)
        nearest = nearest_permutation(stack).cpu()
        names = _element_names(run, len(stack))
        pairs = []
        for index in _which(run, len(stack)):
            name, matrix, indices = names[index], stack[index], nearest[index].unsqueeze(1)
            permutation = torch.zeros_like(matrix).scatter_(1, indices, 1.0)
            pairs.append(
                StackPair(
                    name=name,
                    learned=pictures.stack_matrix(matrix, f"R of {name}"),
                    nearest=pictures.stack_matrix(
                        permutation, f"permutation nearest to R of {name}"
                    ),
                    mass=float(matrix.gather(1, indices).mean()),
                    known=_known(folder.verdict.elements, nearest[index].tolist()),
                )
            )
        size = stack.shape[-1]
        exact = all(abs(pair.mass - 1) < 1e-5 for pair in pairs)
        note = (
            f"{size} x {size}; an even spread puts {sentences.percent(1 / size)} on any permutation"
        )
        if exact:
            note = f"{size} x {size}; R is itself a permutation for every element"
        if len(pairs) < len(stack):
            note += f"; {len(pairs)} of {len(stack)} elements"
        if not run.tensors["lift.R"].isfinite().all():
            note += "; entries that are not finite are drawn as 0"
        # Shrinking a large matrix by picking pixels would drop single entries.
        rendering = "px" if size <= 64 else ""
        panels.append(StackPanel(model, run.seed, pairs, note, exact, rendering))
    return panels


def learned_panel(folder: Folder) -> LearnedPanel | None:
    """What the images taught the free stacks before training; None where nothing did."""
    run = next((run for run in folder.runs if run.learned), None)
    if run is None or run.learned is None:
        return None
    rows = []
    for layer in run.learned.layers:
        ratios = layer.ratios[1:]
        ways = [
            way for name, way in sorted(run.ways.items()) if name.rpartition(".")[0] == layer.name
        ]
        rows.append(
            LearnedRow(
                layer=layer.name,
                elements="-" if layer.note else str(layer.elements),
                ratios=f"{min(ratios):.2f} to {max(ratios):.2f}" if ratios else "-",
                nearest=f"{layer.nearest:.0e}" if layer.nearest else "-",
                seconds="-" if layer.note else f"{layer.seconds:.1f}",
                ways=[
                    pictures.way(way.float(), f"element {i} of {layer.name}, step by step")
                    for i, way in enumerate(ways, 1)
                ],
                note=layer.note,
            )
        )
    return LearnedPanel(run.seed, ", ".join(map(str, run.learned.steps)), rows)


def _known(elements: Sequence[Element], indices: list[int]) -> str | None:
    """The candidate whose kernel map this permutation is, if there is one."""
    if indices == list(range(len(indices))):
        return "id"
    dims = next((len(e.shape) for e in elements), 2)
    side = round(len(indices) ** (1 / dims))
    if side**dims != len(indices):
        return None
    moves = groups.hyperoctahedral(dims)
    here = moves.permutation(side).tolist()
    if indices not in here:
        return None
    # The record shows what candidates do to kernels of 3 positions along each axis.
    recorded = tuple(moves.permutation(3)[here.index(indices)].tolist())
    return next((e.name for e in elements if e.kernel_permutation == recorded), None)


def measures(folder: Folder) -> list[MeasureRow]:
    """The learned measure of every element; nothing if no run has learned one."""
    runs = [run for run in folder.runs if run.model == "gated" and "measure" in run.tensors]
    if not runs:
        return []
    names = _element_names(runs[0], len(runs[0].tensors["measure"]))
    learned = (run.tensors["measure"].float() for run in runs)
    values = torch.stack([measure for measure in learned if len(measure) == len(names)]).T
    bold = {names[0], *folder.verdict.found, *folder.verdict.approximate}
    return [
        MeasureRow(name, float(of_seeds.mean()), of_seeds.tolist(), name in bold)
        for name, of_seeds in zip(names, values, strict=True)
    ]
