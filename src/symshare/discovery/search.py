"""Which images are searched, and which candidates they propose."""

from symshare.data import LabelledImages, Splits, Transform, freeze, sample
from symshare.discovery.config import Budget
from symshare.groups import GroupAction
from symshare.propose import Candidates, propose


def judge_pool(splits: Splits, budget: Budget, seed: int) -> LabelledImages:
    """The images that may be proposed from and judged on: all but the test part, up to a limit."""
    return sample(splits.train.joined(splits.validation), budget.judge_images, seed)


def candidates_of(
    pool: LabelledImages,
    transform: Transform,
    seed: int,
    *,
    periodic: tuple[str, ...] = (),
    extra: GroupAction | None = None,
) -> Candidates:
    """Candidates from images as the transformation makes them, whatever their unit."""
    images = freeze(pool, transform, seed).images.double()
    images = ((images - images.mean()) / images.std().clamp_min(1e-300)).float()
    return propose(images, periodic=periodic, extra=extra, seed=seed)
