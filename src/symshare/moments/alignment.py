"""From second moments to the permutations that commute with them."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import one_hot

from symshare.analysis import nearest_permutation
from symshare.groups import generated
from symshare.moments.statistics import Moments, commutation
from symshare.propose.candidates import CAP
from symshare.representations.projection import Projection

LEVEL = 1e-3
"""A permutation is refused where the moments reject it at this level: a true one is so rarely, and
what is false is kept only where the samples are too few to tell."""

POWER = 5.0
"""Least ratio of random permutations, on average, where that of true ones is 1: with samples that
tell less a search among all permutations ends at some that look as true."""

RANDOM_ENERGY = 1000.0
"""What moments are scaled to: the energy of a random permutation. With it one rate fits all."""

RATE, STEPS = 0.1, 400
"""Of Adam, falling along a cosine."""

SHARP = 0.9
"""A round ends where every row of every matrix has so much of its mass on one entry: what it would
be rounded to no longer changes."""

OVERLAPS = (3.0, 12.0)
"""Weight of the overlap of elements, in units of the root of an energy. Where a round finds nothing
new, the next one pushes harder: what samples are few for has an energy of its own."""

ENTROPY = 0.3
"""Weight of the entropy for each position at the end; it rises over the second half."""

SOFT = 1e-3
"""Added to an energy before its root is taken, whose slope is infinite at zero."""

STARTS = 6
"""Matrices that are learned at once."""

_RANDOM = 8
"""Random permutations whose ratio is taken."""

SKETCHES = 2
"""Random combinations of moments that a step reads, where there are more moments. Each step draws
new ones; more of them cost time and find no more."""


Watch = Callable[[int, Float[Tensor, "S D D"]], None]


def unwatched(*_: object) -> None:
    """Look at nothing."""


@dataclass(frozen=True, eq=False)
class Commutant:
    """Permutations that commute with second moments, as far as samples let one tell.

    Attributes:
        sources: [G, D], the identity first; `(R f)[p] = f[sources[p]]`.
        ratios: of each, what :meth:`Moments.test` gives: 1 on average for a true one.
        p_values: of each, the same.
        nearest: the largest p value of what was met and refused; 0 where nothing was.
        power: mean ratio of random permutations. Below `POWER` nothing is searched for: there are
            too few samples.
        rounds: how often all starts were learned.
        capped: whether the search ended at `CAP` elements.
    """

    sources: Int[Tensor, "G D"]
    ratios: Float[Tensor, " G"]
    p_values: Float[Tensor, " G"]
    nearest: float
    power: float
    rounds: int
    capped: bool


def commutant(
    moments: Moments,
    *,
    seed: int = 0,
    enough: int = CAP,
    starts: int = STARTS,
    steps: int = STEPS,
    watch: Watch = unwatched,
) -> Commutant:
    """Find the permutations that commute with moments, without any list of groups.

    Doubly stochastic matrices from near-uniform starts minimise the roots of their energies and
    their overlap with one another and with what is known; the entropy pulls them to permutations,
    which linear assignment rounds and polishes. What the moments do not reject is kept, with all
    its products. It ends where two rounds, the second with a larger weight on the overlap, find
    nothing new, or where there is enough.

    Second moments are even and know the law of the samples only, not of what they are labelled
    with: what is found here is a candidate.

    Args:
        moments: of what a layer sees.
        seed: of the starts.
        enough: elements at which the search ends; those that came together all stay.
        starts: matrices that are learned at once. More of them find what hides among many
            positions: 24 find the 36 turns of two rings of 36 where 6 may find none.
        steps: of each round, at most.
        watch: is given the number of the step and the matrices at every step of every round; a
            round begins at step 0.

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
    power = _power(moments, seed)
    nearest, rounds, weights = 0.0, 0, list(OVERLAPS) if power >= POWER else []
    while weights and len(known) < min(enough, CAP):
        rounds += 1
        R = _descend(S, known, weights[0], starts, steps, generator, watch)
        fresh = torch.stack([_polished(sources, S) for sources in nearest_permutation(R)])
        p = moments.test(fresh)[1]
        nearest = max([nearest, *p[p < LEVEL].tolist()])
        order = p.argsort(descending=True, stable=True)
        grown = _grown(known, fresh[order[p[order] >= LEVEL]], moments)
        if len(grown) == len(known):
            weights.pop(0)
        known = grown
    ratios, p_values = moments.test(known)
    return Commutant(known, ratios, p_values, nearest, power, rounds, len(known) >= CAP)


def commutant_among(
    moments: Moments, candidates: Int[Tensor, "C D"], *, seed: int = 0
) -> Commutant:
    """The same among some permutations, which are tested one by one: nothing is searched for.

    So few are tested that little power is no reason to take none.

    Args:
        moments: of what a layer sees.
        candidates: as sources; the identity is known. Products of those that are kept belong to
            the result as well.
        seed: of the random permutations whose ratio is the power.

    >>> from symshare import groups
    >>> from symshare.moments import of_samples
    >>> x = torch.randn(4000, 9) * torch.arange(1.0, 4.0).repeat(3)
    >>> x = x.view(-1, 3, 3)
    >>> x[:2000] = x[:2000].flip(-1)
    >>> found = commutant_among(of_samples(x.flatten(1)), groups.flips("W").permutation((3, 3)))
    >>> found.sources[1].tolist()
    [2, 1, 0, 5, 4, 3, 8, 7, 6]
    """
    known = torch.arange(moments.positions)[None]
    p = moments.test(candidates)[1]
    order = p.argsort(descending=True, stable=True)
    known = _grown(known, candidates[order[p[order] >= LEVEL]], moments)
    nearest, power = max(p[p < LEVEL].tolist(), default=0.0), _power(moments, seed)
    return Commutant(known, *moments.test(known), nearest, power, 0, len(known) >= CAP)


def _power(moments: Moments, seed: int) -> float:
    """Mean ratio of random permutations."""
    generator = torch.Generator().manual_seed(seed)
    random = torch.rand(_RANDOM, moments.positions, generator=generator).argsort(-1)
    return moments.test(random)[0].mean().item()


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
    watch: Watch,
) -> Float[Tensor, "S D D"]:
    """Learn matrices that commute with moments, and overlap little with what is known."""
    D = S.shape[-1]
    projection = Projection(torch.rand(starts, D, D, generator=generator)).train()
    optimizer = torch.optim.Adam([projection.logits], RATE)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    places = one_hot(known, D).to(S).sum(0)
    for step in range(steps):
        projected = projection.projected()
        R = projected.R
        watch(step, R.detach())
        if bool((R.detach().amax(-1) > SHARP).all()):
            return R.detach()
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
        R = projection()
    watch(steps, R)
    return R


def _sketch(S: Float[Tensor, "K D D"], generator: torch.Generator) -> Float[Tensor, "k D D"]:
    """All moments where they are few, else random combinations, with the same energy on average."""
    K = len(S)
    if K <= SKETCHES:
        return S
    signs = torch.randint(2, (SKETCHES, K), generator=generator).to(S) * 2 - 1
    return torch.einsum("sk,kpq->spq", signs / K**0.5, S)


def _polished(sources: Int[Tensor, " D"], S: Float[Tensor, "K D D"]) -> Int[Tensor, " D"]:
    """Improve a permutation P as long as linear assignment on sum_k S_k P S_k' lowers its energy.

    That is the step of Frank and Wolfe from a permutation: a common automorphism stays.
    """
    energy = _of_permutation(sources, S)
    while True:
        better = nearest_permutation(torch.einsum("kap,krp->ar", S, S[:, :, sources]))
        now = _of_permutation(better, S)
        if now >= energy:
            return sources
        sources, energy = better, now


def _of_permutation(sources: Int[Tensor, " D"], S: Float[Tensor, "K D D"]) -> float:
    return (S[:, sources][:, :, sources] - S).square().sum().item()


def _grown(
    known: Int[Tensor, "G D"], fresh: Int[Tensor, "S D"], moments: Moments
) -> Int[Tensor, "H D"]:
    """The group of what is known and of those that may be added, in their order, up to `CAP`.

    A symmetry has all its products with others: one is added only where the moments reject none of
    the elements that come with it.
    """
    group = [tuple(row) for row in known.tolist()]
    for element in map(tuple, fresh.tolist()):
        if element in group:
            continue
        products = generated([*group, element], lambda g, h: tuple(g[i] for i in h))
        larger = list(islice(products, CAP))
        new = torch.tensor([row for row in larger if row not in group])
        if bool((moments.test(new)[1] >= LEVEL).all()):
            group = larger
    return torch.tensor(group)
