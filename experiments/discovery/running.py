"""Run what has no row yet, and keep the file of rows and its page whole."""

import json
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from experiments.discovery.answers import Question
from experiments.discovery.cases import moved_by
from experiments.discovery.enough import is_enough
from experiments.discovery.methods import METHODS
from experiments.discovery.page import page, truth_words
from experiments.discovery.plan import Run
from experiments.discovery.scoring import score, summary
from experiments.each import each
from experiments.runner import cores
from symshare import __version__
from symshare.data import LabelledImages
from symshare.files import alone, read_json, write_atomically

RESULTS, PAGE = "discovery-results.json", "discovery.md"


class Reporter:
    """Tells a terminal of runs as they end."""

    def started(self, total: int, waiting: int, folder: Path) -> None:
        """So many runs in total, of which so many have no row yet."""
        print(f"{total} runs, {total - waiting} of them done; writing to {folder}", flush=True)

    def ended(self, row: dict[str, Any], done: int, total: int) -> None:
        """A run ended with a row."""
        said = f"{row['word']} {row['group'] or ''}".strip()
        print(
            f"{row['outcome']:<10} {row['key']}: {said}; truth {truth_words(row)}  "
            f"{row['seconds']:.0f} s, {done} of {total}",
            flush=True,
        )

    def skipped(self, run: Run, reason: str) -> None:
        """A run has no data."""
        print(f"skipped    {run.key}: {reason}", flush=True)

    def failed(self, run: Run, reason: str) -> None:
        """A run ended without a row."""
        print(f"failed     {run.key}: {reason}", flush=True)

    def finished(self, found: dict[str, Any]) -> None:
        """All runs have ended; the summary of those that were asked for."""
        print(json.dumps(found))


def run_all(
    runs: list[Run], root: str | None, out: str, processes: int | None, reporter: Reporter
) -> int:
    """Run what has no row yet.

    Args:
        runs: in their order.
        root: folder of the data sets that are not in packages.
        out: folder of the results and the page.
        processes: runs at a time, each with one thread; None for one for each core.
        reporter: is told what happens.

    Returns:
        Number of runs that failed; the same call tries them again.

    Raises:
        ValueError: for a missing folder of data, a number below 1, or a damaged file of results.
        OSError: for a folder that is in use, or cannot be written.
    """
    processes = cores() if processes is None else processes
    if processes < 1:
        raise ValueError(f"discovery: processes must be at least 1, got {processes}")
    if root is not None and not Path(root).is_dir():
        raise ValueError(f"data.root: there is no folder {root}")
    folder, where = Path(out), None if root is None else Path(root)
    failures = 0
    with alone(folder):
        rows = _read(folder / RESULTS)
        waiting = [run for run in runs if run.key not in rows]
        reporter.started(len(runs), len(waiting), folder)
        done = len(runs) - len(waiting)
        for run, row, error in each(partial(ask, root=where), waiting, processes):
            if isinstance(error, FileNotFoundError):
                reporter.skipped(run, str(error))
            elif row is None:
                failures += 1
                reporter.failed(run, f"{type(error).__name__}: {error}")
            else:
                done += 1
                rows[run.key] = row
                _write(folder, rows)
                reporter.ended(row, done, len(runs))
        reporter.finished(summary(rows[run.key] for run in runs if run.key in rows))
    return failures


def ask(run: Run, root: Path | None) -> dict[str, Any]:
    """Ask one question and compare the answer with the truth.

    Raises:
        FileNotFoundError: where the images are not at hand.
    """
    upright = run.data_set.make(run.seed, root)
    truth = upright.truth_under(run.law)
    images = upright.images
    if run.law != "none":
        images = moved_by(images, run.law, np.random.default_rng([run.seed, 2]))
    images = images.astype(np.float32)
    if upright.layout == "NC":
        images = images[..., 0]
    data = LabelledImages.from_arrays(
        images, upright.labels, layout=upright.layout, groups=upright.groups
    )
    answer = METHODS[run.method](Question(data, upright.periodic, run.seed))
    found = score(answer, truth, images)
    return {
        "key": run.key,
        "method": run.method,
        "half": run.half,
        "null": run.null,
        "data": run.data,
        "kind": run.data_set.kind,
        "law": run.law,
        "seed": run.seed,
        "version": __version__,
        "images": len(images),
        "shape": list(images.shape[1:]),
        "enough": is_enough(upright, run.law),
        "truth_group": truth.group_for(answer.maps is not None),
        "truth_moves": len(truth.moves),
        "truth_open": len(truth.open),
        "word": answer.word,
        "group": answer.group,
        "found": list(answer.found),
        "possible": answer.possible,
        "capped": answer.capped,
        "outcome": found.outcome,
        "false": list(found.false),
        "missed": list(found.missed),
        "weak": list(found.weak),
        "open": list(found.open),
        "statuses": answer.statuses,
        "numbers": answer.numbers,
        "facts": answer.facts,
        "seconds": answer.seconds,
    }


def _read(path: Path) -> dict[str, dict[str, Any]]:
    """The rows of a file of results by their keys; none where there is no file."""
    if not path.exists():
        return {}
    return {row["key"]: row for row in read_json(path, "summary", "rows")["rows"]}


def _write(folder: Path, rows: dict[str, dict[str, Any]]) -> None:
    """Write the results and then their page."""
    content = results(list(rows.values()))
    lines = ",\n".join(json.dumps(row) for row in content["rows"])
    head = json.dumps({"half": content["half"], "summary": content["summary"]}, indent=1)
    text = head.removesuffix("\n}") + f',\n "rows": [\n{lines}\n]}}\n'
    write_atomically(folder / RESULTS, text.encode())
    write_atomically(folder / PAGE, page(content).encode())


def results(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """What the file of results holds: `half`, that of the `summary` of symshare, and all `rows`."""
    half = "test" if any(row["half"] == "test" for row in rows) else "dev"
    own = [row for row in rows if row["half"] == half and row["method"] == "symshare"]
    return {"half": half, "summary": summary(own), "rows": rows}
