"""`results.md`: every study as tables, our numbers beside the paper's."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from symshare.reproduce.budgets import BUDGETS, Budget, BudgetName
from symshare.reproduce.jobs import digest
from symshare.reproduce.rows import STUDIES, Row, Study
from symshare.reproduce.statistics import Sample, indistinct

__all__ = ["page"]

Runs = list[dict[str, Any]]

BOLD = 0.01
"""The paper prints everything within one point of the best in bold."""

SOUND = 1e-3
"""Marginal error up to which the metrics of a stack mean anything."""

PUBLISHED = (
    "The paper's rows trained as the published code does: constant learning rate, AdamW with "
    "weight decay on everything, logits too, base weights started as there, G-CNNs with a disk "
    "mask, learned stacks by 20 unrolled sweeps from U[0, 1) logits, on training and validation "
    "part together. **The test part is read at every evaluation**, so it is no longer held out; "
    "the last epoch is reported. MNIST test images have noise of 0.01. Widths are those of the "
    "tables above; at budgets other than `paper` so are the steps and the learning rates."
)
"""What tier B is."""

NOTHING_FOUND = (
    "Rows with what discover finds and 1 element: it found no group, so the network has the "
    "identity alone and is a plain CNN."
)


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
        parts.append(_own(own, runs))
    return "\n\n".join(parts) + "\n"


def _head(name: BudgetName, budget: Budget, runs: Runs) -> str:
    steps = budget.steps
    places = sorted({f"{r['device']} ({r['threads']} threads, torch {r['torch']})" for r in runs})
    return (
        "# Results\n\n"
        f"Written by `symshare reproduce` from `results.json` of budget `{name}`; do not edit.\n\n"
        f"Budget `{name}`: {_share(budget.width)} of the paper's width, {steps['mnist']} steps of "
        f"{budget.batch_size['mnist']} images on MNIST and {steps['residual']} of "
        f"{budget.batch_size['residual']} on CIFAR-10. AdamW, one-cycle schedule (warm-up, then "
        "cosine), the same initialisation of base weights, norms and padding for all models. "
        "Names such as CNN-64 carry the paper's widths. Learning rates are those of the rows' "
        "files: 0.01 on MNIST and 0.003 on CIFAR-10 (`cpu`) for weights, 0.01 for what is learned "
        'besides, but 0.1 for the stacks of "Sinkhorn from what discover finds" and 0.3 for gates. '
        "Nothing was tuned for a baseline. The test part is read once by each run; tables in the "
        f"published protocol say where that differs. Run on: {'; '.join(places) or 'nothing yet'}."
        "\n\n"
        "Accuracies in percent: mean ± standard deviation over n seeds. **Bold**: within one point "
        "of the best of its column, as the paper prints it. °: the paired difference to the best "
        "has zero in its 95 % interval (two seeds at least). Rows differ in parameters; bold "
        "compares accuracies only. s: seconds of a run, of a resumed one since it was resumed, "
        "with those of the search where there is one."
    )


def _share(width: float) -> str:
    return "all" if width == 1 else f"1/{round(1 / width)}"


def _study(study: Study, rows: Sequence[Row], runs: dict[str, Runs]) -> str:
    parts = [f"## {study.title}\n\n`symshare reproduce {study.name}`"]
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
    return [_TABLES[rows[0].task](rows, runs), *(["\n".join(notes)] if notes else [])]


def _own(names: Sequence[str], runs: dict[str, Runs]) -> str:
    """A line for each row that is not of a study, with the accuracy of each of its runs."""
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
        lines.append([f"`{name}`", "; ".join(shown), str(len(found))])
    return f"## Other rows\n\n{_table(['row', 'test accuracy by seed', 'n'], lines)}"


def _images(rows: Sequence[Row], runs: dict[str, Runs]) -> str:
    """Tables of rows on images, one for each set of tests."""
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        images = row.config["images"]
        tests = tuple(images["test"])
        groups.setdefault((tests, images.get("limit"), images.get("parts")), []).append(row)
    return "\n\n".join(_accuracies(key[0], chosen, runs) for key, chosen in groups.items())


def _accuracies(tests: Sequence[str], rows: Sequence[Row], runs: dict[str, Runs]) -> str:
    head = ["sharing scheme", "elements", "free parameters"]
    for test in tests:
        head += [test, "paper"]
    head += ["paper's parameters", "n", "s"]
    samples = {
        test: {
            row.name: Sample({r["seed"]: 100 * r["test_accuracy"][test] for r in runs[row.name]})
            for row in rows
        }
        for test in tests
    }
    lines = []
    for row in rows:
        found = runs[row.name]
        line = [row.title, _elements(found), _parameters(found)]
        for test in tests:
            line += [_marked(row.name, samples[test]), _paper(row, test)]
        seconds = sum(r["seconds"] for r in found) / len(found)
        line += [str(row.paper.get("parameters", "")), str(len(found)), f"{seconds:.0f}"]
        lines.append(line)
    text = _table(head, lines)
    searched = [row for row in rows if row.config["network"].get("group") == "found"]
    if any(run["elements"] == 1 for row in searched for run in runs[row.name]):
        text += f"\n\n{NOTHING_FOUND}"
    gates = [f"- {row.title}: {_gates(runs[row.name])}" for row in rows if _gates(runs[row.name])]
    if gates:
        text += "\n\nLearned measures:\n\n" + "\n".join(gates)
    learned = [row for row in rows if runs[row.name][0].get("recovery")]
    return f"{text}\n\n{_recovery(learned, runs)}" if learned else text


def _gates(found: Runs) -> str:
    """The measure of each run, the elements of each in their order."""
    measures = [run["measure"] for run in found if run.get("measure")]
    return "; ".join(
        ", ".join(f"{name} {value:.2f}" for name, value in measure.items()) for measure in measures
    )


def _elements(found: Runs) -> str:
    names = dict.fromkeys(
        f"{r['elements']}"
        + (f" ({', '.join(r['dictionary'])})" if len(r["dictionary"]) > 1 else "")
        for r in found
    )
    return "; ".join(names)


def _parameters(found: Runs) -> str:
    counts = dict.fromkeys(
        f"{r['parameters']:,}"
        + (f" + {r['representation_parameters']:,}" if r["representation_parameters"] else "")
        for r in found
    )
    return "; ".join(counts)


def _marked(name: str, samples: dict[str, Sample]) -> str:
    best = max(samples, key=lambda other: samples[other].mean)
    own = samples[name]
    text = str(own)
    if own.mean >= samples[best].mean - 100 * BOLD:
        text = f"**{text}**"
    return text + ("°" if name != best and indistinct(own, samples[best]) else "")


def _paper(row: Row, test: str) -> str:
    numbers = row.paper.get("accuracy", {}).get(test, [])
    return " ± ".join(str(number) for number in numbers)


def _recovery(rows: Sequence[Row], runs: dict[str, Runs]) -> str:
    """Metrics of learned stacks beside C4: lifting layer, then the mean of the hidden ones.

    Those of stacks that are not doubly stochastic mean nothing and are left out.
    """
    columns = ("entropy", "exact_hits", "sharp_hits", "mismatch", "explained", "concentration")
    columns += ("coverage",)
    head = ["learned stacks beside C4", "layer", "entropy", "exact hits", "sharp hits"]
    head += ["rows that differ", "explained share", "concentration", "coverage"]
    lines = []
    for row in rows:
        layers = [r["recovery"]["layers"] for r in runs[row.name] if r["recovery"].get("layers")]
        for title, part in (("lifting", slice(1)), ("hidden", slice(1, None))):
            metrics = [m for found in layers for m in found[part] if m["marginal_error"] <= SOUND]
            if metrics:
                lines.append([row.title, title, *(_mean(metrics, name) for name in columns)])
    note = (
        "Entropy: of the rows over that of a uniform row. Exact hits: learned elements that round "
        "to an element of C4 of their own, of 4; one is the anchored identity. Sharp hits: those "
        "with a vertex gap of at most 0.05. Hidden layers after the best relabelling of their "
        'elements. Rows "from what discover finds" start at the elements found (on CIFAR-10 with '
        "flips, the flip, which is not in C4), and Birkhoff's "
        "four slots at the first four elements of D4, which are C4: their hits say that training "
        "kept them. Four different elements that know nothing of C4 have a concentration and a "
        "coverage of about 0.4; the explained share has no lower end near the uniform matrix."
    )
    return f"{_table(head, lines)}\n\n{note}" if lines else ""


def _mean(metrics: Iterable[dict[str, Any]], name: str) -> str:
    values = [m[name] for m in metrics if m[name] is not None]
    return f"{sum(values) / len(values):.2f}" if values else "uniform"


def _toys(rows: Sequence[Row], runs: dict[str, Runs]) -> str:
    head = ["problem", "accuracy", "exact elements", "sharpness", "explained share", "n", "s"]
    lines = []
    for row in rows:
        found = runs[row.name]

        def over_seeds(key: str, found: Runs = found) -> str:
            values = {r["seed"]: 100 * r[key] for r in found if r.get(key) is not None}
            return str(Sample(values)) if values else ""

        exact = f"{over_seeds('exact')} (least {100 * min(r['exact'] for r in found):.0f})"
        seconds = sum(r["seconds"] for r in found) / len(found)
        numbers = [over_seeds("test_accuracy"), exact, over_seeds("sharpness")]
        numbers += [over_seeds("explained"), str(len(found)), f"{seconds:.0f}"]
        lines.append([row.title, *numbers])
    text = f"{_table(head, lines)}\n\nThe identity is anchored and counts as exact."
    partial = [(row, [r for r in runs[row.name] if r.get("support")]) for row in rows]
    return "\n\n".join([text, *(_support(row, found) for row, found in partial if found)])


def _support(row: Row, found: Runs) -> str:
    """Whether the stacks of a partial problem tell which elements the data holds."""
    names = {"average_precision": "average precision", "f1": "F1"}
    names |= {"total_variation": "total variation"}
    scores = [
        f"{name} {Sample({r['seed']: 100 * r['support'][key] for r in found})}"
        for key, name in names.items()
    ]
    return f"Which elements the data holds, {row.title}, in percent: {', '.join(scores)}."


def _cost(rows: Sequence[Row], runs: dict[str, Runs]) -> str:
    lines = []
    for run in runs[rows[0].name]:
        for measured in run["rows"]:
            if measured["unit"] in ("s", "bytes"):
                scale, unit = (1e3, "ms") if measured["unit"] == "s" else (2.0**-20, "MiB")
                median, spread = (measured[key] * scale for key in ("median", "iqr"))
                name = [measured["contender"], measured["measures"], measured["case"]]
                lines.append([*name, f"{median:.2f} {unit}", f"{spread:.2f}", str(measured["n"])])
    return _table(["layer", "what", "case", "median", "interquartile range", "n"], lines)


_TABLES: dict[str, Callable[[Sequence[Row], dict[str, Runs]], str]] = {
    "images": _images,
    "toy": _toys,
    "cost": _cost,
}


def _table(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    rows = [head, ["---"] * len(head), *lines]
    cells = ([cell.replace("|", r"\|") for cell in row] for row in rows)
    return "\n".join("| " + " | ".join(row) + " |" for row in cells)
