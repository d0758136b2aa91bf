"""What a person at a terminal sees of a study."""

from pathlib import Path

from rich.console import Console
from rich.markup import escape

from experiments.catalogue import COMMANDS, STUDIES
from experiments.finished import FinishedImages, FinishedRun, FinishedToy
from experiments.runner import Failure, Observer, Outcome, Progress, Settings

__all__ = ["Narrator", "print_studies"]


class Narrator(Observer):
    """Tells a terminal of the runs of a study as they begin and end."""

    def __init__(self) -> None:
        self.console = Console(highlight=False)

    def started(self, settings: Settings, total: int, waiting: int) -> None:
        text = f"{total} runs at budget {settings.budget}, {total - waiting} of them done"
        self.console.print(text)
        self.console.print(f"writing to {escape(str(settings.folder))}", style="dim")

    def begun(self, progress: Progress) -> None:
        self.console.print(f"begin  {escape(progress.job.key)}", style="dim")

    def ended(self, progress: Progress) -> None:
        left = "" if progress.left is None else f", about {duration(progress.left)} left"
        numbers = _numbers(progress.run)
        self.console.print(
            f"end    {escape(progress.job.key)}: {numbers}"
            f"[dim]  {progress.done} of {progress.total}{left}[/]"
        )

    def failed(self, failure: Failure) -> None:
        name, reason = escape(failure.job.key), escape(failure.reason)
        self.console.print(f"[red]failed[/] {name}: {reason}")
        self.console.print(f"       all of it in {escape(str(failure.log))}", style="dim")

    def finished(self, outcome: Outcome) -> None:
        if outcome.failures:
            count = len(outcome.failures)
            self.console.print(
                f"[red]{count} run{'s' * (count > 1)} failed[/]; the same command tries again, "
                "once what they name is put right"
            )
        for picture in outcome.figures:
            self.console.print(f"figure {escape(str(picture))}", soft_wrap=True)
        self.console.print(f"{escape(str(outcome.page))}", soft_wrap=True)


def _numbers(run: FinishedRun | None) -> str:
    if isinstance(run, FinishedImages):
        return ", ".join(f"{name} {value:.2%}" for name, value in run.test_accuracy.items())
    if isinstance(run, FinishedToy):
        return f"accuracy {run.test_accuracy:.1%}, {run.exact:.0%} of the elements exact"
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
    """Name every study with its rows, the benchmarks, and the scripts that study the method."""
    console = Console(highlight=False)
    for study in STUDIES.values():
        console.print(f"[bold]{study.name}[/]  {escape(study.title)}")
        for row in study.rows:
            tier = "" if row.tier == "A" else f"  [dim]tier {row.tier}[/]"
            console.print(f"    {escape(row.name)}  [dim]{escape(row.title)}[/]{tier}")
    for name, title in COMMANDS.items():
        options = f"options: python -m experiments {name} --help"
        console.print(f"[bold]{name}[/]  {escape(title)} [dim]{options}[/]", soft_wrap=True)
    for script in sorted(Path(__file__).parent.glob("studies/[a-z]*.py")):
        docstring, *_ = script.read_text(encoding="utf-8").split("\n")
        name = f"python -m experiments.studies.{script.stem}"
        console.print(f"[bold]{name}[/]  {escape(docstring.strip(chr(34)))}", soft_wrap=True)
