"""The numbers of a bench as tables on the terminal."""

from collections.abc import Iterable, Mapping

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from benchmarks.recording import Row

__all__ = ["print_bench"]


def print_bench(rows: Iterable[Row]) -> list[Row]:
    """Print the numbers of a bench as tables, and its summary; after an interrupt, what there is.

    Returns:
        The rows.
    """
    console = Console(highlight=False)
    shown: list[Row] = []
    try:
        with console.status("measuring ...") as status:
            for row in rows:
                shown.append(row)
                if "summary" not in row:
                    status.update(escape(f"measuring ... {row['case']}: {row['measures']}"))
    finally:
        _print_rows(console, shown)
    return shown


def _print_rows(console: Console, rows: list[Row]) -> None:
    measured = [row for row in rows if "summary" not in row]
    for measures in dict.fromkeys(row["measures"] for row in measured):
        chosen = [row for row in measured if row["measures"] == measures]
        contenders = list(dict.fromkeys(row["contender"] for row in chosen))
        table = Table("case", "n", *map(escape, contenders), title=escape(measures))
        table.columns[0].no_wrap = True
        for case in dict.fromkeys(row["case"] for row in chosen):
            cells = {row["contender"]: row for row in chosen if row["case"] == case}
            numbers = [_spread(cells[name]) if name in cells else "-" for name in contenders]
            table.add_row(escape(case), str(next(iter(cells.values()))["n"]), *numbers)
        console.print(table)
    for where in dict.fromkeys((r["device"], r["torch"], r["threads"]) for r in measured):
        line = "medians ± interquartile range; {}, torch {}, {} threads".format(*where)
        console.print(line, style="dim", markup=False)
    for summary in rows[len(measured) :]:
        for name, value in summary.items():
            if name != "summary":
                console.print(f"{name:<26}{_summarised(value)}", markup=False)


def _spread(row: Row) -> str:
    """Median and interquartile range in a unit of readable size, and the largest where it counts.

    >>> _spread({"median": 0.0123, "iqr": 0.0004, "unit": "s", "n": 9})
    '12.3 ± 0.4 ms'
    >>> _spread({"median": 3 * 2**20, "iqr": 0.0, "unit": "bytes", "n": 1})
    '3 MiB'
    """
    median, iqr = row["median"], row["iqr"]
    factor, name = {"s": (1.0, " s"), "bytes": (2.0**-20, " MiB"), "1": (1.0, "")}[row["unit"]]
    if row["unit"] == "s":
        smaller = ((1.0, " s"), (1e3, " ms"), (1e6, " µs"))
        factor, name = next((u for u in smaller if median * u[0] >= 1), smaller[-1])
    spread = "" if row["n"] == 1 else f" ± {iqr * factor:.3g}"
    largest = f", max {row['max']:.2g}" if "max" in row else ""
    return f"{median * factor:.3g}{spread}{name}{largest}"


def _summarised(value: float | Mapping[str, float]) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name}: {number:.3g}" for name, number in value.items())
    return f"{value:.3g}"
