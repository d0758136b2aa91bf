"""What a witness makes of labels that are numbers."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from symshare.data import LabelledImages, strata_of
from symshare.judge.answers import NumberEvidence, same_maps
from symshare.judge.statistics import estimates
from symshare.judge.thresholds import (
    CLEAR,
    DELTA,
    DELTA_APPROXIMATE,
    FAR,
    FLOOR,
    LEAST_SPREAD,
)


@dataclass(frozen=True, eq=False)
class Numbers:
    r"""Labels that are d numbers y; a map of them is [A | b], y becoming A y + b.

    A witness knows them whitened, as the r numbers

    .. math:: z = U C^{-1/2} D^{-1} (y - \mu)

    with mean \mu, spreads D and correlations C of the images that it learned from, and no further
    than `FAR` sqrt(r) from zero. A map that leaves the law of y as it is turns or mirrors z. Where
    no number follows from the others, r = d and U is the identity; else its rows are the axes along
    which labels vary.

    Attributes:
        mean: \mu.
        whiten: U C^{-1/2} D^{-1}.
        colour: D C^{1/2} U^T, its inverse, or pseudo-inverse.
    """

    mean: Float[Tensor, " d"]
    whiten: Float[Tensor, "r d"]
    colour: Float[Tensor, "d r"]

    @classmethod
    def of(cls, data: LabelledImages) -> "Numbers":
        """The numbers of these images, with their mean, spreads and correlations."""
        y = data.labels.cpu().double()
        spread, mean = torch.std_mean(y, 0, correction=0)
        spread = torch.where(spread > 0, spread, 1.0)
        z = (y - mean) / spread
        size, axes = torch.linalg.eigh(z.T @ z / len(z))
        varying = size > _VARYING * size.max()
        axes, root = axes[:, varying], size[varying].sqrt()
        frame = torch.eye(len(axes), dtype=y.dtype) if varying.all() else axes.T
        whiten = frame @ (axes / root) @ axes.T / spread
        colour = spread[:, None] * ((axes * root) @ axes.T @ frame.T)
        return cls(mean.float(), whiten.float(), colour.float())

    @property
    def count(self) -> int:
        """How many numbers r a witness knows of a label."""
        return len(self.whiten)

    def fixed(self, moves: int) -> Float[Tensor, "L d k"]:
        """Maps that leave labels as they are."""
        d = len(self.mean)
        return torch.eye(d, d + 1).repeat(moves, 1, 1)

    def moved(self, maps: Float[Tensor, "L d k"], labels: Float[Tensor, "B d"]) -> Tensor:
        """What each map makes of each label, [L, B, d]."""
        return torch.einsum("lij,bj->lbi", maps[..., :-1], labels) + maps[:, None, :, -1]

    def moved_each(self, maps: Float[Tensor, "B d k"], labels: Float[Tensor, "B d"]) -> Tensor:
        """What a map of its own makes of each label, [B, d]."""
        return torch.einsum("bij,bj->bi", maps[..., :-1], labels) + maps[..., -1]

    def inverse(self, maps: Float[Tensor, "L d k"]) -> Float[Tensor, "L d k"]:
        """The maps back."""
        A = torch.linalg.inv(maps[..., :-1])
        return torch.cat([A, -A @ maps[..., -1:]], dim=-1)

    def same(self, maps: Float[Tensor, "L d k"], others: Float[Tensor, "L d k"]) -> Tensor:
        """Which maps do nearly the same to normal labels of this spread, [L]."""
        generator = torch.Generator().manual_seed(0)
        drawn = torch.randn(_DRAWN, self.count, generator=generator)
        labels = self.mean + drawn @ self.colour.T
        pairs = zip(maps, others, strict=True)
        return torch.tensor([same_maps(one, other, labels) for one, other in pairs])

    def prepared(self, labels: Float[Tensor, "*B d"]) -> Float[Tensor, "*B r"]:
        """Labels as the witness knows them."""
        z = (labels - self.mean.to(labels)) @ self.whiten.to(labels).T
        far = FAR * self.count**0.5
        return z * (far / z.norm(dim=-1, keepdim=True).clamp_min(far))

    def at(self, table: Float[Tensor, "k P"], labels: Float[Tensor, "B d"]) -> Tensor:
        """What a table of coefficients makes of 1 and the whitened numbers, [B, P]."""
        return table[0] + self.prepared(labels).to(table) @ table[1:]

    def means(self, values: Float[Tensor, "N P"], labels: Float[Tensor, "N d"]) -> Tensor:
        """The coefficients that fit values best, by least squares, [d + 1, P]."""
        z = self.prepared(labels).to(values)
        return torch.linalg.lstsq(torch.cat([torch.ones_like(z[:, :1]), z], dim=1), values)[0]

    middles = means

    def of_label(self, guesses: Float[Tensor, "B L k"], labels: Float[Tensor, "B r"]) -> Tensor:
        """The logits of moves for prepared labels, linear in them, [B, L]."""
        return guesses[..., 0] + torch.einsum("blj,bj->bl", guesses[..., 1:], labels)

    def loss(self, answers: Float[Tensor, "B two r"], labels: Float[Tensor, "B r"]) -> Tensor:
        """The loss in training: of a normal law with a variance for each number.

        Answers are means and logarithms of variances.
        """
        mean, log_variance = answers.unbind(1)
        log_variance = log_variance.clamp_min(2 * math.log(LEAST_SPREAD))
        squares = (labels - mean).square() / log_variance.exp()
        return (squares + log_variance).sum(-1).mean() / 2

    def score(self, answers: Float[Tensor, "B two r"], labels: Float[Tensor, "B r"]) -> Tensor:
        """The share of the variance that is explained."""
        return 1 - (answers[:, 0] - labels).square().mean()

    def calibrated(
        self, moved: Float[Tensor, "L N two r"], data: LabelledImages
    ) -> "CalibratedNumbers":
        """What means need to fit best, and the covariance of errors, on images as they are."""
        z, said = self.prepared(data.labels.cpu()).double(), moved[0, :, 0].double()
        middle, answered = z.mean(0), said.mean(0)
        along = ((z - middle) * (said - answered)).sum()
        factor = along / (said - answered).square().sum().clamp_min(1e-300)
        factor = factor.clamp(0.0, _MOST)
        offset = middle - factor * answered
        apart = z - factor * said - offset
        covariance = apart.T @ apart / len(z) + LEAST_SPREAD**2 * torch.eye(self.count)
        return CalibratedNumbers(self, float(factor), offset.float(), covariance.float())

    def evidence(
        self,
        data: LabelledImages,
        shown: Bool[Tensor, " N"],
        mean: Callable[[str], Tensor],
        last: Callable[[str], Tensor],
        maps: Float[Tensor, "M d k"],
        common: dict[str, Any],
    ) -> NumberEvidence:
        """The evidence about images, from all that was said; see `Classes.evidence`."""
        return NumberEvidence(
            labels=data.labels[shown],
            answer=mean("answer"),
            said_loss=mean("loss")[:, 0].contiguous(),
            target_map=maps,
            square=mean("square")[:, : len(maps) + 1].T.contiguous(),
            stratum=strata_of(data).index[shown],
            **common,
        )


_VARYING = 1e-6
"""Least variance of labels along an axis, as a share of the largest: less is rounding."""

_MOST = 2.0
"""Largest factor of predicted numbers."""

_DRAWN = 1000
"""Labels that maps are compared on."""


@dataclass(frozen=True, eq=False)
class CalibratedNumbers:
    """What is said of numbers after a factor and an offset, with errors of one normal law."""

    target: Numbers
    factor: float
    offset: Float[Tensor, " r"]
    covariance: Float[Tensor, "r r"]

    def losses(self, answers: Float[Tensor, "*B two r"], labels: Float[Tensor, "*B d"]) -> Tensor:
        """-log((1 - FLOOR) p / m + FLOOR) of labels, for the law p of answers and m of all."""
        z = self.target.prepared(labels)
        apart = z - self._means(answers)
        precision = torch.linalg.inv(self.covariance)
        squares = ((apart @ precision) * apart).sum(-1)
        log_ratio = (z.square().sum(-1) - squares - torch.logdet(self.covariance)) / 2
        floor = torch.tensor(FLOOR).log()
        return -torch.logaddexp(math.log(1 - FLOOR) + log_ratio, floor)

    def _means(self, answers: Float[Tensor, "*B two r"]) -> Float[Tensor, "*B r"]:
        """The whitened numbers that are predicted."""
        return self.factor * answers[..., 0, :] + self.offset

    def said(
        self,
        maps: Float[Tensor, "L d k"],
        labels: Float[Tensor, "B d"],
        answers: Float[Tensor, "L B two r"],
    ) -> dict[str, Tensor]:
        """What is said about images after each move, the identity first; a row for each image."""
        target = self.target
        becomes = target.moved(maps, labels.cpu())
        means = target.mean + self._means(answers) @ target.colour.T
        spread = target.colour.square().sum(1).sqrt()
        return {
            "loss": self.losses(answers, becomes).T,
            "answer": means[0],
            "square": ((becomes - means) / spread).square().mean(-1).T,
        }

    def chance(self, labels: Float[Tensor, "B d"]) -> Float[Tensor, " B"]:
        """Loss of the normal law of all labels, relative to which losses are measured."""
        return torch.zeros(len(labels))

    def map_of(
        self,
        before: Float[Tensor, "N two r"],
        after: Float[Tensor, "N two r"],
        data: LabelledImages,
        clusters: Int[Tensor, " N"],
    ) -> Float[Tensor, "d k"]:
        """What a move makes of the numbers, from answers before and after it.

        Of maps that leave the law of labels as it is, the simplest after which images lose no more
        than before the move, as far as they tell, or else the one that fits best. It is adopted
        where it is clearly below the loss of the labels as they are and nearly what images lose
        before the move; else labels stay.
        """
        labels = data.labels.cpu()
        fixed = self.target.fixed(1)[0]
        still, stayed = self.losses(before, labels), self.losses(after, labels)
        maps = list(self._fitting(after, labels))
        fitted = torch.stack([self.losses(after, self._moved(map, labels)) for map in maps])
        known = max(-float(still.mean()), 0.0)
        losts = estimates(fitted - still, clusters)
        # Of a true map the mean is zero, whatever the witness; what fits better fits its faults.
        as_well = [e.mean <= max(_AS_WELL * e.error, DELTA / 2 * known) for e in losts]
        chosen = as_well.index(True) if any(as_well) else int(fitted.mean(1).argmin())
        (won,) = estimates((stayed - fitted[chosen])[None], clusters)
        lost = losts[chosen].mean
        restores = won.mean > CLEAR * won.error and lost < DELTA_APPROXIMATE * known
        return maps[chosen] if restores else fixed

    def _moved(self, map: Float[Tensor, "d k"], labels: Float[Tensor, "N d"]) -> Tensor:
        return self.target.moved(map[None], labels)[0]

    def _fitting(
        self, after: Float[Tensor, "N two r"], labels: Float[Tensor, "N d"]
    ) -> Iterator[Float[Tensor, "d k"]]:
        """Maps that may fit moved images, the simplest first.

        The turn Q of whitened labels that is nearest to what is predicted (Procrustes); before it
        the signed permutation that is nearest to Q, of the numbers in their units about zero, about
        what fits best, and of the numbers in spreads.
        """
        target = self.target
        z, said = target.prepared(labels), self._means(after)
        apart = (said - said.mean(0)) / said.std(0, correction=0).clamp_min(1e-12)
        correlation = apart.T @ (z - z.mean(0)) / len(z)
        turn = _nearest_turn(correlation, CLEAR / len(z) ** 0.5)
        stays = torch.eye(len(target.mean)) - target.colour @ target.whiten
        turn = target.colour @ turn @ target.whiten + stays
        spread = target.colour.square().sum(1).sqrt()
        signed = _signed_permutation(turn * spread / spread[:, None])
        zero = torch.zeros(len(spread))
        middle = (target.mean + said @ target.colour.T).mean(0)
        yield torch.cat([signed, zero[:, None]], dim=1)
        for A in (signed, signed * spread[:, None] / spread, turn):
            offset = middle - A @ labels.mean(0)
            yield torch.cat([A, offset[:, None]], dim=1)


_AS_WELL = 2.0
"""Standard errors by which images may lose after a simple map; half of what passes for no excess
they may lose in any case."""


def _nearest_turn(matrix: Float[Tensor, "r r"], chance: float) -> Float[Tensor, "r r"]:
    """The orthogonal matrix nearest to a matrix, and to the identity where that is but chance.

    Along axes whose singular value is at most `chance` nothing is known, and nothing is turned that
    need not be.

    >>> _nearest_turn(torch.tensor([[0.0, -0.9], [0.8, 0.0]]), 0.1).round().int().tolist()
    [[0, -1], [1, 0]]
    >>> _nearest_turn(torch.tensor([[-0.9, 0.0], [0.0, -0.01]]), 0.1).round().int().tolist()
    [[-1, 0], [0, 1]]
    """
    left, size, right = torch.linalg.svd(matrix)
    known = size > chance
    open_left, open_right = left[:, ~known], right[~known]
    rest_left, _, rest_right = torch.linalg.svd(open_left.T @ open_right.T)
    return left[:, known] @ right[known] + open_left @ rest_left @ rest_right @ open_right


def _signed_permutation(matrix: Float[Tensor, "d d"]) -> Float[Tensor, "d d"]:
    """The signed permutation that is nearest to a matrix.

    >>> _signed_permutation(torch.tensor([[0.1, -0.9], [1.2, 0.0]])).int().tolist()
    [[0, -1], [1, 0]]
    """
    from scipy.optimize import linear_sum_assignment

    rows, columns = linear_sum_assignment(-matrix.abs())
    nearest = torch.zeros_like(matrix)
    nearest[rows, columns] = matrix[rows, columns].sign()
    return nearest
