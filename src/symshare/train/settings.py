"""What a training run is, as plain dataclasses: importing them does not import torch."""

import hashlib
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from symshare.names import Storage, check_transform
from symshare.settings import NetworkConfig

__all__ = [
    "Accelerator",
    "DataConfig",
    "Early",
    "FitConfig",
    "Hardware",
    "OptimConfig",
    "Precision",
]

Accelerator = Literal["auto", "cpu", "cuda", "mps"]
Precision = Literal["32-true", "bf16-mixed", "64-true"]


@dataclass(frozen=True)
class DataConfig(Storage):
    """Where labelled images come from.

    Attributes:
        source: digits, mnist, cifar10, or a folder or file, see the README: a folder with a folder
            of pictures for each class, a .csv or .parquet file of paths or images and labels, an
            .npz file with `images` and `labels`, or images.npy beside labels.npy.
        transform: random transformation put on every image: none, flip, flips, half, quarter,
            d4, rotate:A, scale:a-b.
    """

    source: str = "digits"
    transform: str = "none"

    def __post_init__(self) -> None:
        """Refuse a transformation that does not exist as well."""
        super().__post_init__()
        check_transform(self.transform)


@dataclass(frozen=True)
class OptimConfig:
    """How to train.

    Attributes:
        steps: optimiser steps, rounded up to a multiple of `evaluations`.
        evaluations: how often in a run the validation part is read and a checkpoint written.
        validation_images: most images that an evaluation reads.
        batch_size: images in a step.
        lr: learning rate of weights (AdamW).
        representation_lr: learning rate of representations.
        weight_decay: of weights.
        representation_decay: weight decay of representations.
        schedule: "one-cycle" or "constant".
        entropy: weight of the paper's entropy penalty, in 1/nats.
        norm: weight of the paper's norm penalty.
        norm_of: what it is put on: "logits", as in the published code, or "R", as printed, where
            it is constant.
        diversity: weight of the overlap of learned elements, which keeps them from coinciding.
        measure: weight of the sum of a learned measure, which turns useless elements off.
    """

    steps: int = 600
    evaluations: int = 10
    validation_images: int = 2000
    batch_size: int = 64
    lr: float = 1e-2
    representation_lr: float = 1e-2
    weight_decay: float = 1e-4
    schedule: Literal["one-cycle", "constant"] = "one-cycle"
    entropy: float = 0.0
    norm: float = 0.0
    measure: float = 0.02
    representation_decay: float = 0.0
    norm_of: Literal["logits", "R"] = "logits"
    diversity: float = 0.0

    @property
    def epochs(self) -> int:
        """Parts of the run between evaluations."""
        return min(self.evaluations, self.steps)

    @property
    def epoch_steps(self) -> int:
        """Optimiser steps in each of them."""
        return -(-self.steps // self.epochs)

    def __post_init__(self) -> None:
        """Refuse numbers that no run can have."""
        for name in ("steps", "evaluations", "validation_images", "batch_size"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")
        for name in ("lr", "representation_lr"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} must be positive, got {getattr(self, name)}")


@dataclass(frozen=True)
class Early:
    """When to stop before all steps are done.

    What is evaluated and returned is an exponential mean of the weights, which is good at any time,
    while a schedule of the learning rate would have to end first.

    Attributes:
        decay: of the mean in each step.
        patience: evaluations without a smaller validation loss after which training stops; the
            weights that had the smallest are returned.
    """

    decay: float = 0.97
    patience: int = 2


@dataclass(frozen=True)
class FitConfig:
    """One training run: data, model, optimiser, seed.

    Attributes:
        data: where the images come from.
        model: which network.
        optim: how to train.
        seed: of the split, the initial weights, the batches and the transformations.
    """

    data: DataConfig = field(default_factory=DataConfig)
    model: NetworkConfig = field(default_factory=lambda: NetworkConfig(width=32))
    optim: OptimConfig = field(default_factory=OptimConfig)
    seed: int = 0

    def __post_init__(self) -> None:
        """Refuse a seed that no generator takes."""
        if not 0 <= self.seed < 2**32:
            raise ValueError(
                f"seed must be at least 0 and below 2**32, got {self.seed}; leave it out for 0"
            )

    def to_dict(self) -> dict[str, Any]:
        """Nested plain values, as `symshare fit --config` reads them back."""
        return {**asdict(self), "data": self.data.to_dict(), "model": self.model.to_dict()}

    def folder(self, out: str | None) -> Path:
        """Folder of the run: the one asked for, or one below `runs/` of this configuration."""
        if out:
            return Path(out)
        digest = hashlib.sha256(repr(self).encode()).hexdigest()[:6]
        return Path("runs") / f"fit-{self.model.kind}-seed{self.seed}-{digest}"


@dataclass(frozen=True)
class Hardware:
    """What a training runs on. It does not mark a run folder: other hardware may finish a run.

    Several processes share every batch, so that a loss is that of one process up to rounding, but
    for dropout, which each process draws for itself.

    Attributes:
        devices: processes on this machine, each with a device of its own; torchrun, which starts
            them itself, decides where it is used.
        nodes: machines.
        precision: of the network; "bf16-mixed" leaves projections, penalties and weights in
            32 bits.
        accelerator: kind of the devices; "auto" takes the best that the machine has.
    """

    devices: int = 1
    nodes: int = 1
    precision: Precision = "32-true"
    accelerator: Accelerator = "auto"

    def __post_init__(self) -> None:
        """Refuse numbers that no machine has; take those of torchrun."""
        if "TORCHELASTIC_RUN_ID" in os.environ:
            object.__setattr__(self, "devices", int(os.environ["LOCAL_WORLD_SIZE"]))
            object.__setattr__(self, "nodes", int(os.environ["GROUP_WORLD_SIZE"]))
        for name in ("devices", "nodes"):
            if getattr(self, name) < 1:
                raise ValueError(
                    f"{name} must be at least 1, got {getattr(self, name)}; leave it out for one"
                )

    @property
    def processes(self) -> int:
        """Of all machines together."""
        return self.devices * self.nodes
