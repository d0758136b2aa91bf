"""Other ways to ask which moves of the lattice are symmetries, each on the same images."""

import time
from typing import Any

import numpy as np
import torch
from torch import Generator, Tensor
from torch.nn.functional import cross_entropy

from experiments.discovery.answers import Answer, Question
from experiments.discovery.truths import Permutation, lattice
from symshare.data import LabelledImages, divide, transform
from symshare.groups import from_permutations
from symshare.judge.statistics import rejected
from symshare.judge.witness import permute
from symshare.models import SMALL, build_network, dictionary, probe
from symshare.representations import Measure
from symshare.settings import NetworkConfig
from symshare.train.loop import train
from symshare.train.objective import Classify
from symshare.train.settings import OptimConfig

KERNEL_IMAGES = 500
"""Images that the kernel test looks at."""

KERNEL_DRAWS = 199
"""Draws of the randomisation, so that the smallest p value is 1/200."""

KERNEL_LEVEL = 0.05
"""Level of the kernel test of all moves together."""

OPTIM = OptimConfig(steps=500, evaluations=1)
"""How networks are trained, for as many steps as a witness of symshare at most."""

RAISED = 0.5
"""Where every gate starts: one that training raised is for its element."""


def ask_kernel(question: Question) -> Answer:
    """A randomisation test of invariance with a kernel, for each move of the lattice.

    As in Chiu and Bloem-Reddy (arXiv:2307.15834): where g is a symmetry, each image may be replaced
    by a random one of its orbit under the powers of g without changing the law. The statistic is
    the squared maximum mean discrepancy between the images and their averages over the orbit, with
    a Gaussian kernel of the median distance between images, and between images of one class only.
    A move is called a symmetry where Holm's method does not reject it: no more can such a test say.
    """
    start, generator = time.perf_counter(), np.random.default_rng(question.seed)
    data = question.data.subset(generator.permutation(len(question.data))[:KERNEL_IMAGES].tolist())
    images, labels = data.images.numpy(), data.labels.numpy()
    moves = _moves(data)
    p_values = {name: _invariance(images, labels, move, generator) for name, move in moves.items()}
    broken = rejected(list(p_values.values()), KERNEL_LEVEL)
    found = tuple(name for name, out in zip(moves, broken, strict=True) if not out)
    numbers = {name: {"p": round(value, 4)} for name, value in p_values.items()}
    return _answer(moves, found, numbers, data, start)


def _invariance(
    images: np.ndarray, labels: np.ndarray, move: Permutation, generator: np.random.Generator
) -> float:
    """The p value of the hypothesis that a move is a symmetry of labelled images."""
    flat, powers = images.reshape(len(images), images.shape[1], -1), _powers(move)
    orbit = np.stack([flat[:, :, power] for power in powers]).reshape(len(powers), len(images), -1)
    rows = orbit.reshape(-1, orbit.shape[-1]).astype(float)
    squares = (rows**2).sum(1)
    distance = np.maximum(squares[:, None] + squares - 2 * rows @ rows.T, 0)
    kernel = np.exp(-distance / np.median(distance[distance > 0]))
    kernel *= np.tile(labels, len(powers))[:, None] == np.tile(labels, len(powers))
    # Of the images of one draw with each other, and with the whole orbits; that of orbits is fixed.
    to_orbits = kernel.mean(1)
    here = np.arange(len(images))

    def discrepancy(powers_drawn: np.ndarray) -> float:
        drawn = powers_drawn * len(images) + here
        return float(kernel[np.ix_(drawn, drawn)].mean() - 2 * to_orbits[drawn].mean())

    observed = discrepancy(np.zeros_like(here))
    draws = [
        discrepancy(generator.integers(len(powers), size=len(here))) for _ in range(KERNEL_DRAWS)
    ]
    return (1 + sum(draw >= observed for draw in draws)) / (1 + KERNEL_DRAWS)


def ask_augmentation(question: Question) -> Answer:
    """Augment and compare: does a network that learns from moved images as well do no worse?

    One network is trained on one half of the images as they are, and one for each move on random
    powers of it. A move is called a symmetry where the loss on the other half is, in the mean, no
    larger with it than without: what is done where nobody knows which augmentation suits.
    """
    start, data = time.perf_counter(), question.data
    parts = divide(data, 0.5, question.seed)
    known, held_out = (data.subset(part) for part in parts)
    moves, identity = _moves(data), list(range(data.images.shape[2:].numel()))

    def losses(powers: list[list[int]]) -> Tensor:
        classes, (_, channels, height, width) = len(data.classes), data.images.shape
        torch.manual_seed(question.seed)
        network = probe(channels, classes, (height, width))
        sources = torch.tensor(powers)
        of_channels = torch.arange(channels)[:, None] * sources.shape[1]
        task = _Augmented((sources[:, None] + of_channels).flatten(1))
        trained = train(network, known, transform("none"), OPTIM, question.seed, task=task)
        return cross_entropy(trained.logits(held_out.images), held_out.labels, reduction="none")

    plain = losses([identity])
    extra = {name: (losses(_powers(move)) - plain).mean().item() for name, move in moves.items()}
    found = tuple(name for name, value in extra.items() if value <= 0)
    numbers = {name: {"loss": round(value, 4)} for name, value in extra.items()}
    return _answer(moves, found, numbers, data, start)


class _Augmented(Classify):
    """Labels of images that were moved by random members of a list of permutations.

    These are given as sources [n, E] of all numbers of an image.
    """

    def __init__(self, sources: Tensor):
        self.sources = sources

    def prepare(self, images: Tensor, labels: Tensor, generator: Generator) -> tuple[Tensor, ...]:
        drawn = torch.randint(len(self.sources), (len(images),), generator=generator)
        return permute(images, self.sources[drawn].to(images.device)), labels


def ask_gates(question: Question) -> Answer:
    """Read the measure of a gated network: which elements did training on the labels turn up?

    One network over all moves of the lattice, with a learned measure on them that starts at a half
    (`symshare.Gated`), is trained on all images. A move is called a symmetry where its measure
    rose. Images that are too small for the network are left undecided.
    """
    start, data = time.perf_counter(), question.data
    moves = _moves(data)
    if min(data.images.shape[2:]) < SMALL.smallest:
        return _answer(moves, (), {}, data, start, undecided=True)
    torch.manual_seed(question.seed)
    config = NetworkConfig(kind="gated", group=tuple(moves), width=32)
    network = build_network(config, data.images.shape[1:], len(data.classes))
    trained = train(network, data, transform("none"), OPTIM, question.seed)
    (measure,) = {m for m in trained.model.modules() if isinstance(m, Measure)}
    # The order of the dictionary is its own.
    of_element = dict(zip(dictionary(config).names, measure().tolist(), strict=True))
    found = tuple(name for name in moves if of_element[name] > RAISED)
    numbers = {name: {"measure": round(of_element[name], 3)} for name in moves}
    return _answer(moves, found, numbers, data, start)


def _moves(data: LabelledImages) -> dict[str, Permutation]:
    """The moves of the lattice but the identity."""
    moves = lattice((data.images.shape[2], data.images.shape[3]))
    return {name: move for name, move in moves.items() if name != "id"}


def _powers(move: Permutation) -> list[list[int]]:
    """The identity and all other powers of a move."""
    powers = [list(range(len(move)))]
    while (following := [move[source] for source in powers[-1]]) != powers[0]:
        powers.append(following)
    return powers


def _answer(
    moves: dict[str, Permutation],
    found: tuple[str, ...],
    numbers: dict[str, dict[str, Any]],
    data: LabelledImages,
    start: float,
    undecided: bool = False,
) -> Answer:
    """An answer that knows but "symmetric" and "broken"."""
    shape = (data.images.shape[2], data.images.shape[3])
    other = "undecided" if undecided else "broken"
    return Answer(
        word="group" if found else "undecided" if undecided else "none",
        group=from_permutations([moves[name] for name in found], shape).name if found else None,
        found=found,
        capped=False,
        possible=None,
        moves=moves,
        statuses={name: "symmetric" if name in found else other for name in moves},
        numbers=numbers,
        facts={"samples": len(data)},
        seconds=round(time.perf_counter() - start, 1),
    )
