"""Question witnesses about images that they never saw, as they are, moved, and scrambled."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import torch
from jaxtyping import Bool, Float, Int
from safetensors.torch import save
from torch import Tensor

from symshare.data import (
    Copies,
    LabelledImages,
    Transform,
    divide,
    freeze,
    joined,
    near_copies,
)
from symshare.files import open_tensors, write_atomically
from symshare.judge.answers import Evidence
from symshare.judge.classes import SHARPNESS, CalibratedClasses, Classes
from symshare.judge.likelihood import NormalLaws
from symshare.judge.numbers import CalibratedNumbers, Numbers
from symshare.judge.statistics import estimates
from symshare.judge.thresholds import RANDOM_PERMUTATIONS
from symshare.judge.witness import Function, GuessBoth, Moves, Witness
from symshare.train.loop import Progress, Trained, train, unseen
from symshare.train.settings import Early, Hardware, OptimConfig

FOLDS = (2, 4)
"""Parts that the images are divided into in each round of questions. The second round has twice as
many witnesses, which learn from three quarters of the images and for twice as many steps: it costs
four times as much, and is held only where the first one did not decide."""

FIRST = 4
"""Before the rest of the first half, one in so many of its images is asked about: where that
decides, questions cost less than the training."""

_LOOK_AFTER = (1, 2, 1 + FOLDS[0], 1 + sum(FOLDS))
"""Parts of the answers after which the evidence is looked at; the first half has two of them."""

CALIBRATION = 0.2
"""Share of a training half on which its witness is stopped and calibrated."""

_ASKED = 512
"""Moved images that a network reads at once: all moves of as many images as fit."""

_TRUST = (0.0, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0)
"""Factors of the normal laws' guesses, which are added: their tails are too thin, and images of one
class hang together in more ways than a covariance."""

_HELP = 2.0
"""Standard errors by which the normal laws have to lower the loss of the guesses before they have
a say: where a move is a symmetry there is nothing to guess, and their scatter only hides that."""


def gather(
    data: LabelledImages,
    transform: Transform,
    sources: Int[Tensor, "M E"],
    optim: OptimConfig,
    seed: int,
    *,
    signs: Float[Tensor, "M E"] | None = None,
    functions: Sequence[Function] = (),
    decided: Callable[[Evidence], bool] = lambda evidence: False,
    out: Path | None = None,
    progress: Progress = unseen,
    hardware: Hardware = Hardware(),
) -> Evidence:
    """Train witnesses on part of the data and question them about the rest, as long as it takes.

    Near copies, and the images of one group, are never on both sides. The cost is that of one or
    two trainings of at most half of `optim.steps` steps, on two images for each of a batch, and,
    where these do not decide, of four more of at most `optim.steps`; and that of Q N / 8, Q N / 2,
    Q N or 2 Q N questions for N images, whatever the power takes. Q is the number of candidates and
    5 more, and one for each number of pixels below half that a candidate moves. An answer is for
    the label and for the move together.

    A candidate may move the labels too: a mirror may exchange left and right. Where, on images that
    chose nothing else, the first witness gives moved images to other classes, clearly and nearly as
    surely as it gives images to their own, that map of the classes (by linear assignment) belongs
    to the candidate, and the first witness is trained anew. A candidate of which a later witness
    finds another map on its own images is not claimed. Numbers are mapped alike, by sign, exchange
    or another turn.

    Args:
        data: different images, none of the test part.
        transform: what makes the data what they are; held-out images are transformed once.
        sources: candidates, as source indices over all numbers of an image, channels slow.
        optim: how to train a witness, at most.
        seed: of the halves, the networks, the transformations and the random permutations.
        signs: -1 where a candidate changes the sign of a number, else 1; None where none does.
        functions: further candidates, behind the others, that are no permutations.
        decided: whether this evidence is enough; asked after every look but the last.
        out: folder for what was said, `answers0.safetensors` and so on, from which an interrupted
            call continues; nothing is written where None.
        progress: called after every step of a training.
        hardware: what to train on.

    Raises:
        ValueError: where a class lies in too few groups to be on both sides.
    """
    data, copies = clustered(data)
    C, E = data.images.shape[1], sources.shape[1]
    P = E // C
    signs = torch.ones(sources.shape) if signs is None else signs
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        # Pixels keep their channels; the numbers of a vector, which has one position, do not.
        one_by_one = P if P > 1 else E
        scrambles = torch.stack([torch.randperm(one_by_one) for _ in range(RANDOM_PERMUTATIONS)])
        halves = [scramble(-(-one_by_one // 2), one_by_one) for _ in range(RANDOM_PERMUTATIONS)]
        unmoved, shown = torch.arange(E)[None], freeze(data, transform, 0).images
        touched = torch.cat(
            [
                (sources != unmoved) | (signs < 0),
                *(_touched(function, shown) for function in functions),
            ]
        )
        sizes, few = _few_numbers(touched, P)
        some = [in_entries(scramble(size, of), C, P) for size, of in sizes]
        blank = unmoved.repeat(len(functions), 1)
        scrambled = [in_entries(one, C, P) for one in (*scrambles, *halves)]
        rows = torch.cat([unmoved, sources, blank, *some, *scrambled])
        fixed = target_of(data).fixed(len(rows))
        numbered = dict(enumerate(functions, 1 + len(sources)))
        changed = torch.ones(rows.shape)
        changed[1 : 1 + len(sources)] = signs
        moves = Moves(rows, changed, fixed, numbered)
        count = len(sources) + len(functions)
        questions = _Questions(data, transform, moves, count, optim, seed, out, progress, hardware)
        share = _moved_share(shown, touched)
        for parts in questions.looks():
            evidence = _assemble(data, parts, share, few, copies)
            if len(parts) == _LOOK_AFTER[-1] or decided(evidence):
                return evidence
    raise AssertionError("the last look ends")


@dataclass(frozen=True, eq=False)
class Division:
    """Positions of the images of one witness.

    Attributes:
        asked: those that it is asked about, one part after the other.
        calibration: those on which it is stopped and calibrated.
        learned: those that it learns from.
    """

    asked: list[Tensor]
    calibration: Int[Tensor, " c"]
    learned: Int[Tensor, " l"]

    @property
    def held_out(self) -> Int[Tensor, " n"]:
        """All that it is asked about, in order."""
        return torch.cat(self.asked).sort()[0]


def divisions(data: LabelledImages, seed: int) -> Iterator[Division]:
    """The images of all witnesses, one after another; those of a round are drawn together.

    Raises:
        ValueError: where a class lies in too few groups to be on both sides, or a side has but one.
    """
    number = 0
    for folds in FOLDS:
        held_out, rest = [], torch.arange(len(data))
        for left in range(folds, 1, -1):
            part, others = divide(data.subset(rest), 1 / left, seed + left - 2)
            held_out.append(rest[part])
            rest = rest[others]
        for asked in (*held_out, rest):
            parts = [asked]
            if not number:
                some = divide(data.subset(asked), 1 / FIRST, seed, each_class=False)
                parts = [asked[part] for part in some]
            known = (~torch.isin(torch.arange(len(data)), asked)).nonzero().flatten()
            inside = divide(data.subset(known), CALIBRATION, 2 * seed + number, each_class=False)
            yield Division(parts, *(known[part] for part in inside))
            number += 1


Part = dict[str, Tensor]


@dataclass(frozen=True, eq=False)
class _Questions:
    """The trainings and the questions of :func:`gather`, see there.

    Of the moves, so many behind the identity (`count`) are candidates.
    """

    data: LabelledImages
    transform: Transform
    moves: Moves
    count: int
    optim: OptimConfig
    seed: int
    out: Path | None
    progress: Progress
    hardware: Hardware

    @property
    def asked(self) -> Tensor:
        """The moves that normal laws are asked about: permutations, no scrambles of many pixels."""
        known = range(1, len(self.moves) - 2 * RANDOM_PERMUTATIONS)
        asked = [g for g in known if g not in self.moves.functions]
        return torch.tensor(asked, dtype=torch.int64)

    def training_of(self, fold: int) -> OptimConfig:
        """How the witness of a fold is trained: for half as long in the first round."""
        if fold >= FOLDS[0]:
            return self.optim
        steps, evaluations = -(-self.optim.steps // 2), -(-self.optim.evaluations // 2)
        return replace(self.optim, steps=steps, evaluations=evaluations)

    def looks(self) -> Iterator[list[Part]]:
        """What was said so far, at every look."""
        parts: list[Part] = []
        for number, division in enumerate(divisions(self.data, self.seed)):
            fold = _Fold(self, number, division)
            for some in division.asked:
                parts.append(self.kept(len(parts), fold, some))
                if (anew := self.mapped(parts[0]["maps_found"])) is not None:
                    yield from anew.looks()
                    return
                if len(parts) in _LOOK_AFTER:
                    yield parts

    def mapped(self, found: Tensor) -> "_Questions | None":
        """The same with the maps of the classes that were found; None where there are none."""
        fixed = target_of(self.data).fixed(len(found))
        if found.equal(fixed) or not self.moves.label_maps.equal(fixed):
            return None
        out = None if self.out is None else self.out / "label-maps"
        return replace(self, moves=replace(self.moves, label_maps=found), out=out)

    def kept(self, number: int, fold: "_Fold", some: Tensor) -> Part:
        """What is said about some images, where possible from its file."""
        path = None if self.out is None else self.out / f"answers{number}.safetensors"
        if path is not None and path.exists():
            with open_tensors(path) as file:
                part = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            # Earlier versions know less of maps of labels, and are asked anew.
            if "agreed" in part:
                return part
        part = fold.answers(some)
        if path is not None:
            write_atomically(path, save(part))
        return part


@dataclass(frozen=True, eq=False)
class _Fold:
    """What one witness is asked.

    Attributes:
        questions: of all witnesses.
        number: of this one.
        division: its images.
    """

    questions: _Questions
    number: int
    division: Division

    @cached_property
    def witness(self) -> "tuple[_Oracle, _Calibration]":
        """The trained witness and its calibration."""
        Q, seed = self.questions, 2 * self.questions.seed + self.number
        torch.manual_seed(seed)
        slice_ = Q.data.subset(self.division.calibration)
        rest = Q.data.subset(self.division.learned)
        channels, target = Q.data.images.shape[1], target_of(rest)
        numbers = bool(Q.data.numbers)
        witness = Witness(channels, target.count, len(Q.moves), Q.data.space, numbers=numbers)
        trainings = [Q.training_of(earlier) for earlier in range(self.number + 1)]
        *before, steps = (optim.epochs * optim.epoch_steps for optim in trainings)
        laws = NormalLaws.fit(freeze(rest, Q.transform, seed), target)
        trained = train(
            witness,
            rest,
            Q.transform,
            trainings[-1],
            seed,
            validation=slice_,
            task=GuessBoth(Q.moves, target),
            early=Early(),
            progress=lambda done, _: Q.progress(sum(before) + done, sum(before) + steps),
            hardware=Q.hardware,
        )
        oracle = _Oracle(trained, laws, Q.moves, Q.asked, target)
        return oracle, _calibrate(oracle, freeze(slice_, Q.transform, seed), Q.count)

    @cached_property
    def shown(self) -> LabelledImages:
        """The held-out images, transformed once."""
        Q = self.questions
        asked = Q.data.subset(self.division.held_out)
        return freeze(asked, Q.transform, 2 * Q.seed + self.number)

    def answers(self, some: Tensor) -> Part:
        """What the witness says about some of the held-out images."""
        oracle, calibration = self.witness
        inside = torch.isin(self.division.held_out, some)
        asked = self.shown.subset(inside.nonzero().flatten())
        part = _question(oracle, asked, calibration)
        maps = self.questions.moves.label_maps
        agreed = oracle.target.same(maps, calibration.label_maps)
        of_all = {"maps": maps, "maps_found": calibration.label_maps, "agreed": agreed}
        chance = calibration.label.chance(asked.labels)
        return part | of_all | {"images": some, "chance_loss": chance}


def clustered(data: LabelledImages) -> tuple[LabelledImages, Copies]:
    """The data with near copies, and what shares a group, in one group each."""
    copies = near_copies(data)
    return replace(data, groups=_joined(data, copies.cluster)), copies


def _joined(data: LabelledImages, cluster: Tensor) -> Tensor | None:
    """Clusters of near copies and groups together; None where every image is alone."""
    if data.groups is None:
        return None if len(cluster.unique()) == len(data) else cluster
    return joined(cluster, data.groups.cpu())


def _clusters(data: LabelledImages) -> Int[Tensor, " N"]:
    """The cluster of each image."""
    return torch.arange(len(data)) if data.groups is None else data.groups.cpu()


def scramble(count: int, positions: int) -> Int[Tensor, " P"]:
    """A cycle of so many random positions, which moves each of them."""
    some = torch.randperm(positions)[:count]
    permutation = torch.arange(positions)
    permutation[some] = some.roll(1)
    return permutation


def in_entries(source: Int[Tensor, " n"], channels: int, positions: int) -> Int[Tensor, "1 E"]:
    """Sources of all numbers, from those of positions, whatever the channel, or of all numbers."""
    if len(source) == channels * positions:
        return source[None]
    return (torch.arange(channels)[:, None] * positions + source).flatten()[None]


def _few_numbers(
    touched: Bool[Tensor, "M E"], positions: int
) -> tuple[list[tuple[int, int]], Int[Tensor, " M"]]:
    """How many candidates touch, of how many, where that is below half, and which each does.

    What touches all channels alike is compared with random moves of as many of the positions,
    anything else with moves of as many of all numbers.
    """
    E = touched.shape[1]
    by_channel = touched.unflatten(1, (-1, positions))
    alike = (by_channel == by_channel[:, :1]).all(1).all(1)
    counts = [
        (int(row[:positions].sum()), positions) if same and positions > 1 else (int(row.sum()), E)
        for row, same in zip(touched, alike.tolist(), strict=True)
    ]
    sizes = sorted({(count, of) for count, of in counts if 2 * count < of})
    which = [sizes.index(n) if n in sizes else -1 for n in counts]
    return sizes, torch.tensor(which, dtype=torch.int64)


def _touched(function: Function, images: Float[Tensor, "N C *space"]) -> Bool[Tensor, "1 E"]:
    """The numbers that a function changes in some image."""
    return (function(images.clone()) != images).flatten(1).any(0)[None]


def _moved_share(
    images: Float[Tensor, "N C *space"], touched: Bool[Tensor, "M E"]
) -> Float[Tensor, " M"]:
    """Share of the variance of all numbers that each candidate touches."""
    variance = images.flatten(1).double().var(0)
    return ((touched * variance).sum(1) / variance.sum().clamp_min(1e-300)).float()


@dataclass(frozen=True, eq=False)
class _Oracle:
    """What is asked about moved images: a witness and, beside it, normal laws of the classes.

    Attributes:
        trained: the witness.
        laws: None where there are none.
        moves: all moves.
        asked: those that the laws are asked about; that a scrambled image is noticed is for the
            witness to show.
        target: what the labels are.
    """

    trained: Trained
    laws: NormalLaws | None
    moves: Moves
    asked: Tensor
    target: Classes | Numbers

    def answers(self, data: LabelledImages) -> Iterator[tuple[Tensor, Tensor, Tensor, Tensor]]:
        """What it says of B images at a time.

        Yields:
            The labels of B images, what is answered about labels after each move, [L, B, ...], and
            the margins of "moved by g" over "not moved", [2, L, B] each, of the witness and of the
            laws: of the image as it is, and of the image after g with the label that g makes.
        """
        model, moves, maps = self.trained.model.eval(), self.moves, self.moves.label_maps
        device = next(model.parameters()).device
        L, size = len(moves), max(_ASKED // len(moves), 1)
        by_law = torch.zeros(2, L, len(data))
        if self.laws is not None and len(self.asked):
            images, labels = data.images.cpu(), data.labels.cpu()
            asked, signs = moves.sources[self.asked], moves.signs[self.asked]
            found = self.laws.margins(images, labels, asked, signs, maps[self.asked])
            by_law[:, self.asked] = torch.stack(found)
        for images, labels, laws in zip(
            data.images.split(size), data.labels.split(size), by_law.split(size, 2), strict=True
        ):
            B = len(images)
            copies = images.expand(L, *images.shape).flatten(0, 1)
            moved = moves(copies.to(device), torch.arange(L).repeat_interleave(B))
            with torch.inference_mode():
                logits, guesses = model(moved)
            becomes = self.target.moved(maps, labels.cpu()).flatten(0, 1)
            becomes = self.target.prepared(becomes.to(device))
            guesses = self.target.of_label(guesses, becomes).cpu().unflatten(0, (L, B))
            margins = guesses - guesses[..., :1]
            yield (
                labels,
                logits.cpu().unflatten(0, (L, B)),
                torch.stack([margins[0].T, laws[0]]),
                torch.stack([margins.diagonal(dim1=0, dim2=2).T, laws[1]]),
            )


@dataclass(frozen=True)
class _Calibration:
    """What is said of labels, and factors `moves` [2, L] of logits, of the witness and the laws.

    `label_maps` are what each of L moves makes of the labels, as far as the witness tells.
    """

    label: CalibratedClasses | CalibratedNumbers
    moves: Tensor
    label_maps: Tensor


def _calibrate(oracle: _Oracle, data: LabelledImages, candidates: int) -> _Calibration:
    """The factors with the least loss on images that the witness did not learn from.

    So many moves behind the identity are candidates, which may map the labels.
    """
    parts = list(oracle.answers(data))
    moved = torch.cat([part[1] for part in parts], dim=1)
    without, with_ = (torch.cat([part[i] for part in parts], dim=2) for i in (2, 3))
    softplus = torch.nn.functional.softplus

    L = len(oracle.moves)
    # For each move the best pair of factors so far, and the loss of each image with it.
    best, least = torch.zeros(L, 2), torch.full((L, len(data)), torch.inf)
    alone, least_alone = best, least
    for trust in _TRUST:
        for factor in (0.0, *SHARPNESS):
            pair = torch.tensor([factor, trust])
            guessed = softplus(torch.einsum("e,elb->lb", pair, without))
            guessed += softplus(-torch.einsum("e,elb->lb", pair, with_))
            better = (guessed.mean(-1) < least.mean(-1))[:, None]
            best, least = pair.where(better, best), guessed.where(better, least)
        if trust == 0:
            alone, least_alone = best, least
    clusters = _clusters(data)
    gains = estimates(least_alone - least, clusters)
    helped = torch.tensor([gain.mean > _HELP * gain.error for gain in gains])
    factors = best.where(helped[:, None], alone)
    label = oracle.target.calibrated(moved, data)
    maps = oracle.target.fixed(L)
    for move in range(1, 1 + candidates):
        maps[move] = label.map_of(moved[0], moved[move], data, clusters)
    return _Calibration(label, factors.T, maps)


def _question(oracle: _Oracle, data: LabelledImages, calibration: _Calibration) -> Part:
    """What is said about held-out images after each move; the identity comes first."""
    said: dict[str, list[Tensor]] = defaultdict(list)
    factors, maps = calibration.moves[..., None], oracle.moves.label_maps
    for labels, answers, before, after in oracle.answers(data):
        for name, values in calibration.label.said(maps, labels, answers).items():
            said[name].append(values)
        with_, without = (factors * after).sum(0), (factors * before).sum(0)
        said["change"].append((with_.sigmoid() - without.sigmoid()).T)
    return {name: torch.cat(batches) for name, batches in said.items()}


def _assemble(
    data: LabelledImages,
    parts: list[Part],
    moved_share: Float[Tensor, " M"],
    few: Int[Tensor, " M"],
    copies: Copies,
) -> Evidence:
    """One column for each image that was questioned; of several answers their mean."""
    asked = torch.zeros(len(data))
    for part in parts:
        asked[part["images"]] += 1
    shown = asked > 0

    def mean(name: str) -> Tensor:
        """Of all answers about an image, a row for each image."""
        total = parts[0][name].new_zeros(len(data), *parts[0][name].shape[1:])
        for part in parts:
            total[part["images"]] += part[name]
        return total[shown] / asked[shown].reshape(-1, *[1] * (total.ndim - 1))

    def last(name: str) -> Tensor:
        """The answers of the last round, whose witnesses learned from more."""
        latest = parts[0][name].new_zeros(len(data), *parts[0][name].shape[1:])
        for part in parts[_LOOK_AFTER[-2] :] or parts:
            latest[part["images"]] = part[name]
        return latest[shown]

    clusters = _clusters(data)
    sizes = clusters[~torch.isin(clusters, clusters[shown])].bincount()
    M, K = len(moved_share), RANDOM_PERMUTATIONS
    loss, change = mean("loss").T.contiguous(), mean("change").T.contiguous()
    common = {
        "clusters": clusters[shown],
        "chance_loss": mean("chance_loss"),
        "agreed": torch.stack([part["agreed"] for part in parts]).all(0)[1 : M + 1],
        "moved_loss": loss[1 : M + 1],
        "change": change[1 : M + 1],
        "random_loss": loss[-2 * K : -K],
        "random_change": change[-2 * K :],
        "few_change": change[M + 1 : -2 * K],
        "few": few,
        "moved_share": moved_share,
        "copies": copies.share,
        "unasked": sizes.max().item() / len(data) if len(sizes) else 0.0,
        "looks": _LOOK_AFTER.index(len(parts)) + 1,
        "chained": copies.chained,
    }
    maps = parts[0]["maps"][1 : M + 1]
    return target_of(data).evidence(data, shown, mean, last, maps, common)


def target_of(data: LabelledImages) -> Classes | Numbers:
    """What the labels of these images are."""
    return Numbers.of(data) if data.numbers else Classes.of(data)
