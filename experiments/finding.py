"""What the paired held-out test finds in the training images of a run."""

import hashlib
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from experiments.image_settings import ImageRun
from symshare import __version__, groups
from symshare.data import Splits, Transform
from symshare.discovery.config import BUDGETS
from symshare.discovery.judging import verdict_on
from symshare.discovery.plan import kernel_elements
from symshare.discovery.search import judge_pool
from symshare.files import read_json, write_atomically
from symshare.groups import Action, ChannelMap, generated

__all__ = ["Finding", "closed", "find", "once"]

BUDGET = BUDGETS["quick"]
"""Of `symshare discover`."""


@dataclass(frozen=True)
class Finding:
    """The part of a verdict that a network is built from.

    Attributes:
        found: names of the elements of a group, exact or approximate, as they act on kernels; the
            identity left out.
        partial: names of broken elements that keep much of every class, where there is no group.
        seconds: that the search took.
    """

    found: tuple[str, ...]
    partial: tuple[str, ...]
    seconds: float


def find(splits: Splits, transform: Transform, seed: int, steps: int) -> Finding:
    """Propose and judge as `symshare discover` does, on training and validation images.

    Args:
        splits: where to look; the test part is not read.
        transform: of the training images.
        seed: of the search.
        steps: most optimiser steps of each network of the held-out test.
    """
    start = time.perf_counter()
    pool = judge_pool(splits, BUDGET, seed)
    candidates, verdict = verdict_on(pool, transform, min(BUDGET.judge_steps, steps), seed)
    still = ChannelMap.identity(pool.images.shape[1])
    members, partial = (
        tuple(
            name
            for name, channels in kernel_elements(candidates, names, still)
            if channels == still
        )
        for names in (verdict.found or verdict.approximate, verdict.partial)
    )
    return Finding(
        members,
        partial,
        round(time.perf_counter() - start, 1),
    )


def once(folder: Path | None, config: ImageRun, search: Callable[[], Finding]) -> Finding:
    """What a search finds; rows with the same images and seed share one, the first that ends.

    Args:
        folder: where findings are kept; None keeps none.
        config: of the run.
        search: looks for it, where it is not there yet.
    """
    if folder is None:
        return search()
    seen = ("source", "train", "limit", "frozen", "parts")
    images = {name: asdict(config.images)[name] for name in seen}
    told = [images, config.seed, min(BUDGET.judge_steps, config.optim.steps), __version__]
    name = hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:16]
    path = folder / f"{name}.json"
    if not path.exists():
        finding = search()
        if not path.exists():
            write_atomically(path, json.dumps(asdict(finding)).encode())
    kept = read_json(path, "found", "partial", "seconds")
    return Finding(tuple(kept["found"]), tuple(kept["partial"]), kept["seconds"])


def closed(names: Sequence[str]) -> Action:
    """The group that the named symmetries of the square generate.

    >>> closed(["rot90"])
    GroupAction(id, rot90, rot180, rot270)
    """
    square = groups.dihedral(4)
    table = square.table.tolist()
    members = generated(map(square.names.index, names), lambda g, h: table[g][h])
    return square.subset([square.names[g] for g in members])
