"""Held-out losses of plain networks on images, on moved images, and on scrambled images."""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from symshare.data import LabelledImages, Transform, halves
from symshare.fit.config import OptimConfig
from symshare.fit.train import Trained, freeze, train
from symshare.models import probe

__all__ = ["Evidence", "gather"]

RANDOM_PERMUTATIONS = 3
"""Random permutations of the pixels that a network with power has to notice."""

FLOOR = 0.01
"""Share of the uniform distribution mixed into predictions: one wild logit cannot decide a mean.

The excess of a true symmetry stays exactly zero, since that holds for any function of (x, y).
"""


@dataclass(frozen=True, eq=False)
class Evidence:
    """What networks that never saw an image say about it, as it is and transformed.

    Attributes:
        labels: true class of each held-out image.
        loss: floored negative log likelihood of each image, in nats.
        correct: whether its class was predicted.
        moved_loss, moved_correct: the same after each of M candidates.
        random_loss: the same after each of K random permutations of the pixels.
        chance_loss: loss of predicting the class frequencies of the training half.
        classes: number of classes.
    """

    labels: Int[Tensor, " N"]
    loss: Float[Tensor, " N"]
    correct: Bool[Tensor, " N"]
    moved_loss: Float[Tensor, "M N"]
    moved_correct: Bool[Tensor, "M N"]
    random_loss: Float[Tensor, "K N"]
    chance_loss: Float[Tensor, " N"]
    classes: int

    def tensors(self) -> dict[str, Tensor]:
        """The tensors by name, to be saved."""
        return {name: value for name, value in vars(self).items() if name != "classes"}


def gather(
    data: LabelledImages,
    law: Transform,
    permutations: Int[Tensor, "M P"],
    optim: OptimConfig,
    seed: int,
) -> Evidence:
    """Train a plain network on each half of the data and question it about the other half.

    Args:
        data: images that no other part of the study uses for testing.
        law: the random transformation that makes the data what they are; held-out images are
            transformed once.
        permutations: candidates, as source indices over the pixels of an image.
        optim: how to train the two networks.
        seed: of the halves, the networks, the transformations and the random permutations.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        P = permutations.shape[1]
        random = torch.stack([torch.randperm(P) for _ in range(RANDOM_PERMUTATIONS)])
        first, second = halves(data, seed)
        parts = [
            _question(known, held_out, law, permutations, random, optim, 2 * seed + fold)
            for fold, (known, held_out) in enumerate([(first, second), (second, first)])
        ]
    columns = {
        name: torch.cat([part.tensors()[name] for part in parts], dim=-1)
        for name in parts[0].tensors()
    }
    return Evidence(**columns, classes=len(data.classes))


def _question(
    known: LabelledImages,
    held_out: LabelledImages,
    law: Transform,
    permutations: Tensor,
    random: Tensor,
    optim: OptimConfig,
    seed: int,
) -> Evidence:
    _, channels, height, width = known.images.shape
    network = probe(channels, len(known.classes), (height, width))
    trained = train(network, known, law, optim, seed)
    asked = freeze(held_out, law, seed)
    loss, correct = _score(trained, asked.images, asked.labels)
    moved = [_score(trained, _permute(asked.images, p), asked.labels) for p in permutations]
    scrambled = [_score(trained, _permute(asked.images, p), asked.labels)[0] for p in random]
    frequency = known.labels.bincount(minlength=len(known.classes)) / len(known)
    return Evidence(
        labels=asked.labels,
        loss=loss,
        correct=correct,
        moved_loss=torch.stack([m[0] for m in moved]),
        moved_correct=torch.stack([m[1] for m in moved]),
        random_loss=torch.stack(scrambled),
        chance_loss=_floored(frequency.expand(len(asked), -1), asked.labels),
        classes=len(known.classes),
    )


def _score(trained: Trained, images: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    probabilities = trained.logits(images).softmax(-1)
    return _floored(probabilities, labels), probabilities.argmax(-1) == labels


def _floored(probabilities: Tensor, labels: Tensor) -> Tensor:
    uniform = 1 / probabilities.shape[-1]
    mixed = (1 - FLOOR) * probabilities + FLOOR * uniform
    return -mixed.gather(-1, labels[:, None]).squeeze(-1).log()


def _permute(images: Tensor, permutation: Tensor) -> Tensor:
    return images.flatten(2)[..., permutation].unflatten(-1, images.shape[2:])
