"""From a row and a budget (the paper's size, one for two CPU cores, or a glance) to its runs."""

import hashlib
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields, is_dataclass, replace
from functools import cache
from typing import Any, Literal

import yaml

from benchmarks.options import LayerConfig
from experiments.catalogue import Row, Task, merged, select
from experiments.image_settings import ImageRun
from experiments.toys.setup import ToyConfig, toy_config

__all__ = [
    "BUDGETS",
    "Budget",
    "BudgetName",
    "Job",
    "RunConfig",
    "digest",
    "jobs",
    "own_job",
    "settings",
]

RunConfig = ImageRun | ToyConfig | LayerConfig
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


@dataclass(frozen=True)
class Job:
    """One run of a row.

    Attributes:
        row: the row.
        seed: of everything random.
        config: its settings, checked.
    """

    row: Row
    seed: int
    config: RunConfig

    @property
    def key(self) -> str:
        """Name of the run.

        >>> from experiments.catalogue import select
        >>> [job.key for job in jobs(select("toy-cube"), "cpu", seeds=2)]
        ['toy-cube/cube-seed0', 'toy-cube/cube-seed1']
        """
        return f"{self.row.name}-seed{self.seed}"

    @property
    def settings(self) -> dict[str, Any]:
        """Those that differ from the defaults: an option that comes later changes nothing here."""
        return _chosen(self.config)

    @property
    def digest(self) -> str:
        """Hash of the settings: a run with the same one is the same run."""
        text = json.dumps([self.row.task, self.settings], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def own_job(row: Row, budget: BudgetName, seed: int) -> Job:
    """A row's own run, as its file says it now."""
    return Job(row, seed, replace(_own_settings(row.name, budget), seed=seed))


def digest(row: Row, budget: BudgetName, seed: int) -> str:
    """That of a row's own run."""
    return own_job(row, budget, seed).digest


@cache
def _own_settings(name: str, budget: BudgetName) -> Any:
    return settings(select(name)[0], budget, seed=0)


def jobs(
    rows: list[Row], budget: BudgetName, seeds: int | None = None, changes: tuple[str, ...] = ()
) -> list[Job]:
    """All runs of some rows, tier by tier and then seed by seed, so that tables fill evenly.

    Args:
        rows: the rows.
        budget: the size of the runs.
        seeds: runs of each row; None for as many as the budget has.
        changes: settings to put in the place of the rows' own, as "optim.lr=0.001".

    Raises:
        ValueError: for settings that are unknown or have no such value.
    """
    if seeds is not None and seeds < 1:
        raise ValueError(f"seeds must be at least 1, got {seeds}")
    own = {
        "images": BUDGETS[budget].seeds,
        "toy": BUDGETS[budget].toy_seeds,
        "cost": 1,
    }
    # A changed row is another row, and has results of its own.
    tag = hashlib.sha256(repr(sorted(changes)).encode()).hexdigest()[:6]
    named = [replace(row, name=f"{row.name}-changed-{tag}") if changes else row for row in rows]
    every = [
        Job(row, seed, settings(row, budget, seed, changes))
        for row in named
        for seed in range(1 if row.task == "cost" else seeds or own[row.task])
    ]
    order = {id(row): i for i, row in enumerate(named)}
    return sorted(every, key=lambda job: (job.row.tier, job.seed, order[id(job.row)]))


def settings(row: Row, budget: BudgetName, seed: int, changes: tuple[str, ...] = ()) -> RunConfig:
    """Checked settings of one run.

    Raises:
        ValueError: for settings that are unknown or have no such value.
    """
    try:
        values = merged(row.config, row.cpu if budget != "paper" else {})
        values = merged(_sized(row.task, values, budget), {"seed": seed})
        for change in changes:
            values = merged(values, _change(change))
        config = _RUN_OF[row.task](values)
        json.dumps(asdict(config), allow_nan=False)
    except ValueError as error:
        raise ValueError(f"{row.name}: {error}") from error
    except (TypeError, KeyError, AttributeError) as error:
        raise ValueError(
            f"{row.name}: a setting is missing or of the wrong kind: {error!r}"
        ) from error
    return config


_RUN_OF: dict[Task, Callable[[dict[str, Any]], RunConfig]] = {
    "images": ImageRun.from_dict,
    "toy": lambda values: toy_config(**_known(ToyConfig, values)),
    "cost": lambda values: LayerConfig(**_known(LayerConfig, values)),
}


def _known(config: type[ToyConfig | LayerConfig], values: dict[str, Any]) -> dict[str, Any]:
    names = [field.name for field in fields(config)]
    for name in values:
        if name not in names:
            raise ValueError(f"no setting {name!r}; choose among {', '.join(names)}")
    return values


def _chosen(config: Any) -> dict[str, Any]:
    """Nested values of a dataclass that are not its defaults."""
    chosen = {}
    for field in fields(config):
        value = getattr(config, field.name)
        if is_dataclass(value):
            value = _chosen(value)
            default: Any = {}
        else:
            default = field.default_factory() if callable(field.default_factory) else field.default
        if value != default:
            chosen[field.name] = value
    return chosen


def _sized(task: Task, values: dict[str, Any], budget: BudgetName) -> dict[str, Any]:
    size = BUDGETS[budget]
    if task == "images":
        network = values.get("network", {})
        architecture = "residual" if network.get("architecture") == "residual" else "mnist"
        width = max(1, round(network.get("width", 64) * size.width))
        on_all = values.get("images", {}).get("holdout") == "test"
        steps = size.steps_on_all if on_all else size.steps
        optim = {"steps": steps[architecture], "batch_size": size.batch_size[architecture]}
        sizes: dict[str, Any] = {"network": {"width": width}, "images": {}}
        if size.limit is not None:
            limit = min(size.limit, values.get("images", {}).get("limit") or size.limit)
            sizes["images"] = {"limit": limit, "test_limit": size.limit}
            optim |= {"evaluations": 1, "validation_images": 64}
        # A row may say how long it is trained whatever the budget.
        sizes["optim"] = optim | values.get("optim", {}) if budget != "smoke" else optim
        return merged(values, sizes)
    if task == "toy":
        steps = values.get("steps", toy_config(values["task"]).steps)
        return values | {"steps": max(1, round(steps * size.toy_steps))}
    return values | ({"rounds": 1, "seconds": 1.0} if budget == "smoke" else {})


def _change(text: str) -> dict[str, Any]:
    """Nested settings from "a.b=value".

    >>> _change("optim.lr=0.001")
    {'optim': {'lr': 0.001}}
    """
    path, equals, value = text.partition("=")
    if path.strip() in ("seed", "task"):
        raise ValueError(f"{text!r} would make it another run; use --seeds, or a row of your own")
    if not equals or not path:
        raise ValueError(f"expected setting=value, got {text!r}; for example optim.lr=1")
    *outer, last = path.strip().split(".")
    try:
        nested: dict[str, Any] = {last: _number(yaml.safe_load(value))}
    except yaml.YAMLError as error:
        raise ValueError(f"the value in {text!r} is no YAML; quote it") from error
    for name in reversed(outer):
        nested = {name: nested}
    return nested


def _number(value: Any) -> Any:
    """The value, where YAML takes a number such as 1e-3 for text as that number."""
    try:
        return float(value) if isinstance(value, str) else value
    except ValueError:
        return value
