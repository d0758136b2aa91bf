"""From second moments to the permutations that commute with them."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from scipy.optimize import linear_sum_assignment
from torch import Tensor
from torch.nn.functional import one_hot

from symshare.moments.statistics import Moments, commutation
from symshare.representations.projection import Projection

LEVEL = 1e-3
"""A permutation is refused where the moments reject it at this level: a true one is so rarely, and
what is false is kept only where the samples are too few to tell."""

RANDOM_ENERGY = 1000.0
"""What moments are scaled to: the energy of a random permutation. With it one rate fits all."""

RATE, STEPS = 0.1, 400
"""Of Adam, falling along a cosine."""

OVERLAPS = (3.0, 12.0)
"""Weight of the overlap of elements, in units of the root of an energy. Where a round finds nothing
new, the next one pushes harder: what samples are few for has an energy of its own."""

ENTROPY = 0.3
"""Weight of the entropy for each position at the end; it rises over the second half."""

SOFT = 1e-3
"""Added to an energy before its root is taken, whose slope is infinite at zero."""

STARTS = 6
"""Matrices that are learned at once."""

SKETCHES = 8
"""Random combinations of moments that a step reads, where there are more moments."""

CAP = 48
"""Elements after which the search ends."""

Watch = Callable[[Float[Tensor, "S D D"], int], None]


@dataclass(frozen=True, eq=False)
class Commutant:
    """Permutations that commute with second moments, as far as samples let one tell.

    Attributes:
        sources: [G, D], the identity first; `(R f)[p] = f[sources[p]]`.
        ratios: of each, what :meth:`Moments.test` gives: 1 on average for a true one.
        p_values: of each, the same.
        nearest: the largest p value of what was met and refused; 0 where nothing was.
        rounds: how often all starts were learned.
        capped: whether the search ended at `CAP` elements.
    """

    sources: Int[Tensor, "G D"]
    ratios: Float[Tensor, " G"]
    p_values: Float[Tensor, " G"]
    nearest: float
    rounds: int
    capped: bool


def commutant(
    moments: Moments,
    *,
    seed: int = 0,
    starts: int = STARTS,
    steps: int = STEPS,
    level: float = LEVEL,
    watch: Watch | None = None,
) -> Commutant:
    """Find the permutations that commute with moments, without any list of groups.

    Doubly stochastic matrices from near-uniform starts minimise the roots of their energies and
    their overlap with one another and with what is known; the entropy pulls them to permutations,
    which linear assignment rounds and polishes. What the moments do not reject is kept, with all
    its products. It ends where two rounds, the second with
    a larger weight on the overlap, find nothing new.

    Second moments are even and know the law of the samples only, not of what they are labelled
    with: what is found here is a candidate.

    Args:
        moments: of what a layer sees.
        seed: of the starts.
        starts: matrices that are learned at once.
        steps: of each round.
        level: at which what does not commute is refused.
        watch: is shown the matrices and the step, before each.

    >>> from symshare import groups
    >>> from symshare.moments import of_samples
    >>> shuffle = torch.randperm(9, generator=torch.Generator().manual_seed(1))
    >>> turns = shuffle.argsort()[groups.rotations(4).permutation((3, 3))[:, shuffle]]
    >>> _ = torch.manual_seed(1)
    >>> x = torch.randn(20_000, 9) @ torch.rand(9, 9)
    >>> x = x.gather(1, turns[torch.randint(4, (20_000,))])
    >>> found = commutant(of_samples(x), steps=200)
    >>> sorted(found.sources.tolist()) == sorted(turns.tolist())
    True
    """
    generator = torch.Generator().manual_seed(seed)
    S = _scaled(moments.units, generator)
    known = torch.arange(moments.positions)[None]
    nearest, rounds, weights = 0.0, 0, list(OVERLAPS)
    while weights and len(known) < CAP:
        rounds += 1
        R = _descend(S, known, weights[0], starts, steps, generator, watch)
        fresh = torch.stack([_polished(sources, S) for sources in _rounded(R)])
        p = moments.test(fresh)[1]
        nearest = max([nearest, *p[p < level].tolist()])
        grown = _grown(known, fresh, moments, level)
        if len(grown) == len(known):
            weights.pop(0)
        known = grown
    ratios, p_values = moments.test(known)
    return Commutant(known, ratios, p_values, nearest, rounds, len(known) >= CAP)


def _scaled(S: Float[Tensor, "K D D"], generator: torch.Generator) -> Float[Tensor, "K D D"]:
    """Moments with which a random permutation has the energy `RANDOM_ENERGY`."""
    D = S.shape[-1]
    random = torch.rand(8, D, generator=generator).argsort(-1)
    apart = [S[:, source][:, :, source] - S for source in random]
    energy = torch.stack(apart).square().sum() / (8 * 2 * len(S) * D**2)
    return S * (RANDOM_ENERGY / energy.clamp_min(1e-30)).sqrt()


def _descend(
    S: Float[Tensor, "K D D"],
    known: Int[Tensor, "G D"],
    weight: float,
    starts: int,
    steps: int,
    generator: torch.Generator,
    watch: Watch | None,
) -> Float[Tensor, "S D D"]:
    """Learn matrices that commute with moments, and overlap little with what is known."""
    D = S.shape[-1]
    projection = Projection(torch.rand(starts, D, D, generator=generator)).train()
    optimizer = torch.optim.Adam([projection.logits], RATE)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    places = one_hot(known, D).to(S).mean(0) * len(known)  # the sum of the known matrices
    for step in range(steps):
        projected = projection.projected()
        R = projected.R
        if watch is not None:
            watch(R.detach(), step)
        together = R.sum(0)
        overlap = ((together * together).sum() - R.square().sum()) / 2 + (together * places).sum()
        ramp = ENTROPY * max(0.0, 2 * step / steps - 1)
        loss = (commutation(R, _sketch(S, generator)) + SOFT).sqrt().sum()
        loss = loss + (weight * overlap + ramp * projected.entropy.sum()) / D
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    with torch.no_grad():
        return projection()


def _sketch(S: Float[Tensor, "K D D"], generator: torch.Generator) -> Float[Tensor, "k D D"]:
    """All moments where they are few, else random combinations, with the same energy on average."""
    K = len(S)
    if K <= SKETCHES:
        return S
    signs = torch.randint(2, (SKETCHES, K), generator=generator).to(S) * 2 - 1
    return torch.einsum("sk,kpq->spq", signs / K**0.5, S)


def _rounded(R: Float[Tensor, "S D D"]) -> Int[Tensor, "S D"]:
    """The permutation nearest to each matrix."""
    return torch.stack([torch.tensor(linear_sum_assignment(-r.numpy())[1]) for r in R])


def _polished(sources: Int[Tensor, " D"], S: Float[Tensor, "K D D"]) -> Int[Tensor, " D"]:
    """Improve a permutation P as long as linear assignment on sum_k S_k P S_k' lowers its energy.

    That is the step of Frank and Wolfe from a permutation: a common automorphism stays.
    """
    energy = _of_permutation(sources, S)
    while True:
        pulled = torch.einsum("kap,krp->ar", S, S[:, :, sources])
        better = torch.tensor(linear_sum_assignment(-pulled.numpy())[1])
        now = _of_permutation(better, S)
        if now >= energy:
            return sources
        sources, energy = better, now


def _of_permutation(sources: Int[Tensor, " D"], S: Float[Tensor, "K D D"]) -> float:
    return (S[:, sources][:, :, sources] - S).square().sum().item()


def _grown(
    known: Int[Tensor, "G D"], fresh: Int[Tensor, "S D"], moments: Moments, level: float
) -> Int[Tensor, "H D"]:
    """The group of what is known and of those that may be added, the least doubtful first.

    A symmetry has all its products with others: one is added only where the moments reject none of
    the elements that come with it.
    """
    p = moments.test(fresh)[1]
    group = [tuple(row) for row in known.tolist()]
    for i in p.argsort(descending=True, stable=True).tolist():
        element = tuple(fresh[i].tolist())
        if p[i] < level or element in group:
            continue
        larger = _generated([*group, element])
        new = [row for row in larger if row not in set(group)]
        if bool((moments.test(torch.tensor(new))[1] >= level).all()):
            group = larger
    return torch.tensor(group)


def _generated(elements: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """The group that permutations generate, the identity first, or its first `CAP` elements."""
    found = dict.fromkeys(elements)
    frontier = list(found)
    while frontier and len(found) < CAP:
        made = (tuple(g[i] for i in h) for h in frontier for g in elements)
        frontier = [row for row in dict.fromkeys(made) if row not in found]
        found.update(dict.fromkeys(frontier))
    return list(found)[:CAP]
