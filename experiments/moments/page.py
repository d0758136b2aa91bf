"""The results of learning stacks from moments as a page."""

from collections import Counter, defaultdict
from statistics import median
from typing import Any

Row = dict[str, Any]

HEAD = """\
# Moments: what stacks learn from images alone

`python -m experiments moments --seeds SEEDS`. Each run has its own images (12 000 of the training
part under the law, group layers 1600 of them), its own random weights and its own starts; no list
of groups is used, names are looked up afterwards. A run is **exact** where every layer has the
elements of the law and no other, those left aside that a mirror of photographs would add on
CIFAR-10: whether it is there is not known, and they are counted as **open**. Ratio: of the energy
of a true element to what noise gives, 1 on average; nearest: the largest p value of a permutation
that was refused. Seconds: of one thread, with those of collecting the moments; the median."""


def page(rows: list[Row]) -> str:
    """The page of all rows.

    Args:
        rows: as `experiments.moments.running.learn` gives them.
    """
    by_case: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        by_case[row["case"]].append(row)
    columns = ["images, law and layers", "elements of the law", "n", "exact", "missed", "too much"]
    columns += ["open", "ratios", "nearest p", "s"]
    seeds = max(map(len, by_case.values()))
    lines = [
        HEAD.replace("SEEDS", str(seeds)),
        "",
        f"| {' | '.join(columns)} |",
        f"|{' --- |' * len(columns)}",
    ]
    for name, of_case in by_case.items():
        lines.append(f"| {' | '.join([name, *_cells(of_case)])} |")
    return "\n".join([*lines, ""])


def is_exact(row: Row) -> bool:
    """Whether every layer has the elements of the law, and beside them at most open ones."""
    truth, unknown = set(row["truth"]), set(row["open"])
    return all(
        truth <= set(found) <= truth | unknown and len(set(found)) == len(found)
        for found in (layer["found"] for layer in row["layers"])
    )


def _cells(rows: list[Row]) -> list[str]:
    truth = rows[0]["truth"]
    layers = [layer for row in rows for layer in row["layers"]]
    missed: Counter[str] = Counter()
    extra: Counter[str] = Counter()
    unknown: Counter[str] = Counter()
    for layer in layers:
        missed += Counter(truth) - Counter(layer["found"])
        extra += Counter(layer["found"]) - Counter([*truth, *rows[0]["open"]])
        unknown += Counter(layer["found"]) & Counter(rows[0]["open"])
    ratios = [ratio for layer in layers for ratio in layer["ratios"][1:]]
    return [
        ", ".join(truth) or "-",
        str(len(rows)),
        str(sum(map(is_exact, rows))),
        _counted(missed),
        _counted(extra),
        _counted(unknown),
        f"{min(ratios):.2f} to {max(ratios):.2f}" if ratios else "-",
        f"{max(layer['nearest'] for layer in layers):.0e}",
        f"{median(row['seconds'] for row in rows):.0f}",
    ]


def _counted(names: Counter[str]) -> str:
    return ", ".join(f"{name} ({count})" for name, count in sorted(names.items())) or "-"
