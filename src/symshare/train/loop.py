"""The training loop, to be read from top to bottom: batches, step, evaluation, checkpoint."""

import csv
import io
import zipfile
from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Float
from torch import Generator, Tensor, nn
from torch.optim import AdamW
from torch.optim.lr_scheduler import OneCycleLR
from torch.optim.swa_utils import get_ema_multi_avg_fn

from symshare.data import TEST_SEED, LabelledImages, Transform, freeze, stream
from symshare.files import damaged, write_atomically
from symshare.groups import ChannelAction
from symshare.layers import synchronise
from symshare.models import GroupNetwork, representation_parameters
from symshare.representations import shared
from symshare.train.objective import Penalty, Task
from symshare.train.processes import start
from symshare.train.regression import task_of
from symshare.train.settings import Early, Hardware, OptimConfig

if TYPE_CHECKING:
    from lightning_fabric import Fabric

__all__ = [
    "COLUMNS",
    "Progress",
    "Standardise",
    "Trained",
    "batches",
    "optimizer_of",
    "train",
    "unseen",
]

COLUMNS = ("epoch", "step", "lr", "train_loss", "train_accuracy", "val_loss", "val_accuracy")
"""Columns of `metrics.csv` that every run has; those that are watched follow. Where labels are
numbers, an accuracy is the share of their variance that is explained."""

_EVALUATION_BATCH = 512

Row = dict[str, int | float]

Progress = Callable[[int, int], None]
"""Called with the number of steps that are done, and of all."""


def unseen(done: int, steps: int) -> None:
    """Progress that nobody follows."""


@dataclass(frozen=True)
class Trained:
    """A trained network.

    Attributes:
        model: from raw images to logits, on the device where it was trained.
        rows: what was measured at each evaluation.
    """

    model: nn.Module
    rows: list[Row]

    def logits(self, images: Float[Tensor, "N C *space"]) -> Float[Tensor, "N classes"]:
        """Outputs for raw images, in evaluation mode and without gradients."""
        self.model.eval()
        device = next(self.model.parameters()).device
        with torch.inference_mode():
            parts = [self.model(x.to(device)).cpu() for x in images.split(_EVALUATION_BATCH)]
        return torch.cat(parts)

    def validation(self) -> dict[str, float]:
        """Loss and accuracy of the last evaluation on the validation part, if there was one."""
        return {name: value for name, value in self.rows[-1].items() if name.startswith("val_")}

    def test(
        self, data: LabelledImages, law: Transform, task: Task | None = None
    ) -> dict[str, float]:
        """Loss and accuracy, or another score of the task, on a test part, transformed once."""
        shown, task = freeze(data, law, TEST_SEED), task or task_of(data)
        prepared = task.prepare(shown.images, shown.labels, stream("test", TEST_SEED))
        return _evaluate("test", self.model, prepared, task)


def train(
    network: nn.Module,
    data: LabelledImages,
    law: Transform,
    optim: OptimConfig,
    seed: int,
    *,
    validation: LabelledImages | None = None,
    validation_law: Transform | None = None,
    task: Task | None = None,
    early: Early | None = None,
    out: Path | None = None,
    watch: Callable[[], Mapping[str, float]] = dict,
    progress: Progress = unseen,
    hardware: Hardware = Hardware(),
) -> Trained:
    """Train a network on randomly transformed images.

    Args:
        network: from standardised images to logits.
        data: training images, raw.
        law: the transformation that every image draws anew in every step.
        optim: how to train.
        seed: of batches and transformations. The same seed gives the same numbers on one machine.
        validation: read `optim.evaluations` times, transformed once.
        validation_law: the transformation of these images; by default that of training.
        task: what the network is trained for; by default the labels, classes or numbers.
        early: stop where the validation loss no longer falls; not together with `out`.
        out: folder for `metrics.csv` and `checkpoints/last.ckpt`, from which an interrupted call
            continues; nothing is written where None.
        watch: what else to note at every evaluation, further columns of `metrics.csv`.
        progress: called after every step.
        hardware: what to train on. Several processes are those of :func:`together`.

    Returns:
        The trained network.

    Raises:
        ValueError: where a checkpoint cannot be read, a batch has fewer images than there are
            processes, or an early stop has no validation part or is to be resumed.
    """
    if early is not None and (validation is None or out is not None):
        raise ValueError(
            "train: an early stop needs a validation part, and keeps no checkpoint; give "
            "validation= and leave out= away"
        )
    held_out = None
    if validation is not None:
        some = torch.randperm(len(validation), generator=torch.Generator().manual_seed(seed))
        shown = validation.subset(some[: optim.validation_images])
        held_out = freeze(shown, validation_law or law, seed)
    last = None if out is None else out / "checkpoints" / "last.ckpt"
    saved = _read_checkpoint(last) if last is not None and last.exists() else None
    if optim.batch_size < hardware.processes:
        raise ValueError(
            f"train: each of {hardware.processes} processes needs an image of every batch, got "
            f"batch_size {optim.batch_size}; use fewer devices or a larger batch"
        )
    task = task or task_of(data)
    training = Training(network, data, law, optim, seed, held_out, task, early, saved)
    fabric = start(hardware)
    fabric.broadcast(training)
    try:
        return training.run(fabric, out, watch, progress)
    except BaseException:
        # The others wait in the middle of a step: what they notice is that the connection ends.
        if fabric.world_size > 1:
            torch.distributed.destroy_process_group()
        raise


@dataclass(frozen=True, eq=False)
class Training:
    """What each process has to know of a training; see :func:`train`.

    Attributes:
        held_out: images of the evaluations, transformed.
        task: what the network is trained for.
        early: when to stop before all steps are done.
        saved: content of the checkpoint to go on from.
    """

    network: nn.Module
    data: LabelledImages
    law: Transform
    optim: OptimConfig
    seed: int
    held_out: LabelledImages | None
    task: Task
    early: Early | None
    saved: dict[str, Any] | None

    def run(
        self,
        fabric: "Fabric",
        out: Path | None = None,
        watch: Callable[[], Mapping[str, float]] = dict,
        progress: Progress = unseen,
    ) -> Trained:
        """Train, as one of the processes of `fabric`; only the first has somewhere to write.

        All draw the same batches and the same transformations, and each takes its part of every
        batch. So the gradient is that of the whole batch, whatever their number.
        """
        optim, seed, network, task = self.optim, self.seed, self.network, self.task
        optimizer, schedule = optimizer_of(network, optim)
        action = network.channel_action if isinstance(network, GroupNetwork) else None
        standardise = Standardise(self.data.images, action)
        model: nn.Module = nn.Sequential(standardise, network)
        if fabric.world_size > 1:
            model = synchronise(model)
        model, stepper = fabric.setup(model, optimizer)
        early = None if self.early is None else _Mean(self.early, standardise, network)
        held_out = None
        if self.held_out is not None:
            drawn = stream("validation", seed)
            held_out = task.prepare(self.held_out.images, self.held_out.labels, drawn)
        first, rows = 0, []
        if self.saved is not None:
            first, rows = self.saved["epochs"], self.saved["rows"]
            network.load_state_dict(self.saved["network"])
            optimizer.load_state_dict(self.saved["optimizer"])
            if schedule is not None:
                schedule.load_state_dict(self.saved["schedule"])
        data, penalty = self.data.to(fabric.device), Penalty(network, optim)

        with torch.random.fork_rng(devices=[]):
            for epoch in range(first, optim.epochs):
                model.train()
                _seed_dropout(seed, epoch, fabric.global_rank)
                transformations = stream("transformations", seed, epoch)
                order = stream("batches", seed, epoch)
                steps, sums = epoch * optim.epoch_steps, _Sums(fabric.device)
                for images, labels in batches(data, optim.batch_size, optim.epoch_steps, order):
                    x = self.law(images, transformations)
                    whole = task.prepare(x, labels, transformations)
                    part = [_part(rows_of, fabric) for rows_of in whole]
                    y = part[1]
                    with shared(network):
                        loss, logits = task.loss(model, *part)
                        # Gradients are averaged over processes, whose parts may differ by one.
                        share = len(y) * fabric.world_size / len(labels)
                        objective = share * loss + penalty()
                    stepper.zero_grad()
                    fabric.backward(objective)
                    stepper.step()
                    if schedule is not None:
                        schedule.step()
                    if early is not None:
                        early.update()
                    sums.add(loss, task.score(logits, y), len(y))
                    steps += 1
                    progress(steps, optim.epochs * optim.epoch_steps)

                row: Row = {"epoch": epoch, "step": steps, "lr": optimizer.param_groups[0]["lr"]}
                row |= sums.means("train", fabric)
                if held_out is not None:
                    row |= _evaluate("val", early.model if early else model, held_out, task, fabric)
                rows.append({**row, **watch()})
                if out is not None:
                    _write_metrics(out / "metrics.csv", rows)
                    state = {
                        "epochs": epoch + 1,
                        "rows": rows,
                        "network": network.state_dict(),
                        "optimizer": optimizer.state_dict(),
                        "schedule": None if schedule is None else schedule.state_dict(),
                    }
                    content = io.BytesIO()
                    torch.save(state, content)
                    write_atomically(out / "checkpoints" / "last.ckpt", content.getvalue())
                if early is not None and early.stops(epoch, row["val_loss"]):
                    progress(optim.epochs * optim.epoch_steps, optim.epochs * optim.epoch_steps)
                    break
        return Trained(early.best() if early else model, rows)


class _Mean:
    """The mean of the weights over steps, and what it was at its best."""

    def __init__(self, early: Early, standardise: nn.Module, network: nn.Module):
        average = deepcopy(network).requires_grad_(False)
        self.early = early
        self.model = nn.Sequential(standardise, average)
        self.mean: list[Tensor] = list(average.parameters())
        self.current: list[Tensor] = list(network.parameters())
        self.buffers = list(zip(average.buffers(), network.buffers(), strict=True))
        self.steps = 0
        self.state: dict[str, Tensor] = {}
        self.epoch, self.least = 0, float("inf")

    def update(self) -> None:
        """One step of an exponential mean, which is nearly the plain mean of the first few."""
        decay = min(self.early.decay, (self.steps + 1) / (self.steps + 10)) if self.steps else 0.0
        get_ema_multi_avg_fn(decay)(self.mean, self.current, self.steps)
        for kept, buffer in self.buffers:
            kept.copy_(buffer)
        self.steps += 1

    def stops(self, epoch: int, loss: float) -> bool:
        if loss < self.least or not self.state:
            self.state, self.epoch, self.least = deepcopy(self.model.state_dict()), epoch, loss
        return epoch - self.epoch >= self.early.patience

    def best(self) -> nn.Module:
        self.model.load_state_dict(self.state)
        return self.model


class Standardise(nn.Module):
    """Subtract the mean and divide by the spread of the training images, channel by channel.

    Args:
        images: of the training part.
        action: elements that move channels; means and spreads are then averaged over them, so that
            the network behind keeps its symmetry exactly.
    """

    def __init__(self, images: Float[Tensor, "N C *space"], action: ChannelAction | None = None):
        super().__init__()
        axes, channel = [0, *range(2, images.ndim)], [-1, *[1] * (images.ndim - 2)]
        mean, std = images.mean(axes), images.std(axes)
        if action is not None:
            M = torch.stack([m.matrix() for _, m in action.elements]).to(mean)
            mean, std = (M @ mean).mean(0), (M.square() @ std.square()).mean(0).sqrt()
        self.register_buffer("mean", mean.view(channel))
        self.register_buffer("std", torch.where(std > 0, std, 1.0).view(channel))

    def forward(self, x: Float[Tensor, "B C *space"]) -> Float[Tensor, "B C *space"]:
        return (x - self.mean) / self.std


def optimizer_of(network: nn.Module, optim: OptimConfig) -> tuple[AdamW, OneCycleLR | None]:
    """AdamW, in which representations have their own rate and decay, and its schedule, if any."""
    representations = representation_parameters(network)
    learned = {id(p) for p in representations}
    weights = [p for p in network.parameters() if id(p) not in learned]
    groups = [{"params": weights, "lr": optim.lr, "weight_decay": optim.weight_decay}]
    if representations:
        decay = optim.representation_decay
        groups.append(
            {"params": representations, "lr": optim.representation_lr, "weight_decay": decay}
        )
    optimizer = AdamW(groups)
    if optim.schedule == "constant":
        return optimizer, None
    steps = optim.epochs * optim.epoch_steps
    return optimizer, OneCycleLR(optimizer, [g["lr"] for g in groups], total_steps=steps)


def batches(
    data: LabelledImages, size: int, count: int, generator: Generator
) -> Iterator[tuple[Tensor, Tensor]]:
    """Random batches, all of one size: every image once, then every image once again."""
    passes = -(-size * count // len(data))
    order = torch.cat([torch.randperm(len(data), generator=generator) for _ in range(passes)])
    for batch in order.split(size)[:count]:
        yield data.images[batch], data.labels[batch]


def _seed_dropout(seed: int, epoch: int, rank: int) -> None:
    """Dropout draws from torch's own stream, in each process other numbers."""
    numbers = (seed, epoch, rank) if rank else (seed, epoch)
    torch.manual_seed(stream("dropout", *numbers).initial_seed())


def _part(batch: Tensor, fabric: "Fabric | None") -> Tensor:
    """The rows of a batch that this process reads."""
    return batch if fabric is None else batch.tensor_split(fabric.world_size)[fabric.global_rank]


class _Sums:
    """Loss and score, summed over images on their device: no step waits for it."""

    def __init__(self, device: torch.device):
        self.sums = torch.zeros(3, device=device)

    def add(self, loss: Tensor, score: Tensor, count: int) -> None:
        self.sums += count * torch.stack([loss, score, torch.ones_like(score)]).detach()

    def means(self, part: str, fabric: "Fabric | None") -> dict[str, float]:
        sums: Any = self.sums
        if fabric is not None:
            sums = fabric.all_reduce(sums, reduce_op="sum")
        loss, accuracy = (sums[:2] / sums[2]).tolist()
        return {f"{part}_loss": loss, f"{part}_accuracy": accuracy}


def _evaluate(
    part: str,
    model: nn.Module,
    prepared: tuple[Tensor, ...],
    task: Task,
    fabric: "Fabric | None" = None,
) -> dict[str, float]:
    """Mean loss and score; each process of `fabric` reads its part, without it this one all."""
    model.eval()
    device = next(model.parameters()).device
    with torch.inference_mode():
        sums = _Sums(device)
        for batch in zip(*(rows.split(_EVALUATION_BATCH) for rows in prepared), strict=True):
            own = [_part(rows, fabric).to(device) for rows in batch]
            if len(own[1]):
                loss, logits = task.loss(model, *own)
                sums.add(loss, task.score(logits, own[1]), len(own[1]))
        return sums.means(part, fabric)


def _write_metrics(path: Path, rows: list[Row]) -> None:
    text = io.StringIO()
    columns = dict.fromkeys((*COLUMNS, *rows[-1]))
    table = csv.DictWriter(text, columns, restval="", lineterminator="\n")
    table.writeheader()
    table.writerows(rows)
    write_atomically(path, text.getvalue().encode())


def _read_checkpoint(path: Path) -> dict[str, Any]:
    """Content of a checkpoint whose every byte is as it was written."""
    try:
        # torch does not look at the checksums of tensors.
        with zipfile.ZipFile(path) as file:
            whole = file.testzip() is None
        saved = torch.load(path, map_location="cpu", weights_only=True) if whole else None
    except Exception as error:  # whatever torch's reader makes of damage
        raise ValueError(damaged(path)) from error
    if isinstance(saved, dict) and "pytorch-lightning_version" in saved:
        raise ValueError(
            f"{path} was written by symshare 0.1, whose unfinished trainings cannot go on; delete "
            "it and repeat the same command, which trains this network from the start"
        )
    if not isinstance(saved, dict) or not {"epochs", "rows", "network"} <= set(saved):
        raise ValueError(damaged(path))
    return saved
