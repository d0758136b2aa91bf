"""Data on which no element may be named: how often does the judge name one?

    python -m experiments.studies.null --runs 200 --out docs/studies/null.json

Every second run is on upright digits, whose symmetry is none. The others, in turn, are on digits
with their labels shuffled and on digits whose pixels are scrambled by a permutation of its own for
every image. There the networks know nothing, or nothing about positions, and the power gate has to
hold back: under scrambling every element is a symmetry, but one that cannot be shown.

Each run has its own seed, and draws 1000 of the images that are not in the test part. An element
counts as named where its status is symmetric or approximate. A finished run is not run again.
Exit code 1 if anything was named.
"""

import argparse
import json
import sys
import time
from collections import Counter
from pathlib import Path

import torch

from symshare.data import LabelledImages, load, sample, transform
from symshare.discovery.config import BUDGETS
from symshare.discovery.judging import verdict_on
from symshare.discovery.search import judge_pool
from symshare.files import write_atomically

KINDS = ("upright", "shuffled labels", "upright", "scrambled pixels")
IMAGES = 1000
FIRST_SEED = 10_000
"""Seeds below were used while the method was being built."""


def main(options: list[str] | None = None) -> None:
    """Run what is missing and print the counts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args(options)
    torch.set_num_threads(arguments.threads)
    rows = json.loads(arguments.out.read_text()) if arguments.out.exists() else []
    for run in range(len(rows), arguments.runs):
        rows.append(null_row(KINDS[run % len(KINDS)], FIRST_SEED + run))
        write_atomically(arguments.out, json.dumps(rows, indent=1).encode())
    for kind in dict.fromkeys(KINDS):
        of_kind = [row for row in rows if row["kind"] == kind]
        verdicts = Counter(row["verdict"] for row in of_kind)
        named = sum(bool(row["named"]) for row in of_kind)
        # Clopper and Pearson's one-sided bound for no event in n runs on these images.
        bound = f", 95 % upper bound {1 - 0.05 ** (1 / len(of_kind)):.3f}" if not named else ""
        print(
            f"{kind}: an element named in {named} of {len(of_kind)} runs{bound}; {dict(verdicts)}"
        )
    sys.exit(any(row["named"] for row in rows))


def null_row(kind: str, seed: int) -> dict:
    """One run of the propose and judge steps of `symshare discover`."""
    budget, start = BUDGETS["standard"], time.perf_counter()
    pool = sample(judge_pool(load("digits", seed=seed), budget, seed), IMAGES, seed)
    pool = spoil(pool, kind, seed)
    _, verdict = verdict_on(pool, transform("none"), budget.judge_steps, seed)
    passing = ("symmetric", "approximate")
    return {
        "kind": kind,
        "seed": seed,
        "verdict": verdict.word,
        "named": [j.name for j in verdict.judgements if j.status in passing],
        "tolerated": [j.name for j in verdict.judgements if j.status == "tolerated"],
        "candidates": len(verdict.judgements),
        "power": verdict.power.passed,
        "accuracy": round(verdict.power.accuracy, 4),
        "delta": round(verdict.delta, 4),
        "smallest_excess": round(min(j.excess_loss for j in verdict.judgements), 4),
        "smallest_lower_bound": round(min(j.interval[0] for j in verdict.judgements), 4),
        "seconds": round(time.perf_counter() - start, 1),
    }


def spoil(data: LabelledImages, kind: str, seed: int) -> LabelledImages:
    """The data with what the kind says done to it."""
    generator = torch.Generator().manual_seed(seed)
    images, labels = data.images, data.labels
    if kind == "shuffled labels":
        labels = labels[torch.randperm(len(labels), generator=generator)]
    if kind == "scrambled pixels":
        order = torch.rand(len(images), images[0].numel(), generator=generator).argsort(-1)
        images = images.flatten(1).gather(-1, order).reshape(images.shape)
    return LabelledImages(images, labels, data.classes)


if __name__ == "__main__":
    main()
