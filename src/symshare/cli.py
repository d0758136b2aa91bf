"""The commands. Everything heavy is imported when a command runs, not before."""

import sys
from typing import Literal

from symshare.discovery.config import BudgetName, DiscoveryConfig, Storage
from symshare.fit.config import DataConfig, FitConfig, ModelConfig, OptimConfig

__all__ = ["main"]


def main(arguments: list[str] | None = None) -> None:
    """Entry point of `symshare`: exit code 2 and one line where the input is at fault."""
    from importlib.metadata import version

    from jsonargparse import auto_cli

    try:
        auto_cli(
            {"discover": discover_command, "fit": fit_command},
            args=arguments,
            prog="symshare",
            version=version("symshare"),
            description="Find the symmetries of labelled images, and networks that use them.",
            allow_abbrev=False,
        )
    except KeyboardInterrupt:
        print("\nInterrupted. The same command goes on where this one stopped.", file=sys.stderr)
        sys.exit(130)
    except (ValueError, OSError) as error:
        print(f"symshare: error: {error}", file=sys.stderr)
        sys.exit(2)


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
        source: digits, mnist, or the path of an .npz file with `images` and `labels`.
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
    model: ModelConfig = ModelConfig(),
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
