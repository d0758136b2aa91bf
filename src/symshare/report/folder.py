"""Read what `symshare discover` wrote: plain files in, records and tensors out."""

import csv
import json
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from symshare.files import damaged, open_tensors, read_json
from symshare.moments import LearnedLayer
from symshare.records import NETWORKS, NetworkName, ResultRecord, VerdictRecord


@dataclass(frozen=True)
class Learned:
    """The record of each layer, and the steps of the search at which its elements are shown."""

    layers: tuple[LearnedLayer, ...]
    steps: tuple[int, ...]


@dataclass(frozen=True)
class Run:
    """One trained network: its numbers, its curve, and the tensors of its lifting layer.

    `learned` says what its stacks were learned to be before training, and `ways` has elements step
    by step.
    """

    model: NetworkName
    seed: int
    result: ResultRecord | None
    config: str
    metrics: list[dict[str, str]]
    tensors: dict[str, Tensor]
    names: tuple[str, ...]
    learned: Learned | None
    ways: dict[str, Tensor]


@dataclass(frozen=True)
class Folder:
    """Everything a report is made of; without kept examples there are no images and labels.

    `moved` has the images after each function that was handed over.
    """

    verdict: VerdictRecord
    config: str
    images: Tensor
    labels: Tensor
    moved: dict[str, Tensor]
    runs: tuple[Run, ...]

    def first(self, model: NetworkName, tensor: str) -> Run | None:
        """The run of `model` with the lowest seed that kept a tensor, if there is one."""
        return next((r for r in self.runs if r.model == model and tensor in r.tensors), None)


def read(run_dir: Path) -> Folder:
    """Read a run directory, runs by model and seed; only `verdict.json` has to be there."""
    path = run_dir / "verdict.json"
    if not path.is_file():
        raise FileNotFoundError(
            f"report: expected {path}, found none; "
            f"run `symshare discover ... --out {run_dir}` first"
        )
    examples, _ = _tensors(run_dir / "examples.safetensors")
    runs = [
        _run(folder, model, int(seed))
        for model in NETWORKS
        for folder in run_dir.glob(f"runs/{model}-seed*")
        if (seed := folder.name.removeprefix(f"{model}-seed")).isdecimal()
    ]
    return Folder(
        verdict=VerdictRecord.read(path),
        config=_text(run_dir / "config.yaml"),
        images=examples.get("images", torch.empty(0)),
        labels=examples.get("labels", torch.empty(0)),
        moved={
            name.removeprefix("moved."): moved
            for name, moved in examples.items()
            if name.startswith("moved.")
        },
        runs=tuple(sorted(runs, key=lambda run: (NETWORKS.index(run.model), run.seed))),
    )


def _run(folder: Path, model: NetworkName, seed: int) -> Run:
    result = folder / "result.json"
    tensors, metadata = _tensors(folder / "representations.safetensors")
    return Run(
        model=model,
        seed=seed,
        result=ResultRecord.read(result) if result.is_file() else None,
        config=_text(folder / "config.yaml"),
        metrics=list(csv.DictReader(_text(folder / "metrics.csv").splitlines())),
        tensors=tensors,
        names=tuple(json.loads(metadata.get("names", "[]"))),
        learned=_learned(folder / "learned.json"),
        ways=_tensors(folder / "learned.safetensors")[0],
    )


def _learned(path: Path) -> Learned | None:
    """What was learned before training; None where there is no file."""
    if not path.is_file():
        return None
    content = read_json(path, "layers", "steps")
    try:
        layers = tuple(LearnedLayer.from_json(layer) for layer in content["layers"])
        return Learned(layers, tuple(content["steps"]))
    except TypeError as error:
        raise ValueError(damaged(path)) from error


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8").rstrip() if path.is_file() else ""


def _tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Tensors and metadata of a file; nothing where there is none."""
    if not path.is_file():
        return {}, {}
    with open_tensors(path) as file:
        names = file.keys()
        return {name: file.get_tensor(name) for name in names}, file.metadata() or {}
