"""A run in a process of its own."""

import json
import multiprocessing
import shutil
import signal
import threading
import time
from dataclasses import asdict, dataclass
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from experiments.jobs import Job
from experiments.worker import JOB, LOG, PRELOAD, RESULT, work
from symshare.files import read_json, write_atomically

__all__ = ["RunProcess", "finished"]


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
        return finished(self.folder, self.job) if self.process.exitcode == 0 else None

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


def finished(folder: Path, job: Job) -> dict[str, Any] | None:
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
    """Folder of the run's own data: one of that name inside the root, or the root itself."""
    if root is None or job.row.task != "images":
        return None
    inside = Path(root) / asdict(job.config)["images"]["source"]
    return str((inside if inside.is_dir() else Path(root)).resolve())
