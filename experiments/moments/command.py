"""The command `python -m experiments moments`; torch is imported by its runs."""

import sys

from experiments.runner import StudyData
from symshare.cli import resumable


def moments_command(
    cases: str | None = None,
    seeds: int = 10,
    list: bool = False,
    processes: int | None = None,
    data: StudyData = StudyData(),
    out: str = "runs/experiments/moments",
) -> None:
    """Learn stacks from images under known laws, and count what is found, missed and too much.

    The same command goes on where one stopped.

    Args:
        cases: only those whose names begin so, as in mnist/rotate:360,cifar10.
        seeds: runs of each case, each with its own images, transformations and starts.
        list: name the cases, and run nothing.
        processes: runs at a time, each with one thread; by default one for each core.
        data: where the images of MNIST and CIFAR-10 lie.
        out: folder for moments-results.json and moments.md.
    """
    from experiments.moments.running import CASES, chosen, run_all

    if list:
        for case in CASES:
            print(f"{case.name}  {', '.join(case.truth[1:]) or 'nothing to find'}")
        return
    with resumable():
        failures = run_all(chosen(cases), seeds, data.root, out, processes)
    if failures:
        sys.exit(1)
