"""Lengths of a grid or a kernel."""

from collections.abc import Iterable, Sequence
from operator import index

Shape = int | Sequence[int]


def each_axis(shape: Shape, dims: int) -> tuple[int, ...]:
    """One number for each axis, where a single one stands for all.

    >>> each_axis(3, 2), each_axis([3, 5], 2)
    ((3, 3), (3, 5))
    """
    return tuple(map(index, shape)) if isinstance(shape, Iterable) else (index(shape),) * dims
