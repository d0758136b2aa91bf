"""Which images are searched, and which candidates they propose."""

from symshare.data import LabelledImages, Splits, Transform, freeze, sample
from symshare.discovery.config import Budget
from symshare.groups import ChannelAction, GroupAction
from symshare.propose import Candidates, propose

_OFFSET = 100.0
"""Spreads from zero at which the mean of data is taken out."""


def judge_pool(splits: Splits, budget: Budget, seed: int) -> LabelledImages:
    """The images that may be proposed from and judged on: all but the test part, up to a limit."""
    return sample(splits.train.joined(splits.validation), budget.judge_images, seed)


def candidates_of(
    pool: LabelledImages,
    transform: Transform,
    seed: int,
    *,
    periodic: tuple[str, ...] = (),
    extra: GroupAction | ChannelAction | None = None,
    channels: tuple[str, ...] = (),
) -> Candidates:
    """Candidates from images as the transformation makes them, whatever their unit."""
    images = freeze(pool, transform, seed).images.double()
    mean, spread = images.mean(), images.std().clamp_min(1e-300)
    # Zero stays zero, where signs may change; an offset that would cost digits is no such zero.
    offset = mean if mean.abs() > _OFFSET * spread else 0.0
    images = ((images - offset) / spread).float()
    return propose(images, periodic=periodic, extra=extra, channels=channels, seed=seed)
