"""The LightningModule: cross entropy, penalties, and two learning rates."""

from collections.abc import Callable, Iterator, Sequence

import pytorch_lightning as pl
import torch
from pytorch_lightning.utilities.types import OptimizerLRScheduler
from torch import Tensor, nn

from symshare.data import LabelledImages, Transform, stream
from symshare.fit.config import OptimConfig
from symshare.fit.penalties import norm_as_printed, overlap
from symshare.models import representation_parameters
from symshare.representations import Measure, Representation, shared


class Standardise(nn.Module):
    """Subtract the mean and divide by the spread of the training images, channel by channel."""

    def __init__(self, images: Tensor):
        super().__init__()
        axes = (0, 2, 3)
        std = images.std(axes)
        self.register_buffer("mean", images.mean(axes)[:, None, None])
        self.register_buffer("std", torch.where(std > 0, std, 1.0)[:, None, None])

    def forward(self, x: Tensor) -> Tensor:
        return (x - self.mean) / self.std


class Batches:
    """Random batches of a data set; each epoch of a seed is always the same."""

    def __init__(
        self,
        data: LabelledImages,
        size: int,
        count: int,
        seed: int,
        epoch: Callable[[], int],
    ):
        self.data = data
        self.size = size
        self.count = count
        self.seed = seed
        self.epoch = epoch

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        generator = stream("batches", self.seed, self.epoch())
        passes = -(-self.size * self.count // len(self.data))
        order = torch.cat(
            [torch.randperm(len(self.data), generator=generator) for _ in range(passes)]
        )
        for batch in order.split(self.size)[: self.count]:
            yield self.data.images[batch], self.data.labels[batch]


class Classifier(pl.LightningModule):
    """A network with its objective; training images are transformed anew in every step."""

    def __init__(
        self,
        network: nn.Module,
        standardise: nn.Module,
        transform: Transform,
        optim: OptimConfig,
        seed: int,
    ):
        super().__init__()
        self.network = network
        self.standardise = standardise
        self.transform = transform
        self.optim = optim
        self.seed = seed
        self.generator = torch.Generator()

    def forward(self, x: Tensor) -> Tensor:
        return self.network(self.standardise(x))

    def on_train_epoch_start(self) -> None:
        self.generator = stream("transformations", self.seed, self.current_epoch)
        # Dropout draws from torch's own stream.
        torch.manual_seed(stream("dropout", self.seed, self.current_epoch).initial_seed())

    def training_step(self, batch: Sequence[Tensor]) -> Tensor:
        images, labels = batch
        with shared(self.network):
            logits = self(self.transform(images, self.generator))
            loss = nn.functional.cross_entropy(logits, labels)
            self._log("train", loss, logits, labels)
            return loss + self._penalty()

    def validation_step(self, batch: Sequence[Tensor]) -> None:
        self._evaluate("val", batch)

    def test_step(self, batch: Sequence[Tensor]) -> None:
        self._evaluate("test", batch)

    def _evaluate(self, part: str, batch: Sequence[Tensor]) -> None:
        images, labels = batch
        logits = self(images)
        self._log(part, nn.functional.cross_entropy(logits, labels), logits, labels)

    def _log(self, part: str, loss: Tensor, logits: Tensor, labels: Tensor) -> None:
        accuracy = (logits.argmax(-1) == labels).float().mean()
        values = {f"{part}_loss": loss.detach(), f"{part}_accuracy": accuracy}
        self.log_dict(values, on_step=False, on_epoch=True, batch_size=len(labels))

    def _penalty(self) -> Tensor | float:
        """The paper's penalties and the mass of measures, of everything learned once."""
        optim = self.optim
        total: Tensor | float = 0.0
        learned = {}
        for module in self.network.modules():
            if isinstance(module, Measure) and optim.measure:
                total = total + optim.measure * module()[1:].sum()
            if isinstance(module, Representation):
                learned.update(dict.fromkeys(module.learned_parts()))
        for part in learned:
            if optim.entropy:
                total = total + optim.entropy * part.entropy()
            if optim.norm:
                norm = part.norm() if optim.norm_of == "logits" else norm_as_printed(part)
                total = total + optim.norm * norm
            if optim.diversity:
                total = total + optim.diversity * overlap(part)
        return total

    def configure_optimizers(self) -> OptimizerLRScheduler:
        optim = self.optim
        representations = representation_parameters(self.network)
        learned = {id(p) for p in representations}
        weights = [p for p in self.network.parameters() if id(p) not in learned]
        groups = [{"params": weights, "lr": optim.lr, "weight_decay": optim.weight_decay}]
        if representations:
            groups.append(
                {
                    "params": representations,
                    "lr": optim.representation_lr,
                    "weight_decay": optim.representation_decay,
                }
            )
        optimizer = torch.optim.AdamW(groups)
        if optim.schedule == "constant":
            return {"optimizer": optimizer}
        scheduler = torch.optim.lr_scheduler.OneCycleLR(
            optimizer,
            [group["lr"] for group in groups],
            total_steps=optim.epochs * optim.epoch_steps,
        )
        return {
            "optimizer": optimizer,
            "lr_scheduler": {"scheduler": scheduler, "interval": "step"},
        }
