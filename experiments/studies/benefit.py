"""Does a network with the right symmetry do better? MNIST subsets, equal free parameters.

    python -m experiments.studies.benefit --root DIR --runs DIR --out docs/studies/benefit.json

The plain CNN against the G-CNN with the true set, the gated network with the dictionary D4 and the
free stacks, on quarter turns and on all rotations. Every run is one `symshare fit`, kept in
--runs: a finished one is not run again.
"""

import argparse
import json
import statistics
from dataclasses import replace
from pathlib import Path

import torch

from symshare.files import write_atomically
from symshare.records import ResultRecord
from symshare.settings import NetworkConfig
from symshare.train.runs import fit
from symshare.train.settings import DataConfig, FitConfig, OptimConfig

TURNS = ("rot90", "rot180", "rot270")
MODELS = {
    "cnn": (NetworkConfig(width=16), 1e-2),
    "found": (NetworkConfig(kind="gcnn", group=TURNS, width=16), 1e-2),
    "gated": (NetworkConfig(kind="gated", group="D4", width=16), 5e-2),
    "sinkhorn": (NetworkConfig(kind="sinkhorn", width=16), 1e-2),
}
SOURCE = "mnist"
TRANSFORMS = ("quarter", "rotate:360")


def main(options: list[str] | None = None) -> None:
    """Run what is missing and print the table as Markdown."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", required=True)
    parser.add_argument("--runs", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=1500)
    parser.add_argument("--limits", type=int, nargs="+", default=[12000])
    parser.add_argument("--transforms", nargs="+", default=TRANSFORMS, choices=TRANSFORMS)
    parser.add_argument("--models", nargs="+", default=list(MODELS), choices=MODELS)
    parser.add_argument("--architecture", default="auto", choices=["auto", "mnist"])
    arguments = parser.parse_args(options)
    device = torch.cuda.get_device_name() if torch.cuda.is_available() else "CPU"
    rows = []
    for transform in arguments.transforms:
        for limit in arguments.limits:
            for name in arguments.models:
                model, learning_rate = MODELS[name]
                model = replace(model, architecture=arguments.architecture)
                results = [
                    fit(
                        FitConfig(
                            DataConfig(SOURCE, transform, root=arguments.root, limit=limit),
                            model,
                            OptimConfig(steps=arguments.steps, representation_lr=learning_rate),
                            seed,
                        ),
                        arguments.runs / f"{transform.replace(':', '')}-{limit}-{name}-seed{seed}",
                    )
                    for seed in range(arguments.seeds)
                ]
                rows.append(row(transform, limit, name, results, arguments.steps, device))
                print(markdown(rows[-1]), flush=True)
                write_atomically(arguments.out, json.dumps(rows, indent=1).encode())


def row(
    transform: str, limit: int, name: str, results: list[ResultRecord], steps: int, device: str
) -> dict:
    """Accuracies of one model over its seeds."""
    values = [result.test_accuracy for result in results]
    return {
        "transform": transform,
        "images": limit,
        "model": name,
        "mean": statistics.fmean(values),
        "std": statistics.stdev(values) if len(values) > 1 else None,
        "values": values,
        "parameters": results[0].parameters,
        "representation_parameters": results[0].representation_parameters,
        "seconds": round(statistics.fmean(result.seconds for result in results), 1),
        "steps": steps,
        "device": device,
    }


def markdown(row: dict) -> str:
    """One line of the table."""
    spread = "" if row["std"] is None else f" ± {100 * row['std']:.2f}"
    return (
        f"| {row['transform']} | {row['images']} | {row['model']} | {row['parameters']} "
        f"(+ {row['representation_parameters']}) | {100 * row['mean']:.2f}{spread} "
        f"(n = {len(row['values'])}) | {row['seconds']:.0f} |"
    )


if __name__ == "__main__":
    main()
