"""Signed permutations of channels that the moments of the data do not notice, with moves of space.

With a move of space pi, a map of channels sigma with signs s is looked for such that (g x)[c, p] =
s[c] x[sigma(c), pi(p)] has the mean of each channel in each part of space, and the covariance of
each two channels there, that x has.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from math import prod

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from symshare.groups import CAP, ChannelMap, compose, generated
from symshare.groups.channels import called
from symshare.names import VECTOR
from symshare.propose.automorphisms import DEPENDENCE, MARGIN
from symshare.propose.candidates import Candidate, Permutation

CHANNELS = 64
"""Most channels that are searched."""

NUMBERS = 20_000
"""Most numbers that a set of moments has: with more channels space is divided into fewer parts."""

NODES = 2_000
"""Assignments of channels that are tried for each move of space."""

PARTS = 3
"""Most sets of channels that change sign by themselves: of more only all at once."""

LONGEST = 28
"""Longest name of a candidate that says which channels it moves."""

Pair = tuple[Permutation, ChannelMap]
"""A move of positions and one of channels."""


def moving_channels(
    elements: Sequence[Candidate],
    images: Float[Tensor, "N C *space"],
    names: Sequence[str] = (),
    found: Sequence[ChannelMap] = (),
    *,
    learned: Collection[ChannelMap] = (),
    tolerance: float = 1.0,
    seed: int = 0,
) -> tuple[list[Candidate], bool]:
    """Candidates that move channels, alone and with moves of space.

    They are the group that the moves of space generate with, in this order, the exchange of left
    and right by name, what was found, what the moments admit, and the changes of sign that they
    admit, as far as there is room for `CAP` candidates in all.

    Args:
        elements: candidates that move space only, the identity first.
        images: the data.
        names: of the channels.
        found: maps of the channels of vectors, which are searched for elsewhere.
        learned: those of them that were learned by matrices.
        tolerance: of the search, in units of the bootstrap tolerance.
        seed: of the bootstrap.

    Returns:
        The candidates, and whether some were left out, or not searched for.
    """
    C, space = images.shape[1], tuple(images.shape[2:])
    check_names(names, C)
    still = ChannelMap.identity(C)
    here = elements[0].permutation
    generators: list[tuple[Pair, str]] = []
    if (swap := pairs_by_name(names)) is not None:
        generators.append(((here, swap), "user"))
    generators += [((here, m), "moments" if m in learned else "statistics") for m in found]
    residuals, cut = dict[Pair, float](), C > CHANNELS
    if C <= CHANNELS:
        moments = of_channels(images, seed=seed)
        if space != VECTOR:
            residuals, cut = _with_moves(elements, moments, tolerance)
        admitted = sorted((p for p in residuals if p[1] != still), key=lambda p: residuals[p])
        admitted += [(here, m) for m in negations(moments)]
        generators += [(pair, "statistics") for pair in admitted]
    group = {(e.permutation, still) for e in elements if e.map is not None}
    room, sources = CAP - len(elements) + len(group), dict[Pair, str]()
    for pair, source in generators:
        grown = set(islice(generated(group | {pair}, _multiply), room + 1))
        if len(grown) > room:
            cut = True
        else:
            sources |= dict.fromkeys(grown - group, source)
            group = grown
    made = list[Candidate]()
    place = {e.permutation: i for i, e in enumerate(elements)}
    strangers = sum(e.name.startswith("perm") for e in elements)
    for pair in sorted(sources, key=lambda p: (place[p[0]], p[1].signs.count(-1), p[1].sources)):
        move = elements[place[pair[0]]]
        name = called(move.name, pair[1], names)
        if len(name) > LONGEST:
            strangers += 1
            name = f"perm{strangers}"
        value = residuals.get(pair)
        made.append(Candidate(name, pair[0], sources[pair], move.map, value, pair[1]))
    return made, cut


def check_names(names: Sequence[str], channels: int) -> None:
    """Refuse names of channels that are not one for each, empty, or twice the same.

    Raises:
        ValueError: for such names.
    """
    wrong = len(names) not in (0, channels) or len(set(names)) < len(names)
    if wrong or not all(name.strip() for name in names):
        raise ValueError(
            f"channels: expected a name of its own for each of {channels} channels, got "
            f"{list(names)}; name all of them in their order, or none"
        )


def _multiply(g: Pair, h: Pair) -> Pair:
    """The product gh, of which h acts first."""
    return compose(g[0], h[0]), h[1].then(g[1])


def _with_moves(
    elements: Sequence[Candidate], moments: "ChannelMoments", tolerance: float
) -> tuple[dict[Pair, float], bool]:
    """What the moments admit with each move of space that has no shift, and whether it is all."""
    found, cut = dict[Pair, float](), False
    for element in elements:
        map = element.map
        if map is not None and not any(map.shift) and map.fits(moments.cells):
            cells = map.permutation(moments.cells).numpy()
            maps, capped = channel_maps(moments, cells, tolerance)
            found |= {(element.permutation, m): round(value, 4) for m, value in maps.items()}
            cut |= capped
    return found, cut


@dataclass(frozen=True, eq=False)
class ChannelMoments:
    """Means and covariances of channels in parts of space, and bootstrap draws of their errors.

    Attributes:
        cells: number of parts along each axis; P of them.
        mean: [C, P], and `mean_draws` [B, C, P], resampled means less the mean.
        second: covariance of two channels at one position, over a part; and its draws.
    """

    cells: tuple[int, ...]
    mean: Float[np.ndarray, "C P"]
    second: Float[np.ndarray, "C C P"]
    mean_draws: Float[np.ndarray, "B C P"]
    second_draws: Float[np.ndarray, "B C C P"]

    @cached_property
    def errors(self) -> tuple[Float[np.ndarray, "C P"], Float[np.ndarray, "C C P"]]:
        """Bootstrap variances, with a floor against 0 / 0."""
        variance = np.einsum("ccp->c", self.second) / self.second.shape[-1]
        scale = np.maximum(variance, 1e-12 * max(float(variance.max(initial=0)), 1e-30))
        mean = self.mean_draws.var(0, dtype=np.float64) + 1e-9 * scale[:, None]
        second = self.second_draws.var(0, dtype=np.float64)
        return mean, second + 1e-9 * (scale[:, None] * scale)[..., None]


def of_channels(
    images: Float[Tensor, "N C *space"], *, draws: int = 200, seed: int = 0
) -> ChannelMoments:
    """Estimate them, with bootstrap draws over at most 128 blocks of images.

    Args:
        images: at least 8, in no special order.
        draws: bootstrap draws.
        seed: of the blocks and the resampling.

    >>> of_channels(torch.randn(64, 3, 12)).second.shape
    (3, 3, 12)
    """
    N, C, *space = images.shape
    cells = _parts(tuple(space), NUMBERS // C**2)
    generator = np.random.default_rng(seed)
    size = -(-N // 128)
    order = torch.from_numpy(generator.permutation(N)[: N // size * size])
    x = images.detach().cpu().double()[order]
    centre = x.mean(0, keepdim=True)
    of_cells = [part.mean(2)[0] for part in _split(centre, tuple(space), cells)]
    means, seconds = [], []
    for part in _split(x - centre, tuple(space), cells):
        inside = part.unflatten(0, (-1, size))
        means.append(inside.mean((1, 3)))
        # Of one position at a time, over the images of a block and the part.
        both = torch.einsum("bnci,bndi->bcd", inside, inside)
        seconds.append(both / (size * part.shape[2]))
    mean, second = torch.stack(means, -1).numpy(), torch.stack(seconds, -1).numpy()
    blocks = len(mean)
    counts = generator.multinomial(blocks, np.full(blocks, 1 / blocks), draws)
    # Resampling B blocks shrinks variances by (B - 1) / B.
    weights = (counts / blocks - 1 / blocks) * np.sqrt(blocks / (blocks - 1))
    return ChannelMoments(
        cells,
        torch.stack(of_cells, -1).numpy(),
        second.mean(0),
        np.tensordot(weights, mean, 1).astype(np.float32),
        np.tensordot(weights.astype(np.float32), second.astype(np.float32), 1),
    )


def _parts(space: tuple[int, ...], most: int) -> tuple[int, ...]:
    """Into how many parts each axis is divided: an even number, equal along equal axes, or one."""
    for finest in (16, 8, 4, 2):
        cells = tuple(max(min(finest, side // 2 * 2), 1) for side in space)
        if prod(cells) <= most:
            return cells
    return (1,) * len(space)


def _split(
    x: Float[Tensor, "N C *space"], space: tuple[int, ...], cells: tuple[int, ...]
) -> Iterator[Float[Tensor, "N C positions"]]:
    """The parts of space in order, which mirror each other; what is left over is in the middle."""
    for place in np.ndindex(*cells):
        along = []
        for i, side, n in zip(place, space, cells, strict=True):
            length = side // n
            start = i * length if 2 * i < n else side - (n - i) * length
            along.append(slice(start, start + length))
        yield x[(..., *along)].flatten(2)


def residual_of(
    moments: ChannelMoments, cells: Int[np.ndarray, " P"], channels: ChannelMap
) -> float:
    """How far a map of channels with a move of the parts is from leaving the moments.

    As `symshare.propose.residual`: squared differences in units of their bootstrap errors, over all
    of them and over the row of each channel, against the largest of the draws; at most 1 is none.
    """
    source, sign = np.array(channels.sources), np.array(channels.signs)
    signs = (sign[:, None] * sign)[..., None]

    def rows(mean: np.ndarray, second: np.ndarray) -> np.ndarray:
        first = sign[:, None] * mean[:, source][:, :, cells] - mean
        pairs = signs * second[:, source][:, :, source][..., cells] - second
        return (first**2 / mean_error).sum(2) + (pairs**2 / second_error).sum((2, 3))

    V, W = moments.errors
    mean_error = V[source][:, cells] + V
    second_error = W[source][:, source][..., cells] + W
    noise = rows(moments.mean_draws, moments.second_draws)
    found = rows(moments.mean[None], moments.second[None])[0]
    expected = noise.mean(0)
    moved = expected > 0
    if (found[~moved] > 0).any():
        return np.inf
    if not moved.any():
        return 0.0
    whole = found.sum() / max(noise.sum(1).max(), 1e-300)
    row = (found[moved] / expected[moved]).max() / (noise[:, moved] / expected[moved]).max()
    return float(np.sqrt(max(whole, row)) / MARGIN)


def channel_maps(
    moments: ChannelMoments, cells: Int[np.ndarray, " P"], tolerance: float = 1.0
) -> tuple[dict[ChannelMap, float], bool]:
    """The maps of channels that, with a move of the parts of space, leave the moments.

    Backtracking over the images of channels, the one that hangs together most with those before it
    next, within bounds from pairs of bootstrap draws; `residual_of` decides. Where nothing ties the
    sign of a channel to those before it, it is kept: :func:`negations` has the other.

    Args:
        moments: of the data.
        cells: source indices of the move over the parts of space.
        tolerance: largest residual.

    Returns:
        Maps with their residuals, and whether the search ran out of steps.
    """
    search = _Search(moments, cells, tolerance)
    search.extend([], [], [])
    return search.found, search.nodes >= NODES or len(search.found) > CAP


def negations(moments: ChannelMoments) -> list[ChannelMap]:
    """Sets of channels that change sign and leave the moments: those that others hang on together.

    At most `PARTS` of them, beside all channels at once.
    """
    linked = _linked(moments)
    C = len(linked)
    parts, left = [], set(range(C))
    while left:
        part, grown = set[int](), {min(left)}
        while grown != part:
            part, grown = grown, {d for d in range(C) if linked[list(grown), d].any()} | grown
        parts.append(part)
        left -= part
    identity = np.arange(len(moments.mean[0]))
    every = ChannelMap(tuple(range(C)), (-1,) * C)
    each = [
        ChannelMap(every.sources, tuple(-1 if c in part else 1 for c in range(C))) for part in parts
    ]
    possible = [m for m in each if residual_of(moments, identity, m) <= 1]
    if len(possible) <= PARTS:
        return possible
    return [every] if residual_of(moments, identity, every) <= 1 else []


def _linked(moments: ChannelMoments) -> Bool[np.ndarray, "C C"]:
    """Channels whose covariance in some part of space is more than noise."""
    _, W = moments.errors
    draws = moments.second_draws**2 / W
    bound = DEPENDENCE * draws.sum(-1).max(0)
    linked = (moments.second**2 / W).sum(-1) > bound
    np.fill_diagonal(linked, True)
    return linked


class _Search:
    """Backtracking for one move of space."""

    def __init__(self, moments: ChannelMoments, cells: np.ndarray, tolerance: float) -> None:
        self.moments, self.cells, self.tolerance = moments, cells, tolerance
        self.V, self.W = moments.errors
        half = len(moments.mean_draws) // 2

        def bound(draws: np.ndarray, error: np.ndarray) -> float:
            apart = (draws[:half] - draws[half : 2 * half]) ** 2 / (2 * error)
            return float(DEPENDENCE * MARGIN**2 * tolerance**2 * apart.sum(-1).max())

        self.mean_bound = bound(moments.mean_draws, self.V)
        self.second_bound = bound(moments.second_draws, self.W)
        self.linked = _linked(moments)
        self.found: dict[ChannelMap, float] = {}
        self.nodes = 0

    def extend(self, order: list[int], images: list[int], signs: list[int]) -> None:
        """Try every image of the next channel."""
        C = len(self.linked)
        if len(order) == C:
            self._complete(order, images, signs)
            return
        open_ = [c for c in range(C) if c not in order]
        c = max(open_, key=lambda c: (int(self.linked[c, order].sum()), -c))
        for d in range(C):
            if d in images:
                continue
            fitting = [s for s in (1, -1) if self._fits(c, d, s, order, images, signs)]
            for s in fitting[:1] if not self.linked[c, order].any() else fitting:
                if self.nodes >= NODES or len(self.found) > CAP:
                    return
                self.nodes += 1
                self.extend([*order, c], [*images, d], [*signs, s])

    def _fits(
        self, c: int, d: int, s: int, order: list[int], images: list[int], signs: list[int]
    ) -> bool:
        """Whether c may take its values from d with sign s, beside what is assigned."""
        M, cells = self.moments, self.cells
        apart = (s * M.mean[d][cells] - M.mean[c]) ** 2 / (self.V[d][cells] + self.V[c])
        if apart.sum() > self.mean_bound:
            return False
        here, there = [*order, c], [*images, d]
        sign = np.array([*signs, s]) * s
        moved = sign[:, None] * M.second[d, there][:, cells]
        error = self.W[d, there][:, cells] + self.W[c, here]
        pairs = ((moved - M.second[c, here]) ** 2 / error).sum(1)
        return bool((pairs <= self.second_bound).all())

    def _complete(self, order: list[int], images: list[int], signs: list[int]) -> None:
        places = np.argsort(order)
        found = ChannelMap(
            tuple(int(images[i]) for i in places), tuple(int(signs[i]) for i in places)
        )
        value = residual_of(self.moments, self.cells, found)
        if value <= self.tolerance:
            self.found[found] = value


def pairs_by_name(names: Sequence[str]) -> ChannelMap | None:
    """The exchange of channels whose names differ in left and right; None where none do.

    >>> pairs_by_name(["left arm", "right arm", "chest"]).word()
    '(0 1)'
    """
    other = {"left": "right", "right": "left", "Left": "Right", "Right": "Left", "L": "R", "R": "L"}
    sources = list(range(len(names)))
    for c, name in enumerate(names):
        swapped = " ".join(other.get(word, word) for word in _words(name))
        match = [d for d, one in enumerate(names) if " ".join(_words(one)) == swapped]
        if swapped != " ".join(_words(name)) and len(match) == 1:
            sources[c] = match[0]
    if sources == sorted(sources) or sorted(sources) != list(range(len(names))):
        return None
    return ChannelMap(tuple(sources), (1,) * len(sources))


def _words(name: str) -> list[str]:
    return name.replace("_", " ").replace("-", " ").split()
