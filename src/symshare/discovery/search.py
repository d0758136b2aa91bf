"""The search itself: which images, which candidates, what networks say about each of them."""

from pathlib import Path

from torch import Tensor

from symshare.data import LabelledImages, Splits, Transform, sample
from symshare.discovery.config import Budget
from symshare.groups import GroupAction
from symshare.judge import Evidence, gather
from symshare.propose import Candidates, propose
from symshare.train.loop import Progress, freeze, unseen
from symshare.train.settings import Hardware, OptimConfig

__all__ = ["candidates_of", "evidence_on", "judge_pool"]


def judge_pool(splits: Splits, budget: Budget, seed: int) -> LabelledImages:
    """The images that may be proposed from and judged on: all but the test part, up to a limit."""
    return sample(splits.train.joined(splits.validation), budget.judge_images, seed)


def candidates_of(
    pool: LabelledImages,
    law: Transform,
    seed: int,
    *,
    periodic: tuple[str, ...] = (),
    extra: GroupAction | None = None,
) -> Candidates:
    """Candidates from images as the law makes them, whatever their unit."""
    images = _standardised(freeze(pool, law, seed).images)
    return propose(images, periodic=periodic, extra=extra, seed=seed)


def evidence_on(
    action: GroupAction,
    pool: LabelledImages,
    law: Transform,
    steps: int,
    seed: int,
    *,
    out: Path | None = None,
    progress: Progress = unseen,
    hardware: Hardware = Hardware(),
) -> Evidence:
    """What networks trained for so many steps say about every element but the identity."""
    height, width = pool.images.shape[2:]
    permutations = action.permutation((height, width))[1:]
    optim = OptimConfig(steps=steps, evaluations=1, lr=5e-3)
    return gather(
        pool, law, permutations, optim, seed, out=out, progress=progress, hardware=hardware
    )


def _standardised(images: Tensor) -> Tensor:
    """Images with mean zero and variance one, over all of them together."""
    images = images.double()
    return ((images - images.mean()) / images.std().clamp_min(1e-300)).float()
