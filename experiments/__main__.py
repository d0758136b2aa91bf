"""The command `python -m experiments`; torch is imported by the runs, not by the command."""

import sys

from experiments.catalogue import COMMANDS, Tier
from experiments.discovery.command import discovery_command
from experiments.jobs import BudgetName
from experiments.moments.command import moments_command
from experiments.runner import PictureFormat, Settings, StudyData, run_studies
from symshare.cli import resumable, run_commands

OWN = {"discovery": discovery_command, "moments": moments_command}
"""Commands that have options of their own."""


def main(arguments: list[str] | None = None) -> None:
    """Run the paper's experiments; exit code 1 if a run failed, 2 where the input is at fault."""
    words = sys.argv[1:] if arguments is None else arguments
    if words[:1] and words[0] in OWN:
        name, *rest = words
        run_commands(OWN[name], f"python -m experiments {name}", COMMANDS[name], rest)
        return
    run_commands(
        experiments_command,
        "python -m experiments",
        "The paper's tables, toy problems, cost and figures.",
        words,
    )


def experiments_command(
    what: str | None = None,
    list: bool = False,
    budget: BudgetName = "cpu",
    seeds: int | None = None,
    tiers: tuple[Tier, ...] = ("A", "B", "C"),
    processes: int | None = None,
    change: tuple[str, ...] = (),
    data: StudyData = StudyData(),
    format: PictureFormat = "svg",
    out: str = "runs/experiments",
) -> None:
    """Run the paper's experiments, row by row; the same command goes on where one stopped.

    Args:
        what: all, a study, a row of one, or the path of a row's YAML file; or discovery or moments,
            which have options of their own, see discovery --help.
        list: name the studies with their rows and the scripts beside them, and run nothing.
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
    from experiments.narrator import Narrator, print_studies

    if list:
        print_studies()
        return
    if what is None:
        raise ValueError("say what, for example all or table1; --list names everything")
    settings = Settings(budget, seeds, tiers, processes, change, data.root, out, format)
    with resumable():
        outcome = run_studies(what, settings, Narrator())
    if outcome.failures:
        sys.exit(1)


if __name__ == "__main__":
    main()
