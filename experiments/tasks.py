"""What runs the rows of each kind."""

from pathlib import Path
from typing import Any

import torch

from benchmarks.options import LayerConfig
from benchmarks.recording import device_name
from benchmarks.threads import limited
from experiments.catalogue import Task
from experiments.settings import ImageRun
from experiments.toys.setup import ToyConfig
from symshare import __version__

__all__ = ["run"]


def run(
    task: Task, config: dict[str, Any], folder: Path, root: str | None, threads: int
) -> dict[str, Any]:
    """Run a row and say where.

    Args:
        task: of the row.
        config: its settings, as plain values.
        folder: of the run.
        root: folder of the images, or None.
        threads: of the CPU.
    """
    where = config["device"] if task == "cost" else "cpu"
    if task == "images" and torch.cuda.is_available():
        where = "cuda"
    with limited(threads):
        result = _RUN[task](config, folder, None if root is None else Path(root))
    return {
        **result,
        "device": device_name(torch.device(where)),
        "threads": threads,
        "torch": torch.__version__,
        "symshare": __version__,
    }


def _images(config: dict[str, Any], folder: Path, root: Path | None) -> dict[str, Any]:
    from experiments.images import run_images

    findings = folder.parents[1] / "found"
    return run_images(ImageRun.from_dict(config), folder, root, findings)


def _toy(config: dict[str, Any], folder: Path, root: Path | None) -> dict[str, Any]:
    from experiments.toys.running import run_toy

    measure = config["measure"]
    settings = config | {"measure": None if measure is None else tuple(measure)}
    return run_toy(ToyConfig(**settings), folder)


def _cost(config: dict[str, Any], folder: Path, root: Path | None) -> dict[str, Any]:
    from benchmarks.layer import rows

    *measured, summary = rows(LayerConfig(**config))
    return {"rows": measured, **summary}


_RUN = {"images": _images, "toy": _toy, "cost": _cost}
