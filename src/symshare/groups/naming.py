"""Names of groups up to isomorphism, from their multiplication tables."""

import itertools
from collections.abc import Sequence
from math import prod
from typing import Any

from symshare.groups.products import generated

Table = list[list[int]]


def group_name(table: Table, cyclic: str = "C") -> str:
    """Name of a group by its multiplication table.

    Args:
        table: `table[g][h]` is the index of gh; the identity is 0.
        cyclic: letter of the cyclic factors of an abelian group.

    Example:
        >>> group_name([[0, 1], [1, 0]])
        'C2'
    """
    from sympy.combinatorics import Permutation, PermutationGroup

    order = len(table)
    if order == 1:
        return "C1"
    group: Any = PermutationGroup([Permutation(table[g]) for g in _generators(table)])
    if group.is_cyclic:
        return f"{cyclic}{order}"
    if group.is_abelian:
        return "x".join(f"{cyclic}{n}" for n in _invariant_factors(group.abelian_invariants()))
    if group.is_dihedral:
        return f"D{order // 2}"
    if order == 8:
        return "Q8"
    # Among the groups of these orders, centre and derived subgroup single out S_n and A_n.
    centre, derived = group.center().order(), group.derived_subgroup().order()
    known = {(24, 12): "S4", (120, 60): "S5", (12, 4): "A4", (60, 60): "A5"}
    if centre == 1 and (order, derived) in known:
        return known[order, derived]
    factor = _without_central_involution(table)
    return f"{group_name(factor)}xC2" if factor else f"G{order}"


def _generators(table: Table) -> list[int]:
    generators: list[int] = []
    reached = {0}
    for g in range(len(table)):
        if g not in reached:
            generators.append(g)
            reached = _subgroup(table, generators)
    return generators


def _subgroup(table: Table, generators: Sequence[int]) -> set[int]:
    return {0, *generated(generators, lambda g, h: table[g][h])}


def _invariant_factors(prime_powers: Sequence[int]) -> list[int]:
    """Cyclic factors, each dividing the next, from the primary ones: [2, 2, 3] -> [2, 6]."""
    from sympy import factorint

    by_prime: dict[int, list[int]] = {}
    for q in sorted(prime_powers, reverse=True):
        by_prime.setdefault(min(factorint(q)), []).append(q)
    factors = itertools.zip_longest(*by_prime.values(), fillvalue=1)
    return sorted(prod(column) for column in factors)


def _without_central_involution(table: Table) -> Table | None:
    """The table of H where the group is H x C2, or None where it is no such product.

    C2 = {1, z} is a factor iff some map to C2 sends the central involution z to -1, that is iff
    z is no product of squares. Then H is the quotient by z.
    """
    elements = range(len(table))
    squares = _subgroup(table, [table[g][g] for g in elements])
    for z in elements:
        central = all(table[z][g] == table[g][z] for g in elements)
        if z in squares or table[z][z] != 0 or not central:
            continue
        cosets = [min(g, table[g][z]) for g in elements]
        first = sorted(set(cosets))
        return [[first.index(cosets[table[g][h]]) for h in first] for g in first]
    return None
