"""What the paired held-out test finds in the training images of a run."""

import hashlib
import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from symshare import __version__
from symshare.data import Splits, Transform, sample
from symshare.files import read_json, write_atomically
from symshare.fit.config import OptimConfig
from symshare.fit.train import freeze
from symshare.judge import decide, gather
from symshare.propose import propose
from symshare.reproduce.config import ImageRun

__all__ = ["Finding", "find", "once"]

JUDGE_IMAGES = 8000
JUDGE_STEPS = 600
"""As the quick budget of `symshare discover`."""


@dataclass(frozen=True)
class Finding:
    """The part of a verdict that a network is built from.

    Attributes:
        found: names of the elements of an exact group, the identity left out.
        partial: names of broken elements that keep much of every class, where there is no group.
        seconds: that the search took.
    """

    found: tuple[str, ...]
    partial: tuple[str, ...]
    seconds: float


def find(splits: Splits, law: Transform, seed: int, steps: int = JUDGE_STEPS) -> Finding:
    """Propose and judge, on training and validation images.

    Args:
        splits: where to look; the test part is not read.
        law: transformation of the training images.
        seed: of the search.
        steps: most optimiser steps of each judging network.
    """
    start = time.perf_counter()
    pool = sample(splits.train.joined(splits.validation), JUDGE_IMAGES, seed)
    candidates = propose(freeze(pool, law, seed).images, seed=seed)
    action = candidates.action()
    optim = OptimConfig(steps=min(JUDGE_STEPS, steps), evaluations=1, lr=5e-3)
    permutations = action.permutation(candidates.shape)[1:]
    verdict = decide(gather(pool, law, permutations, optim, seed), action, candidates.residuals)
    return Finding(verdict.found, verdict.partial, round(time.perf_counter() - start, 1))


def once(folder: Path | None, config: ImageRun, search: Callable[[], Finding]) -> Finding:
    """What a search finds; rows with the same images and seed share one.

    Args:
        folder: where findings are kept; None keeps none.
        config: of the run.
        search: looks for it, where it is not there yet.
    """
    if folder is None:
        return search()
    images = {k: v for k, v in asdict(config.images).items() if k not in ("test", "test_limit")}
    told = [images, config.seed, min(JUDGE_STEPS, config.optim.steps), __version__]
    name = hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:16]
    path = folder / f"{name}.json"
    if path.exists():
        kept = read_json(path, "found", "partial", "seconds")
        return Finding(tuple(kept["found"]), tuple(kept["partial"]), kept["seconds"])
    finding = search()
    write_atomically(path, json.dumps(asdict(finding)).encode())
    return finding
