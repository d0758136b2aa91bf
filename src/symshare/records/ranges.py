"""What `verdict.json` says about moves with a size, and what follows from all that was found."""

from dataclasses import dataclass
from typing import Literal

from symshare.records.record import Record

AdviceKind = Literal["build in", "augment", "keep away"]
"""What to do with a move: share weights over it, augment with it, or neither."""


@dataclass(frozen=True)
class ExaminedSize:
    """What was said about moves of one size.

    Attributes:
        size: In the unit of the family; below zero where a move goes the other way.
        excess_loss: Mean over held-out images of the loss of the moved image less that of its
            baseline, in nats.
        interval: Bounds of it in nats, which hold for all sizes of the family together.
        resampling_loss: Mean of the loss of the baseline less that of the image as it is, in nats:
            what interpolation, borders and padding cost by themselves.
        change: How well a network tells moved images from their baselines, as the change of a
            candidate; null at sizes that it was not taught.
        change_interval: Bounds of it, as those of the excess; null with `change`.
        unnoticed: Whether the change was shown to be below the bound `change` of the verdict; null
            with `change`.
        safe: Whether the excess was shown to be below `delta` and no class was shown to break.
        safe_approximate: The same of `delta_approximate`.
        broken: Whether the excess was shown to be above `delta`, or some class to break.
        classes_broken: Classes, by index, that were shown to lose more than 40 % of what the
            networks know about them.
    """

    size: float
    excess_loss: float
    interval: tuple[float, float]
    resampling_loss: float
    change: float | None
    change_interval: tuple[float, float] | None
    unnoticed: bool | None
    safe: bool
    safe_approximate: bool
    broken: bool
    classes_broken: tuple[int, ...]


@dataclass(frozen=True)
class Reach:
    """Sizes around zero of which something was shown at every size that was examined.

    Attributes:
        low: The smallest; 0 where it was shown of no size below zero.
        high: The largest.
        beyond_low: The next size below it that was examined, where it was not shown: the end lies
            between the two. Null where it was shown up to the smallest size that was examined.
        beyond_high: The same above it.
    """

    low: float
    high: float
    beyond_low: float | None
    beyond_high: float | None


@dataclass(frozen=True)
class Range(Record):
    """One family of moves, and the sizes that the labels bear.

    Attributes:
        family: Such as `turn` or `scale`.
        unit: Of its sizes, such as `degrees`; `times` where sizes count doublings.
        doubling: Whether a size s is the factor 2^s.
        signed: Whether there are sizes below zero.
        resampled: Whether images are interpolated or cross their border, so that the baseline is
            an image that was moved and moved back; else it is the image itself.
        limit: The largest size that would have been examined.
        safe: Sizes with an excess loss below `delta`.
        safe_approximate: Sizes with one below `delta_approximate`.
        unnoticed: Sizes at which the network does not tell moved images from their baselines
            either: what these moves make, the data holds already, as far as it sees.
        sizes: All that were examined, from small to large.
    """

    family: str
    unit: str
    doubling: bool
    signed: bool
    resampled: bool
    limit: float
    safe: Reach
    safe_approximate: Reach
    unnoticed: Reach
    sizes: tuple[ExaminedSize, ...]


@dataclass(frozen=True)
class Ranges(Record):
    """What was found about moves with a size.

    Attributes:
        families: One for each family that was asked for; empty where nothing could be decided.
        reasons: Why nothing could be decided; empty where it could.
        delta: Excess loss, in nats, that passes for zero: 5 % of what these networks know.
        delta_approximate: The looser bound, four times as much.
        samples: Number of held-out images that were asked about.
        independent: Number of their clusters.
        spread: Spread of the values of each channel: what the unit `spreads` is.
        clipped: Whether values are kept between 0 and 1, as those of pictures.
        shape: Length of each axis of space.
        seconds: Time spent, in s.
    """

    families: tuple[Range, ...]
    reasons: tuple[str, ...]
    delta: float
    delta_approximate: float
    samples: int
    independent: int
    spread: tuple[float, ...]
    clipped: bool
    shape: tuple[int, ...]
    seconds: float


@dataclass(frozen=True)
class Advice:
    """One line of advice with its evidence.

    Attributes:
        kind: `build in`: an exact symmetry, to share weights over, or to augment with at random.
            `augment`: moves that the labels bear. `keep away`: moves that they do not.
        what: The move, or the range of sizes, in words.
        why: The evidence behind it.
        elements: Exact moves that it is about, by name; empty for a range.
        family: The family of a range; null for exact moves.
        low: Smallest size of a range to augment with, in the unit of the family; of a range to
            keep away from, the size from which on downwards. Null for exact moves, and where
            nothing was shown on this side.
        high: The same upwards.
    """

    kind: AdviceKind
    what: str
    why: str
    elements: tuple[str, ...]
    family: str | None
    low: float | None
    high: float | None
