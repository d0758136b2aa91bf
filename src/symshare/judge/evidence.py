"""Held-out losses of plain networks on images, on moved images, and on scrambled images."""

from dataclasses import dataclass
from pathlib import Path

import torch
from jaxtyping import Float, Int
from safetensors.torch import save
from torch import Tensor

from symshare.data import LabelledImages, Transform, freeze, halves
from symshare.files import open_tensors, write_atomically
from symshare.judge.thresholds import FLOOR, RANDOM_PERMUTATIONS
from symshare.models import probe
from symshare.train.loop import Progress, Trained, train, unseen
from symshare.train.settings import Hardware, OptimConfig

_MOMENT_IMAGES = 4000
_MOMENT_PIXELS = 1024


@dataclass(frozen=True, eq=False)
class Evidence:
    """What networks that never saw an image say about it, as it is and transformed.

    Attributes:
        labels: true class of each held-out image.
        loss: floored negative log likelihood of each image, in nats.
        prediction: predicted class.
        moved_loss, moved_prediction: the same after each of M candidates.
        random_loss: the loss after each of K random permutations of the pixels.
        chance_loss: loss of predicting the class frequencies of the training half.
        image_change: how unlike the data each candidate makes the images: distance of their
            second moments, 1 for a random permutation of the pixels.
        classes: number of classes.
    """

    labels: Int[Tensor, " N"]
    loss: Float[Tensor, " N"]
    prediction: Int[Tensor, " N"]
    moved_loss: Float[Tensor, "M N"]
    moved_prediction: Int[Tensor, "M N"]
    random_loss: Float[Tensor, "K N"]
    chance_loss: Float[Tensor, " N"]
    image_change: Float[Tensor, " M"]
    classes: int

    def tensors(self) -> dict[str, Tensor]:
        """The tensors by name, to be saved."""
        return {name: value for name, value in vars(self).items() if name != "classes"}


def gather(
    data: LabelledImages,
    transform: Transform,
    permutations: Int[Tensor, "M P"],
    optim: OptimConfig,
    seed: int,
    *,
    out: Path | None = None,
    progress: Progress = unseen,
    hardware: Hardware = Hardware(),
) -> Evidence:
    """Train a plain network on each half of the data and question it about the other half.

    Args:
        data: different images, none of the test part.
        transform: what makes the data what they are; held-out images are transformed once.
        permutations: candidates, as source indices over the pixels of an image.
        optim: how to train the two networks.
        seed: of the halves, the networks, the transformations and the random permutations.
        out: folder for what each network said, `fold0.safetensors` and `fold1.safetensors`, from
            which an interrupted call continues; nothing is written where None.
        progress: called after every step of the two trainings.
        hardware: what to train on.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        P = permutations.shape[1]
        random = torch.stack([torch.randperm(P) for _ in range(RANDOM_PERMUTATIONS)])
        first, second = halves(data, seed)
        asked = [freeze(second, transform, 2 * seed), freeze(first, transform, 2 * seed + 1)]
        _, channels, *size = data.images.shape
        # All before the first training, so that a fold that is read back changes no other one.
        networks = [probe(channels, len(data.classes), (size[0], size[1])) for _ in asked]
        steps = optim.epochs * optim.epoch_steps
        parts = []
        for fold, (known, held_out) in enumerate(zip((first, second), asked, strict=True)):
            path = None if out is None else out / f"fold{fold}.safetensors"
            if path is not None and path.exists():
                with open_tensors(path) as file:
                    parts.append({name: file.get_tensor(name) for name in file.keys()})  # noqa: SIM118
                continue
            trained = train(
                networks[fold],
                known,
                transform,
                optim,
                2 * seed + fold,
                progress=lambda done, _, before=fold * steps: progress(before + done, 2 * steps),
                hardware=hardware,
            )
            parts.append(_question(trained, known, held_out, permutations, random))
            if path is not None:
                write_atomically(path, save(parts[fold]))
        images = torch.cat([held_out.images for held_out in asked])
        change = image_change(images, permutations, random)
    columns = {name: torch.cat([part[name] for part in parts], dim=-1) for name in parts[0]}
    return Evidence(**columns, image_change=change, classes=len(data.classes))


def _question(
    trained: Trained,
    known: LabelledImages,
    held_out: LabelledImages,
    permutations: Tensor,
    random: Tensor,
) -> dict[str, Tensor]:
    """Columns of the evidence about the held-out images."""
    images, labels = held_out.images, held_out.labels
    loss, prediction = _score(trained, images, labels)
    moved = [_score(trained, _permute(images, p), labels) for p in permutations]
    scrambled = [_score(trained, _permute(images, p), labels)[0] for p in random]
    frequency = known.labels.bincount(minlength=len(known.classes)) / len(known)
    return {
        "labels": labels,
        "loss": loss,
        "prediction": prediction,
        "moved_loss": torch.stack([m[0] for m in moved]),
        "moved_prediction": torch.stack([m[1] for m in moved]),
        "random_loss": torch.stack(scrambled),
        "chance_loss": _floored(frequency.expand(len(held_out), -1), labels),
    }


def image_change(
    images: Float[Tensor, "N C H W"], permutations: Int[Tensor, "M P"], random: Int[Tensor, "K P"]
) -> Float[Tensor, " M"]:
    """Distance of the pixels' second moments from those of moved images, relative to scrambling.

    Args:
        images: in any unit; at most `_MOMENT_IMAGES` random ones are read, and `_MOMENT_PIXELS`
            random pixels.
        permutations: candidates.
        random: permutations whose mean distance is the unit.

    >>> image = torch.arange(4.0).reshape(1, 1, 2, 2)
    >>> identity, swap = torch.arange(4), torch.tensor([1, 0, 3, 2])
    >>> image_change(image, torch.stack([identity, swap]), swap[None])
    tensor([0., 1.])
    """
    chosen = torch.randperm(images.shape[2:].numel())[:_MOMENT_PIXELS]
    # Files often come in the order of classes.
    some = torch.randperm(len(images))[:_MOMENT_IMAGES, None, None]
    pixels, channels = images.flatten(2), torch.arange(images.shape[1])[:, None]
    largest = max(abs(float(bound)) for bound in pixels.aminmax()) or 1.0

    def moments(where: Tensor) -> Tensor:
        x = pixels[some, channels, where] / largest
        return torch.einsum("ncp,ncq->pq", x, x) / len(x)

    base = moments(chosen)
    distances = [(moments(p[chosen]) - base).norm() for p in [*permutations, *random]]
    unit = torch.stack(distances[len(permutations) :]).mean()
    return torch.stack(distances[: len(permutations)]) / unit.clamp_min(1e-12)


def _score(trained: Trained, images: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    probabilities = trained.logits(images).softmax(-1)
    return _floored(probabilities, labels), probabilities.argmax(-1)


def _floored(probabilities: Tensor, labels: Tensor) -> Tensor:
    uniform = 1 / probabilities.shape[-1]
    mixed = (1 - FLOOR) * probabilities + FLOOR * uniform
    return -mixed.gather(-1, labels[:, None]).squeeze(-1).log()


def _permute(images: Tensor, permutation: Tensor) -> Tensor:
    return images.flatten(2)[..., permutation].unflatten(-1, images.shape[2:])
