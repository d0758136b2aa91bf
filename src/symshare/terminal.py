"""What a person at a terminal sees of a run."""

from collections.abc import Mapping
from typing import Any

from rich import progress
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from symshare.data import Splits
from symshare.discovery.config import DiscoveryConfig
from symshare.discovery.run import Discovery
from symshare.judge import Verdict
from symshare.propose import Candidates
from symshare.reproduce.rows import STUDIES
from symshare.reproduce.runner import Failure, Outcome, Progress, Settings

__all__ = ["Narrator", "StepBar", "StudyNarrator", "print_result", "print_studies"]

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


class StepBar:
    """A line with the time that is left, while a network is trained; on a terminal only."""

    def __init__(self, console: Console | None = None) -> None:
        columns = (
            progress.BarColumn(),
            progress.TaskProgressColumn(),
            progress.TimeRemainingColumn(),
        )
        self.bar = progress.Progress(
            "{task.description:<9}", *columns, console=console, transient=True
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


class Narrator:
    """Tells the steps of a discovery as they happen."""

    def __init__(self) -> None:
        self.console = Console(highlight=False)
        self.bar = StepBar(self.console)

    def __enter__(self) -> "Narrator":
        return self

    def __exit__(self, *error: object) -> None:
        self.bar.__exit__()

    def _steps(self, value: tuple[str, int, int]) -> None:
        what, done, steps = value
        self.bar.show(done, steps, what)

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


class StudyNarrator:
    """Tells the runs of a study as they begin and end."""

    def __init__(self) -> None:
        self.console = Console(highlight=False)

    def __call__(self, step: str, value: Any) -> None:
        getattr(self, f"_{step}")(value)

    def _start(self, value: tuple[Settings, int, int]) -> None:
        settings, total, waiting = value
        text = f"{total} runs at budget {settings.budget}, {total - waiting} of them done"
        self.console.print(text)
        self.console.print(f"writing to {escape(str(settings.folder))}", style="dim")

    def _begin(self, progress: Progress) -> None:
        self.console.print(f"begin  {escape(progress.job.key)}", style="dim")

    def _end(self, progress: Progress) -> None:
        left = "" if progress.left is None else f", about {duration(progress.left)} left"
        numbers = _numbers(progress.result)
        self.console.print(
            f"end    {escape(progress.job.key)}: {numbers}"
            f"[dim]  {progress.done} of {progress.total}{left}[/]"
        )

    def _fail(self, failure: Failure) -> None:
        name, reason = escape(failure.job.key), escape(failure.reason)
        self.console.print(f"[red]failed[/] {name}: {reason}")
        self.console.print(f"       all of it in {escape(str(failure.log))}", style="dim")

    def _done(self, outcome: Outcome) -> None:
        if outcome.failures:
            count = len(outcome.failures)
            self.console.print(
                f"[red]{count} run{'s' * (count > 1)} failed[/]; the same command tries again, "
                "once what they name is put right"
            )
        for picture in outcome.figures:
            self.console.print(f"figure {escape(str(picture))}", soft_wrap=True)
        self.console.print(f"{escape(str(outcome.page))}", soft_wrap=True)


def _numbers(result: Mapping[str, Any]) -> str:
    accuracy = result.get("test_accuracy")
    if isinstance(accuracy, Mapping):
        return ", ".join(f"{name} {value:.2%}" for name, value in accuracy.items())
    if accuracy is not None:
        return f"accuracy {accuracy:.1%}, {result['exact']:.0%} of the elements exact"
    return "measured"


def duration(seconds: float) -> str:
    """A time as a person says it.

    >>> duration(42.0), duration(130.0), duration(9000.0)
    ('42 s', '2 min', '2.5 h')
    """
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def print_studies() -> None:
    """Name every study with its rows."""
    console = Console(highlight=False)
    for study in STUDIES.values():
        console.print(f"[bold]{study.name}[/]  {escape(study.title)}")
        for row in study.rows:
            tier = "" if row.tier == "A" else f"  [dim]tier {row.tier}[/]"
            console.print(f"    {escape(row.name)}  [dim]{escape(row.title)}[/]{tier}")
