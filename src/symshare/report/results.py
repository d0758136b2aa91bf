"""Read what `symshare discover` wrote: plain files in, plain values and tensors out."""

import csv
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

__all__ = ["MODELS", "Results", "Run", "read"]

MODELS = ("cnn", "found", "gated", "sinkhorn")
SCHEMA = 1


@dataclass(frozen=True)
class Run:
    """One trained network: its numbers, its curve, and the tensors of its lifting layer."""

    model: str
    seed: int
    result: dict[str, Any] | None
    config: str
    metrics: list[dict[str, str]]
    tensors: dict[str, Tensor]
    names: tuple[str, ...]


@dataclass(frozen=True)
class Results:
    """Everything a report is made of."""

    verdict: dict[str, Any]
    config: str
    images: Tensor | None
    labels: Tensor | None
    runs: tuple[Run, ...]

    def first(self, model: str) -> Run | None:
        """The run of `model` with the lowest seed that kept its tensors, if there is one."""
        return next((run for run in self.runs if run.model == model and run.tensors), None)


def read(run_dir: Path) -> Results:
    """Read a run directory; only `verdict.json` has to be there.

    Args:
        run_dir: the folder given to `symshare discover` as `--out`.

    Returns:
        The verdict, the examples and the runs, sorted by model and seed.

    Raises:
        FileNotFoundError: if the folder holds no `verdict.json`.
        ValueError: if `verdict.json` is no JSON object of schema 1.
    """
    path = run_dir / "verdict.json"
    if not path.is_file():
        raise FileNotFoundError(
            f"report: expected {path}, found none; "
            f"run `symshare discover ... --out {run_dir}` first"
        )
    try:
        verdict = json.loads(path.read_text(encoding="utf-8"))
    except json.JSONDecodeError as error:
        raise ValueError(
            f"report: expected JSON in {path}, got {error}; run `symshare discover` again"
        ) from error
    schema = verdict.get("schema") if isinstance(verdict, dict) else None
    if schema != SCHEMA:
        raise ValueError(
            f"report: expected schema {SCHEMA} in {path}, got {schema!r}; "
            "read it with the version of symshare that wrote it"
        )
    examples = _tensors(run_dir / "examples.safetensors")
    folders = (run_dir / "runs").glob("*-seed*") if (run_dir / "runs").is_dir() else ()
    runs = [run for folder in folders if (run := _run(folder)) is not None]
    return Results(
        verdict=verdict,
        config=_text(run_dir / "config.yaml"),
        images=examples.get("images"),
        labels=examples.get("labels"),
        runs=tuple(sorted(runs, key=lambda run: (MODELS.index(run.model), run.seed))),
    )


def _run(folder: Path) -> Run | None:
    model, _, seed = folder.name.rpartition("-seed")
    if model not in MODELS or not seed.isdecimal():
        return None
    result = folder / "result.json"
    metrics = folder / "metrics.csv"
    rows: list[dict[str, str]] = []
    if metrics.is_file():
        with metrics.open(newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
    return Run(
        model=model,
        seed=int(seed),
        result=json.loads(result.read_text(encoding="utf-8")) if result.is_file() else None,
        config=_text(folder / "config.yaml"),
        metrics=rows,
        tensors=_tensors(folder / "representations.safetensors"),
        names=_names(folder / "representations.safetensors"),
    )


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8").rstrip() if path.is_file() else ""


def _tensors(path: Path) -> dict[str, Tensor]:
    from safetensors.torch import load_file

    if not path.is_file():
        return {}
    return {name: tensor.detach() for name, tensor in load_file(path).items()}


def _names(path: Path) -> tuple[str, ...]:
    from safetensors import safe_open

    if not path.is_file():
        return ()
    with safe_open(path, framework="pt") as file:
        metadata = file.metadata() or {}
    return tuple(json.loads(metadata.get("names", "[]")))
