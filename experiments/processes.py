"""A run in a process of its own: `RunProcess` starts it, `work` is what it does."""

import json
import multiprocessing
import os
import shutil
import signal
import sys
import threading
import time
from dataclasses import asdict, dataclass
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from experiments.catalogue import Task
from experiments.image_settings import ImageRun, source_folder
from experiments.jobs import Job
from experiments.toys.setup import ToyConfig
from symshare import __version__
from symshare.files import read_json, write_atomically

__all__ = ["LOG", "RESULT", "RunProcess", "result_in", "work"]

JOB, RESULT, LOG = "job.json", "result.json", "log.txt"

PRELOAD = ["benchmarks.layer", "experiments.image_runs", "experiments.toys.running"]
"""What takes seconds to import, for all processes once."""


@dataclass
class RunProcess:
    """A process that runs one job in its folder.

    Attributes:
        job: what it runs.
        folder: where.
        started: monotonic time of its start [s].
    """

    job: Job
    folder: Path
    started: float
    process: BaseProcess

    @classmethod
    def start(cls, job: Job, folder: Path, root: str | None, threads: int) -> "RunProcess":
        """Start a run, or go on with one of the same settings that was interrupted.

        Args:
            job: what to run.
            folder: of the run.
            root: folder of the data sets, or of one of them.
            threads: of the CPU.

        Raises:
            OSError: where the folder cannot be written.
        """
        content = {
            "task": job.row.task,
            "config": asdict(job.config),
            "root": _root(root, job),
            "threads": threads,
            "digest": job.digest,
        }
        _empty_if_other(folder, job.digest)
        write_atomically(folder / JOB, json.dumps(content, indent=1).encode())
        process = _context().Process(target=work, args=(folder,))
        process.start()
        return cls(job, folder, time.monotonic(), process)

    @property
    def running(self) -> bool:
        """Whether it has not ended."""
        return self.process.is_alive()

    @property
    def log(self) -> Path:
        """All that it prints."""
        return self.folder / LOG

    def result(self) -> dict[str, Any] | None:
        """What an ended run found; None if it failed."""
        return result_in(self.folder, self.job) if self.process.exitcode == 0 else None

    def last_line(self) -> str:
        """What a failed run printed last, or how it ended."""
        text = self.log.read_text(errors="replace") if self.log.exists() else ""
        lines = [line.strip() for line in text.split("\n") if line.strip()]
        code = self.process.exitcode or 0
        killed = f"killed by signal {-code}; was there too little memory?"
        return killed if code < 0 else lines[-1] if lines else f"exit code {code}, no output"

    def kill(self) -> None:
        """End it now; started again, it goes on from its last checkpoint."""
        self.process.kill()
        self.process.join()


def result_in(folder: Path, job: Job) -> dict[str, Any] | None:
    """Result of a job in its folder; None where there is none, or one of other settings."""
    return _read(folder / RESULT, job.digest)


def _context() -> Any:
    """Processes that start with everything imported, where the system can do that."""
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOAD)
    _start_server()
    return context


def _start_server() -> None:
    """Start the process that runs are forked from, out of reach of the terminal's interrupts."""
    from multiprocessing.forkserver import ensure_running

    if threading.current_thread() is not threading.main_thread():
        ensure_running()
        return
    handler = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        ensure_running()
    finally:
        signal.signal(signal.SIGINT, handler)


def _empty_if_other(folder: Path, digest: str) -> None:
    """Leave nothing of a run with other or unknown settings that a new one could continue from."""
    if folder.exists() and _read(folder / JOB, digest) is None:
        shutil.rmtree(folder)
    folder.mkdir(parents=True, exist_ok=True)


def _read(path: Path, digest: str) -> dict[str, Any] | None:
    """What a run left in a file; None where it is damaged or of other settings."""
    try:
        found = read_json(path, "digest")
    except (ValueError, OSError):
        return None
    return found if found["digest"] == digest else None


def _root(root: str | None, job: Job) -> str | None:
    """Folder of the run's own data, where it reads any."""
    if root is None or job.row.task != "images":
        return None
    return str(source_folder(Path(root).resolve(), asdict(job.config)["images"]["source"]))


def work(folder: Path) -> None:
    """Run what `job.json` of a folder says and write `result.json` there; the target of a process.

    The process leads a group of its own, prints into `log.txt`, and ends with the one that
    started it, however that ends.
    """
    if hasattr(os, "setsid"):
        os.setsid()
    log = os.open(folder / LOG, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(log, sys.stdout.fileno())
    os.dup2(log, sys.stderr.fileno())
    threading.Thread(target=_end_with_parent, daemon=True).start()
    job = read_json(folder / JOB, "task", "config", "root", "threads", "digest")
    result = _run(job["task"], job["config"], folder, job["root"], job["threads"])
    content: dict[str, Any] = {"digest": job["digest"], **result}
    write_atomically(folder / RESULT, json.dumps(content, indent=1, allow_nan=False).encode())


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _run(
    task: Task, config: dict[str, Any], folder: Path, root: str | None, threads: int
) -> dict[str, Any]:
    """Run a row and say where."""
    import torch

    from benchmarks.recording import device_name
    from benchmarks.threads import limited

    where = config["device"] if task == "cost" else "cpu"
    if task == "images" and torch.cuda.is_available():
        where = "cuda"
    with limited(threads):
        result = _RUN_OF[task](config, folder, None if root is None else Path(root))
    return {
        **result,
        "device": device_name(torch.device(where)),
        "threads": threads,
        "torch": torch.__version__,
        "symshare": __version__,
    }


def _images(config: dict[str, Any], folder: Path, root: Path | None) -> dict[str, Any]:
    from experiments.image_runs import run_images

    findings = folder.parents[1] / "found"
    return run_images(ImageRun.from_dict(config), folder, root, findings)


def _toy(config: dict[str, Any], folder: Path, root: Path | None) -> dict[str, Any]:
    from experiments.toys.running import run_toy

    measure = config["measure"]
    settings = config | {"measure": None if measure is None else tuple(measure)}
    return run_toy(ToyConfig(**settings), folder)


def _cost(config: dict[str, Any], folder: Path, root: Path | None) -> dict[str, Any]:
    from benchmarks.layer import rows
    from benchmarks.options import LayerConfig

    *measured, summary = rows(LayerConfig(**config))
    return {"rows": measured, **summary}


_RUN_OF = {"images": _images, "toy": _toy, "cost": _cost}
