"""Data without any symmetry to find: how often does the judge invent one?

    python studies/null.py --runs 200 --out docs/studies/null.json

Runs go in turn over upright digits; digits with their labels shuffled; and digits whose pixels are
scrambled by a permutation of its own for every image. Each run has its own seed. An element counts
as invented where its status is symmetric or approximate. A finished run is not run again.
Exit code 1 if anything was invented.
"""

import argparse
import json
import sys
import tempfile
from collections import Counter
from pathlib import Path

import torch

from symshare.data import LabelledImages, load, transform
from symshare.discovery.config import DiscoveryConfig
from symshare.discovery.steps import gather_evidence, judge_pool, propose_candidates
from symshare.files import write_atomically
from symshare.judge import decide

KINDS = ("upright", "shuffled labels", "scrambled pixels")
FIRST_SEED = 10_000
"""Seeds below were used while the method was being built."""


def main() -> None:
    """Run what is missing and print the counts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    rows = json.loads(arguments.out.read_text()) if arguments.out.exists() else []
    for run in range(len(rows), arguments.runs):
        rows.append(null_row(KINDS[run % len(KINDS)], FIRST_SEED + run))
        write_atomically(arguments.out, json.dumps(rows, indent=1).encode())
    for kind in KINDS:
        of_kind = [row for row in rows if row["kind"] == kind]
        words = Counter(row["verdict"] for row in of_kind)
        invented = sum(bool(row["invented"]) for row in of_kind)
        print(f"{kind}: {len(of_kind)} runs, {invented} with an invented element, {dict(words)}")
    bad = sum(bool(row["invented"]) for row in rows)
    # Clopper and Pearson's one-sided bound for no event in n runs.
    bound = f"; 95 % upper bound {1 - 0.05 ** (1 / len(rows)):.4f}" if rows and not bad else ""
    print(f"{bad} of {len(rows)} runs invented an element{bound}")
    sys.exit(bad > 0)


def null_row(kind: str, seed: int) -> dict:
    """One run of the propose and judge steps of `symshare discover`."""
    config = DiscoveryConfig("digits", seed=seed)
    pool = spoil(judge_pool(load("digits", seed=seed), config), kind, seed)
    law = transform("none")
    with tempfile.TemporaryDirectory() as folder:
        candidates, _ = propose_candidates(Path(folder), config, pool, law, None)
        action = candidates.action()
        evidence, seconds = gather_evidence(Path(folder), config, pool, law, action)
    verdict = decide(evidence, action, candidates.residuals)
    passing = ("symmetric", "approximate")
    return {
        "kind": kind,
        "seed": seed,
        "verdict": verdict.word,
        "invented": [j.name for j in verdict.judgements if j.status in passing],
        "tolerated": [j.name for j in verdict.judgements if j.status == "tolerated"],
        "candidates": len(verdict.judgements),
        "power": verdict.power.passed,
        "accuracy": round(verdict.power.accuracy, 4),
        "delta": round(verdict.delta, 4),
        "smallest_lower_bound": round(min(j.interval[0] for j in verdict.judgements), 4),
        "seconds": round(seconds, 1),
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
