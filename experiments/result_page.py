"""`results.md`: every study as tables of Markdown, our numbers beside the paper's."""

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from experiments.catalogue import STUDIES, Row, Study, Task
from experiments.finished import FinishedCost, FinishedImages, FinishedRun, FinishedToy, Record
from experiments.jobs import BUDGETS, Budget, BudgetName, digest, own_job

__all__ = ["Sample", "indistinct", "page"]

FinishedByRow = Mapping[str, list[FinishedImages]]
"""Runs on images by the name of their row."""

LEVEL = 0.95
"""Of the interval that tells two means apart, as is usual."""

BOLD = 0.01
"""The paper prints everything within one point of the best in bold."""

SOUND = 1e-3
"""Marginal error up to which the metrics of a stack mean anything."""

NOTHING_FOUND = (
    "Rows with what discover finds and 1 element: it found no group, so the network has the "
    "identity alone and is a plain CNN."
)

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


@dataclass(frozen=True)
class Sample:
    """A number by seed.

    Attributes:
        values: by seed.

    >>> print(Sample({0: 97.0, 1: 98.0}))
    97.50 ± 0.71
    """

    values: dict[int, float]

    @property
    def mean(self) -> float:
        """Over the seeds."""
        return statistics.fmean(self.values.values())

    @property
    def spread(self) -> float | None:
        """Standard deviation over the seeds; None for a single one."""
        return statistics.stdev(self.values.values()) if len(self.values) > 1 else None

    def __str__(self) -> str:
        return f"{self.mean:.2f}" + ("" if self.spread is None else f" ± {self.spread:.2f}")


def indistinct(one: Sample, other: Sample) -> bool:
    """Whether the paired difference over common seeds has zero in its interval (Student's t).

    >>> indistinct(Sample({0: 1.0, 1: 2.0}), Sample({0: 1.1, 1: 1.9}))
    True
    >>> indistinct(Sample({0: 1.0, 1: 2.0}), Sample({0: 2.0, 1: 3.0}))
    False
    """
    from scipy.stats import t

    seeds = one.values.keys() & other.values.keys()
    if len(seeds) < 2:
        return False
    differences = [one.values[seed] - other.values[seed] for seed in seeds]
    mean, spread = statistics.fmean(differences), statistics.stdev(differences)
    reach = t.ppf((1 + LEVEL) / 2, len(seeds) - 1) * spread / len(seeds) ** 0.5
    return bool(abs(mean) <= reach)


def page(record: Record) -> str:
    """The page of a record.

    Runs of a row whose settings are no longer those of its file stand below, with the rows of no
    study.
    """
    budget = record.budget
    known = {row.name: row for study in STUDIES.values() for row in study.rows}
    runs: dict[str, list[Any]] = {}
    for run in sorted(record.runs.values(), key=lambda run: run.seed):
        row, name = known.get(run.row), run.row
        if row is not None and digest(row, budget, run.seed) != run.digest:
            name += " (other settings)"
        runs.setdefault(name, []).append(run)
    parts = [_head(budget, BUDGETS[budget], record.runs.values())]
    for study in STUDIES.values():
        # Figures have rows of other studies only; ablations compare with some.
        if any(row.study == study.name for row in study.rows):
            parts.append(_study(study, study.rows, runs))
    if own := [name for name in runs if name not in known]:
        parts.append(_own(own, runs, known, budget))
    return "\n\n".join(parts) + "\n"


def _head(name: BudgetName, budget: Budget, runs: Iterable[FinishedRun]) -> str:
    steps = budget.steps
    places = sorted({f"{r.device} ({r.threads} threads, torch {r.torch})" for r in runs})
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
        'besides, but 0.1 for the stacks of "Sinkhorn from what discover finds" and "learned from '
        'moments", and 0.3 for gates. The rates of the first and the last were chosen on '
        "validation images; docs/decisions.md tells what other rates do to the rest. Training "
        "images are 81.25 % of the official training part, the others are for validation. The test "
        "part is read once by each run; tables in the "
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


def _study(study: Study, rows: Sequence[Row], runs: Mapping[str, list[Any]]) -> str:
    parts = [f"## {study.title}\n\n`python -m experiments {study.name}`"]
    ran = [row for row in rows if row.name in runs]
    parts += _tables([row for row in ran if row.tier != "B"], runs)
    if published := [row for row in ran if row.tier == "B"]:
        parts += [f"### In the published protocol\n\n{PUBLISHED}", *_tables(published, runs)]
    missing = [row for row in rows if row.name not in runs]
    if missing:
        parts.append(f"Not run: {', '.join(f'`{row.name}`' for row in missing)}.")
    return "\n\n".join(parts)


def _tables(rows: Sequence[Row], runs: Mapping[str, list[Any]]) -> list[str]:
    """The table of some rows of a study, and what there is to say of them."""
    if not rows:
        return []
    notes = dict.fromkeys(f"- {row.title}: {row.note}" for row in rows if row.note)
    of_rows = {row.name: runs[row.name] for row in rows}
    return [TABLES[rows[0].task](rows, of_rows), *(["\n".join(notes)] if notes else [])]


def _own(
    names: Sequence[str],
    runs: Mapping[str, list[FinishedRun]],
    known: dict[str, Row],
    budget: BudgetName,
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
        shown = [text for run in found if (text := _test_accuracy(run))]
        row = known.get(name.partition("-changed-")[0].partition(" (")[0])
        file = None if row is None else own_job(row, budget, 0).settings
        changes = [] if file is None else _changes(file, found[0].settings)
        lines.append([f"`{name}`", ", ".join(changes), "; ".join(shown), str(len(found))])
    head = ["row", "in place of its file's settings", "test accuracy by seed", "n"]
    return f"## Other rows\n\n{_table(head, lines)}"


def _test_accuracy(run: FinishedRun) -> str:
    """In percent; nothing where only time was measured."""
    if isinstance(run, FinishedImages):
        return ", ".join(f"{test} {100 * value:.2f}" for test, value in run.test_accuracy.items())
    return f"{100 * run.test_accuracy:.2f}" if isinstance(run, FinishedToy) else ""


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


def _images(rows: Sequence[Row], runs: FinishedByRow) -> str:
    """Tables of rows on images, one for each kind of training images and set of tests."""
    tables: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        images = row.config["images"]
        key = images["train"], images.get("limit"), images.get("frozen"), tuple(images["test"])
        tables.setdefault(key, []).append(row)
    parts = []
    for (transform, limit, frozen, tests), chosen in tables.items():
        seen = "Training images "
        seen += "as they are" if transform == "none" else f"under `{transform}`"
        seen += ", drawn once for each" if frozen else ""
        seen += f", {limit} with those for validation" if limit else ""
        parts.append(f"{seen}:\n\n{_accuracies(tests, chosen, runs)}")
    return "\n\n".join(parts)


def _accuracies(tests: Sequence[str], rows: Sequence[Row], runs: FinishedByRow) -> str:
    head = ["sharing scheme", "elements", "free parameters"]
    for test in tests:
        head += [test, "paper"]
    head += ["paper's parameters", "n", "s"]
    samples = {
        test: {
            row.name: Sample({r.seed: 100 * r.test_accuracy[test] for r in runs[row.name]})
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
        seconds = sum(r.seconds for r in found) / len(found)
        line += [str(row.paper.get("parameters", "")), str(len(found)), f"{seconds:.0f}"]
        lines.append(line)
    text = _table(head, lines)
    searched = [row for row in rows if row.config["network"].get("group") == "found"]
    if any(run.elements == 1 for row in searched for run in runs[row.name]):
        text += f"\n\n{NOTHING_FOUND}"
    measures = {row.title: _measures(runs[row.name]) for row in rows}
    shown = [f"- {title}: {measure}" for title, measure in measures.items() if measure]
    if shown:
        text += "\n\nLearned measures:\n\n" + "\n".join(shown)
    before = {row.title: _before_training(runs[row.name]) for row in rows}
    shown = [f"- {title}: {found}" for title, found in before.items() if found]
    if shown:
        text += "\n\nElements found before training, layer by layer:\n\n" + "\n".join(shown)
    learned = [row for row in rows if any(r.recovery for r in _several(runs[row.name]))]
    return f"{text}\n\n{_recovery(learned, runs)}" if learned else text


def _several(found: list[FinishedImages]) -> list[FinishedImages]:
    """Those whose network has more than the identity."""
    return [run for run in found if run.elements > 1]


def _measures(found: list[FinishedImages]) -> str:
    """The measure of each run, the elements of each in their order."""
    measures = [run.measure for run in _several(found) if run.measure]
    return "; ".join(
        ", ".join(f"{name} {value:.2f}" for name, value in measure.items()) for measure in measures
    )


def _before_training(found: list[FinishedImages]) -> str:
    """How many elements moments gave to the layers of each run, and what that cost."""
    return "; ".join(
        f"{', '.join(str(n['elements']) for n in run.learned if not n.get('note'))} "
        f"({sum(layer['seconds'] for layer in run.learned):.0f} s)"
        for run in found
        if run.learned
    )


def _elements(found: list[FinishedImages]) -> str:
    return "; ".join(dict.fromkeys(_element_names(r) for r in found))


def _element_names(run: FinishedImages) -> str:
    count, names = run.elements, run.dictionary
    if len(names) < 2:
        return str(count)
    slots = "" if count == len(names) else f" slots over {len(names)}"
    return f"{count}{slots} ({', '.join(names)})"


def _parameters(found: list[FinishedImages]) -> str:
    counts = dict.fromkeys(
        f"{r.parameters:,}"
        + (f" + {r.representation_parameters:,}" if r.representation_parameters else "")
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


def _recovery(rows: Sequence[Row], runs: FinishedByRow) -> str:
    """Metrics of learned stacks: lifting layer, then the mean of the hidden ones.

    They are beside the elements that make the data. Those of stacks that are not doubly
    stochastic mean nothing; how far they are from it stands in their place.
    """
    found = {
        row.title: [r.recovery for r in _several(runs[row.name]) if r.recovery] for row in rows
    }
    beside = next(r["beside"] for recoveries in found.values() for r in recoveries)
    columns = MEASURED if beside else MEASURED[:2]
    lines = []
    for title, recoveries in found.items():
        for layer, part in (("lifting", slice(1)), ("hidden", slice(1, None))):
            metrics = [m for r in recoveries for m in r["layers"][part]]
            error = max((m["marginal_error"] for m in metrics), default=0.0)
            if error > SOUND:
                said = f"not doubly stochastic: sums are up to {error:.1g} from one"
                lines.append([title, layer, said, *[""] * (len(columns) - 1)])
            elif metrics:
                lines.append([title, layer, *(_mean(metrics, name) for name, _ in columns)])
    head = f"learned stacks beside {', '.join(beside)}" if beside else "learned stacks"
    text = _table([head, "layer", *(name for _, name in columns)], lines)
    return f"{text}\n\n{BESIDE if beside else ALONE}"


MEASURED = (
    ("entropy", "entropy"),
    ("vertex_gap", "vertex gap"),
    ("exact_hits", "exact hits"),
    ("sharp_hits", "sharp hits"),
    ("mismatch", "share of rows that differ"),
    ("explained", "explained share"),
    ("concentration", "concentration"),
    ("coverage", "coverage"),
)
"""Metrics of a stack, and what the table calls them; the first two need no known elements."""

ALONE = (
    "Entropy: of the rows over that of a uniform row. Vertex gap: 1 - the mean mass on the nearest "
    "permutation. No elements of kernels are known to make these data, so there is nothing to "
    "compare with."
)

BESIDE = (
    f"{ALONE.partition(' No ')[0]} Exact hits: learned elements that round to a known element of "
    "their own; one is the anchored identity. Sharp hits: those with a vertex gap of at most 0.05. "
    "Explained share: 1 - |R - fit|² / |R - J/D|², fit the nearest convex combination of the known "
    "elements and J/D the uniform matrix; it has no lower end near J/D. Concentration: the largest "
    "coefficient. Coverage: mean coefficient where each known element is used once. Hidden layers "
    "after the best relabelling of their elements, where there are as many as known ones. Rows "
    '"from what discover finds" start at the elements found, those "learned from moments" at what '
    "the images alone gave, and the four slots of Birkhoff at the first four elements of D4, which "
    "are C4: their hits say that training kept them. Four "
    "different elements that know nothing of C4 have a concentration and a coverage of about 0.4."
)


def _mean(metrics: Iterable[dict[str, Any]], name: str) -> str:
    values = [m[name] for m in metrics if m[name] is not None]
    return f"{sum(values) / len(values):.2f}" if values else "some are uniform"


def _toys(rows: Sequence[Row], runs: Mapping[str, list[FinishedToy]]) -> str:
    head = ["problem", "accuracy", "exact elements", "sharpness", "explained share", "n", "s"]
    lines = []
    for row in rows:
        found = runs[row.name]

        def over_seeds(key: str, found: list[FinishedToy] = found) -> str:
            return str(Sample({r.seed: 100 * getattr(r, key) for r in found}))

        exact = f"{over_seeds('exact')} (least {100 * min(r.exact for r in found):.0f})"
        seconds = sum(r.seconds for r in found) / len(found)
        numbers = [over_seeds("test_accuracy"), exact, over_seeds("sharpness")]
        numbers += [over_seeds("explained"), str(len(found)), f"{seconds:.0f}"]
        lines.append([row.title, *numbers])
    text = f"{_table(head, lines)}\n\n{TOYS}"
    return "\n\n".join([text, *(filter(None, (_support(row, runs[row.name]) for row in rows)))])


TOYS = (
    "The identity is anchored and counts as exact. Explained share: how much nearer R is to its "
    "true matrix than to the uniform one, for arrows at odd multiples of 45 degrees only, which "
    "are no permutations. Elements that the data lacks stay as they started, near the uniform "
    "matrix, so perfect recovery has a total variation of 25 % on half of the ring and of 11 % on "
    "the cube."
)


def _support(row: Row, found: list[FinishedToy]) -> str:
    """Whether the stacks of a partial problem tell which elements the data holds."""
    support = {run.seed: run.support for run in found if run.support}
    if not support:
        return ""
    names = {"average_precision": "average precision", "f1": "F1"}
    names |= {"total_variation": "total variation"}
    scores = [
        f"{name} {Sample({seed: 100 * scores[key] for seed, scores in support.items()})}"
        for key, name in names.items()
    ]
    return f"Which elements the data holds, {row.title}, in percent: {', '.join(scores)}."


def _cost(rows: Sequence[Row], runs: Mapping[str, list[FinishedCost]]) -> str:
    lines = []
    for run in runs[rows[0].name]:
        for measured in run.rows:
            if measured["unit"] in ("s", "bytes"):
                scale, unit = (1e3, "ms") if measured["unit"] == "s" else (2.0**-20, "MiB")
                median, spread = (measured[key] * scale for key in ("median", "iqr"))
                name = [measured["contender"], measured["measures"], measured["case"]]
                lines.append([*name, f"{median:.2f} {unit}", f"{spread:.2f}", str(measured["n"])])
    return _table(["layer", "what", "case", "median", "interquartile range", "n"], lines)


def _table(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """A table in Markdown; a bar in a cell ends none."""
    rows = [head, ["---"] * len(head), *lines]
    cells = ([cell.replace("|", r"\|") for cell in row] for row in rows)
    return "\n".join("| " + " | ".join(row) + " |" for row in cells)


TABLES: dict[Task, Callable[[Sequence[Row], Mapping[str, list[Any]]], str]] = {
    "images": _images,
    "toy": _toys,
    "cost": _cost,
}
"""A table for the rows of each task."""
