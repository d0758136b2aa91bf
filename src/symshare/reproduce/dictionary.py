"""The elements that a network is given: a named group, or what is found in its training images."""

from symshare import groups
from symshare.data import Splits, Transform, sample
from symshare.fit.config import OptimConfig
from symshare.fit.train import freeze
from symshare.groups import Action
from symshare.judge import decide, gather
from symshare.propose import propose

__all__ = ["dictionary", "found"]

JUDGE_IMAGES = 8000
JUDGE_STEPS = 600
"""As the quick budget of `symshare discover`."""

_NAMED = {
    "C1": lambda: groups.rotations(1),
    "C2": lambda: groups.rotations(2),
    "C4": lambda: groups.rotations(4),
    "C8": lambda: groups.rotations(8),
    "D2": lambda: groups.dihedral(2),
    "D4": lambda: groups.dihedral(4),
    "flipW": lambda: groups.flips("W"),
}


def dictionary(name: str, splits: Splits, law: Transform, seed: int, steps: int) -> Action:
    """The named elements, or with "found" those of the data.

    Args:
        name: a group, or "found".
        splits: where to look; the test part is not read.
        law: transformation of the training images.
        seed: of the search.
        steps: most optimiser steps of each judging network.

    Raises:
        ValueError: for a name that is not known.
    """
    if name == "found":
        return found(splits, law, seed, steps)
    if name not in _NAMED:
        raise ValueError(
            f"network.group: expected one of {', '.join(_NAMED)} or found, got {name!r}"
        )
    return _NAMED[name]()


def found(splits: Splits, law: Transform, seed: int, steps: int = JUDGE_STEPS) -> Action:
    """The symmetries of the square that the paired held-out test finds; at least the identity.

    Only the verdict "group" counts. Where there is none, the network has the identity alone.
    """
    pool = sample(splits.train.joined(splits.validation), JUDGE_IMAGES, seed)
    candidates = propose(freeze(pool, law, seed).images, seed=seed)
    action = candidates.action()
    optim = OptimConfig(steps=min(JUDGE_STEPS, steps), evaluations=1, lr=5e-3)
    permutations = action.permutation(candidates.shape)[1:]
    verdict = decide(gather(pool, law, permutations, optim, seed), action, candidates.residuals)
    square = groups.dihedral(4)
    return square.subset([name for name in verdict.found if name in square.names])
