"""What a toy run is: importing this does not import torch."""

from dataclasses import dataclass
from typing import Any, Literal, get_args

__all__ = ["Task", "ToyConfig", "toy_config"]

Task = Literal[
    "toy-shift",
    "toy-shift-invariant",
    "toy-shift-half",
    "toy-arrows",
    "toy-cube",
    "toy-cube-partial",
]

# More would make a stack of many millions of logits.
MOST_POSITIONS = 400


@dataclass(frozen=True)
class ToyConfig:
    """One run of a toy problem. The defaults are those of "toy-shift"; see `toy_config`.

    Attributes:
        task: which problem.
        seed: of the canonical vectors, the samples and the start of the layer.
        size: length of the ring, or side of the image or of the voxel grid.
        canonical: number C of canonical vectors, each a class of its own. The loss sees R_g only
            on their span, so few of them leave R_g free elsewhere; with C = D, the number of
            positions, nothing is free.
        noise: standard deviation of the noise on every position.
        measure: weights of the elements that occur, in the order of the problem's names; they
            need not sum to 1. None for the task's own measure.
        steps: optimiser steps.
        batch_size: samples in a step, each drawn anew.
        lr: learning rate of the base weights at the start (Adam); it falls along a cosine.
        representation_lr: that of the logits.
        warmup: share of the steps before the logits start to move. Where the element is known,
            the base weights find the canonical vectors in them, through the anchored identity;
            logits that move at once adapt to weights that are still random.
        entropy: final weight of the entropy of an element [1/nats]. It rises linearly from
            `sharpening` to the end.
        sharpening: share of the steps after which the entropy counts.
        init: how logits start, see `symshare.Sinkhorn`. From "paper" every learned element is
            nearly the average over positions when the logits begin to move; from "sharp" it is
            near a wrong permutation, which it seldom leaves.
        blur: of the invariant task, where the element is unknown: the standard deviation with
            which the loss starts to compare samples and kernels, instead of `noise`. It falls
            geometrically to 3 `noise` until `sharpening`.
    """

    task: Task
    seed: int = 0
    size: int = 12
    canonical: int = 12
    noise: float = 0.1
    measure: tuple[float, ...] | None = None
    steps: int = 700
    batch_size: int = 256
    lr: float = 0.1
    representation_lr: float = 0.1
    warmup: float = 0.15
    entropy: float = 0.3
    sharpening: float = 0.5
    init: Literal["paper", "sharp"] = "paper"
    blur: float = 3.0

    @property
    def shape(self) -> tuple[int, ...]:
        """Of a signal.

        >>> toy_config("toy-cube").shape
        (3, 3, 3)
        """
        return (self.size,) * _DIMS[self.task]

    @property
    def positions(self) -> int:
        """D, the number of positions of a signal."""
        return self.size ** _DIMS[self.task]

    def __post_init__(self) -> None:
        """Refuse what no run can have."""
        if self.task not in _DIMS:
            raise ValueError(f"task must be one of {', '.join(_DIMS)}, got {self.task!r}")
        if not 0 <= self.seed < 2**32:
            raise ValueError(f"seed must be at least 0 and below 2**32, got {self.seed}")
        least = 5 if self.task == "toy-arrows" else 2
        if self.size < least or self.positions > MOST_POSITIONS:
            raise ValueError(
                f"{self.task}: expected a size of at least {least} and at most {MOST_POSITIONS} "
                f"positions, got size={self.size}; toy_config({self.task!r}) has the task's own"
            )
        for name in ("canonical", "steps", "batch_size"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")
        for name in ("noise", "lr", "representation_lr", "blur"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} must be positive, got {getattr(self, name)}")
        for name in ("warmup", "sharpening"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name} is a share of the steps, got {getattr(self, name)}")
        if not self.entropy >= 0:
            raise ValueError(f"entropy must be at least 0, got {self.entropy}")
        if self.init not in ("paper", "sharp"):
            raise ValueError(f"init must be 'paper' or 'sharp', got {self.init!r}")
        if self.measure is not None and not (
            self.measure and self.measure[0] > 0 and all(weight >= 0 for weight in self.measure)
        ):
            raise ValueError(
                f"measure must hold weights of at least 0, the identity's above 0, got "
                f"{self.measure}; without the identity nothing tells the canonical vectors"
            )


_DIMS: dict[str, int] = dict.fromkeys(get_args(Task), 1)
_DIMS |= {"toy-arrows": 2, "toy-cube": 3, "toy-cube-partial": 3}

_OWN: dict[str, dict[str, Any]] = {
    # Where g is unknown, two elements may settle on one shift. More vectors and a slow fall of
    # the blur prevent it.
    "toy-shift-invariant": {"canonical": 24, "steps": 2000, "lr": 0.05, "representation_lr": 0.05},
    # Interpolated elements are not sharp, so nothing should make them so.
    "toy-arrows": {"size": 7, "canonical": 40, "entropy": 0.0},
    "toy-cube": {"size": 3, "canonical": 27},
    "toy-cube-partial": {"size": 3, "canonical": 27},
}


def toy_config(task: Task, **overrides: Any) -> ToyConfig:
    """The configuration of a toy problem, with the task's own sizes and steps.

    | task | signal | D | C | steps | entropy |
    |---|---|---|---|---|---|
    | toy-shift, toy-shift-half | ring of 12 | 12 | 12 | 700 | 0.3 |
    | toy-shift-invariant | ring of 12 | 12 | 24 | 2000 | 0.3 |
    | toy-arrows | image 7 x 7 | 49 | 40 | 700 | 0 |
    | toy-cube, toy-cube-partial | voxels 3 x 3 x 3 | 27 | 27 | 700 | 0.3 |

    The noise is 0.1 everywhere, on values of standard deviation 1 (arrows: on lines of
    brightness 1).

    Args:
        task: which problem.
        **overrides: other values of any attribute of `ToyConfig`.

    Raises:
        ValueError: for an unknown task or values that no run can have.

    >>> toy_config("toy-arrows", steps=50).shape
    (7, 7)
    """
    return ToyConfig(task=task, **{**_OWN.get(task, {}), **overrides})
