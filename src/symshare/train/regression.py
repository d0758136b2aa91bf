"""Training for labels that are numbers: in units of their spread, about a centre that stays."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Generator, Tensor, nn

from symshare.data import LabelledImages
from symshare.train.objective import Classify, Task

__all__ = ["Regress", "affine_maps", "task_of"]


@dataclass(frozen=True, eq=False)
class Regress:
    r"""The d numbers of each image, by half their squared error in spreads.

    .. math:: \tfrac12 \sum_j (z_j - f_j(x))^2, \qquad z = (y - c) / s

    That is the loss of a normal law of unit variance, in nats and up to a constant. The score is
    the share of the variance of the training labels that is explained, the mean over the numbers.

    Attributes:
        centre: c, which no map of the labels moves.
        spread: s, which is alike for numbers that such maps exchange.
    """

    centre: Float[Tensor, " d"]
    spread: Float[Tensor, " d"]

    @classmethod
    def of(
        cls, labels: Float[Tensor, "N d"], maps: Float[Tensor, "G d k"] | None = None
    ) -> "Regress":
        """With the mean and spread of labels, averaged over what a group makes of them.

        Args:
            labels: of the training images.
            maps: [A | b] of each element of a group, y becoming A y + b, with k = d + 1; none
                where labels stay.

        >>> Regress.of(torch.tensor([[1.0], [3.0]])).centre
        tensor([2.])
        >>> mirror = torch.tensor([[[1.0, 0.0]], [[-1.0, 0.0]]])
        >>> Regress.of(torch.tensor([[1.0], [3.0]]), mirror).centre
        tensor([0.])
        """
        y = labels.cpu().double()
        if maps is None:
            maps = torch.eye(y.shape[1], y.shape[1] + 1)[None]
        moved = torch.einsum("gij,nj->gni", maps[..., :-1].double(), y)
        moved = (moved + maps[:, None, :, -1].double()).flatten(0, 1)
        spread, centre = torch.std_mean(moved, 0, correction=0)
        return cls(centre.float(), spread.float().clamp_min(torch.finfo().tiny))

    def matrices(self, maps: Float[Tensor, "G d k"]) -> Float[Tensor, "G d d"]:
        """What maps of the labels do to what the network answers."""
        return maps[..., :-1] * self.spread / self.spread[:, None]

    def prepare(self, images: Tensor, labels: Tensor, generator: Generator) -> tuple[Tensor, ...]:
        return images, (labels - self.centre.to(labels)) / self.spread.to(labels)

    def loss(self, model: nn.Module, *prepared: Tensor) -> tuple[Tensor, Tensor]:
        images, labels = prepared
        answers = model(images)
        return (answers - labels).square().sum(-1).mean() / 2, answers

    def score(self, answers: Tensor, labels: Tensor) -> Float[Tensor, ""]:
        return 1 - (answers - labels).square().mean()

    def errors(
        self, answers: Float[Tensor, "N d"], labels: Float[Tensor, "N d"]
    ) -> tuple[float, ...]:
        """Root of the mean squared error of each number, in the units of the labels."""
        apart = self.centre + self.spread * answers.cpu() - labels.cpu()
        return tuple(apart.square().mean(0).sqrt().tolist())


def affine_maps(
    rows: Sequence[Sequence[Sequence[float]]], numbers: int
) -> Float[Tensor, "G d k"] | None:
    """The `target_map` of a network, with the identity first; None where labels stay.

    Raises:
        ValueError: where an element has other than d rows of d + 1 numbers, or is not one to one.

    >>> affine_maps([[[-1.0, 0.0]]], numbers=1)
    tensor([[[ 1.,  0.]],
    <BLANKLINE>
            [[-1.,  0.]]])
    """
    if not rows:
        return None
    if any([len(row) for row in element] != [numbers + 1] * numbers for element in rows):
        raise ValueError(
            f"network: target_map must have {numbers} rows of {numbers + 1} numbers for each "
            f"element beside the identity, got {[[list(row) for row in e] for e in rows]}"
        )
    fixed = torch.eye(numbers, numbers + 1)
    maps = torch.stack([fixed, *(torch.tensor(element) for element in rows)])
    ranks = torch.linalg.matrix_rank(maps[..., :-1])
    if (ranks < numbers).any():
        element = int((ranks < numbers).nonzero()[0])
        raise ValueError(
            "network: target_map must be one to one, got a matrix of rank "
            f"{int(ranks[element])} for {numbers} numbers, {maps[element, :, :-1].tolist()}; give "
            "maps that can be undone"
        )
    return maps


def task_of(data: LabelledImages, maps: Float[Tensor, "G d k"] | None = None) -> Task:
    """What a network is trained for on data: their classes, or their numbers."""
    return Regress.of(data.labels, maps) if data.numbers else Classify()
