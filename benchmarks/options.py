"""How long and on what a bench runs, as plain dataclasses: importing them does not import torch."""

import os
from dataclasses import dataclass
from pathlib import Path

__all__ = ["BenchConfig", "LayerConfig", "SinkhornConfig", "StepConfig", "figure_path"]


@dataclass(frozen=True)
class BenchConfig:
    """How long and on what a bench runs.

    Attributes:
        rounds: most rounds of each case; every contender is timed once in a round.
        seconds: time after which a case starts no further round [s]; one round always runs.
        threads: CPU threads of torch, NumPy and SciPy; by default those that they have.
        seed: of everything random.
        device: as in `torch.device`, for example cpu or cuda.
    """

    rounds: int
    seconds: float
    threads: int | None = None
    seed: int = 0
    device: str = "cpu"

    def __post_init__(self) -> None:
        """Refuse numbers that no bench can have."""
        if self.rounds < 1:
            raise ValueError(f"rounds must be at least 1, got {self.rounds}")
        if not self.seconds > 0:
            raise ValueError(f"seconds must be positive, got {self.seconds}")
        if self.threads is not None and self.threads < 1:
            raise ValueError(f"threads must be at least 1, got {self.threads}")
        if not 0 <= self.seed < 2**32:
            raise ValueError(f"seed must be at least 0 and below 2**32, got {self.seed}")


@dataclass(frozen=True)
class SinkhornConfig(BenchConfig):
    """As `python -m benchmarks sinkhorn` runs: about a minute on two cores."""

    rounds: int = 60
    seconds: float = 12.0


@dataclass(frozen=True)
class LayerConfig(BenchConfig):
    """As `python -m benchmarks layer` runs."""

    rounds: int = 7
    seconds: float = 20.0


@dataclass(frozen=True)
class StepConfig(BenchConfig):
    """As `python -m benchmarks step` runs."""

    rounds: int = 20
    seconds: float = 40.0


def figure_path(name: str) -> Path:
    """Path of a figure, refused before anything is measured if it cannot be drawn.

    Args:
        name: ends in .svg, .pdf or .png, in a folder that exists.

    Raises:
        ValueError: saying what is wrong with it.

    >>> figure_path("cost.SVG").name
    'cost.SVG'
    """
    path = Path(name)
    if path.suffix.lower() not in (".svg", ".pdf", ".png"):
        raise ValueError(f"plot must end in .svg, .pdf or .png, got {path}")
    if not path.parent.is_dir():
        raise ValueError(f"plot: there is no folder {path.parent}; make it first")
    if not os.access(path.parent, os.W_OK):
        raise ValueError(f"plot: the folder {path.parent} cannot be written to")
    if path.is_dir():
        raise ValueError(f"plot: {path} is a folder; name a file")
    return path
