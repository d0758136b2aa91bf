"""The laws that toy data comes from."""

import itertools
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from experiments.toys.setup import ToyConfig
from symshare import groups
from symshare.data import stream

__all__ = ["Problem", "arrows", "labels", "problem", "sample"]

# Deviation of the texture behind an arrow. Positions that no arrow reaches would be zero in all
# pictures, and then nothing could tell where a representation moves them.
TEXTURE = 0.1


@dataclass(frozen=True, eq=False)
class Problem:
    r"""A law of labelled signals, as in appendix B of arXiv:2412.04594.

    .. math:: g \sim \mu(G), \quad x = \rho_x(g) \hat x_c + \epsilon, \quad
              y = \rho_y(g) \hat y_c

    with c uniform on the canonical vectors and normal noise.

    Attributes:
        canonical: the vectors x_hat, [C, D].
        truth: rho_x of every element, as doubly stochastic matrices [K, D, D]; the identity first.
        mu: measure on the elements, [K]; it sums to 1 and may be zero on some.
        noise: standard deviation of epsilon.
        size: shape of a signal.
        names: of the K elements.
        exact: which elements are permutations, [K]; others are interpolated.
        turns: whether the label turns with the data. If so it is y = (c, g), on which rho_y
            multiplies g; otherwise it is c, and rho_y does nothing.
    """

    canonical: Float[Tensor, "C D"]
    truth: Float[Tensor, "K D D"]
    mu: Float[Tensor, " K"]
    noise: float
    size: tuple[int, ...]
    names: tuple[str, ...]
    exact: Bool[Tensor, " K"]
    turns: bool

    @property
    def occurs(self) -> Bool[Tensor, " K"]:
        """Which elements the data has."""
        return self.mu > 0


def problem(config: ToyConfig) -> Problem:
    """The law behind a configuration; the canonical vectors depend on its seed.

    On rings and voxels they are standard normal, on images they are arrows. The whole set of
    elements is known to the problem, and mu says which occur: the first half of the shifts in
    "toy-shift-half", and `quarter_turns("xy")`, 16 of the 24 rotations of the cube and what the
    paper calls C4 x C4, in "toy-cube-partial".

    Raises:
        ValueError: if the configuration's measure has another number of weights.

    >>> from experiments.toys.setup import toy_config
    >>> half = problem(toy_config("toy-shift-half", size=4))
    >>> half.names, half.mu
    (('id', 'shift1', 'shift2', 'shift3'), tensor([0.5000, 0.5000, 0.0000, 0.0000]))
    """
    action = _action(config)
    truth = action.lift(config.shape)
    generator = stream("canonical vectors", config.seed)
    if config.task == "toy-arrows":
        canonical = arrows(config.canonical, config.size, generator)
    else:
        canonical = torch.randn(config.canonical, config.positions, generator=generator)
    return Problem(
        canonical=canonical,
        truth=truth,
        mu=_measure(config, action.names),
        noise=config.noise,
        size=config.shape,
        names=action.names,
        exact=((truth == 0) | (truth == 1)).flatten(1).all(1),
        turns=config.task != "toy-shift-invariant",
    )


def sample(
    problem: Problem, n: int, generator: torch.Generator
) -> tuple[Float[Tensor, "N D"], Int[Tensor, " N"], Int[Tensor, " N"]]:
    """Draw n signals x, with the canonical vector c and the element g behind each.

    Args:
        problem: the law.
        n: number of samples N.
        generator: of everything random, on the CPU.
    """
    c = torch.randint(len(problem.canonical), (n,), generator=generator)
    g = torch.multinomial(problem.mu, n, replacement=True, generator=generator)
    moved = torch.einsum("kde,ce->ckd", problem.truth, problem.canonical)
    noise = problem.noise * torch.randn(n, moved.shape[-1], generator=generator)
    return moved[c, g] + noise, c, g


def labels(problem: Problem, c: Int[Tensor, " N"], g: Int[Tensor, " N"]) -> Int[Tensor, " N"]:
    """Labels y as class indices: c * K + g where the label turns with the data, otherwise c."""
    return c * len(problem.truth) + g if problem.turns else c


def _action(config: ToyConfig) -> groups.Action:
    if config.task == "toy-arrows":
        return groups.rotations(8)
    if config.task in ("toy-cube", "toy-cube-partial"):
        return groups.cube()
    return groups.cyclic_shifts(config.size)


def _measure(config: ToyConfig, names: tuple[str, ...]) -> Float[Tensor, " K"]:
    if config.measure is not None:
        if len(config.measure) != len(names):
            raise ValueError(
                f"{config.task}: measure needs one weight for each of its {len(names)} elements, "
                f"got {len(config.measure)}"
            )
        weights = torch.tensor(config.measure)
    elif config.task == "toy-shift-half":
        weights = (torch.arange(len(names)) < len(names) / 2).float()
    elif config.task == "toy-cube-partial":
        occurring = groups.quarter_turns("xy").names
        weights = torch.tensor([float(name in occurring) for name in names])
    else:
        weights = torch.ones(len(names))
    return weights / weights.sum()


def arrows(count: int, side: int, generator: torch.Generator) -> Float[Tensor, "C D"]:
    """Arrows that point right, of brightness 1, on a faint texture of their own.

    They differ in the lengths of shaft and barbs and in their place. Where there are fewer such
    arrows than pictures, they repeat on other textures. The texture is part of a picture, not
    noise.

    Args:
        count: number of pictures C.
        side: pixels of a side, at least 5; D = side * side.
        generator: of the choice of arrows and of the textures.

    >>> picture = arrows(1, 7, torch.Generator().manual_seed(1)).view(7, 7)
    >>> for row in (picture > 0.5).int().tolist():
    ...     print("".join("-#"[pixel] for pixel in row))
    ---#---
    ----#--
    -#####-
    ----#--
    ---#---
    -------
    -------
    """
    every = [
        (barb, row, tip, shaft)
        for barb in range(2, (side + 1) // 2)
        for row in range(barb, side - barb)
        for shaft in range(3, side)
        for tip in range(max(barb, shaft), side)
    ]
    order = torch.randperm(len(every), generator=generator).tolist()
    pictures = TEXTURE * torch.randn(count, side, side, generator=generator)
    for picture, which in zip(pictures, itertools.cycle(order), strict=False):
        barb, row, tip, shaft = every[which]
        picture[row, tip - shaft : tip + 1] += 1
        for step in range(1, barb + 1):
            picture[[row - step, row + step], tip - step] += 1
    return pictures.flatten(1)
