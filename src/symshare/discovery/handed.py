"""Candidates that the user hands over: elements that act on the grid, or functions by name."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from symshare.data import Splits
from symshare.groups import GroupAction
from symshare.judge import Function

PROBED = 8
"""Images that a function is tried on before anything is written."""


@dataclass(frozen=True, eq=False)
class Handed:
    """What the user hands over.

    Attributes:
        action: elements that permute the positions of the grid.
        functions: of a batch of images, by name.
    """

    action: GroupAction | None = None
    functions: Mapping[str, Function] = field(default_factory=dict)

    def fingerprint(self, splits: Splits) -> str:
        """Hash of the data and of what each candidate makes of some of them.

        Raises:
            ValueError: where a function changes the shape or the type of images, makes what is not
                finite of them, or writes into them.
        """
        seen = splits.fingerprint
        if self.action is not None:
            moves = self.action.permutation(splits.train.space).tolist()
            seen += repr((self.action.names, moves))
        for name, function in self.functions.items():
            moved = _tried(name, function, splits.train.images[:PROBED])
            seen += name + hashlib.sha256(moved.numpy().tobytes()).hexdigest()
        if seen == splits.fingerprint:
            return seen
        return hashlib.sha256(seen.encode()).hexdigest()[:16]


def checked(functions: Mapping[str, Function]) -> dict[str, Function]:
    """Functions by name, with a clear error for what is none.

    Raises:
        ValueError: for a name that is no text or stands for another candidate, or a value that
            cannot be called.
    """
    for name, function in functions.items():
        if not isinstance(name, str) or not name or not callable(function):
            raise ValueError(
                f"discover: expected functions of a batch by name as candidates, got {name!r}: "
                f"{function!r}; hand over for example {{'louder': lambda x: 1.2 * x}}"
            )
    return dict(functions)


def _tried(name: str, function: Function, images: Tensor) -> Tensor:
    """What a function makes of some images."""
    given = images.clone()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        moved = function(given)
    if not isinstance(moved, Tensor) or (moved.shape, moved.dtype) != (images.shape, images.dtype):
        got = f"{moved.dtype} {list(moved.shape)}" if isinstance(moved, Tensor) else repr(moved)
        raise ValueError(
            f"candidate {name!r}: expected images like those given, {images.dtype} "
            f"{list(images.shape)}, got {got[:80]}; keep their shape and type"
        )
    if not given.equal(images):
        raise ValueError(
            f"candidate {name!r}: it writes into the images that it is given; return new ones, "
            "such as x.clone() with the change"
        )
    if not moved.isfinite().all():
        raise ValueError(
            f"candidate {name!r}: expected finite images, got NaN or infinity; look at its "
            "divisions and logarithms"
        )
    return moved.detach()
