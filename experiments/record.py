"""`results.json`: every finished run of a budget, and which rows have none."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from experiments.budgets import BudgetName
from experiments.jobs import Job
from symshare.files import damaged, read_json, write_atomically

__all__ = ["RESULTS", "SCHEMA", "Record"]

RESULTS = "results.json"

SCHEMA = 1

NEEDED = {"row", "seed", "settings", "digest", "device", "threads", "torch"}
"""What every run has."""


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
    runs: dict[str, dict[str, Any]]

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
        runs = content["runs"]
        if not isinstance(runs, dict) or not all(
            isinstance(run, dict) and set(run) >= NEEDED for run in runs.values()
        ):
            raise ValueError(damaged(path))
        return cls(path, budget, runs)

    def has(self, job: Job) -> bool:
        """Whether a run with these settings has a result."""
        return self.runs.get(job.key, {}).get("digest") == job.digest

    def add(self, job: Job, result: dict[str, Any]) -> None:
        """Keep the result of a run."""
        self.runs[job.key] = {
            "row": job.row.name,
            "seed": job.seed,
            "settings": job.settings,
            **result,
        }

    def content(self) -> dict[str, Any]:
        """Plain values, runs in the order of their names."""
        runs = {key: self.runs[key] for key in sorted(self.runs)}
        return {"schema": SCHEMA, "budget": self.budget, "runs": runs}

    def write(self) -> None:
        """Write the file, whole or not at all."""
        text = json.dumps(self.content(), indent=1, allow_nan=False)
        write_atomically(self.path, (text + "\n").encode())
