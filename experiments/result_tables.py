"""Tables of finished runs, as Markdown."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from experiments.catalogue import Row
from experiments.statistics import Sample, indistinct

__all__ = ["TABLES", "Runs", "table"]

Runs = list[dict[str, Any]]

BOLD = 0.01
"""The paper prints everything within one point of the best in bold."""

SOUND = 1e-3
"""Marginal error up to which the metrics of a stack mean anything."""

NOTHING_FOUND = (
    "Rows with what discover finds and 1 element: it found no group, so the network has the "
    "identity alone and is a plain CNN."
)


def _images(rows: Sequence[Row], runs: dict[str, Runs]) -> str:
    """Tables of rows on images, one for each kind of training images and set of tests."""
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        images = row.config["images"]
        key = images["train"], images.get("limit"), images.get("frozen"), tuple(images["test"])
        groups.setdefault(key, []).append(row)
    parts = []
    for (law, limit, frozen, tests), chosen in groups.items():
        seen = "Training images as they are" if law == "none" else f"Training images under `{law}`"
        seen += ", drawn once for each" if frozen else ""
        seen += f", {limit} with those for validation" if limit else ""
        parts.append(f"{seen}:\n\n{_accuracies(tests, chosen, runs)}")
    return "\n\n".join(parts)


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
    text = table(head, lines)
    searched = [row for row in rows if row.config["network"].get("group") == "found"]
    if any(run["elements"] == 1 for row in searched for run in runs[row.name]):
        text += f"\n\n{NOTHING_FOUND}"
    measures = {row.title: _measures(runs[row.name]) for row in rows}
    shown = [f"- {title}: {measure}" for title, measure in measures.items() if measure]
    if shown:
        text += "\n\nLearned measures:\n\n" + "\n".join(shown)
    learned = [row for row in rows if any(r.get("recovery") for r in _several(runs[row.name]))]
    return f"{text}\n\n{_recovery(learned, runs)}" if learned else text


def _several(found: Runs) -> Runs:
    """Those whose network has more than the identity."""
    return [run for run in found if run["elements"] > 1]


def _measures(found: Runs) -> str:
    """The measure of each run, the elements of each in their order."""
    measures = [run["measure"] for run in _several(found) if run.get("measure")]
    return "; ".join(
        ", ".join(f"{name} {value:.2f}" for name, value in measure.items()) for measure in measures
    )


def _elements(found: Runs) -> str:
    return "; ".join(dict.fromkeys(_element_names(r) for r in found))


def _element_names(run: dict[str, Any]) -> str:
    count, names = run["elements"], run["dictionary"]
    if len(names) < 2:
        return str(count)
    slots = "" if count == len(names) else f" slots over {len(names)}"
    return f"{count}{slots} ({', '.join(names)})"


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
    """Metrics of learned stacks: lifting layer, then the mean of the hidden ones.

    They are beside the elements that make the data. Those of stacks that are not doubly
    stochastic mean nothing; how far they are from it stands in their place.
    """
    found = {
        row.title: [r["recovery"] for r in _several(runs[row.name]) if r.get("recovery")]
        for row in rows
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
    text = table([head, "layer", *(name for _, name in columns)], lines)
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
    '"from what discover finds" start at the elements found, and the four slots of Birkhoff at '
    "the first four elements of D4, which are C4: their hits say that training kept them. Four "
    "different elements that know nothing of C4 have a concentration and a coverage of about 0.4."
)


def _mean(metrics: Iterable[dict[str, Any]], name: str) -> str:
    values = [m[name] for m in metrics if m[name] is not None]
    return f"{sum(values) / len(values):.2f}" if values else "some are uniform"


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
    text = f"{table(head, lines)}\n\n{TOYS}"
    partial = [(row, [r for r in runs[row.name] if r.get("support")]) for row in rows]
    return "\n\n".join([text, *(_support(row, found) for row, found in partial if found)])


TOYS = (
    "The identity is anchored and counts as exact. Explained share: how much nearer R is to its "
    "true matrix than to the uniform one, for arrows at odd multiples of 45 degrees only, which "
    "are no permutations. Elements that the data lacks stay as they started, near the uniform "
    "matrix, so perfect recovery has a total variation of 25 % on half of the ring and of 11 % on "
    "the cube."
)


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
    return table(["layer", "what", "case", "median", "interquartile range", "n"], lines)


def table(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """A table in Markdown; a bar in a cell ends none."""
    rows = [head, ["---"] * len(head), *lines]
    cells = ([cell.replace("|", r"\|") for cell in row] for row in rows)
    return "\n".join("| " + " | ".join(row) + " |" for row in cells)


TABLES: dict[str, Callable[[Sequence[Row], dict[str, Runs]], str]] = {
    "images": _images,
    "toy": _toys,
    "cost": _cost,
}
"""A table for the rows of each task."""
