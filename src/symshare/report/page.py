"""Put a run directory on one page."""

from dataclasses import dataclass, fields
from itertools import groupby
from pathlib import Path
from typing import Any

from symshare.files import write_atomically
from symshare.records import Accuracy, Judgement, NetworkName, VerdictRecord, Word
from symshare.report import candidates, charts, networks, ranges, sentences
from symshare.report.folder import Folder, read
from symshare.report.sentences import (
    count,
    decimals,
    duration,
    errors,
    interval,
    listed,
    percent,
)

LABELS: dict[NetworkName, tuple[str, str]] = {
    "cnn": ("Plain CNN", "no symmetry built in"),
    "gated": ("Gated", "every candidate that acts on kernels, a learned measure picks among them"),
    "sinkhorn": ("Sinkhorn", "free doubly stochastic stacks, learned with the weights"),
}
# The G-CNN is built with what the verdict allows, which is not always an exact symmetry.
G_CNN: dict[Word, tuple[str, str]] = {
    "group": ("Found", "G-CNN with the elements that were found"),
    "approximate": ("Approximate", "G-CNN with the approximate group"),
    "partial": ("Partial", "G-CNN with the clearest partial element"),
}
# What each card repeats as data, besides the name, the status and the measure of its candidate.
ATTRIBUTES = tuple(f.name for f in fields(Judgement) if f.name not in ("name", "status"))
CARDS_SHOWN = 16
# Functions that the template calls by their names.
WORDS = (count, decimals, duration, errors, interval, listed, percent)


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
    things = verdict.things
    loss, change = _scales(verdict)
    cards = candidates.cards(folder, loss, change)
    power = verdict.power
    answer, sentence = sentences.help_answer(verdict)
    accuracy_axis, accuracy_rows = _accuracy(verdict)
    with_config = [run for run in folder.runs if run.config]
    return {
        **{word.__name__: word for word in WORDS},
        "labels": {**LABELS, "found": G_CNN.get(verdict.verdict, G_CNN["group"])},
        "thing": things.one,
        "a_thing": things.a,
        "things": things.many,
        "positions": things.positions,
        "verdict": verdict,
        "metric": verdict.metric,
        "score_title": verdict.metric if verdict.numbers else "test accuracy",
        "part": "stratum" if verdict.numbers else "class",
        "parts": verdict.labels.kinds,
        "kept_title": (
            "explained after, by stratum [%]" if verdict.numbers else "kept right, by class [%]"
        ),
        "badge": _badge(verdict),
        "attributes": ATTRIBUTES,
        "examples": candidates.examples(folder),
        "loss": loss,
        "change": change,
        "delta_share": verdict.delta / power.gain if power.gain > 0 else None,
        "cards": cards[:CARDS_SHOWN],
        "more_cards": cards[CARDS_SHOWN:],
        "power": power,
        "half_changes": " and ".join(decimals(change) for change in power.half_permutations),
        "told_apart": sentences.told_apart(verdict),
        "random_losses": [candidates.loss_mark(loss, r) for r in power.random_permutations],
        "random_changes": [candidates.change_mark(change, r) for r in power.random_permutations],
        "answer": answer,
        "answer_sentence": sentence,
        "accuracy_axis": accuracy_axis,
        "accuracy_rows": accuracy_rows,
        "panels": ranges.panels(verdict),
        "snippets": ranges.snippets(verdict),
        "kernels": networks.kernel_panels(folder),
        "learned": networks.learned_panel(folder),
        "stacks": networks.stack_panels(folder),
        "measures": networks.measures(folder),
        "curves": charts.curves(folder.runs),
        "runs": folder.runs,
        "config": folder.config,
        "run_configs": [next(runs) for _, runs in groupby(with_config, lambda run: run.model)],
    }


def _scales(verdict: VerdictRecord) -> tuple[charts.Scale, charts.Scale]:
    """The scales of the two tests."""
    losses, changes = candidates.drawn_losses(verdict), candidates.drawn_changes(verdict)
    return (
        charts.loss_scale(losses, verdict.delta, verdict.delta_approximate),
        charts.change_scale(
            changes, verdict.change, verdict.change_approximate, verdict.things.many
        ),
    )


def _badge(verdict: VerdictRecord) -> str:
    """The verdict in a few words, with the name of its group if there is one."""
    if not verdict.group:
        return verdict.verdict
    return f"{verdict.verdict} {'containing ' if verdict.capped else ''}{verdict.group}"


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
