"""Checks of what is handed to a figure."""

from collections.abc import Mapping, Sequence
from math import prod

import numpy as np
from torch import Tensor

__all__ = ["Array", "arrays", "check_names", "check_size"]

Array = Tensor | np.ndarray


def arrays(who: str, axes: Mapping[str, str], **values: Array) -> list[np.ndarray]:
    """The values in float64, once their shapes agree.

    Args:
        who: the figure, for the message.
        axes: names of the axes of each value, as in `{"R": "G D D"}`; one letter is one number.
        values: what to check.

    Raises:
        ValueError: if axes are missing, empty or of different lengths, or for values that are
            not finite.

    >>> [x.shape for x in arrays("kernels", {"W": "C G k k"}, W=np.ones((2, 4, 3, 3)))]
    [(2, 4, 3, 3)]
    """
    lengths: dict[str, int] = {}
    checked = []
    for name, value in values.items():
        letters, shape = axes[name].split(), list(value.shape)
        known = ", ".join(f"{x} = {n}" for x, n in lengths.items() if x in letters)
        fits = len(shape) == len(letters) and all(shape)
        if not fits or any(
            lengths.setdefault(x, n) != n for x, n in zip(letters, shape, strict=True)
        ):
            raise ValueError(
                f"{who}: {name} must be [{', '.join(letters)}] without empty axes"
                f"{f' and with {known}' if known else ''}, got {shape}"
            )
        array = value.detach().cpu().double().numpy() if isinstance(value, Tensor) else value
        if not np.isfinite(array).all():
            raise ValueError(f"{who}: {name} must be finite to be drawn, got NaN or infinity")
        checked.append(np.asarray(array, dtype=np.float64))
    return checked


def check_names(who: str, names: Sequence[str], count: int, of: str = "element") -> list[str]:
    """The names, one for each of `count` things.

    Raises:
        ValueError: for fewer or more.
    """
    if len(names) != count:
        raise ValueError(f"{who}: expected {count} names, one for each {of}, got {len(names)}")
    return list(names)


def check_size(who: str, size: Sequence[int], positions: int) -> tuple[int, ...]:
    """The size of a signal with so many positions, on a line, a plane or in space.

    Raises:
        ValueError: for other sizes.
    """
    if len(size) not in (1, 2, 3) or prod(size) != positions:
        raise ValueError(
            f"{who}: size must be one to three lengths with the product {positions}, "
            f"the number of positions; got {tuple(size)}"
        )
    return tuple(size)
