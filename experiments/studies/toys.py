"""The toy problems of the paper by second moments alone, beside the training that they are for.

    python -m experiments.studies.toys --seeds 10 --out docs/studies/toys.json

Of each problem samples are drawn, and `symshare.moments.commutant` is asked what commutes with the
second moments of each class, which is the canonical vector c. The label that turns with the data
is not used. What can be found are the permutations g that leave the law unchanged, those that map
the set of elements that occur to itself: all where these are a group, the identity alone for half
of the shifts, eight for the 16 rotations of a cube that are no group. Beside them a ring may be
reversed, since its second moments are even.
"""

import argparse
import time
from pathlib import Path
from statistics import mean
from typing import Any, get_args

import torch
from jaxtyping import Int
from torch import Tensor

from experiments.resumed import resumed
from experiments.toys.problem import problem, sample
from experiments.toys.setup import Task, toy_config
from symshare.analysis import nearest_permutation
from symshare.data import stream
from symshare.moments import commutant, of_samples

SAMPLES = 20_000

TASKS: tuple[Task, ...] = get_args(Task)


def main(options: list[str] | None = None) -> None:
    """Run what is missing and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args(options)
    torch.set_num_threads(1)
    wanted = [(task, seed) for task in TASKS for seed in range(arguments.seeds)]
    rows = resumed(arguments.out, ("task", "seed"), wanted, run)
    print("| problem | elements that occur | of which leave the law | found | beside | power | s |")
    print("|---|---|---|---|---|---|---|")
    for task in TASKS:
        of_task = [row for row in rows if row["task"] == task]
        numbers = [", ".join(map(str, sorted({r[key] for r in of_task}))) for key in KEYS]
        power, seconds = (mean(r[key] for r in of_task) for key in ("power", "seconds"))
        print(f"| {task} | {' | '.join(numbers)} | {power:.0f} | {seconds:.1f} |")


KEYS = ("elements", "symmetries", "found", "beside")


def run(task: Task, seed: int) -> dict[str, Any]:
    """One problem with one seed."""
    law = problem(toy_config(task, seed=seed))
    x, c, _ = sample(law, SAMPLES, stream("moments", seed))
    start = time.perf_counter()
    found = commutant(of_samples(x, c), seed=seed)
    seconds = time.perf_counter() - start
    occurs = nearest_permutation(law.truth[law.occurs & law.exact])
    symmetries = [g for g in occurs if _rows(occurs[:, g]) == _rows(occurs)]
    hits = len(_rows(found.sources) & _rows(torch.stack(symmetries)))
    return {
        "task": task,
        "seed": seed,
        "elements": len(occurs),
        "symmetries": len(symmetries),
        "found": hits,
        "beside": len(found.sources) - hits,
        "power": found.power,
        "seconds": seconds,
    }


def _rows(sources: Int[Tensor, "G D"]) -> set[tuple[int, ...]]:
    return set(map(tuple, sources.tolist()))


if __name__ == "__main__":
    main()
