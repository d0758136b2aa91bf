"""What training minimises: the loss of a task, and penalties."""

from typing import Any, Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Generator, Tensor, nn
from torch.nn.functional import cross_entropy

from symshare.representations import Measure, Representation, Stack
from symshare.train.settings import OptimConfig

__all__ = ["Classify", "Penalty", "Task", "norm_as_printed", "overlap"]


@runtime_checkable
class Task(Protocol):
    """What a network is trained for."""

    def prepare(self, images: Tensor, labels: Tensor, generator: Generator) -> tuple[Tensor, ...]:
        """What the loss reads of a batch, one row for each image; the labels come second."""
        ...

    def loss(self, model: nn.Module, *prepared: Tensor) -> tuple[Tensor, Tensor]:
        """Mean loss of these rows in nats, and what the network answers about their labels."""
        ...

    def score(self, answers: Tensor, labels: Tensor) -> Float[Tensor, ""]:
        """How good answers are, at most 1, for labels as they were prepared."""
        ...


class Classify:
    """The class of each image, by cross entropy; its score is the share that is right."""

    def prepare(self, images: Tensor, labels: Tensor, generator: Generator) -> tuple[Tensor, ...]:
        return images, labels

    def loss(self, model: nn.Module, *prepared: Tensor) -> tuple[Tensor, Tensor]:
        images, labels = prepared
        logits = model(images)
        return cross_entropy(logits, labels), logits

    def score(self, answers: Tensor, labels: Tensor) -> Float[Tensor, ""]:
        return (answers.argmax(-1) == labels).float().mean()


class Penalty:
    """The paper's penalties and the mass of measures, of everything that a network learns, once.

    Args:
        network: whose representations are looked up now, not in every step.
        optim: the weights of the penalties.
    """

    def __init__(self, network: nn.Module, optim: OptimConfig):
        self.optim = optim
        modules = list(network.modules())
        self.measures = [m for m in modules if isinstance(m, Measure)] if optim.measure else []
        stacks = [m for m in modules if isinstance(m, Representation)]
        self.learned = dict.fromkeys(part for stack in stacks for part in stack.learned_parts())

    def __call__(self) -> Float[Tensor, ""] | float:
        optim = self.optim
        total: Tensor | float = 0.0
        for measure in self.measures:
            total = total + optim.measure * measure()[1:].sum()
        for part in self.learned:
            if optim.entropy:
                total = total + optim.entropy * part.entropy()
            if optim.norm:
                norm = part.norm() if optim.norm_of == "logits" else norm_as_printed(part)
                total = total + optim.norm * norm
            if optim.diversity:
                total = total + optim.diversity * overlap(part)
        return total


def overlap(part: Any) -> Float[Tensor, ""]:
    r"""How much of their mass two learned elements put on the same entries, on average.

    .. math:: \frac{2}{G (G - 1)} \sum_{g < h} \frac{1}{D} \langle R_g, R_h \rangle

    It is 1 where all elements are the same permutation and 0 where no two permutations share an
    entry; two averages over positions have 1/D. An anchored identity is one of the elements.
    Zero for free matrices, whose entries have either sign.

    Args:
        part: one of the `learned_parts()` of a representation.

    >>> from symshare import Sinkhorn
    >>> bool(overlap(Sinkhorn(4, 9, init="paper")) < overlap(Sinkhorn(4, 9, init="identity")))
    True
    """
    stack = _stack(part)
    G, rows, _ = stack.shape
    if G < 2 or (isinstance(part, Stack) and part.membership == "free"):
        return stack.new_zeros(())
    R = stack.flatten(1)
    pairs = (R.sum(0).square().sum() - R.square().sum()) / 2
    return pairs / (rows * G * (G - 1) / 2)


def norm_as_printed(part: Any) -> Float[Tensor, ""]:
    r"""The norm penalty as the paper prints it, on R, per matrix and row.

    .. math:: \frac{1}{GD} \sum_{g, i} \Big(\sum_j R_{gij}\Big)^2 + \Big(\sum_j R_{gji}\Big)^2

    Constant, 2, on doubly stochastic matrices. Zero where a part has no matrices, as the
    coefficients of `Birkhoff`.

    Args:
        part: one of the `learned_parts()` of a representation.

    >>> from symshare import Sinkhorn
    >>> round(norm_as_printed(Sinkhorn(2, 3)).item(), 4)
    2.0
    """
    stack = _stack(part)
    if stack.shape[-1] != stack.shape[-2]:
        return stack.new_zeros(())
    return (stack.sum(-1).square() + stack.sum(-2).square()).mean()


def _stack(part: Any) -> Float[Tensor, "G rows columns"]:
    """The matrices of a part; coefficients are matrices of one row."""
    found = part()
    if not isinstance(found, torch.Tensor):  # a factor, with its entropy
        found = found.R
    return found if found.ndim == 3 else found[:, None]
