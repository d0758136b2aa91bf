"""What a person at a terminal sees of a run."""

from collections.abc import Iterable, Mapping
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from symshare.data import Splits
from symshare.discovery.config import DiscoveryConfig
from symshare.discovery.run import Discovery
from symshare.judge import Verdict
from symshare.propose import Candidates

__all__ = ["Narrator", "print_bench", "print_result"]

_COLOURS = {
    "symmetric": "green",
    "approximate": "cyan",
    "tolerated": "blue",
    "broken": "red",
    "undecided": "yellow",
}
_NAMES = {
    "cnn": "plain CNN",
    "found": "G-CNN with the found set",
    "gated": "learned measure (Gated)",
    "sinkhorn": "free stacks (Sinkhorn)",
}
_SHOWN = 16


class Narrator:
    """Tells the steps of a discovery as they happen."""

    def __init__(self) -> None:
        self.console = Console(highlight=False)

    def __call__(self, step: str, value: Any) -> None:
        getattr(self, f"_{step}")(value)

    def _start(self, value: tuple[DiscoveryConfig, Splits, Any]) -> None:
        config, splits, folder = value
        _, channels, height, width = splits.train.images.shape
        self.console.print(
            f"[bold]{escape(config.source)}[/], transform {config.transform}: "
            f"{len(splits.train)} + {len(splits.validation)} + {len(splits.test)} images "
            f"(train, validation, test) of {channels} x {height} x {width}, "
            f"{len(splits.train.classes)} classes"
        )
        self.console.print(f"writing to {escape(str(folder))}", style="dim", soft_wrap=True)

    def _propose(self, candidates: Candidates) -> None:
        by_source: dict[str, int] = {}
        for element in candidates.elements[1:]:
            by_source[element.source] = by_source.get(element.source, 0) + 1
        counts = ", ".join(f"{n} from the {source}" for source, n in by_source.items())
        self.console.print(f"propose   {len(candidates) - 1} candidates: {counts}")
        self.console.print("judge     training two networks on halves of the data ...")

    def _judge(self, verdict: Verdict) -> None:
        power = verdict.power
        state = "passed" if power.passed else "[yellow]failed[/]"
        self.console.print(
            f"power     {state}: accuracy {power.accuracy:.1%} (chance "
            f"{power.chance_accuracy:.1%}) on {verdict.samples} held-out images"
        )
        table = Table("element", "excess loss", "interval", "status", "kept, worst class")
        shown = sorted(verdict.judgements, key=lambda j: j.excess_loss)[:_SHOWN]
        for j in (j for j in verdict.judgements if j in shown):
            table.add_row(
                escape(j.name),
                f"{j.excess_loss:.3f}",
                f"[{j.interval[0]:.3f}, {j.interval[1]:.3f}]".replace("[", r"\["),
                f"[{_COLOURS[j.status]}]{j.status}[/]",
                f"{j.kept_share_min:.0%}",
            )
        self.console.print(table)
        left = len(verdict.judgements) - len(shown)
        more = f"; {left} more candidates in the report" if left else ""
        self.console.print(
            f"symmetric means below delta = {verdict.delta:.3f} nats{more}", style="dim"
        )
        self.console.print(f"[bold]verdict   {verdict.word}[/] {verdict.group or ''}".rstrip())
        self.console.print(f"[bold]found     {', '.join(verdict.found) or '-'}[/]")
        for title in ("approximate", "partial"):
            names = getattr(verdict, title)
            if names:
                self.console.print(f"{title:<9} {', '.join(names)}")

    def _fit(self, value: tuple[str, int, Mapping[str, Any]]) -> None:
        name, seed, result = value
        self.console.print(
            f"fit       {_NAMES[name]:<26} seed {seed}  test accuracy "
            f"{result['test_accuracy']:.1%}  {result['seconds']:.0f} s"
        )

    def _done(self, discovery: Discovery) -> None:
        record = discovery.record
        table = Table("network", "free parameters", "test accuracy")
        for name, entry in record["accuracy"].items():
            if entry is None:
                table.add_row(_NAMES[name], "-", "not run")
                continue
            spread = "" if entry["std"] is None else f" ± {entry['std']:.1%}"
            table.add_row(
                _NAMES[name],
                f"{entry['parameters']} (+ {entry['representation_parameters']})",
                f"{entry['mean']:.1%}{spread} (n = {entry['n']})",
            )
        self.console.print(table)
        self.console.print(record["sentence"], markup=False)
        for caveat in record["caveats"]:
            self.console.print(f"- {caveat}", style="dim", markup=False)
        self.console.print(f"report    {discovery.report}", markup=False, soft_wrap=True)


def print_result(result: Mapping[str, Any]) -> None:
    """Print the outcome of one training run."""
    Console(highlight=False).print(
        f"test accuracy {result['test_accuracy']:.2%}, loss {result['test_loss']:.4f}; "
        f"{result['parameters']} free parameters (+ {result['representation_parameters']} of "
        f"representations); {result['seconds']:.0f} s"
    )


def print_bench(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Print the numbers of a bench as tables, and its summary; after an interrupt, what there is.

    Returns:
        The rows.
    """
    console = Console(highlight=False)
    shown: list[dict[str, Any]] = []
    try:
        with console.status("measuring ...") as status:
            for row in rows:
                shown.append(row)
                if "summary" not in row:
                    status.update(escape(f"measuring ... {row['case']}: {row['measures']}"))
    finally:
        _print_rows(console, shown)
    return shown


def _print_rows(console: Console, rows: list[dict[str, Any]]) -> None:
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


def _spread(row: Mapping[str, Any]) -> str:
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
