"""Permutations of positions that the second moments of the data do not notice."""

from dataclasses import dataclass
from functools import cached_property
from operator import itemgetter

import numpy as np
from jaxtyping import Bool, Float, Int

from symshare.groups import CAP

# The largest of the bootstrap draws stands for the noise of a true automorphism; the margin (a
# factor on root mean squares) covers tails heavier than those that so few draws can show.
MARGIN = 1.1
# |pE - E|^2 <= 2 (|pE|^2 + |E|^2): twice what an independent pair of resamples differs by.
DEPENDENCE = 2.0
# Share of the mean variance from which a position counts as live.
LIVE = 0.1
# Assignments after which the rest of a permutation follows: first the cheap guess, which fixes a
# map of a lattice, then as many as rule out all but exchanges of positions that hardly differ.
ANCHORS = (2, 10)
# Rounds of linear assignment that a permutation is refined by.
ROUNDS = 5
# Maps that agree on all but this share of the variance look alike: the better one stands for both.
ALIKE = 0.1


@dataclass(frozen=True)
class Moments:
    """First and second moments of images over positions, and bootstrap draws of their errors.

    Attributes:
        mean: mean of channel c at position p.
        second: covariance of (c, i) and (d, j).
        mean_draws: resampled mean less `mean`, B draws.
        second_draws: resampled covariance less `second`.
    """

    mean: Float[np.ndarray, "C P"]
    second: Float[np.ndarray, "C C P P"]
    mean_draws: Float[np.ndarray, "B C P"]
    second_draws: Float[np.ndarray, "B C C P P"]

    @cached_property
    def variance(self) -> Float[np.ndarray, " P"]:
        """Variance of each position, summed over channels."""
        return np.einsum("ccpp->p", self.second)

    @cached_property
    def share(self) -> Float[np.ndarray, " P"]:
        """Share of the whole variance that each position has."""
        return self.variance / max(float(self.variance.sum()), 1e-30)

    @cached_property
    def live(self) -> Bool[np.ndarray, " P"]:
        """Positions with at least 10 % of the mean variance; the others say too little."""
        return (self.variance > 0) & (self.variance >= LIVE * self.variance.mean())

    @cached_property
    def errors(self) -> tuple[Float[np.ndarray, "C P"], Float[np.ndarray, "C C P P"]]:
        """Bootstrap variances of `mean` and `second`, with a floor against 0 / 0."""
        scale = max(float(self.variance.mean()), 1e-30)
        mean = self.mean_draws.var(0, dtype=np.float64) + 1e-12 * scale
        second = self.second_draws.var(0, dtype=np.float64) + 1e-12 * scale**2
        return mean, second


@dataclass(frozen=True)
class Automorphisms:
    """What `automorphisms` found.

    Attributes:
        permutations: source indices over all positions, identity first, then by rising residual.
        residuals: statistic over tolerance, at most 1 (see `residual`).
        live: the positions that carry variance; elsewhere a permutation is a guess.
        nodes: assignments tried.
        capped: True if a cap stopped the search, so there may be more.
    """

    permutations: Int[np.ndarray, "K P"]
    residuals: Float[np.ndarray, " K"]
    live: Bool[np.ndarray, " P"]
    nodes: int
    capped: bool


def estimate(images: Float[np.ndarray, "N C P"], *, draws: int = 200, seed: int = 0) -> Moments:
    """Estimates moments with bootstrap draws over images.

    Images are dealt at random into at most 128 equal blocks (a remainder
    smaller than a block is left out) and blocks are resampled: for means
    of many images that is the bootstrap over images, at the price of one pass over them.

    Args:
        images: N >= 8 images, finite.
        draws: bootstrap draws, fewer where C P is large (4 million numbers in all).
        seed: of the blocks and the resampling.

    Returns:
        The moments, in float32 for the draws and float64 for the estimates.

    Raises:
        ValueError: for fewer than 8 images or values that are not finite.

    >>> estimate(np.random.default_rng(0).normal(size=(100, 1, 4))).second.shape
    (1, 1, 4, 4)
    """
    count, channels, positions = images.shape
    if count < 8:
        raise ValueError(f"estimate: expected at least 8 images, got {count}; pass more images")
    if not np.isfinite(images).all():
        raise ValueError("estimate: expected finite images, got NaN or inf; clean the data first")
    generator = np.random.default_rng(seed)
    size = -(-count // 128)
    blocks = count // size
    order = generator.permutation(count)[: blocks * size]
    flat = images[order].reshape(blocks, size, channels * positions).astype(np.float64)
    mean = flat.mean((0, 1))
    flat = flat - mean
    block_mean = flat.mean(1)
    block_second = np.matmul(flat.transpose(0, 2, 1), flat) / size
    second = block_second.mean(0)

    draws = int(np.clip(4_000_000 // second.size, 50, draws))
    counts = generator.multinomial(blocks, np.full(blocks, 1 / blocks), draws)
    weights = counts / blocks - 1 / blocks
    # Resampling B blocks shrinks variances by (B - 1) / B.
    weights *= np.sqrt(blocks / (blocks - 1))
    second_draws = np.tensordot(weights.astype(np.float32), block_second.astype(np.float32), 1)
    second_draws = second_draws.reshape(draws, channels, positions, channels, positions)
    return Moments(
        mean.reshape(channels, positions),
        second.reshape(channels, positions, channels, positions).transpose(0, 2, 1, 3),
        (weights @ block_mean).reshape(draws, channels, positions).astype(np.float32),
        np.ascontiguousarray(second_draws.transpose(0, 1, 3, 2, 4)),
    )


def residual(moments: Moments, permutation: Int[np.ndarray, " P"]) -> float:
    """How far a permutation is from an automorphism, in units of the bootstrap tolerance.

    z_ij = (S[p i, p j] - S[i, j]) / sqrt(V[p i, p j] + V[i, j]) over live i and j, and likewise
    for the mean, with V the bootstrap variances. Two statistics of z: its mean square, and the
    largest mean square of one row over that row's expectation (a few wrong positions drown in the
    first, not in the second). The errors of S[p i, p j] and S[i, j] depend on one another and on
    those of every other entry, so the noise level is not 1: each statistic is compared with its
    largest value over the bootstrap draws of E = S_b - S put through the same formula. For a true
    automorphism p S p^T - S is p E p^T - E, which has that law, dependences and tails included;
    about one in B true ones would fail, and the margin of 1.1 on root mean squares makes that
    rarer still.

    Args:
        moments: over P positions.
        permutation: source indices.

    Returns:
        Root of the larger of the two ratios over the margin; at most 1 is an automorphism.

    >>> images = np.random.default_rng(0).normal(size=(400, 1, 3)) * [1, 1, 2]
    >>> moments = estimate(images)
    >>> residual(moments, np.array([1, 0, 2])) < 1 < residual(moments, np.array([2, 1, 0]))
    True
    """
    positions = len(moments.variance)
    live = np.flatnonzero(moments.live)
    image = np.asarray(permutation)[live]
    here = (live[:, None] * positions + live).ravel()
    there = (image[:, None] * positions + image).ravel()
    mean_error, second_error = moments.errors
    mean_error = mean_error[:, image] + mean_error[:, live]
    second_error = second_error.reshape(-1, positions**2)
    second_error = second_error[:, there] + second_error[:, here]

    def rows(mean: np.ndarray, second: np.ndarray) -> np.ndarray:
        """[n, live] sums of z^2 over the entries of each row."""
        first = (mean[:, :, image] - mean[:, :, live]) ** 2 / mean_error
        flat = second.reshape(len(mean), -1, positions**2)
        pairs = np.take(flat, there, 2) - np.take(flat, here, 2)
        pairs = np.einsum("nkp,nkp,kp->np", pairs, pairs, (1 / second_error).astype(pairs.dtype))
        return first.sum(1) + pairs.reshape(len(mean), len(live), len(live)).sum(2)

    noise = rows(moments.mean_draws, moments.second_draws).astype(np.float64)
    expected = noise.mean(0)
    moved = expected > 0
    if not moved.any():
        return 0.0
    found = rows(moments.mean[None], moments.second[None])[0]
    whole = found.sum() / noise.sum(1).max()
    row = (found[moved] / expected[moved]).max() / (noise[:, moved] / expected[moved]).max()
    return float(np.sqrt(max(whole, row)) / MARGIN)


def automorphisms(
    moments: Moments, tolerance: float = 1.0, *, cap: int = CAP, max_nodes: int = 600, seed: int = 0
) -> Automorphisms:
    """Finds the permutations P with P S P^T = S up to the noise of S.

    Backtracking over partial assignments i -> p(i) of live positions, with forward checking: for
    every open pair (i, a) the sum of z^2 (see `residual`) over the entries that the assignment
    fixes is kept up to date, pairs above a bound drop out, and the position with fewest images
    left comes next. The bound after k assignments is the largest such sum over rows and over
    pairs of bootstrap draws, times 2, since the two sides of z are not independent and
    |pE - E|^2 <= 2 (|pE|^2 + |E|^2). It only prunes: `residual` decides.

    Ten anchors determine a permutation up to exchanges of positions that hardly differ; what is
    left is completed by linear assignment on the same sums, which is repeated on the whole map
    until it stands still. Up to ten live positions the enumeration is therefore complete, beyond
    that it holds one representative of the maps that agree on the anchors. The same with two
    anchors goes first: where noise leaves many branches, it still visits all parts of the tree.

    Args:
        moments: over P positions, up to about 100.
        tolerance: largest residual accepted.
        cap: most permutations returned, the identity included.
        max_nodes: most assignments tried.
        seed: of the orders in which bounds are simulated.

    Returns:
        Permutations by rising residual; of maps that differ on less than 10 % of the variance,
        only the best. Constant positions stay in place.

    Raises:
        ValueError: if tolerance, cap or max_nodes is not positive.

    >>> images = np.random.default_rng(0).normal(size=(400, 1, 3)) * [1, 1, 2]
    >>> automorphisms(estimate(images)).permutations.tolist()
    [[0, 1, 2], [1, 0, 2]]
    """
    for name, value in (("tolerance", tolerance), ("cap", cap), ("max_nodes", max_nodes)):
        if not value > 0:
            raise ValueError(f"automorphisms: expected {name} > 0, got {value}; leave it out")
    search = _Search(moments, tolerance, max_nodes, seed)
    search.run()
    permutations, residuals = zip(*sorted(search.found.items(), key=itemgetter(1)), strict=True)
    capped = search.capped or len(permutations) > cap
    best = np.array(permutations[:cap]), np.array(residuals[:cap])
    return Automorphisms(*best, moments.live, search.nodes, capped)


class _Search:
    """One run of the backtracking; `found` maps permutations to residuals."""

    def __init__(self, moments: Moments, tolerance: float, max_nodes: int, seed: int) -> None:
        self.moments, self.tolerance, self.max_nodes = moments, tolerance, max_nodes
        positions = moments.mean.shape[1]
        mean_scale, second_scale = moments.errors
        self.second = moments.second.reshape(-1, positions, positions)
        self.scale = second_scale.reshape(-1, positions, positions)
        vertex = np.concatenate([moments.mean, np.einsum("kpp->kp", self.second)])
        scale = np.concatenate([mean_scale, np.einsum("kpp->kp", self.scale)])
        difference = vertex[:, None, :] - vertex[:, :, None]
        self._vertex_scale = scale
        self._start = (difference**2 / (scale[:, None, :] + scale[:, :, None])).sum(0)
        self.places = np.flatnonzero(moments.live)
        self.bounds, self.bound_total = self._bounds(np.random.default_rng(seed))
        identity = tuple(range(positions))
        self.found: dict[tuple[int, ...], float] = {identity: 0.0}
        self.tried = {identity}
        self.nodes, self.capped = 0, False

    def _bounds(self, generator: np.random.Generator) -> tuple[np.ndarray, float]:
        """Bounds on the sum of z^2 of a row after 0, 1, ... assignments, and on that of all."""
        live = self.places
        draws, count = len(self.moments.mean_draws), len(live)
        pairs = self.moments.second_draws.reshape(draws, -1, *self.scale.shape[1:])
        pairs = pairs[:, :, live[:, None], live]
        vertex = np.concatenate(
            [self.moments.mean_draws[:, :, live], np.einsum("bkpp->bkp", pairs)], 1
        )
        half = draws // 2
        pairs = (pairs[:half] - pairs[half : 2 * half]) ** 2
        pairs = (pairs / (2 * self.scale[:, live[:, None], live])).sum(1)
        vertex = (vertex[:half] - vertex[half : 2 * half]) ** 2
        vertex = (vertex / (2 * self._vertex_scale[:, live])).sum(1)
        total = pairs.sum((1, 2)).max(initial=0)
        pairs[:, range(count), range(count)] = 0
        order = np.argsort(generator.random(pairs.shape), axis=-1)
        running = np.cumsum(np.take_along_axis(pairs, order, -1), axis=-1) + vertex[..., None]
        running = np.concatenate([vertex[..., None], running], axis=-1)
        factor = DEPENDENCE * self.tolerance**2
        return factor * running.max((0, 1), initial=0), float(factor * total)

    def run(self) -> None:
        """Searches with few anchors, then with many, each until done or out of its budget."""
        if len(self.places) < 2:
            return
        for anchors in ANCHORS:
            self.capped = False
            budget = self.nodes + self.max_nodes // len(ANCHORS)
            self._extend({}, self._start, min(anchors, len(self.places)), budget)

    def _extend(
        self, assignment: dict[int, int], sums: np.ndarray, anchors: int, budget: int
    ) -> None:
        """Tries every image of the most constrained open position; `sums` is inf where closed."""
        depth = len(assignment)
        if depth == anchors:
            self._complete(assignment, sums)
            return
        feasible = sums <= self.bounds[depth]
        choices = feasible.sum(1)
        is_open = self.moments.live.copy()
        is_open[list(assignment)] = False
        if (choices[is_open] == 0).any():
            return
        # Of equally constrained positions the one of largest variance tells most.
        position = int(np.argmin(np.where(is_open, choices - self.moments.share, np.inf)))
        images = np.flatnonzero(feasible[position])
        start, limit = self.nodes, budget
        for rank, image in enumerate(images[np.argsort(sums[position, images])].tolist(), 1):
            if depth == 0:
                # No image of the first anchor may use up what belongs to the others.
                limit = start + rank * (budget - start) // len(images)
            if self.nodes >= limit:
                self.capped = True
                if depth > 0:
                    return
                continue
            self.nodes += 1
            extended = sums + self._step(position, image)
            extended[position] = np.inf
            extended[:, image] = np.inf
            self._extend({**assignment, position: image}, extended, anchors, limit)

    def _step(self, position: int, image: int) -> np.ndarray:
        """z^2 of (i, position) against (a, image) for all i and a."""
        difference = self.second[:, None, :, image] - self.second[:, :, None, position]
        scale = self.scale[:, None, :, image] + self.scale[:, :, None, position]
        return (difference**2 / scale).sum(0)

    def _complete(self, assignment: dict[int, int], sums: np.ndarray) -> None:
        """Turns anchors into a permutation and keeps it if its residual is small."""
        permutation = self._assign(sums, assignment)
        for _ in range(ROUNDS if len(assignment) < len(self.places) else 0):
            if permutation in self.tried:
                return
            self.tried.add(permutation)
            refined = self._assign(self._sums(permutation), {})
            if refined == permutation:
                break
            permutation = refined
        if self._total(permutation) > self.bound_total:
            return
        value = residual(self.moments, np.array(permutation))
        if value > self.tolerance:
            return
        alike = [
            other
            for other in self.found
            if self.moments.share[np.not_equal(other, permutation)].sum() < ALIKE
        ]
        if all(value < self.found[other] for other in alike):
            for other in alike:
                del self.found[other]
            self.found[permutation] = value

    def _sums(self, permutation: tuple[int, ...]) -> np.ndarray:
        """Sums of z^2 for all pairs (i, a), given the images of the live positions."""
        return self._start + sum(self._step(p, permutation[p]) for p in self.places.tolist())

    def _total(self, permutation: tuple[int, ...]) -> float:
        """Sum of z^2 over all live pairs: dear `residual` is spared where this is hopeless."""
        here, image = self.places, np.array(permutation)[self.places]
        here, there = (..., here[:, None], here), (..., image[:, None], image)
        pairs = (self.second[there] - self.second[here]) ** 2
        return float((pairs / (self.scale[there] + self.scale[here])).sum())

    def _assign(self, sums: np.ndarray, fixed: dict[int, int]) -> tuple[int, ...]:
        """The permutation of smallest sum that holds `fixed`; ties, as between dead ones, stay."""
        from scipy.optimize import linear_sum_assignment

        cost = np.minimum(sums, 1e9) - 1e-6 * np.eye(len(sums))
        cost[list(fixed)] = 1e9
        cost[:, list(fixed.values())] = 1e9
        cost[list(fixed), list(fixed.values())] = 0
        return tuple(linear_sum_assignment(cost)[1].tolist())
