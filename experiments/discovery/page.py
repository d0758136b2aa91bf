"""The results as a page: failures first, then the summary, then every data set under every law."""

from collections import defaultdict
from collections.abc import Iterable
from statistics import median
from typing import Any

from experiments.discovery.scoring import OUTCOMES, summary

Row = dict[str, Any]

HALVES = {
    "test": "The test half: no threshold was fixed on its data sets and seeds. `docs/decisions.md` "
    "says how often it was run, and what was changed in between.",
    "dev": "The development half: thresholds may be fixed on it, so it confirms nothing.",
}

WORDS = """\
Every data set is made, or moved by a law, so that its symmetries follow; `experiments/discovery`
says how. A move counts as named where its status is `symmetric` or `approximate`. Outcomes, the
worst first: **false**, a move was named that is no symmetry; **missed**, a symmetry was called none
or was no candidate; **wrong name**, the moves are right and the name of their group is not;
**weak**, a symmetry was left undecided or called approximate, or all was left undecided where there
is none; **exact**. Moves of which the truth is not known, such as the mirror of a photograph, are
counted apart as open. "Enough" says whether there are enough images for an exact answer, by the
rule of `experiments/discovery/enough.py`, which was fixed beforehand."""


def page(results: dict[str, Any]) -> str:
    """The page of a file of results.

    Args:
        results: with `rows`, of any halves and methods.
    """
    rows = results["rows"]
    methods = list(dict.fromkeys(row["method"] for row in rows))
    lines = ["# Discovery: how often the verdict is right", "", WORDS, ""]
    lines += _comparison([row for row in rows if row["half"] == results["half"]])
    for half, title in HALVES.items():
        for method in sorted(methods, key=lambda name: name != "symshare"):
            chosen = [r for r in rows if (r["half"], r["method"]) == (half, method)]
            if chosen:
                lines += [f"## {half}, {method}", "", title, "", *_half(chosen)]
    lines += [f"The same again: `{_command(results['half'], rows)}`.", ""]
    return "\n".join(lines)


def _comparison(rows: list[Row]) -> list[str]:
    """Each method on the runs that all methods were asked; nothing where there is but one."""
    by_method: dict[str, dict[tuple[Any, ...], Row]] = defaultdict(dict)
    for row in rows:
        by_method[row["method"]][row["data"], row["law"], row["seed"], row["null"]] = row
    if len(by_method) < 2:
        return []
    shared = set.intersection(*(set(of_method) for of_method in by_method.values()))
    if not shared:
        return []
    lines = [
        f"## {rows[0]['half']}, all methods on the same {len(shared)} runs",
        "",
        "Null runs are those on data without any symmetry.",
        "",
    ]
    table = []
    for method in sorted(by_method, key=lambda name: (name != "symshare", name)):
        chosen = [by_method[method][run] for run in sorted(shared)]
        cases = [row for row in chosen if not row["null"]]
        null = [row for row in chosen if row["null"]]
        table.append(
            [
                method,
                len(cases),
                *_counts(cases),
                len(null),
                sum(row["outcome"] == "false" for row in null),
                _middle(chosen),
            ]
        )
    head = ["method", "cases", *reversed(OUTCOMES), "null runs", "false there", "seconds"]
    return [*lines, *_table(head, table)]


def _command(half: str, rows: list[Row]) -> str:
    """What made the rows of symshare itself, with as many seeds as these have."""
    own = [row for row in rows if (row["half"], row["method"]) == (half, "symshare")]
    seeds = len({row["seed"] for row in own if not row["null"]})
    null = sum(row["null"] for row in own)
    return (
        f"python -m experiments discovery --half {half} --seeds {seeds} --null {null} "
        "--data.root DIR"
    )


def _half(rows: list[Row]) -> list[str]:
    """Failures, summary and tables of one method on one half."""
    return [*_failures(rows), *_summary(rows), *_cases(rows), *_null(rows)]


def _failures(rows: list[Row]) -> list[str]:
    """Every row that is not right where it had to be: all that is false, and all with enough."""
    bad = [
        row
        for row in rows
        if row["outcome"] == "false"
        or (row["outcome"] != "exact" and row["enough"] and not row["null"])
    ]
    lines = ["### What went wrong", ""]
    if not bad:
        return [*lines, "Nothing: no false discovery, and all cases with enough images exact.", ""]
    lines += _table(
        ["data set", "law", "seed", "outcome", "truth", "said", "moves, with numbers"],
        (
            [
                row["data"] + (" (null)" if row["null"] else ""),
                row["law"],
                row["seed"],
                row["outcome"],
                truth_words(row),
                _said(row),
                _numbers(row),
            ]
            for row in sorted(bad, key=lambda row: OUTCOMES.index(row["outcome"]))
        ),
    )
    return lines


def truth_words(row: Row) -> str:
    """The group of the symmetries, and how many moves are open."""
    known = row["truth_group"] or "none"
    return known + (f", {row['truth_open']} open" if row["truth_open"] else "")


def _said(row: Row) -> str:
    said = f"{row['word']} {row['group'] or ''}".strip()
    return said + (f", {row['possible']} not excluded" if row["possible"] else "")


def _numbers(row: Row) -> str:
    """The moves that went wrong, each with its status and what that rests on."""
    reasons = "; ".join(row["facts"].get("reasons", []))
    wrong = [*row["false"], *row["missed"], *(name for name in row["weak"] if name != "none")]
    if "none" in row["weak"]:
        wrong += [name for name, status in row["statuses"].items() if status == "undecided"]
    told = [
        f"{name} {row['statuses'].get(name, '')}: "
        + ", ".join(f"{what} {_value(value)}" for what, value in row["numbers"][name].items())
        if name in row["numbers"]
        else name
        for name in dict.fromkeys(wrong)
    ]
    shown = told[:4] + ([f"and {len(told) - 4} more"] if len(told) > 4 else [])
    return "; ".join([*([reasons] if reasons else []), *shown]) or "-"


def _value(value: Any) -> str:
    """A number, a list, or an estimate with its interval."""
    if isinstance(value, list) and len(value) == 3 and isinstance(value[1], float):
        return f"{value[0]} ({value[1]} to {value[2]})"
    return str(value)


def _summary(rows: list[Row]) -> list[str]:
    found = summary(rows)
    low, high = found["ci"]
    kinds = {row["kind"] for row in rows if not row["null"]}
    sets = {row["data"] for row in rows if not row["null"]}
    return [
        "### Summary",
        "",
        f"- Cases: {found['n_all']} on {len(sets)} data sets of {len(kinds)} kinds; "
        + ", ".join(f"{count} {name}" for name, count in found["outcomes"].items())
        + f"; {_share(found['exact_all'])} exact.",
        f"- Of those with enough images, {found['n_cases']}: {_share(found['exact'])} exact.",
        f"- Null runs: {found['n_null']}; in {_share(found['false_discovery'])} something was "
        f"named (95 % interval by Clopper and Pearson {low:.2%} to {high:.2%}).",
        "",
    ]


def _share(value: float | None) -> str:
    return "none" if value is None else f"{value:.1%}"


def _cases(rows: list[Row]) -> list[str]:
    by_case: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in rows:
        if not row["null"]:
            by_case[row["data"], row["law"]].append(row)
    if not by_case:
        return []
    head = ["data set", "kind", "images", "law", "truth", "enough", "runs", *reversed(OUTCOMES)]
    return [
        "### By data set and law",
        "",
        *_table(
            [*head, "open named", "seconds"],
            (
                [
                    data,
                    of_case[0]["kind"],
                    f"{of_case[0]['images']} of {'x'.join(map(str, of_case[0]['shape']))}",
                    law,
                    truth_words(of_case[0]),
                    _enough(of_case),
                    len(of_case),
                    *_counts(of_case),
                    sum(bool(row["open"]) for row in of_case),
                    _middle(of_case),
                ]
                for (data, law), of_case in by_case.items()
            ),
        ),
    ]


def _enough(rows: list[Row]) -> str:
    return "yes" if all(row["enough"] for row in rows) else "no"


def _counts(rows: list[Row]) -> list[str | int]:
    """How many rows have each outcome, the best first; a dash for none."""
    counts = [sum(row["outcome"] == name for row in rows) for name in reversed(OUTCOMES)]
    return [count or "-" for count in counts]


def _middle(rows: list[Row]) -> str:
    """The median of the seconds."""
    return f"{median(row['seconds'] for row in rows):.0f}" if rows else "-"


def _null(rows: list[Row]) -> list[str]:
    by_set: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        if row["null"]:
            by_set[row["data"]].append(row)
    if not by_set:
        return []
    return [
        "### Null runs",
        "",
        *_table(
            ["data set", "kind", "images", "runs", "named", "none", "undecided", "seconds"],
            (
                [
                    data,
                    of_set[0]["kind"],
                    f"{of_set[0]['images']} of {'x'.join(map(str, of_set[0]['shape']))}",
                    len(of_set),
                    sum(row["outcome"] == "false" for row in of_set),
                    sum(row["outcome"] == "exact" for row in of_set),
                    sum(row["outcome"] == "weak" for row in of_set),
                    _middle(of_set),
                ]
                for data, of_set in by_set.items()
            ),
        ),
    ]


def _table(head: list[str], rows: Iterable[list[Any]]) -> list[str]:
    """A Markdown table with an empty line after it."""
    lines = [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    return [*lines, *(f"| {' | '.join(map(str, row))} |" for row in rows), ""]
