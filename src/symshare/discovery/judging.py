"""What networks say of the candidates, and the verdict that follows."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType

from symshare.data import LabelledImages, Transform
from symshare.discovery.search import candidates_of
from symshare.groups import ChannelAction, GroupAction
from symshare.judge import Evidence, Function, Verdict, decide, gather, is_settled
from symshare.propose import Candidates
from symshare.train.loop import Progress, unseen
from symshare.train.settings import Hardware, OptimConfig

CHECK = 50
"""Steps of a witness between two looks at whether it still learns."""


def witness_optim(steps: int) -> OptimConfig:
    """How a witness is trained, at most for so many steps."""
    evaluations = max(steps // CHECK, 1)
    return OptimConfig(
        steps=steps, evaluations=evaluations, batch_size=32, lr=5e-3, schedule="constant"
    )


def evidence_on(
    action: GroupAction | ChannelAction,
    pool: LabelledImages,
    transform: Transform,
    steps: int,
    seed: int,
    *,
    functions: Mapping[str, Function] = MappingProxyType({}),
    out: Path | None = None,
    progress: Progress = unseen,
    hardware: Hardware = Hardware(),
) -> Evidence:
    """What networks trained for so many steps say about every element but the identity.

    Rows of functions, which are no elements, come behind theirs.
    """
    sources, signs = action.entries(pool.images.shape[1], pool.space)
    optim = witness_optim(steps)
    return gather(
        pool,
        transform,
        sources[1:],
        optim,
        seed,
        signs=signs[1:],
        functions=list(functions.values()),
        decided=partial(is_settled, action=action, functions=tuple(functions)),
        out=out,
        progress=progress,
        hardware=hardware,
    )


def verdict_on(
    pool: LabelledImages,
    transform: Transform,
    steps: int,
    seed: int,
    *,
    periodic: tuple[str, ...] = (),
) -> tuple[Candidates, Verdict]:
    """Propose and judge as `symshare discover` does, without a folder.

    Args:
        pool: images as :func:`judge_pool` gives them.
        transform: what makes them what they are.
        steps: most optimiser steps of each network of the held-out tests.
        seed: of everything random.
        periodic: axes along which images wrap around, by their letters in `symshare.names.AXES`.
    """
    candidates = candidates_of(pool, transform, seed, periodic=periodic)
    action = candidates.action()
    return candidates, decide(evidence_on(action, pool, transform, steps, seed), action)
