"""Put a run directory on one page."""

from pathlib import Path
from typing import Any

from symshare.files import write_atomically
from symshare.report import candidates, charts, networks, sentences
from symshare.report.results import MODELS, Results, Run, read

__all__ = ["write_report"]

LABELS = {
    "cnn": ("Plain CNN", "no symmetry built in"),
    "found": ("Found", "G-CNN with the elements that were found"),
    "gated": ("Gated", "every candidate that acts on kernels, a learned measure picks among them"),
    "sinkhorn": ("Sinkhorn", "a free doubly stochastic stack, learned with the weights"),
}
CARDS_SHOWN = 16


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
        ValueError: if `verdict.json` has another schema.
    """
    path = run_dir / "report.html"
    write_atomically(path, _render(read(run_dir)).encode("utf-8"))
    return path


def _render(results: Results) -> str:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("page.html.jinja").render(**_content(results))


def _content(results: Results) -> dict[str, Any]:
    """Everything the template names."""
    verdict = results.verdict
    axis = charts.loss_axis(candidates.drawn_losses(verdict), verdict["delta"])
    cards = candidates.cards(results, axis)
    power = verdict.get("power")
    looser = verdict.get("delta_approximate")
    drawn = looser is not None and verdict["delta"] < looser <= axis.high
    answer, sentence = sentences.help_answer(verdict)
    accuracy_axis, accuracy_rows = _accuracy(verdict)
    return {
        "nats": sentences.nats,
        "interval": sentences.interval,
        "percent": sentences.percent,
        "count": sentences.count,
        "duration": sentences.duration,
        "listed": sentences.listed,
        "labels": LABELS,
        "verdict": verdict,
        "badge": f"{verdict['verdict']} {verdict['group'] or ''}".strip(),
        "examples": candidates.examples(results),
        "axis": axis,
        "delta_share": _delta_share(verdict),
        "delta_at": axis.at(verdict["delta"]),
        "looser_at": axis.at(looser) if drawn else None,
        "cards": cards[:CARDS_SHOWN],
        "more_cards": cards[CARDS_SHOWN:],
        "power": power,
        "random_marks": [
            candidates.mark(axis, item) for item in (power or {}).get("random_permutations") or []
        ],
        "answer": answer,
        "answer_sentence": sentence,
        "accuracy_axis": accuracy_axis,
        "accuracy_rows": accuracy_rows,
        "kernels": networks.kernel_panels(results),
        "stacks": networks.stack_panels(results),
        "measures": networks.measure_rows(results),
        "curves": charts.curves(results.runs),
        "runs": results.runs,
        "config": results.config,
        "run_configs": _first_with_config(results.runs),
    }


def _delta_share(verdict: dict[str, Any]) -> float | None:
    """Delta as a share of what the network knows about the label."""
    gain = (verdict.get("power") or {}).get("gain")
    return verdict["delta"] / gain if gain is not None and gain > 0 else None


def _first_with_config(runs: tuple[Run, ...]) -> list[Run]:
    first = {run.model: run for run in reversed(runs) if run.config}
    return [first[model] for model in MODELS if model in first]


def _accuracy(verdict: dict[str, Any]) -> tuple[charts.Axis | None, list[dict[str, Any]]]:
    """The axis of accuracies and one row per network; nothing where none was trained."""
    accuracy = verdict.get("accuracy") or {}
    known = {model: accuracy[model] for model in MODELS if accuracy.get(model)}
    if not known:
        return None, []
    axis = charts.accuracy_axis(
        [value for entry in known.values() for value in [entry["mean"], *entry["values"]]]
    )
    best = max(known, key=lambda model: known[model]["mean"])
    rows = []
    for model in MODELS:
        entry = known.get(model)
        row: dict[str, Any] = {"model": model, "entry": entry, "best": model == best}
        if entry is None:
            row["why"] = sentences.missing_accuracy(verdict, model)
        else:
            compared = "cnn" in known and model != "cnn"
            difference = entry["mean"] - known["cnn"]["mean"] if compared else None
            row["difference"] = None if difference is None else sentences.points(difference)
            row["mean_at"] = axis.at(entry["mean"])
            row["dots"] = [axis.at(value) for value in entry["values"]]
        rows.append(row)
    return axis, rows
