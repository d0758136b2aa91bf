"""Multiplication tables of learned permutations: are they groups, and which ones?"""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from experiments.scores.inputs import refuse_no_table
from symshare.analysis.permutations import nearest_permutation
from symshare.groups import generated

Table = list[list[int]]


def cayley_table(permutations: Int[Tensor, "G D"], tolerance: float = 0.0) -> Int[Tensor, "G G"]:
    """Multiplication table of permutations: index of gh (h acts first), or -1.

    Args:
        permutations: source indices, such as those of `nearest_permutation`.
        tolerance: share of positions in which gh may differ from the nearest element, and still
            counts as it. 0: products must be elements. 1: every product is its nearest element.
            Of elements equally near the first counts.

    Raises:
        ValueError: where these are no permutations.

    Example:
        >>> cayley_table(torch.tensor([[0, 1, 2], [2, 0, 1], [1, 2, 0]])).tolist()
        [[0, 1, 2], [1, 2, 0], [2, 0, 1]]
        >>> cayley_table(torch.tensor([[0, 1, 2], [2, 0, 1]])).tolist()
        [[0, 1], [1, -1]]
    """
    if (
        permutations.ndim != 2
        or not permutations.numel()
        or permutations.is_floating_point()
        or (permutations.sort(1).values.cpu() != torch.arange(permutations.shape[1])).any()
    ):
        raise ValueError(
            f"cayley_table: expected permutations [G, D] as source indices, got "
            f"{permutations.dtype} {tuple(permutations.shape)}; nearest_permutation makes them of "
            "matrices"
        )
    rows = []
    for g in permutations:
        differs = (permutations[:, None, g] != permutations).double().mean(-1)
        least, nearest = differs.min(1)
        rows.append(torch.where(least <= tolerance, nearest, -1))
    return torch.stack(rows)


def latin_square_defect(table: Int[Tensor, "G G"]) -> float:
    """Share of a table that is missing or repeated: 0 iff each row and column holds all elements.

    One minus the mean, over rows and columns, of the number of different elements over G.

    Raises:
        ValueError: where this is no table of indices.

    Example:
        >>> latin_square_defect(torch.tensor([[0, 1], [1, -1]]))
        0.25
    """
    refuse_no_table("latin_square_defect", table)
    order = torch.arange(len(table), device=table.device)
    held = table[..., None] == order
    present = torch.cat([held.any(0), held.any(1)])
    return 1 - float(present.double().mean())


def associativity_defect(table: Int[Tensor, "G G"]) -> float:
    """Share of triples with (gh)k other than g(hk), or where a product is no element.

    Raises:
        ValueError: where this is no table of indices.

    Example:
        >>> associativity_defect(torch.tensor([[0, 1], [1, 0]]))
        0.0
        >>> associativity_defect(torch.tensor([[0, 1], [1, -1]]))
        0.5
    """
    refuse_no_table("associativity_defect", table)
    # Index -1 reads the last row or column, where no product is an element.
    padded = torch.nn.functional.pad(table, (0, 1, 0, 1), value=-1)
    left, right = padded[table][:, :, :-1], padded[:-1][:, table]
    return 1 - float(((left == right) & (left >= 0)).double().mean())


def isomorphism(table: Int[Tensor, "G G"], target: Int[Tensor, "H H"]) -> Int[Tensor, " G"] | None:
    """A relabelling that turns one multiplication table into another, if there is one.

    Images of a few generators are tried, elements of the same order only, and carried on by
    products; a contradiction ends a try.

    Args:
        table: of the learned elements.
        target: of a group, such as `action.table`.

    Returns:
        f with `f[table[g, h]] = target[f[g], f[h]]`, one to one; None where there is none, or
        `table` is no group.

    Raises:
        ValueError: where `target` is no group.

    Example:
        >>> from symshare import groups
        >>> swapped = torch.tensor([[1, 0], [0, 1]])
        >>> isomorphism(swapped, groups.flips("W").table)
        tensor([1, 0])
        >>> isomorphism(groups.rotations(4).table, groups.flips("HW").table) is None
        True
    """
    if not _is_group(target):
        raise ValueError(
            "isomorphism: the target table is no group; pass the table of a closed set"
        )
    if table.shape != target.shape or not _is_group(table):
        return None
    ours, theirs = table.tolist(), target.tolist()
    labels = _search(ours, theirs, _generators(ours), [])
    return None if labels is None else torch.tensor([labels[g] for g in range(len(ours))])


def group_table(R: Float[Tensor, "G D D"]) -> Int[Tensor, "G G"]:
    """Multiplication table of a stack after rounding each element to its nearest permutation.

    Raises:
        ValueError: where entries are not finite.

    Example:
        >>> from symshare import groups
        >>> C4 = groups.rotations(4)
        >>> torch.equal(group_table(0.8 * C4.lift(3) + 0.2 / 9), C4.table)
        True
    """
    return cayley_table(nearest_permutation(R))


def _is_group(table: Tensor) -> bool:
    # An associative Latin square has an identity and inverses.
    return latin_square_defect(table) == 0 and associativity_defect(table) == 0


def _identity(table: Table) -> int:
    return next(e for e, row in enumerate(table) if row == list(range(len(table))))


def _span(table: Table, generators: list[int]) -> list[int]:
    return list(generated([_identity(table), *generators], lambda g, h: table[g][h]))


def _generators(table: Table) -> list[int]:
    """Few elements that generate the group: each one reaches as far as any could."""
    chosen: list[int] = []
    while len(_span(table, chosen)) < len(table):
        chosen.append(max(range(len(table)), key=lambda g: len(_span(table, [*chosen, g]))))
    return chosen


def _search(
    ours: Table, theirs: Table, generators: list[int], images: list[int]
) -> dict[int, int] | None:
    labels = _carried_on(ours, theirs, generators[: len(images)], images)
    if labels is None or len(images) == len(generators):
        return labels
    order = len(_span(ours, [generators[len(images)]]))
    for image in range(len(theirs)):
        if len(_span(theirs, [image])) == order:
            found = _search(ours, theirs, generators, [*images, image])
            if found is not None:
                return found
    return None


def _carried_on(
    ours: Table, theirs: Table, generators: list[int], images: list[int]
) -> dict[int, int] | None:
    """The one-to-one homomorphism that sends generators to images, or None."""
    labels = {_identity(ours): _identity(theirs)}
    reached = list(labels)
    # The list grows while it is read.
    for g in reached:
        for generator, image in zip(generators, images, strict=True):
            product, label = ours[g][generator], theirs[labels[g]][image]
            if product not in labels:
                labels[product] = label
                reached.append(product)
            elif labels[product] != label:
                return None
    return labels if len(set(labels.values())) == len(labels) else None
