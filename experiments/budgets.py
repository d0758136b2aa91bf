"""How much of a study is run: the paper's size, one for two CPU cores, or a glance."""

from dataclasses import dataclass
from typing import Literal

__all__ = ["BUDGETS", "Budget", "BudgetName"]

BudgetName = Literal["smoke", "cpu", "paper"]


@dataclass(frozen=True)
class Budget:
    """The size of every run.

    Attributes:
        seeds: runs of each row, unless said otherwise.
        width: factor of the paper's width.
        steps: optimiser steps by architecture.
        steps_on_all: the same where the validation part is trained on too.
        batch_size: images in a step, by architecture.
        limit: most images for training and validation together.
        toy_steps: factor of a toy problem's own number of steps.
        toy_seeds: runs of each toy problem.
    """

    seeds: int
    width: float
    steps: dict[str, int]
    steps_on_all: dict[str, int]
    batch_size: dict[str, int]
    limit: int | None
    toy_steps: float
    toy_seeds: int


BUDGETS: dict[BudgetName, Budget] = {
    "smoke": Budget(
        seeds=1,
        width=1 / 16,
        steps={"mnist": 4, "residual": 2},
        steps_on_all={"mnist": 4, "residual": 2},
        batch_size={"mnist": 16, "residual": 4},
        limit=200,
        toy_steps=0.01,
        toy_seeds=1,
    ),
    "cpu": Budget(
        seeds=3,
        width=1 / 4,
        steps={"mnist": 1500, "residual": 400},
        steps_on_all={"mnist": 1500, "residual": 400},
        batch_size={"mnist": 64, "residual": 64},
        limit=None,
        toy_steps=1.0,
        toy_seeds=10,
    ),
    "paper": Budget(
        seeds=5,
        width=1.0,
        steps={"mnist": 100 * 762, "residual": 200 * 318},
        steps_on_all={"mnist": 100 * 938, "residual": 200 * 391},
        batch_size={"mnist": 64, "residual": 128},
        limit=None,
        toy_steps=1.0,
        toy_seeds=10,
    ),
}
"""`paper` counts the paper's epochs (100, and 200 on CIFAR-10) in steps over the training part:
what the validation part leaves, 81.25 % of the images, or all of them."""
