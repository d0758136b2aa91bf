"""Where candidate transformations come from: the lattice, the statistics of the data, the user."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from math import prod

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from symshare.data.pooling import few_cells, pooled
from symshare.groups import (
    CAP,
    ChannelAction,
    ChannelMap,
    GroupAction,
    LatticeMap,
    closure,
    compose,
    from_permutations,
    generated,
    hyperoctahedral,
    lattice,
)
from symshare.moments import commutant, of_samples
from symshare.moments.statistics import FEWEST
from symshare.names import AXES, VECTOR, things_of
from symshare.propose.automorphisms import ALIKE, Moments, automorphisms, estimate, residual
from symshare.propose.candidates import Candidate, Candidates, Permutation
from symshare.propose.channels import moving_channels

# Positions that the search over statistics can handle in about a second, and how many numbers of
# more than three channels: a step costs their square.
POSITIONS = 100
NUMBERS = 3 * POSITIONS
# Numbers of a vector up to which permutations are learned instead.
LONGEST = 400
# Assignments tried by the search over statistics.
NODES = 600
# Of each round of what is learned where these ran out: half of what kernels get, and enough here.
LEARNING = 100
# Of the many elements of a group the worst strays further than one alone does. Lattice maps get
# this allowance for their products; strangers, of which there are so many more, do not.
PRODUCTS = 1.25
# More images than this add seconds and no insight.
IMAGES = 10_000


def propose(
    images: Float[Tensor, "N C *space"],
    *,
    periodic: tuple[str, ...] = (),
    extra: GroupAction | ChannelAction | None = None,
    channels: Sequence[str] = (),
    tolerance: float = 1.0,
    seed: int = 0,
) -> Candidates:
    """Collects the transformations worth judging.

    1. Exact ones of the shape: the reversal of a signal, D4 for square images, flips for others,
       those of the 48 moves of the cube that a volume allows; and cyclic shifts along the axes
       named periodic.
    2. Automorphisms of the second moments of the pixels (`symshare.propose.automorphisms`). Images
       of more than 100 pixels are average-pooled first; what is found there counts if it is a
       lattice map, which extends exactly to the image grid. Without pooling any permutation
       counts.
    3. Where that search ran out of steps and nothing was pooled, what doubly stochastic matrices
       learn from the same moments (`symshare.moments.commutant`).
    4. With each of these moves, or alone, the signed permutations of channels that leave the means
       and covariances of channels in each part of space (`symshare.propose.channels`); the exchange
       of channels that are named left and right.
    5. The user's.

    Of vectors [N, C, 1] the channels are the positions of the second and the third step, and there
    are no others.

    Args:
        images: at least 8, finite, of one to three axes of space.
        periodic: axes ("L" of signals, "H" and "W" of images, "D" too of volumes) along which
            images wrap around; shifts as fine as a group of 48 elements allows.
        extra: further candidates, over the image grid and, where they move them, its channels. Of
            vectors also a `GroupAction` on as many positions as there are channels.
        channels: names of the channels; by default their numbers.
        tolerance: of the search over statistics, in units of its bootstrap tolerance.
        seed: of the bootstrap and of the choice of 10 000 images where there are more.

    Returns:
        Distinct candidates, identity first, then by source.

    Raises:
        ValueError: for images of another rank, too few or not finite; an unknown axis; an
            `extra` that does not act on the grid.

    >>> images = torch.rand(64, 1, 3, 2, generator=torch.Generator().manual_seed(0))
    >>> propose(images).names[:4]
    ('id', 'rot180', 'flipW', 'flipH')
    """
    shape = tuple(images.shape[2:])
    if shape == VECTOR:
        check_shape(images.shape[1], shape, periodic, extra is not None)
        return _of_vectors(images, extra, channels, tolerance, seed)
    if not 1 <= len(shape) < len(AXES) or min(shape) < 2:
        raise ValueError(
            f"propose: expected images [N, C, *space] of one to three axes of space, each of two "
            f"positions or more, got shape {tuple(images.shape)}; drop axes of length 1"
        )
    if len(images) < 8:
        raise ValueError(f"propose: expected at least 8 images, got {len(images)}; pass more")
    check_shape(images.shape[1], shape, periodic, extra is not None)
    exact, coarse = _lattice_maps(shape, periodic)
    pool = _Pool.of(shape, min(POSITIONS, NUMBERS // images.shape[1]))
    if len(images) > IMAGES:
        generator = torch.Generator().manual_seed(seed)
        chosen = torch.randperm(len(images), generator=generator)[:IMAGES]
        images = images[chosen.to(images.device)]
    moments = estimate(pool(images), seed=seed)

    pile = _Pile(shape, pool, moments)
    for map in exact:
        pile.add_map(map, "lattice")
    capped, dropped = _add_automorphisms(pile, images, tolerance, seed)
    if isinstance(extra, GroupAction):
        for name, row in zip(extra.names, extra.permutation(shape).tolist(), strict=True):
            pile.add(tuple(row), "user", name)
        _check_count(len(pile.elements))
    elements = list(pile.elements.values())
    moved, cut = moving_channels(elements, images, channels, tolerance=tolerance, seed=seed)
    elements += moved
    if isinstance(extra, ChannelAction):
        elements = _with_users(elements, extra, shape)
    return Candidates(shape, tuple(elements), pool.grid, capped or coarse or cut, dropped)


def check_shape(
    channels: int, shape: tuple[int, ...], periodic: tuple[str, ...], handed: bool
) -> None:
    """Refuse what no candidates are proposed for.

    Args:
        channels: of the images.
        shape: of their axes of space.
        periodic: axes that are said to wrap around.
        handed: whether the user has candidates.

    Raises:
        ValueError: for an unknown axis, or vectors that are too long to be searched.
    """
    axes = "" if shape == VECTOR else AXES[len(shape)]
    if unknown := [axis for axis in periodic if axis not in axes]:
        has = f"the axes {', '.join(axes)}" if axes else "no axes"
        raise ValueError(
            f"propose: {things_of(shape).many} of shape {shape} have {has}, got {unknown} as "
            f"periodic; {'name some of these' if axes else 'leave it out'}"
        )
    if shape == VECTOR and channels > LONGEST and not handed:
        raise ValueError(
            f"propose: vectors of at most {LONGEST} numbers are searched, got {channels}; hand "
            "over candidates=, or leave out numbers"
        )


def _check_count(elements: int) -> None:
    """Refuse more than are judged."""
    if elements > CAP:
        raise ValueError(
            f"propose: at most {CAP} elements are judged, got {elements} with those handed over; "
            "hand over fewer"
        )


def _with_users(
    elements: Sequence[Candidate], extra: ChannelAction, shape: tuple[int, ...]
) -> list[Candidate]:
    """The candidates, and those of the user that are none of them yet."""
    known = {(e.permutation, e.channels) for e in elements}
    taken, made = {e.name for e in elements}, list(elements)
    rows = extra.permutation(shape).tolist()
    for name, row, (_, channels) in zip(extra.names, rows, extra.elements, strict=True):
        permutation, moved = tuple(row), None if channels.is_identity else channels
        if (permutation, moved) in known:
            continue
        map = lattice(torch.tensor(permutation), shape)
        called = f"user_{name}" if name in taken else name
        made.append(Candidate(called, permutation, "user", map, None, moved))
    _check_count(len(made))
    return made


def _of_vectors(
    vectors: Float[Tensor, "N C 1"],
    extra: GroupAction | ChannelAction | None,
    names: Sequence[str],
    tolerance: float,
    seed: int,
) -> Candidates:
    """Candidates of vectors: permutations of their channels, and the change of all signs."""
    C = vectors.shape[1]
    still = Candidate("id", (0,), "lattice", LatticeMap(((1,),), (0,)), 0.0)
    found, capped, dropped = list[ChannelMap](), C > LONGEST, 0
    learned = set[ChannelMap]()
    if POSITIONS < C <= LONGEST and len(vectors) >= FEWEST:
        commuting = commutant(of_samples(vectors[..., 0].cpu()), seed=seed)
        capped = commuting.capped
        found = [ChannelMap(tuple(row), (1,) * C) for row in commuting.sources[1:].tolist()]
        learned.update(found)
    if C <= POSITIONS:
        row = vectors.transpose(1, 2)
        pool = _Pool((C,), (C,))
        pile = _Pile((C,), pool, estimate(pool(row), seed=seed))
        pile.add(tuple(range(C)), "lattice")
        capped, dropped = _add_automorphisms(pile, row, tolerance, seed)
        for candidate in list(pile.elements.values())[1:]:
            found.append(ChannelMap(candidate.permutation, (1,) * C))
            if candidate.source == "moments":
                learned.add(found[-1])
    moved, cut = moving_channels(
        [still], vectors, names, found, learned=learned, tolerance=tolerance, seed=seed
    )
    if isinstance(extra, GroupAction):
        rows = extra.permutation((C,)).tolist()
        maps = [("id", ChannelMap(tuple(row), (1,) * C)) for row in rows]
        extra = ChannelAction(hyperoctahedral(1).subset(["id"]), maps, extra.names)
    elements = [still, *moved]
    if extra is not None:
        elements = _with_users(elements, extra, (1,))
    return Candidates((1,), tuple(elements), (1,), capped or cut, dropped)


@dataclass(frozen=True)
class _Pool:
    """Average pooling of images to a grid of at most 100 positions, and maps of that grid."""

    shape: tuple[int, ...]
    grid: tuple[int, ...]

    @classmethod
    def of(cls, shape: tuple[int, ...], most: int = POSITIONS) -> "_Pool":
        """The finest grid that divides the image, of at least 4 cells along each axis."""
        for factor in range(1, max(shape) + 1):
            grid = tuple(side // factor for side in shape)
            exact = all(side % factor == 0 for side in shape)
            coarse = any(cells < min(4, side) for cells, side in zip(grid, shape, strict=True))
            if exact and not coarse and prod(grid) <= most:
                return cls(shape, grid)
        # No common divisor: overlapping windows, which mirror and transpose like the image.
        longest = max(int(most ** (1 / len(shape))), 2)
        return cls(shape, tuple(min(cells, longest) for cells in few_cells(shape)))

    def __call__(self, images: Tensor) -> Float[np.ndarray, "N C P"]:
        return pooled(images.float(), self.grid).flatten(2).detach().cpu().numpy()

    def coarsen(self, map: LatticeMap) -> Permutation | None:
        """A lattice map of the image as a permutation of the grid, if it is one."""
        coarse = _moved(map, self.shape, self.grid)
        return None if coarse is None else _permutation(coarse, self.grid)

    def refine(self, map: LatticeMap) -> LatticeMap | None:
        """A lattice map of the grid as one of the image, if it is one."""
        return _moved(map, self.grid, self.shape)


def _moved(map: LatticeMap, of: tuple[int, ...], to: tuple[int, ...]) -> LatticeMap | None:
    """A lattice map of one grid as one of another, if it is one."""
    shifts = list(zip(map.shift, of, to, strict=True))
    if not map.fits(to) or any(s * t % o or (s and max(o, t) % min(o, t)) for s, o, t in shifts):
        return None
    return LatticeMap(map.matrix, tuple(s * t // o for s, o, t in shifts))


def _permutation(map: LatticeMap, shape: tuple[int, ...]) -> Permutation:
    return tuple(map.permutation(shape).tolist())


class _Pile:
    """Distinct candidates in the order in which they came, keyed by permutation."""

    def __init__(self, shape: tuple[int, ...], pool: _Pool, moments: Moments) -> None:
        self.shape, self.pool, self.moments = shape, pool, moments
        self.elements: dict[Permutation, Candidate] = {}

    def add_map(self, map: LatticeMap, source: str) -> None:
        """Adds a lattice map of the image grid."""
        self.add(_permutation(map, self.shape), source)

    def add(self, permutation: Permutation, source: str, name: str | None = None) -> None:
        """Adds a permutation of the image grid, unless it is there."""
        if permutation in self.elements:
            return
        map = lattice(torch.tensor(permutation), self.shape)
        coarse = self.pool.coarsen(map) if map else None
        if self.pool.grid == self.shape:
            coarse = permutation
        taken = [element.name for element in self.elements.values()]
        if name is None:
            strangers = sum(other.startswith("perm") for other in taken)
            name = (map and map.name_on(self.shape)) or f"perm{strangers + 1}"
        if name in taken:
            name = f"{source}_{name}"
        value = None if coarse is None else round(residual(self.moments, np.array(coarse)), 4)
        self.elements[permutation] = Candidate(name, permutation, source, map, value)


def _lattice_maps(
    shape: tuple[int, ...], periodic: tuple[str, ...]
) -> tuple[list[LatticeMap], bool]:
    """A group of point maps of the shape and shifts along its periodic axes.

    Returns:
        Its elements, and whether the cap left out some shifts.
    """
    axes = AXES[len(shape)]
    # A periodic axis is none like the others, also of a square.
    around = np.array([axis in periodic for axis in axes])
    maps = [
        map
        for map in hyperoctahedral(len(shape)).maps
        if map and map.fits(shape) and (abs(np.asarray(map.matrix)) @ around == around).all()
    ]
    # A coarser set of shifts is still a group; take the finest that closes within the cap.
    for step in range(1, max(shape) + 1):
        lengths = {i: side for i, side in enumerate(shape) if around[i]}
        if any(length % step for length in lengths.values()):
            continue
        shifts = [
            _shift(i, s, len(shape))
            for i, length in lengths.items()
            for s in range(step, length, step)
        ]
        distinct = {_permutation(map, shape): map for map in [*maps, *shifts]}
        if len(distinct) > CAP:
            continue
        try:
            closed = closure(from_permutations(list(distinct), shape), cap=CAP)
        except ValueError:
            continue
        return [map for map in closed.maps if map is not None], step > 1
    return maps, bool(periodic)


def _shift(axis: int, steps: int, dims: int) -> LatticeMap:
    """The cyclic shift along one axis."""
    identity = hyperoctahedral(dims).maps[0]
    assert identity is not None
    return replace(identity, shift=tuple(steps * (i == axis) for i in range(dims)))


def _add_automorphisms(
    pile: _Pile, images: Tensor, tolerance: float, seed: int
) -> tuple[bool, int]:
    """Adds what the statistics admit; returns whether a cap cut it, and how many fell."""
    pool, moments = pile.pool, pile.moments
    # A node costs C^2 P^2: colour gets fewer, to stay within seconds.
    nodes = NODES // len(moments.mean)
    found = automorphisms(moments, tolerance, cap=CAP, max_nodes=nodes, seed=seed)
    identity = tuple(range(len(moments.variance)))
    exact = [pool.coarsen(element.map) for element in pile.elements.values() if element.map]
    # Steps along an axis are cheap to try, and the search may miss them among many other finds.
    dims = len(pool.grid)
    exact += [_permutation(_shift(axis, 1, dims), pool.grid) for axis in reversed(range(dims))]
    # So is the exchange of two rows or columns: with the steps it makes all orders of them.
    places = np.arange(len(identity)).reshape(pool.grid)
    strangers = [
        tuple(np.delete(np.insert(places, 0, places.take(1, axis), axis), 2, axis).ravel().tolist())
        for axis in range(dims)
        if pool.grid[axis] > 2
    ]
    for permutation in found.permutations:
        map = _recognise(permutation, found.live, pool.grid)
        if map:
            exact.append(_permutation(map, pool.grid))
        else:
            strangers.append(tuple(permutation.tolist()))
    accepted, dropped, cut = _grow({identity}, exact, moments, tolerance, PRODUCTS)
    learned: set[Permutation] = set()
    if found.capped and pool.grid == pool.shape:
        group = _learned(images, found.live, seed)
        accepted, lost, _ = _grow(before := accepted, group, moments, tolerance, PRODUCTS)
        learned, dropped = accepted - before, dropped + lost
    grown, lost, cut_strangers = _grow(accepted, strangers, moments, tolerance)
    cut = cut or (cut_strangers and pool.grid == pool.shape)
    # Finds that mostly contradict one another are noise, and so may be the others.
    if pool.grid == pool.shape and 2 * lost <= len(strangers):
        accepted, dropped = grown, dropped + lost
    else:
        dropped += len(strangers)

    maps = {one: lattice(torch.tensor(one), pool.grid) for one in accepted}
    sources = {one: "moments" if one in learned else "statistics" for one in accepted}
    refined = [
        (fine, sources[one]) for one, map in maps.items() if map and (fine := pool.refine(map))
    ]
    linear = [element and element.matrix for element in hyperoctahedral(dims).maps]
    for map, source in sorted(refined, key=lambda x: (linear.index(x[0].matrix), x[0].shift)):
        pile.add_map(map, source)
    for permutation in sorted(one for one, map in maps.items() if map is None):
        pile.add(permutation, sources[permutation])
    return found.capped or cut, dropped


def _learned(images: Tensor, live: Bool[np.ndarray, " P"], seed: int) -> list[Permutation]:
    """Permutations of live pixels that commute with the moments of each channel, but the first."""
    places = torch.from_numpy(np.flatnonzero(live))
    pixels = images.detach().cpu().float().flatten(2)[:, :, places]
    if len(pixels) < FEWEST:
        return []
    found = commutant(of_samples(pixels), seed=seed, steps=LEARNING).sources[1:]
    elements = torch.arange(len(live)).repeat(len(found), 1)
    elements[:, places] = places[found]
    return [tuple(row) for row in elements.tolist()]


def _grow(
    group: set[Permutation],
    finds: Iterable[Permutation | None],
    moments: Moments,
    tolerance: float,
    allowance: float = 1.0,
) -> tuple[set[Permutation], int, bool]:
    """Adds automorphisms, best first, with all their products, as automorphisms form a group.

    Products count as automorphisms up to `allowance` times the tolerance. No two elements of the
    group differ on less than `ALIKE` of the variance.

    Returns:
        The grown set, how many automorphisms have a product with it that is none, and whether
        products were left out for want of room alone.
    """
    residuals = {find: residual(moments, np.array(find)) for find in finds if find}
    residuals = {find: value for find, value in residuals.items() if value <= tolerance}
    lost, cut = 0, False

    def moved(one: Permutation) -> float:
        return float(moments.share[np.not_equal(one, range(len(one)))].sum())

    for find in sorted(residuals, key=lambda find: residuals[find]):
        if any(moments.share[np.not_equal(find, other)].sum() < ALIKE for other in group):
            continue
        grown = set(islice(generated(group | {find}, compose), CAP + 1))
        # In a group, two elements differ where their quotient moves something.
        if any(moved(element) < ALIKE for element in grown - group) or any(
            residual(moments, np.array(element)) > allowance * tolerance
            for element in grown - group
        ):
            lost += 1
        elif len(grown) > CAP:
            lost, cut = lost + 1, True
        else:
            group = grown
    return group, lost, cut


def _recognise(
    permutation: np.ndarray, live: np.ndarray, grid: tuple[int, ...]
) -> LatticeMap | None:
    """The lattice map that agrees with a permutation on all live positions."""
    positions = np.flatnonzero(live)
    if not len(positions):
        return None
    wanted = np.array(np.unravel_index(permutation[positions[0]], grid))
    for element in hyperoctahedral(len(grid)).maps:
        if element is None or not element.fits(grid):
            continue
        source = element.permutation(grid).numpy()
        here = np.array(np.unravel_index(source[positions[0]], grid))
        # A shift s moves sources by -M^T s.
        shift = -np.asarray(element.matrix) @ (wanted - here) % np.asarray(grid)
        map = LatticeMap(element.matrix, tuple(int(s) for s in shift))
        if np.array_equal(map.permutation(grid).numpy()[live], permutation[live]):
            return map
    return None
