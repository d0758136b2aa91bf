"""Run the rows of studies: each run in a process of its own, none twice, failures reported."""

import os
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from experiments.catalogue import Tier, select
from experiments.finished import RESULTS, FinishedRun, Record
from experiments.jobs import BudgetName, Job, jobs
from experiments.processes import LOG, RunProcess, result_in
from experiments.result_page import page as render
from symshare.files import alone, write_atomically

__all__ = [
    "Failure",
    "Observer",
    "Outcome",
    "PictureFormat",
    "Progress",
    "Settings",
    "StudyData",
    "run_studies",
]

PictureFormat = Literal["svg", "pdf", "png"]

POLL = 0.1
"""Seconds between looks at the processes."""


@dataclass(frozen=True)
class StudyData:
    """Where the images lie.

    Attributes:
        root: folder of the files of MNIST and CIFAR-10, or one with folders mnist and cifar10;
            by default the Hugging Face Hub.
    """

    root: str | None = None


@dataclass(frozen=True)
class Settings:
    """How studies are run.

    Attributes:
        budget: the size of the runs.
        seeds: runs of each row; None for as many as the budget has.
        tiers: those that are run.
        processes: runs at a time; None for one for each CPU core, or one with an accelerator.
        changes: settings in the place of the rows' own, as "optim.lr=0.001".
        root: folder of the data sets, or of one of them.
        out: folder for everything.
        form: of the figures.
    """

    budget: BudgetName = "cpu"
    seeds: int | None = None
    tiers: tuple[Tier, ...] = ("A", "B", "C")
    processes: int | None = None
    changes: tuple[str, ...] = ()
    root: str | None = None
    out: str = "runs/experiments"
    form: PictureFormat = "svg"

    def __post_init__(self) -> None:
        """Refuse numbers that no study can have."""
        if self.processes is not None and self.processes < 1:
            raise ValueError(f"processes must be at least 1, got {self.processes}")
        if self.root is not None and not Path(self.root).is_dir():
            raise ValueError(f"data.root: there is no folder {self.root}")

    @property
    def folder(self) -> Path:
        """Of this budget."""
        return Path(self.out) / self.budget


@dataclass(frozen=True)
class Failure:
    """A run that ended without a result.

    Attributes:
        job: the run.
        reason: the last line that it printed.
        log: all that it printed.
    """

    job: Job
    reason: str
    log: Path


@dataclass(frozen=True)
class Progress:
    """Where a study stands.

    Attributes:
        job: what has just begun or ended.
        done: runs with a result.
        total: all runs.
        left: estimated time to the end [s]; None while nothing is known.
        run: one that has ended.
    """

    job: Job
    done: int
    total: int
    left: float | None = None
    run: FinishedRun | None = None


@dataclass(frozen=True)
class Outcome:
    """What a call of `run_studies` left.

    Attributes:
        results: path of `results.json`.
        page: path of `results.md`.
        figures: of the studies, where all of them or the figures were asked for.
        failures: runs that failed; the same command tries them again.
        ran: number of runs that this call finished.
    """

    results: Path
    page: Path
    figures: tuple[Path, ...]
    failures: tuple[Failure, ...]
    ran: int


class Observer:
    """Is told what happens; this one keeps it to itself."""

    def started(self, settings: Settings, total: int, waiting: int) -> None:
        """So many runs in total, of which so many have no result yet."""

    def begun(self, progress: Progress) -> None:
        """A run began."""

    def ended(self, progress: Progress) -> None:
        """A run ended with a result."""

    def failed(self, failure: Failure) -> None:
        """A run ended without one."""

    def finished(self, outcome: Outcome) -> None:
        """All runs have ended."""


def run_studies(what: str, settings: Settings, observer: Observer | None = None) -> Outcome:
    """Run every row that a name stands for, as far as it has no result yet.

    Args:
        what: "all", a study, a row, or the path of a row's YAML file.
        settings: how.
        observer: is told what happens.

    Raises:
        ValueError: for unknown names or settings, or a damaged record.
        OSError: for a folder that is in use, or cannot be written.
    """
    observer = observer or Observer()
    every = jobs(select(what, settings.tiers), settings.budget, settings.seeds, settings.changes)
    if not every:
        raise ValueError(f"experiments: {what} has no row of the tiers {', '.join(settings.tiers)}")
    folder = settings.folder
    with alone(folder):
        record = Record.read(folder / RESULTS, settings.budget)
        for job in every:
            found = result_in(folder / job.key, job)
            if found is not None and not record.has(job):
                record.add(job, found)
        waiting = [job for job in every if not record.has(job)]
        observer.started(settings, len(every), len(waiting))
        page = folder / "results.md"
        try:
            failures, ran = _run_all(waiting, len(every), record, settings, observer)
        finally:
            record.write()
            write_atomically(page, render(record).encode())
        figures = []
        if what in ("all", "figures"):
            from experiments.result_figures import draw  # imports torch

            figures = draw(record, settings.form)
    outcome = Outcome(record.path, page, tuple(figures), tuple(failures), ran)
    observer.finished(outcome)
    return outcome


def _run_all(
    waiting: list[Job], total: int, record: Record, settings: Settings, observer: Observer
) -> tuple[list[Failure], int]:
    processes, threads = _share(settings.processes)
    queue, running, failures, ran = list(waiting), {}, [], 0
    spent: list[float] = []
    try:
        while queue or running:
            while queue and len(running) < processes and _may_start(queue[0], running.values()):
                job = queue.pop(0)
                cores = threads * processes if job.row.task == "cost" else threads
                try:
                    running[job.key] = RunProcess.start(
                        job, settings.folder / job.key, settings.root, cores
                    )
                except OSError as error:
                    failures.append(Failure(job, str(error), settings.folder / job.key / LOG))
                    observer.failed(failures[-1])
                    continue
                done = total - len(queue) - len(running) - len(failures)
                observer.begun(Progress(job, done, total))
            time.sleep(POLL)
            for key, process in list(running.items()):
                if process.running:
                    continue
                del running[key]
                result = process.result()
                if result is None:
                    failure = Failure(process.job, process.last_line(), process.log)
                    failures.append(failure)
                    observer.failed(failure)
                    continue
                run = record.add(process.job, result)
                record.write()
                ran += 1
                spent.append(time.monotonic() - process.started)
                left = sum(spent) / len(spent) * (len(queue) + len(running) / 2) / processes
                done = total - len(queue) - len(running) - len(failures)
                observer.ended(Progress(process.job, done, total, left, run))
    finally:
        for process in running.values():
            process.kill()
    return failures, ran


def _may_start(job: Job, running: Iterable[RunProcess]) -> bool:
    """What measures time runs alone."""
    tasks = [process.job.row.task for process in running]
    return not tasks or "cost" not in (job.row.task, *tasks)


def _share(processes: int | None) -> tuple[int, int]:
    """Processes at a time, and threads of each."""
    if processes is None:
        import torch

        processes = 1 if torch.cuda.is_available() else cores()
    return processes, max(1, cores() // processes)


def cores() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
