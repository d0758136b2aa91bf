"""The network that a verdict rests on: it guesses the label of an image, and what moved it."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import torch
from jaxtyping import Float, Int
from torch import Generator, Tensor, nn
from torch.nn.functional import cross_entropy

from symshare.judge.classes import Classes
from symshare.judge.numbers import Numbers
from symshare.models import probe

NOISE = 0.5
"""Noise in training, in units of the spread of each channel of each image, of vectors of each
number over a batch: a witness that leans on single pixels scatters where images are few."""

CONTRAST = 1e-3
"""Least spread that an image is divided by, in units of the spread of all images."""


class Witness(nn.Module):
    """A small plain CNN with two heads on one trunk, that sees each image twice.

    Once as it is, and once with its own mean and spread taken out: next to images that differ in
    brightness, what sets a dim patch apart from its moved copy would be too small to be seen.

    The first head gives a logit for each class. The second gives, for each of L moves and each
    class, a logit of "this image, of that class, was moved by this move"; the first move is the
    identity. That of a class is the sum of one for all classes and one of its own, which starts at
    zero: what all classes share is learned from all of them.

    Where labels are K numbers, the first head gives their means, beside which stand logarithms of
    their variances, one for all images, and the second K + 1 coefficients of a logit that is linear
    in the numbers.

    Args:
        channels: of the images.
        classes: number of classes K, or of numbers.
        moves: number of moves L, the identity counted in.
        size: length of each axis of space.
        numbers: whether labels are numbers.

    >>> labels, moves = Witness(1, 10, 8, (8, 8))(torch.zeros(2, 1, 8, 8))
    >>> labels.shape, moves.shape
    (torch.Size([2, 10]), torch.Size([2, 8, 10]))
    >>> labels, moves = Witness(1, 3, 8, (8, 8), numbers=True)(torch.zeros(2, 1, 8, 8))
    >>> labels.shape, moves.shape
    (torch.Size([2, 2, 3]), torch.Size([2, 8, 4]))
    """

    def __init__(
        self,
        channels: int,
        classes: int,
        moves: int,
        size: tuple[int, ...],
        *,
        numbers: bool = False,
    ):
        super().__init__()
        network = probe(2 * channels, classes, size)
        self.trunk, self.label = network[:-1], network[-1]
        features = self.trunk(torch.zeros(1, 2 * channels, *size)).shape[1]
        self.move = nn.Linear(features, moves)
        self.move_of_class = nn.Linear(features, moves * classes)
        nn.init.zeros_(self.move_of_class.weight)
        nn.init.zeros_(self.move_of_class.bias)
        self.log_variance = nn.Parameter(torch.zeros(classes)) if numbers else None

    def forward(
        self, x: Float[Tensor, "B C *space"]
    ) -> tuple[Float[Tensor, "B ..."], Float[Tensor, "B L coefficients"]]:
        features = self.trunk(with_contrast(x))
        own = self.move_of_class(features).unflatten(-1, (len(self.move.bias), -1))
        labels, shared = self.label(features), self.move(features)[..., None]
        if self.log_variance is None:
            return labels, shared + own
        means = torch.stack([labels, self.log_variance.expand_as(labels)], dim=1)
        return means, torch.cat([shared, own], dim=-1)


def with_contrast(images: Float[Tensor, "B C *space"]) -> Float[Tensor, "B 2*C *space"]:
    """Each channel, and after them each with its own mean 0 and spread 1.

    >>> with_contrast(torch.tensor([[[[1.0, 3.0]]]])).flatten(1).round(decimals=1).tolist()
    [[1.0, 3.0, -1.0, 1.0]]
    """
    space = tuple(range(2, images.ndim))
    spread, mean = torch.std_mean(images, space, keepdim=True, correction=0)
    return torch.cat([images, (images - mean) / (spread + CONTRAST)], dim=1)


Function = Callable[[Tensor], Tensor]
"""What a move makes of images [B, C, *space], each by itself."""


@dataclass(frozen=True, eq=False)
class Moves:
    """What images are moved by, the identity first.

    Attributes:
        sources: where each of L moves takes each of the E numbers of an image from, channels slow.
        signs: 1, or -1 where a number changes its sign on the way.
        label_maps: what each makes of the labels: the class of each of K classes, or [A | b] of
            numbers.
        functions: by their numbers, moves that are no permutations, whose rows are the identity.
    """

    sources: Int[Tensor, "L E"]
    signs: Float[Tensor, "L E"]
    label_maps: Int[Tensor, "L K"] | Float[Tensor, "L d k"]
    functions: Mapping[int, Function] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.sources)

    def __call__(
        self, images: Float[Tensor, "B C *space"], which: Int[Tensor, " B"]
    ) -> Float[Tensor, "B C *space"]:
        """Each image after a move of its own."""
        which = which.cpu()
        moved = permute(images, self.sources[which].to(images.device))
        if (self.signs[which] < 0).any():
            moved = moved * self.signs[which].to(images).view_as(images)
        for number, function in self.functions.items():
            chosen = (which == number).nonzero().flatten().to(images.device)
            if len(chosen):
                moved[chosen] = function(images[chosen])
        return moved


@dataclass(frozen=True, eq=False)
class GuessBoth:
    """The task of a witness: the labels of images, and which move made each image what it is.

    Half of the rows are as they are, the other half moved by random moves; the prior of the moves
    is taken out of the logits, so that their differences are logarithms of likelihood ratios.

    Attributes:
        moves: the L moves, the identity first.
        target: what the labels are.
    """

    moves: Moves
    target: Classes | Numbers

    def prepare(self, images: Tensor, labels: Tensor, generator: Generator) -> tuple[Tensor, ...]:
        moves = torch.randint(1, len(self.moves), (len(images),), generator=generator)
        # Drawn for the whole batch, so that several processes read what one does.
        noise = torch.randn(len(images), 2, *images.shape[1:], generator=generator)
        becomes = self.target.moved_each(self.moves.label_maps[moves], labels.cpu())
        known, becomes = map(self.target.prepared, (labels, becomes.to(labels.device)))
        return images, known, becomes, moves.to(images.device), noise.to(images)

    def loss(self, model: nn.Module, *prepared: Tensor) -> tuple[Tensor, Tensor]:
        images, labels, becomes, moves, noise = prepared
        both = torch.cat([images, self.moves(images, moves)])
        if model.training:
            varying = tuple(range(2, both.ndim)) if both[0, 0].numel() > 1 else 0
            spread = both.std(varying, keepdim=True, correction=0)
            both = both + NOISE * spread * torch.cat([noise[:, 0], noise[:, 1]])
        logits, guesses = model(both)
        others = len(self.moves) - 1
        prior = guesses.new_full((1 + others,), -math.log(2 * others))
        prior[0] = -math.log(2)
        guesses = self.target.of_label(guesses, torch.cat([labels, becomes])) + prior
        answers = torch.cat([torch.zeros_like(moves), moves])
        logits = logits[: len(images)]
        return self.target.loss(logits, labels) + cross_entropy(guesses, answers), logits

    def score(self, answers: Tensor, labels: Tensor) -> Float[Tensor, ""]:
        return self.target.score(answers, labels)


def permute(
    images: Float[Tensor, "B C *space"], sources: Int[Tensor, "B E"]
) -> Float[Tensor, "B C *space"]:
    """Permute the E numbers of each image in its own way: `new[e] = old[sources[e]]`.

    >>> image = torch.arange(4.0).reshape(1, 1, 2, 2)
    >>> permute(image, torch.tensor([[1, 0, 3, 2]])).flatten().tolist()
    [1.0, 0.0, 3.0, 2.0]
    """
    return images.flatten(1).gather(-1, sources).view_as(images)
