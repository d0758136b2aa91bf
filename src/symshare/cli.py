"""The commands. Everything heavy is imported when a command runs, not before."""

import json as json_lines
import os
import re
import signal
import sys
from collections.abc import Iterable
from typing import Any, Literal, NoReturn

from symshare.bench.config import LayerConfig, SinkhornConfig, StepConfig, figure_path
from symshare.discovery.config import BudgetName, DiscoveryConfig, Storage
from symshare.reproduce.budgets import BudgetName as StudyBudget
from symshare.reproduce.config import PictureFormat, StudyData, Tier
from symshare.train.settings import (
    Accelerator,
    DataConfig,
    FitConfig,
    Hardware,
    ModelConfig,
    OptimConfig,
    Precision,
)

__all__ = ["main"]


def main(arguments: list[str] | None = None) -> None:
    """Entry point of `symshare`: exit code 2 and one line where the input is at fault."""
    from importlib.metadata import version

    from jsonargparse import ArgumentParser, auto_cli

    class Parser(ArgumentParser):
        """Truth values may stand alone, as in `--json`; `what` needs no dashes; short errors."""

        def add_argument(self, *args: Any, **kwargs: Any) -> Any:
            if args == ("--what",):
                args, kwargs = ("what",), kwargs | {"nargs": "?"}
            action = super().add_argument(*args, **kwargs)
            if action is not None and kwargs.get("type") is bool:
                action.nargs, action.const = "?", True
            return action

        def error(self, message: str, ex: Exception | None = None) -> NoReturn:
            command = getattr(ex, "subcommand_parser", None) or self
            help = f"see {command.prog.replace(' [options]', '')} --help"
            print(f"symshare: error: {_one_line(message)}; {help}", file=sys.stderr)
            sys.exit(2)

    benches: dict[str, Any] = {
        "_help": "Measure what the projection, a layer and a training step cost.",
        "sinkhorn": bench_sinkhorn_command,
        "layer": bench_layer_command,
        "step": bench_step_command,
    }
    # Whoever ends a job gently is answered as Ctrl-C is.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        auto_cli(
            {
                "discover": discover_command,
                "fit": fit_command,
                "bench": benches,
                "reproduce": reproduce_command,
            },
            args=arguments,
            parser_class=Parser,
            prog="symshare",
            version=version("symshare"),
            description="Find the symmetries of labelled images, and networks that use them.",
            allow_abbrev=False,
        )
    except KeyboardInterrupt:
        bench = (sys.argv[1:] if arguments is None else arguments)[:1] == ["bench"]
        goes_on = "" if bench else " The same command goes on where this one stopped."
        print(f"\nInterrupted.{goes_on}", file=sys.stderr)
        sys.exit(130)
    except BrokenPipeError:
        # Whoever read the output has seen enough.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (ValueError, OSError) as error:
        print(f"symshare: error: {error}", file=sys.stderr)
        sys.exit(2)


def _one_line(message: str) -> str:
    """An error of jsonargparse in the words of our own.

    >>> _one_line('''Parser key "optim.steps":
    ...   Expected a <class 'int'>. Got value: abc''')
    'optim.steps: expected int, got abc'
    """
    said = " ".join(message.split())
    for pattern, words in _WORDS.items():
        said = re.sub(pattern, words, said)
    return said


_WORDS = {
    r"<class '(\w+)'>": r"\1",
    r"\bNoneType\b": "null",
    r'Parser key "([\w.]+)":': r"\1:",
    r"Does not validate .* Subtypes: \[(\w+), (\w+)\] .* Given value: ": r"expected \1 or \2, got ",
    r"Expected a typing\.Literal\[(.*)\]\. Got value: ": r"expected one of \1, got ",
    r"Expected an? (.*)\. Got value: ": r"expected \1, got ",
}
"""What jsonargparse says, and what we say."""


def discover_command(
    source: str,
    transform: str = "none",
    budget: BudgetName = "standard",
    seed: int = 0,
    out: str | None = None,
    periodic: tuple[Literal["H", "W"], ...] = (),
    data: Storage = Storage(),
    devices: int = 1,
    nodes: int = 1,
    precision: Precision = "32-true",
    accelerator: Accelerator = "auto",
) -> None:
    """Find the symmetries of labelled images, with evidence, and say whether using them helps.

    Args:
        source: digits, mnist, cifar10, or the path of an .npz file with `images` and `labels`.
        transform: random transformation put on every image: none, flip, flips, half, quarter, d4,
            rotate:A (degrees), scale:a-b.
        budget: quick (a short comparison of networks), standard, or thorough.
        seed: of everything random but the test part.
        out: folder for all files; by default one below runs/, named after the call.
        periodic: axes along which images wrap around, as in '[W]'.
        data: where the source lies.
        devices: processes that train together on this machine, each with its own device.
        nodes: machines.
        precision: of networks in training: 32-true, bf16-mixed or 64-true.
        accelerator: auto, cpu, cuda or mps.
    """
    from symshare.discovery.run import discover_source
    from symshare.terminal import Narrator

    config = DiscoveryConfig(source, transform, budget, seed, periodic, data)
    with Narrator() as narrator:
        discover_source(config, out, narrator, Hardware(devices, nodes, precision, accelerator))


def fit_command(
    data: DataConfig = DataConfig(),
    model: ModelConfig = ModelConfig(),
    optim: OptimConfig = OptimConfig(),
    seed: int = 0,
    out: str | None = None,
    devices: int = 1,
    nodes: int = 1,
    precision: Precision = "32-true",
    accelerator: Accelerator = "auto",
) -> None:
    """Train one network and write its run directory.

    Args:
        data: where the images come from.
        model: which network.
        optim: how to train.
        seed: of the split, the initial weights, the batches and the transformations.
        out: run directory; by default one below runs/, named after the configuration.
        devices: processes that train together on this machine, each with its own device.
        nodes: machines.
        precision: of the network: 32-true, bf16-mixed or 64-true.
        accelerator: auto, cpu, cuda or mps.
    """
    from symshare.terminal import StepBar, print_result
    from symshare.train.processes import together
    from symshare.train.runs import fit

    config = FitConfig(data, model, optim, seed)
    hardware = Hardware(devices, nodes, precision, accelerator)

    def run() -> None:
        with StepBar() as bar:
            result = fit(config, config.folder(out), progress=bar.show, hardware=hardware)
        print_result(result)

    together(hardware, run)


def reproduce_command(
    what: str | None = None,
    list: bool = False,
    budget: StudyBudget = "cpu",
    seeds: int | None = None,
    tiers: tuple[Tier, ...] = ("A", "B", "C"),
    processes: int | None = None,
    change: tuple[str, ...] = (),
    data: StudyData = StudyData(),
    format: PictureFormat = "svg",
    out: str = "runs/reproduce",
) -> None:
    """Run the paper's experiments, row by row; the same command goes on where one stopped.

    Args:
        what: all, a study, a row of one, or the path of a row's YAML file.
        list: name the studies and their rows, and run nothing.
        budget: smoke (a glance), cpu (a quarter of the width, on two cores), paper (full size).
        seeds: runs of each row; by default as many as the budget has.
        tiers: A (the paper's rows and ours, one sound protocol), B (the published protocol),
            C (ablations), as in '[A,C]'.
        processes: runs at a time; by default one for each core, or one with an accelerator.
        change: settings in the place of the rows' own, as in '[optim.lr=0.001]'.
        data: where the images lie.
        format: of the figures: svg, pdf or png.
        out: folder for runs, results.json, results.md and figures, below the budget's name.
    """
    from symshare.terminal import StudyNarrator, print_studies

    if list:
        print_studies()
        return
    if what is None:
        raise ValueError("reproduce: say what, for example all or table1; --list names everything")
    from symshare.reproduce.runner import Settings, reproduce

    settings = Settings(budget, seeds, tiers, processes, change, data.root, out, format)
    if reproduce(what, settings, StudyNarrator()).failures:
        sys.exit(1)


def bench_sinkhorn_command(json: bool = False, **options: Any) -> None:
    """Time the projection and its gradient beside the published way, and measure their errors.

    Args:
        json: print one line of JSON for each number, the summary last.
        options: those of SinkhornConfig.
    """
    config = SinkhornConfig(**options)
    from symshare.bench.sinkhorn import rows

    _show(rows(config), json)


def bench_layer_command(json: bool = False, plot: str | None = None, **options: Any) -> None:
    """Time a lifting layer at inference, and its memory, beside a loop over the elements.

    Args:
        json: print one line of JSON for each number, the summary last.
        plot: file to draw time and memory into, .svg, .pdf or .png.
        options: those of LayerConfig.
    """
    config = LayerConfig(**options)
    picture = None if plot is None else figure_path(plot)
    from symshare.bench.layer import rows

    shown = _show(rows(config), json)
    if picture is not None:
        from symshare.report.figures import cost, save

        save(cost(shown), picture)


def bench_step_command(
    json: bool = False, unbaked: bool = False, gcnn: bool = False, **options: Any
) -> None:
    """Time a training step and baked inference of the paper's network beside a plain CNN.

    Args:
        json: print one line of JSON for each number, the summary last.
        unbaked: also time inference before baking.
        gcnn: also time the G-CNN with C4 known.
        options: those of StepConfig.
    """
    config = StepConfig(**options)
    from symshare.bench.step import rows

    _show(rows(config, unbaked, gcnn), json)


def _show(rows: Iterable[dict[str, Any]], json: bool) -> list[dict[str, Any]]:
    """Print rows as they come, each line whole, or as tables at the end."""
    shown = []
    try:
        if not json:
            from symshare.bench.tables import print_bench

            return print_bench(rows)
        for row in rows:
            sys.stdout.write(json_lines.dumps(row, allow_nan=False) + "\n")
            sys.stdout.flush()
            shown.append(row)
    except KeyboardInterrupt:
        print("\nInterrupted. What was measured so far is printed.", file=sys.stderr)
        sys.exit(130)
    return shown
