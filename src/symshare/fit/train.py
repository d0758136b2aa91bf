"""The training loop: Lightning's, with the training images on the device."""

import csv
import io
import logging
import signal
import warnings
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import pytorch_lightning as pl
import torch
from jaxtyping import Float
from pytorch_lightning.callbacks import Callback, ModelCheckpoint, TQDMProgressBar
from pytorch_lightning.plugins.io import TorchCheckpointIO
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from symshare.data import TEST_SEED, LabelledImages, Transform, freeze
from symshare.files import damaged, write_atomically
from symshare.fit.config import OptimConfig
from symshare.fit.module import Batches, Classifier, Standardise

__all__ = ["Trained", "train"]

_EVALUATION_BATCH = 512


@dataclass(frozen=True)
class Trained:
    """A trained network with the trainer that made it."""

    classifier: Classifier
    trainer: pl.Trainer
    table: "MetricsTable | None" = None

    def logits(self, images: Float[Tensor, "N C H W"]) -> Float[Tensor, "N classes"]:
        """Outputs for raw images, in evaluation mode and without gradients."""
        self.classifier.eval()
        device = self.classifier.device
        with torch.inference_mode():
            parts = [self.classifier(x.to(device)).cpu() for x in images.split(_EVALUATION_BATCH)]
        return torch.cat(parts)

    def validation(self) -> dict[str, float]:
        """Loss and accuracy of the last evaluation on the validation part, if there was one."""
        metrics: Mapping[str, Any] = self.trainer.callback_metrics
        if not metrics and self.table is not None and self.table.rows:
            # Nothing was left to do: the run had been cut after its last step.
            metrics = self.table.rows[-1]
        return {name: float(metrics[name]) for name in metrics if name.startswith("val_")}

    def test(self, data: LabelledImages, law: Transform) -> dict[str, float]:
        """Loss and accuracy on a test part, transformed once."""
        with _quiet():
            parts = _evaluation(freeze(data, law, TEST_SEED))
            with _interruptible():
                (metrics,) = self.trainer.test(self.classifier, parts, verbose=False)
        return dict(metrics)


def train(
    network: nn.Module,
    data: LabelledImages,
    law: Transform,
    optim: OptimConfig,
    seed: int,
    *,
    validation: LabelledImages | None = None,
    validation_law: Transform | None = None,
    out: Path | None = None,
    watch: Callable[[], Mapping[str, float]] | None = None,
    progress: bool = False,
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
        out: folder for `metrics.csv` and `checkpoints/last.ckpt`, from which an interrupted call
            continues; nothing is written where None.
        watch: what else to note at every evaluation, further columns of `metrics.csv`.
        progress: show a progress bar.

    Returns:
        The trained network.
    """
    classifier = Classifier(network, Standardise(data.images), law, optim, seed)
    callbacks: list[Callback] = [TQDMProgressBar()] if progress else []
    resume = table = None
    if out is not None:
        table = MetricsTable(out / "metrics.csv", watch)
        callbacks += [
            table,
            ModelCheckpoint(
                out / "checkpoints",
                filename="last",
                save_on_train_epoch_end=True,
                enable_version_counter=False,
            ),
        ]
        last = out / "checkpoints" / "last.ckpt"
        resume = _checked(last) if last.exists() else None
    held_out = None
    if validation is not None:
        some = torch.randperm(len(validation), generator=torch.Generator().manual_seed(seed))
        shown = validation.subset(some[: optim.validation_images])
        held_out = _evaluation(freeze(shown, validation_law or law, seed))
    with _quiet():
        trainer = pl.Trainer(
            max_epochs=optim.epochs,
            accelerator="auto",
            devices=1,
            callbacks=callbacks,
            logger=False,
            enable_progress_bar=progress,
            enable_checkpointing=out is not None,
            enable_model_summary=False,
            num_sanity_val_steps=0,
            plugins=[WholeCheckpoints()],
        )
        batches = Batches(
            data.to(trainer.strategy.root_device),
            optim.batch_size,
            optim.epoch_steps,
            seed,
            lambda: classifier.current_epoch,
        )
        with torch.random.fork_rng(devices=[]), _interruptible():
            trainer.fit(classifier, batches, held_out, ckpt_path=resume, weights_only=True)
    return Trained(classifier, trainer, table)


class MetricsTable(Callback):
    """One row for each evaluation, kept in the checkpoint and written whole every time."""

    _COLUMNS = ("epoch", "step", "lr", "train_loss", "train_accuracy", "val_loss", "val_accuracy")

    def __init__(self, path: Path, watch: Callable[[], Mapping[str, float]] | None = None):
        self.path = path
        self.watch = watch
        self.rows: list[dict[str, int | float]] = []

    def state_dict(self) -> dict[str, list[dict[str, int | float]]]:
        return {"rows": self.rows}

    def load_state_dict(self, state_dict: dict[str, list[dict[str, int | float]]]) -> None:
        self.rows = state_dict["rows"]

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        metrics = {name: float(value) for name, value in trainer.callback_metrics.items()}
        row = {"epoch": trainer.current_epoch, "step": trainer.global_step, **metrics}
        row["lr"] = trainer.optimizers[0].param_groups[0]["lr"]
        watched = dict(self.watch()) if self.watch else {}
        self.rows.append(row | watched)
        text = io.StringIO()
        columns = (*self._COLUMNS, *watched)
        table = csv.DictWriter(text, columns, restval="", lineterminator="\n")
        table.writeheader()
        table.writerows(self.rows)
        write_atomically(self.path, text.getvalue().encode())


class WholeCheckpoints(TorchCheckpointIO):
    """Checkpoints that are whole or absent, wherever temporary files lie."""

    def save_checkpoint(
        self, checkpoint: dict[str, Any], path: str | Path, storage_options: Any = None
    ) -> None:
        content = io.BytesIO()
        torch.save(checkpoint, content)
        write_atomically(Path(path), content.getvalue())


def _evaluation(data: LabelledImages) -> DataLoader:
    """The data in order, as ready batches."""
    positions = torch.arange(len(data)).split(_EVALUATION_BATCH)
    return DataLoader(
        TensorDataset(data.images, data.labels), batch_size=None, sampler=list(positions)
    )


def _checked(checkpoint: Path) -> Path:
    """The path, once its file has been read."""
    try:
        torch.load(checkpoint, map_location="cpu", weights_only=True)
    except (RuntimeError, OSError, EOFError, UnpicklingError) as error:
        raise ValueError(damaged(checkpoint)) from error
    return checkpoint


@contextmanager
def _interruptible() -> Generator[None]:
    """An interrupt stays a KeyboardInterrupt, where Lightning would exit the process."""
    handler = signal.getsignal(signal.SIGINT)
    try:
        yield
    except SystemExit as error:
        signal.signal(signal.SIGINT, handler)
        raise KeyboardInterrupt from error


@contextmanager
def _quiet() -> Generator[None]:
    """Hold back Lightning's advice, which our users cannot act on."""
    log = logging.getLogger("pytorch_lightning.utilities.rank_zero")
    level = log.level
    log.setLevel(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", category=FutureWarning, message=".*LeafSpec.*")
            warnings.filterwarnings("ignore", message=".*does not have many workers.*")
            warnings.filterwarnings("ignore", message=".*but have no `val_dataloader`.*")
            warnings.filterwarnings("ignore", message="Checkpoint directory .* not empty.*")
            warnings.filterwarnings("ignore", message="The dirpath has changed.*")
            yield
    finally:
        log.setLevel(level)
