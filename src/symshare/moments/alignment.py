"""From second moments to the permutations that commute with them.

The relaxation to doubly stochastic matrices is that of graph matching; that it recovers the
automorphisms of S when the symmetry is broken is studied by Dym (arXiv:1705.07765).
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from symshare.analysis import nearest_permutation
from symshare.groups import CAP, generated
from symshare.moments.readings import Readings
from symshare.moments.statistics import Moments
from symshare.representations.projection import Projection

LEVEL = 1e-3
"""A permutation is refused where the moments reject it at this level: a true one is so rarely, and
what is false is kept only where the samples are too few to tell."""

POWER = 5.0
"""Least ratio of random permutations, on average, where that of true ones is 1: with samples that
tell less a search among all permutations ends at some that look as true."""

RATE, STEPS = 0.1, 200
"""Of Adam, falling along a cosine."""

SHARP = 0.9
"""A round ends where every row of every matrix has so much of its mass on one entry: what it would
be rounded to no longer changes."""

PATIENCE = 2
"""Rounds without anything new after which the search ends."""

ENTROPY = 0.3
"""Weight of the entropy for each position at the end; it rises over the second half."""

SOFT = 1.0
"""Added to an energy before its root is taken, whose slope is infinite at zero: what is left of an
energy without its noise is zero or less in many steps."""

HELD = 10.0
"""Logit of the entry that is asked for; those beside it have its negative."""

STARTS = 6
"""Matrices that are learned at once."""

_RANDOM = 8
"""Random permutations whose ratio is taken."""


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

    Each start asks for an element that is missing: one that moves position q to p, as no known one
    does. With that entry held at one the energy is still convex in all others, and neither the
    identity nor the uniform matrix is a solution. From near-uniform logits a doubly stochastic
    matrix minimises the root of its energy; the entropy pulls it to a permutation, to which linear
    assignment rounds it. What the moments do not reject is kept, with all its products. The pairs
    that look most alike are asked about first, and each once. Where two rounds find nothing new, it
    is asked which elements fix a position that the known ones move, then two; then the search ends.

    Second moments are even and know the law of the samples only, not of what they are labelled
    with: what is found here is a candidate.

    Args:
        moments: of what a layer sees.
        seed: of the starts.
        enough: elements at which the search ends; those that came together all stay.
        starts: matrices that are learned at once.
        steps: of each round, at most.
        watch: is given the number of the step and the matrices at every step of every round; a
            round begins at step 0.

    >>> from symshare import groups
    >>> from symshare.moments import of_samples
    >>> shuffle = torch.randperm(9, generator=torch.Generator().manual_seed(1))
    >>> turns = shuffle.argsort()[groups.rotations(4).permutation((3, 3))[:, shuffle]]
    >>> _ = torch.manual_seed(1)
    >>> x = torch.randn(8000, 9) @ torch.randn(9, 9)
    >>> x = x.gather(1, turns[torch.randint(4, (8000,))])
    >>> found = commutant(of_samples(x), steps=60)
    >>> sorted(found.sources.tolist()) == sorted(turns.tolist())
    True
    """
    readings = Readings(moments, torch.Generator().manual_seed(seed))
    power = _power(moments, seed)
    known, questions = torch.arange(moments.positions)[None], Questions(readings.mean)
    nearest, rounds, idle = 0.0, 0, 0
    while power >= POWER and len(known) < min(enough, CAP):
        # Of elements that fix positions there are few, and one round asks for most of them.
        patience = 1 if questions.fixed else PATIENCE
        wanted = questions.next(known, starts) if idle < patience else []
        if not wanted:
            if not questions.deeper(known):
                break
            idle = 0
            continue
        rounds += 1
        fresh = nearest_permutation(_descend(readings, wanted, steps, watch))
        larger, refused = _grown(known, fresh, moments)
        nearest = max(nearest, refused)
        idle = idle + 1 if len(larger) == len(known) else 0
        known = larger
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
    known, nearest = _grown(torch.arange(moments.positions)[None], candidates, moments)
    power = _power(moments, seed)
    return Commutant(known, *moments.test(known), nearest, power, 0, len(known) >= CAP)


def _power(moments: Moments, seed: int) -> float:
    """Mean ratio of random permutations."""
    generator = torch.Generator().manual_seed(seed)
    random = torch.rand(_RANDOM, moments.positions, generator=generator).argsort(-1)
    return moments.test(random)[0].mean().item()


def _unlike(S: Float[Tensor, "K D D"]) -> Float[Tensor, "D D"]:
    """How far two positions are from having the same moments, beside how far others are.

    Where a permutation commutes with S and moves q to p, the variances of p and q agree, and so do
    their covariances with all positions, in another order. What is left, without its order, is
    taken in units of its median over all q: positions that look like all others come last.
    """
    variances = S.diagonal(dim1=1, dim2=2)
    ordered = S.sort(-1).values
    apart = torch.stack([torch.cdist(rows, rows).square() for rows in ordered]).sum(0)
    apart = apart + (variances[:, :, None] - variances[:, None]).square().sum(0)
    return apart / apart.median(-1, keepdim=True).values.clamp_min(1e-30)


class Questions:
    """Which missing elements to ask for: those that move q to p, as no known element does.

    Known elements may do so for all pairs that a missing one moves, as turns of a square do for its
    corners. Up to a known element the missing one then fixes any position. So the next questions
    are about elements that fix one, then two, as in the chain of stabilisers of Schreier and Sims,
    until no known element but the identity fixes them all.
    """

    def __init__(self, S: Float[Tensor, "K D D"]):
        self.unlike = _unlike(S)
        self.fixed: list[int] = []
        self._asked = torch.zeros_like(self.unlike, dtype=torch.bool)

    def next(self, known: Int[Tensor, "G D"], count: int) -> list[list[tuple[int, int]]]:
        """Up to `count` questions, each all pairs (p, q) of one element; the most alike first.

        The last pair is what is asked for, and p differs between them. Neither it nor its inverse
        is asked for again while the same positions are fixed.
        """
        left = self.unlike.masked_fill(self._asked, torch.inf)
        left[torch.arange(len(left)), self._fixing(known)] = torch.inf
        if self.fixed:
            # All other pairs have been asked about before.
            reached = torch.zeros_like(self._asked)
            reached[torch.arange(len(left)), known] = True
            reached[self.fixed] = reached[:, self.fixed] = False
            left[~reached] = torch.inf
        questions = []
        while len(questions) < count and left.isfinite().any():
            p, q = divmod(int(left.argmin()), len(left))
            left[p] = left[q, p] = torch.inf
            self._asked[p, q] = self._asked[q, p] = True
            questions.append([*((b, b) for b in self.fixed), (p, q)])
        return questions

    def deeper(self, known: Int[Tensor, "G D"]) -> bool:
        """Fix one more position, that of the longest orbit; False where nothing known moves any."""
        fixing = self._fixing(known)
        orbits = fixing.sort(0).values.diff(dim=0).ne(0).sum(0)
        if not orbits.any():
            return False
        self.fixed.append(int(orbits.argmax()))
        self._asked[:] = False
        return True

    def _fixing(self, known: Int[Tensor, "G D"]) -> Int[Tensor, "H D"]:
        """Known elements that fix what is fixed."""
        return known[(known[:, self.fixed] == torch.tensor(self.fixed)).all(1)]


def starts_with(
    wanted: list[list[tuple[int, int]]], D: int, generator: torch.Generator
) -> tuple[Float[Tensor, "S D D"], Bool[Tensor, "S D D"]]:
    """Near-uniform logits with entries that are asked for, and which of them are to be held."""
    held = torch.zeros(len(wanted), D, D, dtype=torch.bool)
    logits = torch.rand(len(wanted), D, D, generator=generator)
    for start, pairs in enumerate(wanted):
        for p, q in pairs:
            held[start, p] = held[start, :, q] = True
            logits[start, p] = logits[start, :, q] = -HELD
            logits[start, p, q] = HELD
    return logits, held


def _descend(
    readings: Readings,
    wanted: list[list[tuple[int, int]]],
    steps: int,
    watch: Watch,
) -> Float[Tensor, "S D D"]:
    """Learn matrices that commute with moments; for its pairs (p, q) each moves q to p."""
    logits, held = starts_with(wanted, readings.mean.shape[-1], readings.generator)
    projection = Projection(logits).train()
    projection.logits.register_hook(lambda gradient: gradient.masked_fill(held, 0))
    optimizer = torch.optim.Adam([projection.logits], RATE)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    for step in range(steps):
        projected = projection.projected()
        R = projected.R
        watch(step, R.detach())
        if bool((R.detach().amax(-1) > SHARP).all()):
            return R.detach()
        ramp = ENTROPY * max(0.0, 2 * step / steps - 1)
        loss = (readings.energies(R) + SOFT).sqrt().sum()
        loss = loss + ramp * projected.entropy.sum() / R.shape[-1]
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    with torch.no_grad():
        R = projection()
    watch(steps, R)
    return R


def _grown(
    known: Int[Tensor, "G D"], fresh: Int[Tensor, "S D"], moments: Moments
) -> tuple[Int[Tensor, "H D"], float]:
    """The group of what is known and of what the moments do not reject, best first, up to `CAP`.

    A symmetry has all its products with others: one is added only where the moments reject none of
    the elements that come with it. Also the largest p value of those that they do reject.
    """
    p = moments.test(fresh)[1]
    order = p.argsort(descending=True, stable=True)
    group = [tuple(row) for row in known.tolist()]
    for element in map(tuple, fresh[order[p[order] >= LEVEL]].tolist()):
        if element in group or len(group) >= CAP:
            continue
        products = generated([*group, element], lambda g, h: tuple(g[i] for i in h))
        larger = list(islice(products, CAP))
        new = torch.tensor([row for row in larger if row not in group])
        if bool((moments.test(new)[1] >= LEVEL).all()):
            group = larger
    return torch.tensor(group), max(p[p < LEVEL].tolist(), default=0.0)
