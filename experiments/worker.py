"""One run of a row, in a process of its own."""

import json
import multiprocessing
import os
import sys
import threading
from pathlib import Path
from typing import Any

from symshare.files import read_json, write_atomically

__all__ = ["JOB", "LOG", "PRELOAD", "RESULT", "work"]

JOB, RESULT, LOG = "job.json", "result.json", "log.txt"

PRELOAD = ["experiments.tasks", "experiments.images", "experiments.toys.running"]
"""What takes seconds to import, for all processes once."""


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

    from experiments.tasks import run

    result = run(job["task"], job["config"], folder, job["root"], job["threads"])
    content: dict[str, Any] = {"digest": job["digest"], **result}
    write_atomically(folder / RESULT, json.dumps(content, indent=1, allow_nan=False).encode())


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
