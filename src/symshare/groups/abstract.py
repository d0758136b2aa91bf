"""Groups by how their elements multiply, whatever the elements are: products and names."""

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from math import log, prod
from typing import TypeVar

Element = TypeVar("Element")
Table = list[list[int]]

CAP = 48
"""Largest group that is searched for and judged: that of the cube with its mirrors."""


def generated(
    generators: Iterable[Element], multiply: Callable[[Element, Element], Element]
) -> Iterator[Element]:
    """Everything that the generators multiply to, each once: a walk over the Cayley graph.

    The generators come first, in their order. Where they are elements of a finite group, what
    comes is the group that they generate. Elements are made as they are asked for, so
    `itertools.islice` bounds the work where the group may be large.

    Args:
        generators: hashable elements.
        multiply: the product gh of g and h.

    Example:
        >>> list(generated([4, 6], lambda g, h: (g + h) % 12))
        [4, 6, 8, 10, 0, 2]
    """
    distinct = list(dict.fromkeys(generators))
    yield from distinct
    found, known = list(distinct), set(distinct)
    # The list grows while it is read.
    for element in found:
        for generator in distinct:
            product = multiply(element, generator)
            if product not in known:
                known.add(product)
                found.append(product)
                yield product


def compose(g: Sequence[int], h: Sequence[int]) -> tuple[int, ...]:
    """Source indices of gh, where h acts first: `(g (h f))[p] = (h f)[g[p]] = f[h[g[p]]]`.

    Example:
        >>> compose((1, 2, 0), (1, 0, 2))
        (0, 2, 1)
    """
    return tuple(map(h.__getitem__, g))


def group_name(table: Table, cyclic: str = "C") -> str:
    """Name of a group up to isomorphism, by its multiplication table, the identity first.

    Args:
        table: `table[g][h]` is the index of gh.
        cyclic: letter of the cyclic factors of an abelian group.
    """
    size, elements = len(table), range(len(table))
    if size == 1:
        return "C1"
    orders = [len(_subgroup(table, [g])) for g in elements]
    centre = [z for z in elements if all(table[z][g] == table[g][z] for g in elements)]
    if len(centre) == size:
        return "x".join(f"{cyclic}{n}" for n in _invariant_factors(orders))
    if _is_dihedral(table, orders):
        return f"D{size // 2}"
    if size == 8:
        return "Q8"
    # Among the groups of these orders, centre and derived subgroup single out S_n and A_n.
    inverse = [row.index(0) for row in table]
    commutators = (
        table[table[g][h]][inverse[table[h][g]]] for g, h in itertools.product(elements, elements)
    )
    known = {(24, 12): "S4", (120, 60): "S5", (12, 4): "A4", (60, 60): "A5"}
    derived = len(_subgroup(table, commutators))
    if len(centre) == 1 and (size, derived) in known:
        return known[size, derived]
    factor = _without_central_involution(table, centre)
    return f"{group_name(factor)}xC2" if factor else f"G{size}"


def _subgroup(table: Table, generators: Iterable[int]) -> set[int]:
    return {0, *generated(generators, lambda g, h: table[g][h])}


def _invariant_factors(orders: list[int]) -> list[int]:
    """Cyclic factors of an abelian group, each dividing the next, from the orders of its elements.

    The elements of p-power order up to p^k number p^(sum of min(k, m) over the cyclic factors
    C_(p^m)), so the exponents grow from k - 1 to k by the number of factors with m >= k.

    >>> _invariant_factors([1, 2, 3, 6, 2, 2, 6, 6, 3, 6, 6, 6])
    [2, 6]
    """
    counts, size = Counter(orders), len(orders)
    primes = [p for p in range(2, size + 1) if size % p == 0 and all(p % d for d in range(2, p))]
    by_prime = []
    for p in primes:
        factors: list[int] = []
        power, before = p, 1
        while size % power == 0 and (now := sum(n for q, n in counts.items() if power % q == 0)):
            several = round(log(now // before, p))
            factors[:several] = [power] * several
            power, before = power * p, now
        by_prime.append(factors)
    return sorted(prod(column) for column in itertools.zip_longest(*by_prime, fillvalue=1))


def _is_dihedral(table: Table, orders: list[int]) -> bool:
    """Whether an element r of half the order has a reflection s beside it, with s r s = r^-1."""
    half = len(table) // 2
    for r in (r for r, order in enumerate(orders) if order == half > 2):
        turns = _subgroup(table, [r])
        s = next(g for g in range(len(table)) if g not in turns)
        return orders[s] == 2 and table[table[s][r]][s] == table[r].index(0)
    return False


def _without_central_involution(table: Table, centre: list[int]) -> Table | None:
    """The table of H where the group is H x C2, or None where it is no such product.

    C2 = {1, z} is a factor iff some map to C2 sends the central involution z to -1, that is iff
    z is no product of squares. Then H is the quotient by z.
    """
    elements = range(len(table))
    squares = _subgroup(table, [table[g][g] for g in elements])
    for z in centre:
        if z in squares or table[z][z] != 0:
            continue
        cosets = [min(g, table[g][z]) for g in elements]
        first = sorted(set(cosets))
        return [[first.index(cosets[table[g][h]]) for h in first] for g in first]
    return None
