"""What a witness makes of labels that are classes."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.functional import cross_entropy, one_hot

from symshare.data import LabelledImages
from symshare.judge.answers import ClassEvidence
from symshare.judge.statistics import estimates
from symshare.judge.thresholds import CLEAR, DELTA_APPROXIMATE, FLOOR

SHARPNESS = (0.03, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.2, 1.5, 2.0)
"""Factors that logits may be multiplied by; guesses of moves also by 0, which says nothing."""


@dataclass(frozen=True, eq=False)
class Classes:
    """Labels that are K classes; a map of them is the class that a move makes of each."""

    frequency: Float[Tensor, " K"]

    @classmethod
    def of(cls, data: LabelledImages) -> "Classes":
        """The classes of these images, with their frequencies."""
        return cls(data.labels.bincount(minlength=len(data.classes)) / len(data))

    @property
    def count(self) -> int:
        """Number of the classes."""
        return len(self.frequency)

    def fixed(self, moves: int) -> Int[Tensor, "L K"]:
        """Maps that leave labels as they are."""
        return torch.arange(self.count).repeat(moves, 1)

    def moved(self, maps: Int[Tensor, "L K"], labels: Int[Tensor, " B"]) -> Int[Tensor, "L B"]:
        """What each map makes of each label."""
        return maps[:, labels]

    def moved_each(self, maps: Int[Tensor, "B K"], labels: Int[Tensor, " B"]) -> Int[Tensor, " B"]:
        """What a map of its own makes of each label."""
        return maps.gather(1, labels[:, None]).squeeze(1)

    def inverse(self, maps: Int[Tensor, "L K"]) -> Int[Tensor, "L K"]:
        """The maps back."""
        return maps.argsort(1)

    def same(self, maps: Int[Tensor, "L K"], others: Int[Tensor, "L K"]) -> Bool[Tensor, " L"]:
        """Which maps do the same."""
        return (maps == others).all(1)

    def prepared(self, labels: Int[Tensor, " B"]) -> Int[Tensor, " B"]:
        """Labels as the witness knows them."""
        return labels

    def at(self, table: Float[Tensor, "K P"], labels: Int[Tensor, " B"]) -> Float[Tensor, "B P"]:
        """The row of the class of each image."""
        return table[labels]

    def middles(
        self, values: Float[Tensor, "N P"], labels: Int[Tensor, " N"]
    ) -> Float[Tensor, "K P"]:
        """The middle of the quartiles of values in each class."""
        quarters = torch.tensor([0.25, 0.75], dtype=values.dtype)
        middle = torch.zeros(self.count, values.shape[1], dtype=values.dtype)
        for label in labels.unique().tolist():
            middle[label] = values[labels == label].quantile(quarters, dim=0).mean(0)
        return middle

    def means(
        self, values: Float[Tensor, "N P"], labels: Int[Tensor, " N"]
    ) -> Float[Tensor, "K P"]:
        """The mean of values in each class."""
        own = one_hot(labels, self.count).to(values)
        return own.T @ values / own.sum(0).clamp_min(1)[:, None]

    def of_label(
        self, guesses: Float[Tensor, "B L K"], labels: Int[Tensor, " B"]
    ) -> Float[Tensor, "B L"]:
        """The logits of moves for the class of each image."""
        chosen = labels[:, None, None].expand(-1, guesses.shape[1], 1)
        return guesses.gather(-1, chosen).squeeze(-1)

    def loss(self, answers: Float[Tensor, "B K"], labels: Int[Tensor, " B"]) -> Float[Tensor, ""]:
        """The loss of logits in training."""
        return cross_entropy(answers, labels)

    def score(self, answers: Float[Tensor, "B K"], labels: Int[Tensor, " B"]) -> Float[Tensor, ""]:
        """The share that is right."""
        return (answers.argmax(-1) == labels).float().mean()

    def calibrated(
        self, moved: Float[Tensor, "L N K"], data: LabelledImages
    ) -> "CalibratedClasses":
        """The factor of logits with the least loss, on images as they are, which come first."""
        losses = [cross_entropy(factor * moved[0], data.labels).item() for factor in SHARPNESS]
        return CalibratedClasses(self, SHARPNESS[losses.index(min(losses))])

    def evidence(
        self,
        data: LabelledImages,
        shown: Bool[Tensor, " N"],
        mean: Callable[[str], Tensor],
        last: Callable[[str], Tensor],
        maps: Int[Tensor, "M K"],
        common: dict[str, Any],
    ) -> ClassEvidence:
        """The evidence about images, from all that was said.

        Args:
            data: all images.
            shown: those that were asked about.
            mean: of all answers of a name, a row for each image that is shown.
            last: the answers of a name that the last round gave.
            maps: of the M candidates.
            common: the fields that evidence about any labels has.
        """
        return ClassEvidence(
            labels=data.labels[shown],
            log_probability=mean("log_probability"),
            label_map=maps,
            # A mean of predictions is none.
            moved_prediction=last("prediction")[:, 1 : len(maps) + 1].T.contiguous(),
            classes=self.count,
            **common,
        )


@dataclass(frozen=True, eq=False)
class CalibratedClasses:
    """What logits say of classes after a factor."""

    target: Classes
    factor: float

    def map_of(
        self,
        before: Float[Tensor, "N K"],
        after: Float[Tensor, "N K"],
        data: LabelledImages,
        clusters: Int[Tensor, " N"],
    ) -> Int[Tensor, " K"]:
        """What a move makes of each class, from logits before and after it.

        It is the assignment of least loss, where that is clearly below the loss of the classes as
        they are and nearly what images lose before the move; else the identity.
        """
        from scipy.optimize import linear_sum_assignment

        logs, moved = (floored((self.factor * logits).softmax(-1)) for logits in (before, after))
        labels, K = data.labels.cpu(), logs.shape[-1]
        fixed = torch.arange(K)
        cost = torch.zeros(K, K, dtype=torch.float64)
        cost.index_add_(0, labels, -moved.double())
        # Classes that nothing is known of stay.
        best = torch.from_numpy(linear_sum_assignment(cost - 1e-9 * torch.eye(K))[1])
        if best.equal(fixed):
            return fixed

        def loss(logs: Tensor, labels: Tensor) -> Tensor:
            return -logs.gather(-1, labels[:, None]).squeeze(-1)

        still, mapped = loss(logs, labels), loss(moved, best[labels])
        won, lost = estimates(torch.stack([loss(moved, labels) - mapped, mapped - still]), clusters)
        entropy = torch.special.entr(labels.bincount() / len(labels)).sum()
        known = max(float(entropy - still.mean()), 0.0)
        restores = won.mean > CLEAR * won.error and lost.mean < DELTA_APPROXIMATE * known
        return best if restores else fixed

    def said(
        self, maps: Int[Tensor, "L K"], labels: Int[Tensor, " B"], answers: Float[Tensor, "L B K"]
    ) -> dict[str, Tensor]:
        """What is said about images after each move, the identity first; a row for each image."""
        logs = floored((self.factor * answers).softmax(-1))
        label = self.target.moved(maps, labels.cpu())[..., None]
        return {
            "log_probability": logs[0],
            "loss": -logs.gather(-1, label).squeeze(-1).T,
            "prediction": maps.argsort(1).gather(1, answers.argmax(-1)).T,
        }

    def chance(self, labels: Int[Tensor, " B"]) -> Float[Tensor, " B"]:
        """Loss of predicting the class frequencies of the images that were learned from."""
        return -floored(self.target.frequency)[labels]


def floored(probabilities: Tensor) -> Tensor:
    """Logarithms of probabilities that are mixed with the uniform ones."""
    return ((1 - FLOOR) * probabilities + FLOOR / probabilities.shape[-1]).log()
