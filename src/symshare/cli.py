"""The commands. Everything heavy is imported when a command runs, not before."""

import os
import signal
import sys
import warnings
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Literal, NoReturn

from symshare.discovery.config import BudgetName, DiscoveryConfig
from symshare.names import Storage, check_source
from symshare.settings import NetworkConfig
from symshare.train.settings import (
    Accelerator,
    DataConfig,
    FitConfig,
    Hardware,
    OptimConfig,
    Precision,
)

__all__ = ["main", "resumable", "run_commands"]


def main(arguments: list[str] | None = None) -> None:
    """Entry point of `symshare`: exit code 2 and one line where the input is at fault."""
    run_commands(
        {"discover": discover_command, "fit": fit_command, "advice": advice_command},
        "symshare",
        "Find the symmetries of labelled images, and networks that use them.",
        arguments,
    )


def run_commands(
    commands: Callable[..., None] | Mapping[str, Callable[..., None]],
    prog: str,
    description: str,
    arguments: list[str] | None = None,
) -> None:
    """Parse a command line and call what it names; the parameters of a function are its options.

    Args:
        commands: one function, or several by the names of subcommands.
        prog: how the program is called.
        description: what it does, for `--help`.
        arguments: of the command line; by default those of this process.

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
            print(f"{prog}: error: {' '.join(message.split())}; {help}", file=sys.stderr)
            sys.exit(2)

    # Whoever ends a job gently is answered as Ctrl-C is.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    write, warnings.formatwarning = warnings.formatwarning, partial(_warning, prog)
    try:
        auto_cli(
            dict(commands) if isinstance(commands, Mapping) else commands,
            args=_bracketed(sys.argv[1:] if arguments is None else arguments),
            parser_class=Parser,
            prog=prog,
            version=version("symshare"),
            description=description,
            allow_abbrev=False,
        )
    except KeyboardInterrupt as interrupt:
        print("\nInterrupted.", *interrupt.args, file=sys.stderr)
        sys.exit(130)
    except BrokenPipeError:
        # Whoever read the output has seen enough.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (ValueError, OSError, ModuleNotFoundError) as error:
        print(f"{prog}: error: {error}", file=sys.stderr)
        sys.exit(2)
    finally:
        warnings.formatwarning = write


def _warning(prog: str, message: Warning | str, *_: object, **__: object) -> str:
    """What a person at a terminal sees of a warning: one line, without the code behind it."""
    return f"{prog}: warning: {message}\n"


def _bracketed(words: list[str]) -> list[str]:
    """The words with a list of one value put into brackets, as the parser asks for.

    >>> _bracketed(["--periodic", "W", "--tiers=A", "--seed", "1"])
    ['--periodic', '[W]', '--tiers=[A]', '--seed', '1']
    """
    done = []
    for before, word in zip(["", *words], words, strict=False):
        option, equals, value = word.partition("=")
        if before in _LISTS and not word.startswith(("[", "-")):
            word = f"[{word}]"
        elif option in _LISTS and equals and not value.startswith("["):
            word = f"{option}=[{value}]"
        done.append(word)
    return done


_LISTS = (
    "--periodic",
    "--channels",
    "--ranges",
    "--tiers",
    "--change",
    "--data.target_columns",
)
"""Options that take several values."""


@contextmanager
def resumable() -> Generator[None]:
    """Where an interrupt leaves files from which the same command goes on, and says so."""
    try:
        yield
    except KeyboardInterrupt as interrupt:
        raise KeyboardInterrupt("The same command goes on where this one stopped.") from interrupt


def discover_command(
    source: str,
    transform: str = "none",
    budget: BudgetName = "standard",
    seed: int = 0,
    out: str | None = None,
    periodic: tuple[Literal["L", "D", "H", "W"], ...] = (),
    groups: str | None = None,
    channels: tuple[str, ...] = (),
    data: Storage = Storage(),
    ranges: tuple[str, ...] = (),
    devices: int = 1,
    nodes: int = 1,
    precision: Precision = "32-true",
    accelerator: Accelerator = "auto",
) -> None:
    """Find the symmetries of labelled images, with evidence, and say whether using them helps.

    Args:
        source: digits, mnist, cifar10, or a folder or file, see the README: a folder with a folder
            of pictures for each class, a .csv or .parquet file of paths or images and labels, an
            .npz file with `images` and `labels`, or images.npy beside labels.npy.
        transform: random transformation put on every image: none, flip, flips, half, quarter, d4,
            rotate:A (degrees), scale:a-b.
        budget: quick (a short comparison of networks), standard, or thorough.
        seed: of everything random but the test part.
        out: folder for all files; by default one below runs/, named after the call.
        periodic: axes along which images wrap around, as in W or H,W; L of signals, D of volumes.
        groups: array or column that says which images depend on one another, such as the patient of
            each; by default `groups` or `group`, where there is one.
        channels: names of the channels, as in left,right; those that differ in left and right are
            exchanged.
        data: where the source lies.
        ranges: also find which sizes of moves the labels bear: all, or families such as
            turn,scale,noise; two more networks are trained.
        devices: processes that train together on this machine, each with its own device.
        nodes: machines.
        precision: of networks in training: 32-true, bf16-mixed or 64-true.
        accelerator: auto, cpu, cuda or mps.
    """
    config = DiscoveryConfig(
        source, transform, budget, seed, periodic, groups, channels, data, ranges
    )
    check_source(source, data.root)
    from symshare.discovery.run import discover_source
    from symshare.terminal import Narrator, StepBar

    hardware = Hardware(devices, nodes, precision, accelerator)
    with resumable(), StepBar() as bar:
        discover_source(config, out, Narrator(bar), hardware)


def fit_command(
    data: DataConfig = DataConfig(),
    model: NetworkConfig = NetworkConfig(width=32),
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
    check_source(data.source, data.root)
    from symshare.terminal import StepBar, print_result
    from symshare.train.processes import together
    from symshare.train.runs import fit

    config = FitConfig(data, model, optim, seed)
    hardware = Hardware(devices, nodes, precision, accelerator)

    def run() -> None:
        with StepBar() as bar:
            reading = partial(bar.show, what="read")
            folder = config.folder(out)
            result = fit(config, folder, progress=bar.show, reading=reading, hardware=hardware)
        print_result(result)

    with resumable():
        together(hardware, run)


def advice_command(run: str, library: str | None = None) -> None:
    """Print what a discovery advises, as code to paste.

    Args:
        run: folder of the discovery.
        library: that the augmentation is written for: torchvision, albumentations or kornia for
            images, monai or torchio for volumes, torch for signals; by default the first.
    """
    from symshare.advice import augmentation, libraries_of, network
    from symshare.records import VerdictRecord

    path = Path(run) / "verdict.json"
    if not path.is_file():
        raise FileNotFoundError(
            f"advice: expected {path}, found none; run `symshare discover ... --out {run}` first"
        )
    record = VerdictRecord.read(path)
    for line in record.advice:
        print(f"# {line.kind}: {line.what} ({line.why})")
    if not record.advice:
        print("# no advice: the networks were too weak, or the data too little, to decide anything")
    for code in (network(record), augmentation(record, library or libraries_of(record)[0])):
        if code:
            print(f"\n{code}", end="")
