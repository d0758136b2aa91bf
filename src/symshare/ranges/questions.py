"""Networks that learned labels from unmoved images, asked about images that moved by some size."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path

import torch
from jaxtyping import Bool, Float, Int
from safetensors.torch import save
from torch import Generator, Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy, softplus

from symshare.data import LabelledImages, Transform, freeze, sample
from symshare.files import open_tensors, write_atomically
from symshare.judge.answers import ClassEvidence
from symshare.judge.classes import SHARPNESS, Classes, floored
from symshare.judge.evidence import (
    FOLDS,
    Division,
    clustered,
    divisions,
    in_entries,
    scramble,
)
from symshare.judge.judgement import measure_power
from symshare.judge.thresholds import RANDOM_PERMUTATIONS
from symshare.judge.witness import NOISE, Witness, permute
from symshare.ranges.families import Family
from symshare.records import Power
from symshare.train.loop import Progress, Standardise, train, unseen
from symshare.train.settings import Early, Hardware, OptimConfig

ASKED = 1000
"""Most images of each half that are asked about: a size costs two passes of each."""

CALIBRATED = 400
"""Most images that the factors of a witness are chosen on, for each of its many moves."""

_BATCH = 512


@dataclass(frozen=True, eq=False)
class SizedMoves:
    """Moves that a network learns to tell from their baselines: some sizes, then scrambles.

    Attributes:
        families: that are asked about.
        scrambles: permutations that it has to notice, whose baseline is the image, as sources of
            all numbers of an image.
    """

    families: Sequence[Family]
    scrambles: Int[Tensor, "S E"]

    @cached_property
    def sizes(self) -> list[tuple[int, float]]:
        """The number of the family and the size of each move that is no scramble."""
        return [(k, size) for k, f in enumerate(self.families) for size in f.law_sizes()]

    def __len__(self) -> int:
        return len(self.sizes) + len(self.scrambles)

    def number(self, family: Family, size: float) -> int | None:
        """The number of a move of this family and size; None where none was learned."""
        pair = (list(self.families).index(family), size)
        return self.sizes.index(pair) if pair in self.sizes else None

    def __call__(
        self,
        images: Float[Tensor, "B C *space"],
        which: Int[Tensor, " B"],
        moved: Bool[Tensor, " B"],
        generator: Generator,
    ) -> Float[Tensor, "B C *space"]:
        """Each image after a move of its own, or the baseline of that move."""
        shown = images.clone()
        owner = torch.tensor([k for k, _ in self.sizes] + [-1] * len(self.scrambles))[which]
        size = torch.tensor([s for _, s in self.sizes] + [0.0] * len(self.scrambles))[which]
        for k, family in enumerate(self.families):
            for act, chosen in ((family.moved, moved), (family.baseline, ~moved)):
                rows = ((owner == k) & chosen).nonzero().flatten()
                if len(rows):
                    here = rows.to(images.device)
                    shown[here] = act(images[here], size[rows].to(images.device), generator)
        rows = ((owner < 0) & moved).nonzero().flatten()
        if len(rows):
            here, chosen = rows.to(images.device), self.scrambles[which[rows] - len(self.sizes)]
            shown[here] = permute(images[here], chosen.to(images.device))
        return shown


@dataclass(frozen=True, eq=False)
class GuessSized:
    """The task of a witness of ranges: labels of images as they are, and whether one was moved.

    The second is asked of each image after one random move, or after its baseline, with a logit
    for each move: where both are equally likely it is the logarithm of the likelihood ratio.

    Attributes:
        moves: of which each image gets one.
        target: the classes.
    """

    moves: SizedMoves
    target: Classes

    def prepare(self, images: Tensor, labels: Tensor, generator: Generator) -> tuple[Tensor, ...]:
        which = torch.randint(len(self.moves), (len(images),), generator=generator)
        moved = torch.rand(len(images), generator=generator) < 0.5
        shown = self.moves(images, which, moved, generator)
        noise = torch.randn(len(images), 2, *images.shape[1:], generator=generator)
        # Of any strength: images without noise, which it will be asked about, are usual to it.
        noise *= torch.rand(len(images), 2, *[1] * (images.ndim - 1), generator=generator)
        device = images.device
        return images, labels, shown, which.to(device), moved.to(device), noise.to(images)

    def loss(self, model: nn.Module, *prepared: Tensor) -> tuple[Tensor, Tensor]:
        images, labels, shown, which, moved, noise = prepared
        both = torch.cat([images, shown])
        if model.training:
            spread = both.std(tuple(range(2, both.ndim)), keepdim=True, correction=0)
            both = both + NOISE * spread * torch.cat([noise[:, 0], noise[:, 1]])
        logits, guesses = model(both)
        logits = logits[: len(images)]
        guesses = self.target.of_label(guesses[len(images) :], labels)
        guess = guesses.gather(-1, which[:, None]).squeeze(-1)
        law = binary_cross_entropy_with_logits(guess, moved.to(guess))
        return cross_entropy(logits, labels) + law, logits

    def score(self, answers: Tensor, labels: Tensor) -> Tensor:
        return self.target.score(answers, labels)


@dataclass(frozen=True, eq=False)
class Answer:
    """What is said about N held-out images after a move of one size.

    Attributes:
        excess: loss of the moved image less that of its baseline, in nats.
        resampling: loss of the baseline less that of the image as it is, in nats.
        change: s(moved) - s(baseline), where s is the probability that the network gives to
            "moved"; None at sizes that it was not taught.
    """

    excess: Float[Tensor, " N"]
    resampling: Float[Tensor, " N"]
    change: Float[Tensor, " N"] | None


@dataclass(frozen=True, eq=False)
class _Half:
    """One witness, what calibrates it, and the images that it never saw.

    Attributes:
        model: from raw images to logits of labels [B, K] and of moves [B, L, K].
        label: factor of the logits of labels.
        moves: factors of those of moves [L].
        data: held-out images, transformed once.
        chance: loss of the class frequencies that it learned from, for each of these.
        seed: of the noise that is put on them.
    """

    model: nn.Module
    label: float
    moves: Tensor
    data: LabelledImages
    chance: Tensor
    seed: int


class Questions:
    """Two witnesses, each of which learned from one half of the data, and all that they are asked.

    Near copies, and the images of one group, are never on both sides. The labels are learned from
    images as they are, so that moved images cost what a network loses that was not told of moves.

    Args:
        data: different images, none of the test part.
        transform: what makes them what they are.
        families: that will be asked about.
        optim: how to train a witness, at most.
        seed: of the halves, networks, transformations, noise and scrambles.
        out: folder for `witness0.safetensors` and `witness1.safetensors`, from which an
            interrupted call continues; nothing is written where None.
        progress: called after every step of the trainings.
        hardware: what to train on.
    """

    def __init__(
        self,
        data: LabelledImages,
        transform: Transform,
        families: Sequence[Family],
        optim: OptimConfig,
        seed: int,
        *,
        out: Path | None = None,
        progress: Progress = unseen,
        hardware: Hardware = Hardware(),
    ):
        data, self.copies = clustered(data)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            C, P = data.images.shape[1], data.images[0, 0].numel()
            whole = [torch.randperm(P) for _ in range(RANDOM_PERMUTATIONS)]
            half = [scramble(-(-P // 2), P) for _ in range(RANDOM_PERMUTATIONS)]
            rows = torch.cat([in_entries(one, C, P) for one in whole + half])
            self.moves = SizedMoves(families, rows)
            self.halves = []
            steps = optim.epochs * optim.epoch_steps
            for number, division in enumerate(islice(divisions(data, seed), FOLDS[0])):
                path = None if out is None else out / f"witness{number}.safetensors"
                done = number * steps

                def told(step: int, _: int, done: int = done) -> None:
                    progress(done + step, FOLDS[0] * steps)

                self.halves.append(
                    self._half(data, transform, division, optim, 2 * seed + number, path, told,
                               hardware)
                )  # fmt: skip
        shown = [half.data for half in self.halves]
        self.labels = torch.cat([part.labels for part in shown])
        groups = [part.groups for part in shown if part.groups is not None]
        self.clusters = torch.cat(groups) if groups else torch.arange(len(self.labels))
        self.classes = len(data.classes)
        self.chance_loss = torch.cat([half.chance for half in self.halves])
        self.log_probability = torch.cat([self._logs(h, h.data.images)[0] for h in self.halves])
        self.loss = _of_label(self.log_probability, self.labels)

    def at(self, family: Family, size: float) -> Answer:
        """What the witnesses say after moves of this size."""
        number, found = self.moves.number(family, size), []
        for half in self.halves:
            images = half.data.images
            sizes = torch.full((len(images),), size)
            moved, baseline = (
                act(images, sizes, _drawn(half.seed)) for act in (family.moved, family.baseline)
            )
            found.append(self._compared(half, moved, baseline, number))
        excess, still, change = (torch.cat(parts) for parts in zip(*found, strict=True))
        return Answer(excess, still - self.loss, None if number is None else change)

    def power(self) -> Power:
        """Whether the witnesses beat chance clearly and notice what surely moves something."""
        K, first = RANDOM_PERMUTATIONS, len(self.moves.sizes)
        excess, change = [], []
        for number, permutation in enumerate(self.moves.scrambles, first):
            parts = [
                self._compared(
                    half,
                    permute(half.data.images, permutation.expand(len(half.data), -1)),
                    half.data.images,
                    number,
                )
                for half in self.halves
            ]
            excess.append(torch.cat([part[0] for part in parts]))
            change.append(torch.cat([part[2] for part in parts]))
        none = self.loss.new_zeros(0, len(self.loss))
        evidence = ClassEvidence(
            labels=self.labels,
            clusters=self.clusters,
            log_probability=self.log_probability,
            chance_loss=self.chance_loss,
            label_map=torch.zeros(0, self.classes, dtype=torch.int64),
            agreed=torch.zeros(0, dtype=torch.bool),
            moved_loss=none,
            moved_prediction=none.long(),
            change=none,
            random_loss=torch.stack(excess[:K]) + self.loss,
            random_change=torch.stack(change),
            few_change=none,
            few=torch.zeros(0, dtype=torch.int64),
            moved_share=torch.zeros(0),
            copies=self.copies.share,
            unasked=0.0,
            classes=self.classes,
            looks=1,
            chained=self.copies.chained,
        )
        return measure_power(evidence)

    def _half(
        self,
        data: LabelledImages,
        transform: Transform,
        division: Division,
        optim: OptimConfig,
        seed: int,
        path: Path | None,
        progress: Progress,
        hardware: Hardware,
    ) -> _Half:
        """A witness of one half, trained, or read from its file."""
        known, slice_ = data.subset(division.learned), data.subset(division.calibration)
        K = len(data.classes)
        torch.manual_seed(seed)
        witness = Witness(data.images.shape[1], K, len(self.moves), data.space)
        if path is not None and path.exists():
            model: nn.Module = nn.Sequential(Standardise(known.images), witness)
            with open_tensors(path) as file:
                model.load_state_dict({n: file.get_tensor(n) for n in file.keys()})  # noqa: SIM118
                factors = json.loads(file.metadata()["factors"])
        else:
            task = GuessSized(self.moves, Classes.of(known))
            model = train(
                witness, known, transform, optim, seed, validation=slice_, task=task,
                early=Early(), progress=progress, hardware=hardware,
            ).model  # fmt: skip
            some = sample(slice_, CALIBRATED, seed)
            factors = self._calibrated(model, freeze(some, transform, seed), seed)
            if path is not None:
                state = {n: value.cpu().contiguous() for n, value in model.state_dict().items()}
                write_atomically(path, save(state, {"factors": json.dumps(factors)}))
        asked = sample(data.subset(division.held_out), ASKED, seed)
        frequency = known.labels.bincount(minlength=K) / len(known)
        chance = -floored(frequency)[asked.labels]
        label, *moves = factors
        shown = freeze(asked, transform, seed)
        return _Half(model.eval(), label, torch.tensor(moves), shown, chance, seed)

    def _calibrated(self, model: nn.Module, data: LabelledImages, seed: int) -> list[float]:
        """The factors of least loss on images that the witness did not learn from.

        That of the labels, then that of each move; 0 of a move that it cannot tell.
        """
        model.eval()
        logits, _ = _answers(model, data)
        losses = [cross_entropy(f * logits, data.labels).item() for f in SHARPNESS]
        factors = [SHARPNESS[losses.index(min(losses))]]
        shares = torch.tensor([0.0, *SHARPNESS])[:, None]
        everyone = torch.ones(len(data), dtype=torch.bool)
        for number in range(len(self.moves)):
            which = torch.full((len(data),), number)
            margins = [
                _answers(model, data, self.moves(data.images, which, flag, _drawn(seed)))[1]
                for flag in (everyone, ~everyone)
            ]
            loss = softplus(-shares * margins[0][:, number]).mean(-1)
            loss += softplus(shares * margins[1][:, number]).mean(-1)
            factors.append(float(shares[loss.argmin()]))
        return factors

    def _logs(self, half: _Half, images: Tensor) -> tuple[Tensor, Tensor]:
        """Calibrated log-probabilities [N, K], and those logits of moves for the true class."""
        logits, guesses = _answers(half.model, half.data, images)
        return floored((half.label * logits).softmax(-1)), half.moves * guesses

    def _compared(
        self, half: _Half, moved: Tensor, baseline: Tensor, number: int | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Excess of moved images over baselines, the loss of these, and the change."""
        labels = half.data.labels
        (logs, guesses), (still, unmoved) = (self._logs(half, x) for x in (moved, baseline))
        after, before = _of_label(logs, labels), _of_label(still, labels)
        if number is None:
            return after - before, before, torch.zeros_like(before)
        change = guesses[:, number].sigmoid() - unmoved[:, number].sigmoid()
        return after - before, before, change


def _drawn(seed: int) -> Generator:
    """The same noise for moves of every size."""
    return torch.Generator().manual_seed(seed)


def _answers(
    model: nn.Module, data: LabelledImages, images: Tensor | None = None
) -> tuple[Float[Tensor, "N K"], Float[Tensor, "N L"]]:
    """Logits of classes, and of moves for the true class, of these images of the data."""
    shown = data.images if images is None else images
    device, found = next(model.parameters()).device, []
    with torch.inference_mode():
        for x, labels in zip(shown.split(_BATCH), data.labels.split(_BATCH), strict=True):
            logits, guesses = model(x.to(device))
            chosen = Classes.of(data).of_label(guesses.cpu(), labels)
            found.append((logits.cpu(), chosen))
    logits, guesses = zip(*found, strict=True)
    return torch.cat(logits), torch.cat(guesses)


def _of_label(logs: Float[Tensor, "N K"], labels: Int[Tensor, " N"]) -> Float[Tensor, " N"]:
    return -logs.gather(-1, labels[:, None]).squeeze(-1)
