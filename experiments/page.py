"""`results.md`: every study as tables, our numbers beside the paper's."""

from collections.abc import Sequence
from typing import Any

from experiments.budgets import BUDGETS, Budget, BudgetName
from experiments.catalogue import STUDIES, Row, Study
from experiments.jobs import digest, own_job
from experiments.result_tables import TABLES, Runs, table

__all__ = ["page"]

PUBLISHED = (
    "The paper's rows trained as the published code does: constant learning rate, AdamW with "
    "weight decay on everything, logits too, base weights started as there, G-CNNs with a disk "
    "mask, learned stacks by 20 unrolled sweeps from U[0, 1) logits, on training and validation "
    "part together. **The test part is read at every evaluation**, so it is no longer held out; "
    "the last epoch is reported. Rotated test images have noise of 0.01 in units of 0.3081, the "
    "published spread of the pixels. Standardisation is by the measured spread, where the "
    "published code has 0.20 for CIFAR-10, which is 0.25. Widths are those of the tables above; "
    "at budgets other than `paper` so are the steps and the learning rates."
)
"""What tier B is."""


def page(content: dict[str, Any]) -> str:
    """The page of a record.

    Runs of a row whose settings are no longer those of its file stand below, with the rows of no
    study.

    Args:
        content: of `results.json`.
    """
    budget = content["budget"]
    known = {row.name: row for study in STUDIES.values() for row in study.rows}
    runs: dict[str, Runs] = {}
    for run in sorted(content["runs"].values(), key=lambda run: run["seed"]):
        row, name = known.get(run["row"]), run["row"]
        if row is not None and digest(row, budget, run["seed"]) != run["digest"]:
            name += " (other settings)"
        runs.setdefault(name, []).append(run)
    parts = [_head(budget, BUDGETS[budget], list(content["runs"].values()))]
    for study in STUDIES.values():
        # Figures have rows of other studies only; ablations compare with some.
        if any(row.study == study.name for row in study.rows):
            parts.append(_study(study, study.rows, runs))
    if own := [name for name in runs if name not in known]:
        parts.append(_own(own, runs, known, budget))
    return "\n\n".join(parts) + "\n"


def _head(name: BudgetName, budget: Budget, runs: Runs) -> str:
    steps = budget.steps
    places = sorted({f"{r['device']} ({r['threads']} threads, torch {r['torch']})" for r in runs})
    return (
        "# Results\n\n"
        "Written by `python -m experiments` from `results.json` of budget "
        f"`{name}`; do not edit.\n\n"
        f"Budget `{name}`: {_share(budget.width)} of the paper's width, {steps['mnist']} steps of "
        f"{budget.batch_size['mnist']} images on MNIST and {steps['residual']} of "
        f"{budget.batch_size['residual']} on CIFAR-10. AdamW, one-cycle schedule (warm-up, then "
        "cosine), the same initialisation of base weights, norms and padding for all models. "
        "Names such as CNN-64 carry the paper's widths. Learning rates are those of the rows' "
        "files: 0.01 on MNIST and 0.003 on CIFAR-10 (`cpu`) for weights, 0.01 for what is learned "
        'besides, but 0.1 for the stacks of "Sinkhorn from what discover finds" and 0.3 for gates. '
        "The rates of those two were chosen on validation images; docs/decisions.md tells what "
        "other rates do to the rest. Training images are 81.25 % of the official training part, "
        "the others are for validation. The test part is read once by each run; tables in the "
        f"published protocol say where that differs. Run on: {'; '.join(places) or 'nothing yet'}."
        "\n\n"
        "Accuracies in percent: mean ± standard deviation over n seeds. **Bold**: within one point "
        "of the best of its column, as the paper prints it. °: the paired difference to the best "
        "has zero in its 95 % interval; where two common seeds are missing nothing is marked. Rows "
        "differ in parameters; bold "
        "compares accuracies only. s: seconds of a run, of a resumed one since it was resumed, "
        "with those of the search where there is one; the machine did other work at times."
    )


def _share(width: float) -> str:
    return "all" if width == 1 else f"1/{round(1 / width)}"


def _study(study: Study, rows: Sequence[Row], runs: dict[str, Runs]) -> str:
    parts = [f"## {study.title}\n\n`python -m experiments {study.name}`"]
    ran = [row for row in rows if row.name in runs]
    parts += _tables([row for row in ran if row.tier != "B"], runs)
    if published := [row for row in ran if row.tier == "B"]:
        parts += [f"### In the published protocol\n\n{PUBLISHED}", *_tables(published, runs)]
    missing = [row for row in rows if row.name not in runs]
    if missing:
        parts.append(f"Not run: {', '.join(f'`{row.name}`' for row in missing)}.")
    return "\n\n".join(parts)


def _tables(rows: Sequence[Row], runs: dict[str, Runs]) -> list[str]:
    """The table of some rows of a study, and what there is to say of them."""
    if not rows:
        return []
    notes = dict.fromkeys(f"- {row.title}: {row.note}" for row in rows if row.note)
    return [TABLES[rows[0].task](rows, runs), *(["\n".join(notes)] if notes else [])]


def _own(
    names: Sequence[str], runs: dict[str, Runs], known: dict[str, Row], budget: BudgetName
) -> str:
    """A line for each row that is not of a study, with the accuracy of each of its runs.

    Args:
        names: of the rows.
        runs: by row.
        known: rows of studies, of which some of these are changes.
        budget: of the runs.
    """
    lines = []
    for name in names:
        found = runs[name]
        accuracies = [r.get("test_accuracy") for r in found]
        shown = [
            ", ".join(f"{k} {100 * v:.2f}" for k, v in a.items())
            if isinstance(a, dict)
            else f"{100 * a:.2f}"
            for a in accuracies
            if a is not None
        ]
        row = known.get(name.partition("-changed-")[0].partition(" (")[0])
        file = None if row is None else own_job(row, budget, 0).settings
        changes = [] if file is None else _changes(file, found[0]["settings"])
        lines.append([f"`{name}`", ", ".join(changes), "; ".join(shown), str(len(found))])
    head = ["row", "in place of its file's settings", "test accuracy by seed", "n"]
    return f"## Other rows\n\n{table(head, lines)}"


def _changes(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    """In what the second settings differ from the first; those at their defaults are in neither."""
    found = [f"{key} as by default" for key in old if key not in new]
    for key, value in new.items():
        before = old.get(key)
        if isinstance(value, dict) and isinstance(before, dict):
            found += [f"{key}.{change}" for change in _changes(before, value)]
        elif value != before and key != "seed":
            found.append(f"{key}={value}")
    return found
