"""Products of elements, whatever the elements are."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

Element = TypeVar("Element")


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
