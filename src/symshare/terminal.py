"""What a person at a terminal sees of a run."""

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from symshare.data import Splits
from symshare.discovery.config import DiscoveryConfig
from symshare.discovery.run import Discovery
from symshare.judge import Verdict
from symshare.propose import Candidates

__all__ = ["Narrator", "print_result"]

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
