"""The commands. Everything heavy is imported when a command runs, not before."""

import os
import re
import sys
from collections.abc import Callable, Mapping
from typing import Any, Literal, NoReturn

from symshare.discovery.config import BudgetName, DiscoveryConfig, Storage
from symshare.fit.config import DataConfig, FitConfig, OptimConfig
from symshare.settings import NetworkConfig

__all__ = ["main", "run_commands"]


def main(arguments: list[str] | None = None) -> None:
    """Entry point of `symshare`: exit code 2 and one line where the input is at fault."""
    run_commands(
        {"discover": discover_command, "fit": fit_command},
        "symshare",
        "Find the symmetries of labelled images, and networks that use them.",
        arguments,
    )


def run_commands(
    commands: Callable[..., None] | Mapping[str, Callable[..., None]],
    prog: str,
    description: str,
    arguments: list[str] | None = None,
    *,
    resumes: bool = True,
) -> None:
    """Parse a command line and call what it names; the parameters of a function are its options.

    Args:
        commands: one function, or several by the names of subcommands.
        prog: how the program is called.
        description: what it does, for `--help`.
        arguments: of the command line; by default those of this process.
        resumes: whether the same command goes on after an interrupt.

    Raises:
        SystemExit: with code 2 and one line where the input is at fault, 130 after an interrupt.
    """
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
            print(f"{prog}: error: {_one_line(message)}; {help}", file=sys.stderr)
            sys.exit(2)

    try:
        auto_cli(
            dict(commands) if isinstance(commands, Mapping) else commands,
            args=arguments,
            parser_class=Parser,
            prog=prog,
            version=version("symshare"),
            description=description,
            allow_abbrev=False,
        )
    except KeyboardInterrupt:
        goes_on = " The same command goes on where this one stopped." if resumes else ""
        print(f"\nInterrupted.{goes_on}", file=sys.stderr)
        sys.exit(130)
    except BrokenPipeError:
        # Whoever read the output has seen enough.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (ValueError, OSError) as error:
        print(f"{prog}: error: {error}", file=sys.stderr)
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
    """
    from symshare.discovery.run import discover_source
    from symshare.terminal import Narrator

    config = DiscoveryConfig(source, transform, budget, seed, periodic, data)
    discover_source(config, out, Narrator())


def fit_command(
    data: DataConfig = DataConfig(),
    model: NetworkConfig = NetworkConfig(width=32),
    optim: OptimConfig = OptimConfig(),
    seed: int = 0,
    out: str | None = None,
) -> None:
    """Train one network and write its run directory.

    Args:
        data: where the images come from.
        model: which network.
        optim: how to train.
        seed: of the split, the initial weights, the batches and the transformations.
        out: run directory; by default one below runs/, named after the configuration.
    """
    from symshare.fit.run import fit as run
    from symshare.terminal import print_result

    config = FitConfig(data, model, optim, seed)
    print_result(run(config, config.folder(out), progress=True))
