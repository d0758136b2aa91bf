"""The rows that a bench gives out: one number with its n and its spread, and where it was taken."""

import platform
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

__all__ = ["Recorder", "Row", "ratios"]

Number = int | float

Row = dict[str, Any]
"""One line of JSON. `median` and `iqr` (the interquartile range) are in `unit`."""


class Recorder:
    """Makes the rows of one bench on one device.

    Args:
        bench: name of the bench.
        device: where the numbers are taken.

    >>> row = Recorder("layer", torch.device("cpu")).row("time", "4x5", "ours", "s", [1.0, 3.0])
    >>> row["n"], row["median"], row["iqr"]
    (2, 2.0, 1.0)
    """

    def __init__(self, bench: str, device: torch.device):
        self.bench = bench
        self.device = device_name(device)

    def row(
        self,
        measures: str,
        case: str,
        contender: str,
        unit: str,
        values: Sequence[Number],
        **more: Any,
    ) -> Row:
        """One row.

        Args:
            measures: what the numbers are.
            case: sizes and inputs they were taken on.
            contender: whose they are.
            unit: "s", "bytes", or "1" for a plain number.
            values: one for each round, seed or step.
            more: further entries.
        """
        lower, median, upper = np.quantile(np.asarray(values, dtype=float), (0.25, 0.5, 0.75))
        return {
            "bench": self.bench,
            "measures": measures,
            "case": case,
            "contender": contender,
            "unit": unit,
            "n": len(values),
            "median": float(median),
            "iqr": float(upper - lower),
            **more,
            "device": self.device,
            "torch": torch.__version__,
            "threads": torch.get_num_threads(),
        }


def ratios(over: Sequence[Number], under: Sequence[Number]) -> list[float]:
    """Ratio of two contenders in each round.

    >>> ratios([4.0, 6.0], [2.0, 2.0])
    [2.0, 3.0]
    """
    return [a / b for a, b in zip(over, under, strict=True)]


def device_name(device: torch.device) -> str:
    """Kind and name of a device, as in "cuda: NVIDIA H100"."""
    if device.type == "cuda":
        return f"cuda: {torch.cuda.get_device_name(device)}"
    name = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        lines = info.read_text(encoding="utf-8", errors="replace").splitlines()
        names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
        name = next(filter(None, names), name)
    return f"{device.type}: {name}"
