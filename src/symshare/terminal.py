"""What a person at a terminal sees of a run."""

from collections.abc import Mapping
from pathlib import Path

from rich import progress
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from symshare.advice import FAMILIES, at_least, interval
from symshare.discovery.config import DiscoveryConfig
from symshare.discovery.observer import Observer
from symshare.names import things_of
from symshare.records import AdviceKind, NetworkName, Ranges, ResultRecord, Status, VerdictRecord

_COLOURS: dict[Status, str] = {
    "symmetric": "green",
    "approximate": "cyan",
    "tolerated": "blue",
    "broken": "red",
    "undecided": "yellow",
}
_ADVICE: dict[AdviceKind, str] = {"build in": "green", "augment": "cyan", "keep away": "red"}
_NAMES: dict[NetworkName, str] = {
    "cnn": "plain CNN",
    "found": "G-CNN of the verdict",
    "gated": "learned measure (Gated)",
    "sinkhorn": "free stacks (Sinkhorn)",
}
_SHOWN = 16


class StepBar:
    """A line with the time that is left, while a network is trained; on a terminal only."""

    def __init__(self) -> None:
        columns = (
            progress.BarColumn(),
            progress.TaskProgressColumn(),
            progress.TimeRemainingColumn(),
        )
        console, what = Console(highlight=False), "{task.description:<9}"
        # In a file, all that a bar leaves is empty lines.
        self.bar = progress.Progress(
            what, *columns, console=console, transient=True, disable=not console.is_terminal
        )
        self.task: progress.TaskID | None = None

    def __enter__(self) -> "StepBar":
        return self

    def __exit__(self, *error: object) -> None:
        self.bar.stop()

    def show(self, done: int, steps: int, what: str = "fit") -> None:
        """Move the bar; after the last step it is gone."""
        if self.task is None:
            self.task = self.bar.add_task(what, total=steps, completed=done)
            self.bar.start()
        self.bar.update(self.task, completed=done)
        if done == steps:
            self.bar.stop()
            self.bar.remove_task(self.task)
            self.task = None


class Narrator(Observer):
    """Prints the steps of a discovery as they happen."""

    def __init__(self, bar: StepBar) -> None:
        self.bar = bar
        self.console = bar.bar.console

    def progress(self, what: str, done: int, steps: int) -> None:
        self.bar.show(done, steps, what)

    def started(
        self,
        config: DiscoveryConfig,
        parts: tuple[int, int, int],
        shape: tuple[int, ...],
        labels: str,
        folder: Path,
    ) -> None:
        self.console.print(
            f"[bold]{escape(config.source)}[/], transform {config.transform}: "
            f"{' + '.join(map(str, parts))} {things_of(shape[1:]).many} "
            "(train, validation, test) of "
            f"{' x '.join(map(str, shape))}, {escape(labels)}"
        )
        self.console.print(f"writing to {escape(str(folder))}", style="dim", soft_wrap=True)

    def proposed(self, sources: Mapping[str, int]) -> None:
        counts = ", ".join(f"{n} from the {source}" for source, n in sources.items())
        self.console.print(f"propose   {sum(sources.values())} candidates: {counts}")
        self.console.print(
            "judge     training networks on parts of the data, asking them about the rest ..."
        )

    def judged(self, record: VerdictRecord) -> None:
        power, things = record.power, record.things
        state = "passed" if power.passed else "[yellow]failed[/]"
        knows = f"accuracy {power.accuracy:.1%} (chance {power.chance_accuracy:.1%})"
        if record.numbers:
            knows = f"{power.accuracy:.1%} of the variance of the labels explained"
        self.console.print(
            f"power     {state}: {knows} on {record.samples} held-out {things.many}"
            + (f" in {record.independent} groups" if record.independent < record.samples else "")
        )
        kept = "explained, all" if record.numbers else "kept, worst class"
        table = Table("element", "excess loss", f"change of {things.many}", "status", kept)
        shown = sorted(record.elements, key=lambda e: e.excess_loss)[:_SHOWN]
        for e in (e for e in record.elements if e in shown):
            loss, change = (
                _with_bounds(e.excess_loss, e.interval),
                _with_bounds(e.change, e.change_interval),
            )
            status = f"[{_COLOURS[e.status]}]{e.status}[/]"
            worst = f"{e.kept_share if record.numbers else e.kept_share_min:.0%}"
            moved = record.labels.moved(e)
            name = escape(f"{e.name} with {moved}" if moved else e.name)
            table.add_row(name, loss, change, status, worst)
        self.console.print(table)
        left = len(record.elements) - len(shown)
        more = f"; {left} more candidates in the report" if left else ""
        meaning = (
            f"symmetric means a loss below delta = {record.delta:.3f} nats and a change below "
            f"{record.change:.3f}, both shown{more}"
        )
        self.console.print(meaning, style="dim")
        self.console.print(f"[bold]verdict   {record.verdict}[/] {record.group or ''}".rstrip())
        self.console.print(f"[bold]found     {', '.join(record.found) or '-'}[/]")
        for title, names in (("approximate", record.approximate), ("partial", record.partial)):
            if names:
                self.console.print(f"{title:<9} {', '.join(names)}")

    def ranged(self, ranges: Ranges, record: VerdictRecord) -> None:
        for reason in ranges.reasons:
            self.console.print(f"ranges    undecided: {reason}", markup=False)
        if not ranges.families:
            return
        table = Table(
            "moves", f"safe, below {ranges.delta:.3f}", f"below {ranges.delta_approximate:.3f}"
        )
        for r in ranges.families:
            cells = []
            for reach in (r.safe, r.safe_approximate):
                nothing = reach.low == reach.high
                cells.append("-" if nothing else interval(r, reach.low, reach.high))
                cells[-1] += at_least(r, reach)
            table.add_row(FAMILIES[r.family], *map(escape, cells))
        self.console.print(table)
        self.console.print(
            "safe: each size that was examined was shown to cost less than this, in nats, beside "
            f"what interpolation and borders cost; {ranges.samples} held-out "
            f"{record.things.many}",
            style="dim",
        )

    def trained(self, name: NetworkName, result: ResultRecord) -> None:
        self.console.print(
            f"fit       {_NAMES[name]:<26} seed {result.seed}  test {result.metric} "
            f"{result.test_accuracy:.1%}  {result.seconds:.0f} s"
        )

    def finished(self, record: VerdictRecord, report: Path) -> None:
        error = [f"error of {', '.join(record.numbers)}"] if record.numbers else []
        table = Table("network", "free parameters", f"test {record.metric}", *map(escape, error))
        for name, entry in record.accuracy.items():
            if entry is None:
                table.add_row(_NAMES[name], "-", "not run", *("-" for _ in error))
                continue
            parameters = f"{entry.parameters} (+ {entry.representation_parameters})"
            spread = "" if entry.std is None else f" ± {entry.std:.1%}"
            shown = f"{entry.mean:.1%}{spread} (n = {entry.n})"
            errors = [", ".join(f"{e:.3g}" for e in entry.error)] if entry.error else []
            table.add_row(_NAMES[name], parameters, shown, *errors)
        self.console.print(table)
        self.console.print(record.sentence, markup=False)
        for caveat in record.caveats:
            self.console.print(f"- {caveat}", style="dim", markup=False)
        if record.advice:
            table = Table("advice", "move", "evidence")
            for line in record.advice:
                kind = f"[{_ADVICE[line.kind]}]{line.kind}[/]"
                table.add_row(kind, escape(line.what), escape(line.why))
            self.console.print(table)
            self.console.print(
                f"as code   symshare advice {report.parent}", markup=False, soft_wrap=True
            )
        self.console.print(f"report    {report}", markup=False, soft_wrap=True)


def _with_bounds(mean: float, bounds: tuple[float, float]) -> str:
    """A number with its interval, as rich prints it; never a negative zero."""
    shown = [f"{round(value, 3) + 0.0:.3f}" for value in (mean, *bounds)]
    return rf"{shown[0]} \[{shown[1]}, {shown[2]}]"


def print_result(result: ResultRecord) -> None:
    """Print the outcome of one training run."""
    errors = ", ".join(f"{error:.3g}" for error in result.test_error or ())
    Console(highlight=False).print(
        f"test {result.metric} {result.test_accuracy:.2%}, loss {result.test_loss:.4f}"
        f"{f', error {errors}' if errors else ''}; "
        f"{result.parameters} free parameters (+ {result.representation_parameters} of "
        f"representations); {result.seconds:.0f} s"
    )
