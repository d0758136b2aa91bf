"""Candidates that the user hands over: elements that act on the grid, or functions by name."""

import hashlib
import pickle
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from symshare.data import Splits
from symshare.groups import ChannelAction, GroupAction, hyperoctahedral
from symshare.judge import Function
from symshare.names import VECTOR

_PROBED = 8
"""Images that a function is tried on before anything is written."""

_PROPOSED = re.compile(r"(\w+_)?shift\d+(_\d+)*|perm\d+|.*\(.*\).*|(.*\*)?negate.*")
"""Names of candidates that are proposed, beside those of the moves of a kernel."""


@dataclass(frozen=True, eq=False)
class Handed:
    """What the user hands over.

    Attributes:
        action: elements that permute the positions of the grid, of vectors their numbers, or
            channels as well.
        functions: of a batch of images, by name.
    """

    action: GroupAction | ChannelAction | None = None
    functions: Mapping[str, Function] = field(default_factory=dict)

    @classmethod
    def of(cls, candidates: object, processes: int = 1) -> "Handed":
        """What was given to `symshare.discover` as candidates.

        Args:
            candidates: a `GroupAction`, a `ChannelAction`, functions by name, or None.
            processes: that are to train together; they get the functions by pickle.

        Raises:
            ValueError: for anything else, a name that is no text, a value that cannot be called,
                or a function that cannot be given to other processes.
        """
        if isinstance(candidates, GroupAction | ChannelAction | None):
            return cls(action=candidates)
        if not isinstance(candidates, Mapping):
            raise ValueError(
                "discover: expected candidates as a GroupAction or as functions by name, got a "
                f"{type(candidates).__name__}; use for example "
                'symshare.groups.dihedral(4).subset(["rot90"]), or {"louder": lambda x: 1.2 * x}'
            )
        for name, function in candidates.items():
            if not isinstance(name, str) or not name or not callable(function):
                raise ValueError(
                    f"discover: expected functions of a batch by name as candidates, got {name!r}: "
                    f"{function!r}; hand over for example {{'louder': lambda x: 1.2 * x}}"
                )
            if processes > 1:
                _check_pickled(name, function)
        return cls(functions=dict(candidates))

    def fingerprint(self, splits: Splits) -> str:
        """Hash of the data and of what each candidate makes of some of them.

        Raises:
            ValueError: where a function has the name of a candidate that is proposed, changes the
                shape or the type of images, makes what is not finite of them, or writes into them.
        """
        seen = splits.fingerprint
        channels, space = splits.train.images.shape[1], splits.train.space
        if isinstance(self.action, ChannelAction):
            moves = [tensor.tolist() for tensor in self.action.entries(channels, space)]
            seen += repr((self.action.names, moves))
        elif self.action is not None:
            grid = (channels,) if space == VECTOR else space
            seen += repr((self.action.names, self.action.permutation(grid).tolist()))
        known = hyperoctahedral(len(splits.train.space)).names
        for name, function in self.functions.items():
            if name in known or _PROPOSED.fullmatch(name):
                raise ValueError(
                    f"candidate {name!r}: a move that is proposed has, or may have, this name; "
                    "call the function something else"
                )
            moved = _tried(name, function, splits.train.images[:_PROBED])
            seen += name + hashlib.sha256(moved.numpy().tobytes()).hexdigest()
        if seen == splits.fingerprint:
            return seen
        return hashlib.sha256(seen.encode()).hexdigest()[:16]


def _check_pickled(name: str, function: Function) -> None:
    """Refuse a function that other processes cannot be given."""
    try:
        pickle.dumps(function)
    except Exception as error:  # pickle does not name what objects raise
        raise ValueError(
            f"candidate {name!r}: several processes cannot share it ({error}); define it by `def` "
            "in a module, or use one process"
        ) from error


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
