"""The evidence: what witnesses said about images that they never saw, of classes or of numbers."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from symshare.files import open_tensors
from symshare.judge.statistics import (
    equal_clusters,
    estimates,
    label_noise,
    lower_beyond_guessing,
    told_apart,
)
from symshare.judge.thresholds import APART, FLOOR, GAIN, SAME_MAP


@dataclass(frozen=True, eq=False, kw_only=True)
class Evidence(ABC):
    """What networks that never saw an image say about it, as it is and moved.

    Attributes:
        clusters: number of the cluster of each of N held-out images; images of one cluster depend
            on one another.
        chance_loss: loss of knowing the labels of the training half alone, in nats.
        agreed: whether every witness so far found the same map of the labels of each of M
            candidates.
        moved_loss: loss of the label that each candidate makes, after it, in nats.
        change: s_g(g x, y) - s_g(x, y), where s_g is the probability that the witness and the
            normal laws together give to "moved by g" against "not moved". For a symmetry the mean
            is zero, whatever they are; it is at most the distance of the two laws in total
            variation.
        random_loss: the loss after each of K random permutations of all pixels.
        random_change: the change that these make, and as many that permute half of the pixels.
        few_change: the change by S random moves of as few pixels as some candidate moves.
        few: which of these belongs to each candidate; -1 where it moves half of the pixels or more.
        moved_share: share of the variance of the pixels that each candidate moves.
        copies: share of the images that have a near copy; they share a cluster unless `chained`.
        unasked: share of all images that belong to the largest cluster of which none was asked
            about yet.
        looks: looks at the evidence, of at most `LOOKS`.
        chained: whether near copies form chains, so that they were not put into clusters.
    """

    clusters: Int[Tensor, " N"]
    chance_loss: Float[Tensor, " N"]
    agreed: Bool[Tensor, " M"]
    moved_loss: Float[Tensor, "M N"]
    change: Float[Tensor, "M N"]
    random_loss: Float[Tensor, "K N"]
    random_change: Float[Tensor, "L N"]
    few_change: Float[Tensor, "S N"]
    few: Int[Tensor, " M"]
    moved_share: Float[Tensor, " M"]
    copies: float
    unasked: float
    looks: int
    chained: bool

    @property
    @abstractmethod
    def loss(self) -> Float[Tensor, " N"]:
        """Loss of each image as it is, in nats."""

    @property
    @abstractmethod
    def strata(self) -> Int[Tensor, " N"]:
        """The stratum of each image, its class or its fifth of the numbers, asked one by one."""

    @property
    @abstractmethod
    def scale(self) -> Float[Tensor, " N"]:
        """In whose mean over a stratum its own bound of the loss is measured, in nats."""

    @property
    @abstractmethod
    def worst(self) -> float:
        """Largest possible excess of a floored loss, of an image that was not drawn, in nats."""

    @abstractmethod
    def needed(self, chance: float) -> float:
        """The gain that is needed before anything is decided, for a chance loss, in nats."""

    @abstractmethod
    def known(self) -> tuple[tuple[int, ...], float]:
        """The classes or numbers that the networks know, and the share of the labels in them."""

    @abstractmethod
    def too_few(self, share: float) -> str:
        """Why nothing is decided where the networks know but a share of the labels."""

    @abstractmethod
    def known_strata(self, known: Sequence[int]) -> set[int]:
        """The strata of which a claim can be made, where these classes or numbers are known."""

    @abstractmethod
    def described(self) -> dict[str, Any]:
        """What a `Power` says about the labels beside the losses, by the names of its fields."""

    @abstractmethod
    def kept(self, i: int, level: float) -> dict[str, Any]:
        """What a `Judgement` says that candidate i keeps, and what it does to labels.

        The bound of what the lowest stratum keeps holds at this level.
        """

    @abstractmethod
    def products(self, table: Sequence[Sequence[int]]) -> list[list[int]]:
        """The table of products of moves with their maps of the labels; -1 where these differ.

        Its first row and column are those of the identity, the others those of candidates.
        """

    def tensors(self) -> dict[str, Tensor]:
        """The tensors by name, to be saved."""
        return {name: value for name, value in vars(self).items() if isinstance(value, Tensor)}

    def numbers(self) -> dict[str, str]:
        """All else as text, to be saved beside them."""
        return {name: str(v) for name, v in vars(self).items() if not isinstance(v, Tensor)}

    @staticmethod
    def read(path: Path) -> "Evidence":
        """The inverse of `tensors` and `numbers`, from a file that holds them."""
        with open_tensors(path) as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            text = file.metadata()
        kind = NumberEvidence if "target_map" in tensors else ClassEvidence
        plain = {field.name: field.type for field in fields(kind) if field.type in _FROM_TEXT}
        if not {field.name for field in fields(kind)} <= {*tensors, *text}:
            raise ValueError(
                f"{path} was written by another version of symshare, whose test was another; "
                "delete it and repeat the same command, which judges the data anew"
            )
        read = {name: _FROM_TEXT[of](text[name]) for name, of in plain.items()}
        return kind(**tensors, **read)


_FROM_TEXT: dict[Any, Callable[[str], Any]] = {
    float: float,
    int: int,
    bool: lambda word: word == "True",
}
"""How values are read that are no tensors, by their type."""


@dataclass(frozen=True, eq=False, kw_only=True)
class ClassEvidence(Evidence):
    """Evidence about images whose labels are classes.

    Attributes:
        labels: true class of each image.
        log_probability: of each class, calibrated and floored, in nats.
        label_map: what each candidate makes of each class; most leave them as they are.
        moved_prediction: the class whose map was predicted after each candidate.
        classes: number of classes.
    """

    labels: Int[Tensor, " N"]
    log_probability: Float[Tensor, "N C"]
    label_map: Int[Tensor, "M C"]
    moved_prediction: Int[Tensor, "M N"]
    classes: int

    @property
    def loss(self) -> Float[Tensor, " N"]:
        return -self.log_probability.gather(-1, self.labels[:, None]).squeeze(-1)

    @property
    def prediction(self) -> Int[Tensor, " N"]:
        """Predicted class of each image as it is."""
        return self.log_probability.argmax(-1)

    @property
    def strata(self) -> Int[Tensor, " N"]:
        return self.labels

    @property
    def scale(self) -> Float[Tensor, " N"]:
        return self.chance_loss - self.loss

    @property
    def worst(self) -> float:
        return math.log(self.classes / FLOOR)

    def needed(self, chance: float) -> float:
        return GAIN * chance

    def known(self) -> tuple[tuple[int, ...], float]:
        """The classes that the networks tell from every other one, and the share of the images."""
        present = self.labels.unique()
        apart = told_apart(self.log_probability, self.labels, self.clusters, APART)
        alone = apart[present][:, present].sum(1) == len(present) - 1
        known = present[alone]
        return tuple(known.tolist()), float(torch.isin(self.labels, known).double().mean())

    def too_few(self, share: float) -> str:
        return (
            f"the network tells too few classes from each other, those of {share:.0%} of the "
            "images, and a move that exchanges the others could not be noticed"
        )

    def known_strata(self, known: Sequence[int]) -> set[int]:
        return set(known)

    def described(self) -> dict[str, Any]:
        counts = self.labels.bincount()
        noise, knowable = label_noise(self.log_probability, self.labels)
        return {
            "accuracy": (self.prediction == self.labels).double().mean().item(),
            "chance_accuracy": counts.max().item() / len(self.labels),
            "label_entropy": torch.special.entr(counts / counts.sum()).sum().item(),
            "label_noise": noise,
            "knowable": knowable,
        }

    def kept(self, i: int, level: float) -> dict[str, Any]:
        """Share right after g, by class, and a bound of the smallest beyond guessing.

        Of a class that a share s keeps, while a share r of all other images is called by its name,
        (s - r) / (1 - r) is kept beyond guessing: nothing where the network only guesses.
        """
        predicted = self.moved_prediction[i]
        shares: list[float | None] = []
        bounds = []
        for label in range(self.classes):
            inside, named = self.labels == label, (predicted == label).double()
            if not (own := self._worth(inside)):
                shares.append(None)
                continue
            kept, guessed = named[inside].mean().item(), named[~inside].mean().item()
            others = self._worth(~inside)
            shares.append(kept)
            bounds.append(lower_beyond_guessing(kept, own, guessed, others, level))
        return {
            "label_map": tuple(self.label_map[i].tolist()),
            "kept_share": (predicted == self.labels).double().mean().item(),
            "kept_share_by_class": tuple(shares),
            "kept_share_min": min(share for share in shares if share is not None),
            "kept_share_min_lower": max(0.0, min(bounds)),
        }

    def _worth(self, chosen: Bool[Tensor, " N"]) -> float:
        """How many clusters of one size some images are worth."""
        return equal_clusters(self.clusters[chosen].unique(return_counts=True)[1])

    def products(self, table: Sequence[Sequence[int]]) -> list[list[int]]:
        maps = [tuple(range(self.classes)), *map(tuple, self.label_map.tolist())]
        return [
            [
                gh if gh < 0 or maps[gh] == tuple(maps[g][k] for k in maps[h]) else -1
                for h, gh in enumerate(row)
            ]
            for g, row in enumerate(table)
        ]


@dataclass(frozen=True, eq=False, kw_only=True)
class NumberEvidence(Evidence):
    """Evidence about images whose labels are d numbers.

    A loss is -log(p(y | x) / m(y)), where p is the normal law that a network predicts and m the
    normal law of the labels that it learned from: relative to m, whose own loss is zero.

    Attributes:
        labels: the numbers of each image.
        answer: what was predicted of each image as it is.
        said_loss: its loss, floored, in nats.
        target_map: what each candidate makes of labels, [A | b]: y becomes A y + b.
        square: squared distance of the label that each candidate makes from what is predicted after
            it, in spreads of the labels, the mean over the numbers; the first row is that of images
            as they are.
        stratum: the stratum of each image, see `symshare.data.strata_of`.
    """

    labels: Float[Tensor, "N d"]
    answer: Float[Tensor, "N d"]
    said_loss: Float[Tensor, " N"]
    target_map: Float[Tensor, "M d k"]
    square: Float[Tensor, "moves N"]
    stratum: Int[Tensor, " N"]

    @property
    def loss(self) -> Float[Tensor, " N"]:
        return self.said_loss

    @property
    def strata(self) -> Int[Tensor, " N"]:
        return self.stratum

    @property
    def scale(self) -> Float[Tensor, " N"]:
        """The mean gain: that of a stratum depends on how likely its numbers are."""
        return (self.chance_loss - self.loss).mean().expand(len(self.loss))

    @property
    def worst(self) -> float:
        """From the best that was said of any image down to the floor."""
        return -math.log(FLOOR) + float((self.chance_loss - self.loss).max().clamp_min(0))

    def needed(self, chance: float) -> float:
        r"""The gain -1/2 log(1 - R^2) that explains a share R^2 = `GAIN` of one number."""
        return -math.log(1 - GAIN) / 2

    def known(self) -> tuple[tuple[int, ...], float]:
        """The numbers of which predictions explain some variance, and their share of all."""
        centred = self.labels.double() - self.labels.double().mean(0)
        explained = centred.square() - (self.labels - self.answer).double().square()
        known = [
            j for j, e in enumerate(estimates(explained.T, self.clusters)) if e.p_above(0.0) < APART
        ]
        return tuple(known), len(known) / self.labels.shape[1]

    def too_few(self, share: float) -> str:
        return (
            f"the network knows too few of the numbers, {share:.0%} of them, and a move that "
            "changes the others could not be noticed"
        )

    def known_strata(self, known: Sequence[int]) -> set[int]:
        return set(self.stratum.unique().tolist())

    def described(self) -> dict[str, Any]:
        return {
            "accuracy": 1 - self.square[0].double().mean().item(),
            "chance_accuracy": 0.0,
            "label_entropy": None,
            "label_noise": None,
            "knowable": None,
        }

    def kept(self, i: int, level: float) -> dict[str, Any]:
        """Share of the variance of the labels that is explained after g, by stratum."""
        explained = 1 - self.square[1 + i].double()
        of_strata = [
            estimates(explained[None, self.stratum == s], self.clusters[self.stratum == s])[0]
            for s in self.stratum.unique().tolist()
        ]
        shares = tuple(max(0.0, e.mean) for e in of_strata)
        return {
            "label_map": (),
            "target_map": tuple(map(tuple, self.target_map[i].tolist())),
            "kept_share": max(0.0, explained.mean().item()),
            "kept_share_by_class": shares,
            "kept_share_min": min(shares),
            "kept_share_min_lower": max(0.0, min(e.interval(level)[0] for e in of_strata)),
        }

    def products(self, table: Sequence[Sequence[int]]) -> list[list[int]]:
        d = self.labels.shape[1]
        maps = torch.cat([torch.eye(d, d + 1)[None], self.target_map])
        return [
            [
                gh if gh < 0 or same_maps(composed(maps[g], maps[h]), maps[gh], self.labels) else -1
                for h, gh in enumerate(row)
            ]
            for g, row in enumerate(table)
        ]


def composed(first: Float[Tensor, "d k"], second: Float[Tensor, "d k"]) -> Float[Tensor, "d k"]:
    """The affine map that does the second, and then the first.

    >>> half = torch.tensor([[0.5, 1.0]])
    >>> composed(half, half)
    tensor([[0.2500, 1.5000]])
    """
    A, b = first[:, :-1], first[:, -1:]
    made = A @ second
    made[:, -1:] += b
    return made


def same_maps(
    one: Float[Tensor, "d k"], other: Float[Tensor, "d k"], labels: Float[Tensor, "N d"]
) -> bool:
    """Whether two affine maps make nearly the same of labels, in spreads of each number.

    >>> mirror = torch.tensor([[-1.0, 0.0]])
    >>> same_maps(mirror, mirror + 0.01, torch.randn(100, 1)), same_maps(mirror, -mirror,
    ...     torch.randn(100, 1))
    (True, False)
    """
    apart = labels @ (one - other)[:, :-1].T + (one - other)[:, -1]
    spread = labels.std(0, correction=0).clamp_min(torch.finfo(labels.dtype).tiny)
    return bool((apart / spread).square().mean().sqrt() <= SAME_MAP)
