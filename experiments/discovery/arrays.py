"""Made signals, volumes, vectors and colours, whose symmetries follow from how they are made.

Each class has one random template, the same for every seed of a data set, in white noise. An
element of a planted group is put on every sample, uniformly at random. The templates have no
symmetry, so the mixture over the group G is left unchanged by h if and only if h G = G: by the
elements of G, and by no other move.

Of vectors two numbers may be alike in all templates by chance. Looks are such that their exchange
is at least 0.2 from the law in total variation: a verdict takes a change of 0.02, the square of
0.14, for none.
"""

from collections.abc import Callable
from itertools import permutations

import numpy as np
import torch

from experiments.discovery.cases import Upright
from experiments.discovery.truths import Permutation, Truth, signed
from symshare.groups import (
    Action,
    ChannelAction,
    ChannelMap,
    GroupAction,
    cube,
    cyclic_shifts,
    flips,
    generated,
    hyperoctahedral,
    quarter_turns,
    reversal,
    rotations,
)

Planted = GroupAction | ChannelAction

SMOOTH = 3
"""Positions over which templates and noise are averaged: otherwise positions could be exchanged one
by one."""


def generated_by(grid: GroupAction, *generators: tuple[str, ChannelMap]) -> ChannelAction:
    """The group of moves of space and channels that some of them generate."""
    names, table = grid.names, grid.table.tolist()

    def multiply(g: tuple[str, ChannelMap], h: tuple[str, ChannelMap]) -> tuple[str, ChannelMap]:
        return names[table[names.index(g[0])][names.index(h[0])]], h[1].then(g[1])

    still = ChannelMap.identity(len(generators[0][1].sources))
    return ChannelAction(grid, list(generated([("id", still), *generators], multiply)))


def swapped(*sources: int, negative: tuple[int, ...] = ()) -> ChannelMap:
    """A map of channels by the sources of each, of which some change sign."""
    return ChannelMap(sources, tuple(-1 if c in negative else 1 for c in range(len(sources))))


PLANTED: dict[str, Planted] = {
    "reversal": reversal(),
    "lead swap": generated_by(reversal(), ("reverse", swapped(1, 0, 3, 2, 4, 5, negative=(5,)))),
    "sign": generated_by(reversal(), ("id", swapped(0, 1, negative=(0, 1)))),
    "twisted": generated_by(reversal(), ("reverse", swapped(1, 0, 2, negative=(0,)))),
    "pairs": generated_by(reversal(), ("id", swapped(1, 0, 3, 2))),
    "ring": cyclic_shifts(12),
    "about an axis": quarter_turns("x"),
    "cube": cube(),
    "mirrored volume": hyperoctahedral(3).subset(["flipx"]),
    "colours": generated_by(flips("W"), ("flipW", swapped(2, 1, 0))),
    "turned colours": generated_by(rotations(4), ("rot90", swapped(2, 1, 0))),
    "wheel of six": generated_by(
        hyperoctahedral(1).subset(["id"]), ("id", swapped(1, 2, 3, 4, 5, 0, 7, 8, 9, 10, 11, 6))
    ),
    "triples": ChannelAction(
        hyperoctahedral(1).subset(["id"]),
        [
            ("id", swapped(*(3 * block + place for block in range(4) for place in order)))
            for order in permutations(range(3))
        ],
    ),
}
"""The groups that are put on samples."""


def planted(
    n: int,
    seed: int,
    *,
    look: int,
    shape: tuple[int, ...],
    group: str | None,
    classes: int = 3,
    noise: float = 0.8,
) -> Upright:
    """Samples of one random template for each class, each moved by a random element of a group.

    Args:
        n: samples.
        seed: of the samples.
        look: seed of the templates, and of the order in which vectors are.
        shape: channels, then the axes of space; of vectors their numbers alone.
        group: a name in `PLANTED`; None for no symmetry.
        classes: number of classes.
        noise: its spread; templates have a spread of 1.
    """
    generator, of_look = np.random.default_rng(seed), np.random.default_rng(look)
    channels, *space = shape if len(shape) > 1 else (*shape, 1)
    templates = _smooth(of_look.normal(size=(classes, channels, *space)), space)
    templates /= templates.std(axis=tuple(range(1, templates.ndim)), keepdims=True)
    labels = generator.integers(classes, size=n)
    errors = _smooth(generator.normal(size=(n, channels, *space)), space)
    samples = templates[labels] + noise * errors / errors.std()
    moves = _entries(PLANTED[group] if group else None, channels, tuple(space))
    order = of_look.permutation(channels) if tuple(space) == (1,) else np.arange(channels)
    flat = samples.reshape(n, -1)
    sources, signs = (np.array([m[i] for m in moves]) for i in (0, 1))
    drawn = generator.integers(len(moves), size=n)
    flat = np.take_along_axis(flat, sources[drawn], 1) * signs[drawn]
    images = flat.reshape(n, channels, *space)[:, order]
    true = frozenset(
        _reordered(signed(s.tolist(), t.tolist()), order, len(flat[0]) // channels)
        for s, t in moves
    )
    name = PLANTED[group].name if group else None
    return Upright(
        images,
        labels,
        truth=Truth(true, group=name),
        layout="NC" if tuple(space) == (1,) else "NC" + {1: "L", 2: "HW", 3: "DHW"}[len(space)],
        periodic=("L",) if group == "ring" else (),
    )


def _entries(
    action: Action | None, channels: int, space: tuple[int, ...]
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Sources and signs of all numbers of a sample, for each element."""
    size = channels * int(np.prod(space))
    if action is None:
        return [(np.arange(size), np.ones(size))]
    assert isinstance(action, GroupAction | ChannelAction)
    sources, signs = action.entries(channels, space)
    return [(s.numpy(), t.numpy()) for s, t in zip(sources, signs, strict=True)]


def _reordered(move: Permutation, order: np.ndarray, positions: int) -> Permutation:
    """The same move where channels are read in another order."""
    entry = (order[:, None] * positions + np.arange(positions)).ravel()
    back = {old: new for new, old in enumerate(entry.tolist())}
    return tuple(back[s] if s >= 0 else ~back[~s] for s in (move[old] for old in entry.tolist()))


def _smooth(fields: np.ndarray, space: list[int]) -> np.ndarray:
    """Fields averaged over neighbours along each axis of space; vectors as they are."""
    x = torch.from_numpy(fields)
    if space == [1]:
        return fields
    pool: Callable[..., torch.Tensor] = (
        torch.nn.functional.avg_pool1d,
        torch.nn.functional.avg_pool2d,
        torch.nn.functional.avg_pool3d,
    )[len(space) - 1]
    flat = x.flatten(0, 1)[:, None]
    return pool(flat, SMOOTH, 1, SMOOTH // 2, count_include_pad=False).view_as(x).numpy()
