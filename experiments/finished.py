"""`results.json`: every finished run of a budget, as typed records."""

import json
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import Any

from experiments.jobs import BudgetName, Job
from symshare.files import damaged, read_json, write_atomically

__all__ = [
    "RESULTS",
    "SCHEMA",
    "FinishedCost",
    "FinishedImages",
    "FinishedRun",
    "FinishedToy",
    "Record",
    "read_run",
]

RESULTS = "results.json"

SCHEMA = 1


@dataclass(frozen=True, kw_only=True)
class FinishedRun:
    """What every run left; the rest is read where it is needed.

    Attributes:
        row: name of its row.
        seed: of everything random.
        settings: those that are not defaults.
        digest: of the task and these settings.
        device: where it ran.
        threads: of the CPU.
        torch: version.
        content: all of it, as the file has it.
    """

    row: str
    seed: int
    settings: dict[str, Any]
    digest: str
    device: str
    threads: int
    torch: str
    content: dict[str, Any]

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> "FinishedRun":
        """From the values of the file.

        Raises:
            KeyError: where one is missing that every such run has.
        """
        names = [(f.name, f.default is MISSING) for f in fields(cls) if f.name != "content"]
        known = {name: content[name] for name, needed in names if needed or name in content}
        return cls(**known, content=content)

    def to_dict(self) -> dict[str, Any]:
        """The values of the file, as they were: also those that have no name here."""
        return self.content


@dataclass(frozen=True, kw_only=True)
class FinishedImages(FinishedRun):
    """A network that was trained on images.

    Attributes:
        test_accuracy: by test.
        elements: of its lifting layer.
        dictionary: names of the elements that it was given.
        parameters: base weights and all else that is free but the next.
        representation_parameters: those that make the stacks.
        seconds: of training and search.
        recovery: metrics of learned stacks in `layers`, `beside` the names of known elements.
        measure: the learned measure by element.
        learned: of each layer, what its stack was learned from moments to be, before training.
    """

    test_accuracy: dict[str, float]
    elements: int
    dictionary: list[str]
    parameters: int
    representation_parameters: int
    seconds: float
    recovery: dict[str, Any] | None = None
    measure: dict[str, float] | None = None
    learned: list[dict[str, Any]] | None = None


@dataclass(frozen=True, kw_only=True)
class FinishedToy(FinishedRun):
    """A toy problem; `experiments.toys.running.run_toy` tells what its numbers mean."""

    test_accuracy: float
    exact: float
    sharpness: float
    explained: float
    seconds: float
    support: dict[str, float] | None = None


@dataclass(frozen=True, kw_only=True)
class FinishedCost(FinishedRun):
    """What a layer costs.

    Attributes:
        rows: as `python -m benchmarks layer --json` prints them.
    """

    rows: list[dict[str, Any]]


def read_run(content: Mapping[str, Any]) -> FinishedRun:
    """A run on images, of a toy problem or of the cost; what it measured tells which.

    Raises:
        KeyError: where values are missing.
    """
    kind: type[FinishedRun] = FinishedImages
    if "rows" in content:
        kind = FinishedCost
    elif "exact" in content:
        kind = FinishedToy
    return kind.from_dict(dict(content))


@dataclass
class Record:
    """All results of one budget.

    A file that was written elsewhere counts too: its runs are not run again where their settings
    are the same.

    Attributes:
        path: of `results.json`.
        budget: of its runs.
        runs: results by the name of the run.
    """

    path: Path
    budget: BudgetName
    runs: dict[str, FinishedRun]

    @classmethod
    def read(cls, path: Path, budget: BudgetName) -> "Record":
        """What is there, or an empty record.

        Raises:
            ValueError: for a file that is damaged, of another budget or of a newer version.
        """
        if not path.exists():
            return cls(path, budget, {})
        content = read_json(path, "schema", "budget", "runs")
        if content["schema"] != SCHEMA or content["budget"] != budget:
            raise ValueError(
                f"{path}: expected schema {SCHEMA} and budget {budget}, got schema "
                f"{content['schema']} and budget {content['budget']}; choose another folder with "
                "--out"
            )
        try:
            runs = {name: read_run(run) for name, run in content["runs"].items()}
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise ValueError(damaged(path)) from error
        return cls(path, budget, runs)

    def has(self, job: Job) -> bool:
        """Whether a run with these settings has a result."""
        return job.key in self.runs and self.runs[job.key].digest == job.digest

    def add(self, job: Job, result: Mapping[str, Any]) -> FinishedRun:
        """Keep the result of a run."""
        told = {"row": job.row.name, "seed": job.seed, "settings": job.settings}
        self.runs[job.key] = read_run({**told, **result})
        return self.runs[job.key]

    def write(self) -> None:
        """Write the file, whole or not at all, runs in the order of their names."""
        runs = {key: self.runs[key].to_dict() for key in sorted(self.runs)}
        content = {"schema": SCHEMA, "budget": self.budget, "runs": runs}
        text = json.dumps(content, indent=1, allow_nan=False)
        write_atomically(self.path, (text + "\n").encode())
