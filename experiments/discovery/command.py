"""The command `python -m experiments discovery`; torch is imported by its runs."""

import sys
from typing import Literal

from experiments.runner import StudyData
from symshare.cli import resumable

Half = Literal["dev", "test"]
Method = Literal["symshare", "former", "kernel", "augmentation", "gates"]


def discovery_command(
    half: Half = "dev",
    list: bool = False,
    cases: str | None = None,
    seeds: int | None = None,
    null: int | None = None,
    method: Method = "symshare",
    processes: int | None = None,
    data: StudyData = StudyData(),
    out: str = "runs/experiments/discovery",
) -> None:
    """Ask for verdicts on data whose symmetries are derived, and count right and wrong ones.

    The same command goes on where one stopped. A data set that is not at hand is left out, and it
    says why.

    Args:
        half: dev, on which thresholds may be fixed, or test, of other data sets and other seeds,
            to be run once.
        list: name the data sets of the half with their laws, and run nothing.
        cases: only these data sets, or one under one law, as in digits,letters/quarter.
        seeds: runs of each case; by default 1 in the development half and 5 in the test half.
        null: runs on clean data without any symmetry; by default 48, and 312 in the test half.
        method: symshare; former, its rule with second moments, from the history; kernel, a
            randomisation test of invariance; augmentation, whose loss is compared; gates, a
            measure that is learned with the label.
        processes: runs at a time, each with one thread; by default one for each core.
        data: where the images of MNIST and CIFAR-10 lie.
        out: folder for discovery-results.json and discovery.md.
    """
    from experiments.discovery.plan import names, planned
    from experiments.discovery.running import Reporter, run_all

    if list:
        for name, kind, laws in names(half):
            print(f"{name}  {kind}: {', '.join(laws)}")
        return
    runs = planned(half, cases, seeds, null, method)
    with resumable():
        failures = run_all(runs, data.root, out, processes, Reporter())
    if failures:
        sys.exit(1)
