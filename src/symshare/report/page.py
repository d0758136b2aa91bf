"""Put a run directory on one page."""

from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from symshare.files import write_atomically
from symshare.records import Accuracy, NetworkName, VerdictRecord
from symshare.report import candidates, charts, networks, sentences
from symshare.report.folder import Folder, read
from symshare.report.sentences import count, duration, interval, listed, nats, percent

LABELS: dict[NetworkName, tuple[str, str]] = {
    "cnn": ("Plain CNN", "no symmetry built in"),
    "found": ("Found", "G-CNN with the elements that were found"),
    "gated": ("Gated", "every candidate that acts on kernels, a learned measure picks among them"),
    "sinkhorn": ("Sinkhorn", "a free doubly stochastic stack, learned with the weights"),
}
CARDS_SHOWN = 16
# Functions that the template calls by their names.
WORDS = (count, duration, interval, listed, nats, percent)


def write_report(run_dir: Path) -> Path:
    """Write `report.html` into a run directory: one page, no network needed to read it.

    The page is a function of the files in the directory alone: the same files give the same
    bytes. It appears whole or not at all.

    Args:
        run_dir: the folder given to `symshare discover` as `--out`.

    Returns:
        The path of the page.

    Raises:
        FileNotFoundError: if the folder holds no `verdict.json`.
        ValueError: if a file is damaged, or of another schema.
    """
    path = run_dir / "report.html"
    write_atomically(path, _render(read(run_dir)).encode("utf-8"))
    return path


def _render(folder: Folder) -> str:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("page.html.jinja").render(**_content(folder))


def _content(folder: Folder) -> dict[str, Any]:
    """Everything the template names."""
    verdict = folder.verdict
    axis = charts.loss_axis(candidates.drawn_losses(verdict), verdict.delta)
    cards = candidates.cards(folder, axis)
    power, looser = verdict.power, verdict.delta_approximate
    answer, sentence = sentences.help_answer(verdict)
    accuracy_axis, accuracy_rows = _accuracy(verdict)
    with_config = [run for run in folder.runs if run.config]
    return {
        **{word.__name__: word for word in WORDS},
        "labels": LABELS,
        "verdict": verdict,
        "badge": f"{verdict.verdict} {verdict.group or ''}".strip(),
        "examples": candidates.examples(folder),
        "axis": axis,
        "delta_share": verdict.delta / power.gain if power.gain > 0 else None,
        "delta_at": axis.at(verdict.delta),
        "looser_at": axis.at(looser) if verdict.delta < looser <= axis.high else None,
        "cards": cards[:CARDS_SHOWN],
        "more_cards": cards[CARDS_SHOWN:],
        "power": power,
        "random_marks": [candidates.mark(axis, item) for item in power.random_permutations],
        "answer": answer,
        "answer_sentence": sentence,
        "accuracy_axis": accuracy_axis,
        "accuracy_rows": accuracy_rows,
        "kernels": networks.kernel_panels(folder),
        "stacks": networks.stack_panels(folder),
        "measures": networks.measures(folder),
        "curves": charts.curves(folder.runs),
        "runs": folder.runs,
        "config": folder.config,
        "run_configs": [next(runs) for _, runs in groupby(with_config, lambda run: run.model)],
    }


@dataclass(frozen=True)
class AccuracyRow:
    """One network of the comparison; without an accuracy, `why` says what is missing.

    `mean_at` and `dots` are positions of the mean and of each seed on the axis [percent].
    """

    model: NetworkName
    entry: Accuracy | None
    best: bool = False
    difference: str | None = None
    mean_at: float = 0.0
    dots: tuple[float, ...] = ()
    why: str = ""


def _accuracy(verdict: VerdictRecord) -> tuple[charts.Axis | None, list[AccuracyRow]]:
    """The axis of accuracies and one row per network; nothing where none was trained."""
    known = [entry for entry in verdict.accuracy.values() if entry]
    if not known:
        return None, []
    axis = charts.accuracy_axis([value for e in known for value in (e.mean, *e.values)])
    best = max(known, key=lambda entry: entry.mean)
    cnn = verdict.accuracy["cnn"]
    rows = []
    for model, entry in verdict.accuracy.items():
        if entry is None:
            rows.append(AccuracyRow(model, None, why=sentences.missing_accuracy(verdict, model)))
            continue
        difference = sentences.points(entry.mean - cnn.mean) if cnn and entry is not cnn else None
        dots = tuple(axis.at(value) for value in entry.values)
        row = AccuracyRow(model, entry, entry is best, difference, axis.at(entry.mean), dots)
        rows.append(row)
    return axis, rows
