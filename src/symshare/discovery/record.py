"""The content of verdict.json, schema 1 (docs/schema.md), from what the steps computed."""

import platform
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

from symshare.discovery.config import DiscoveryConfig
from symshare.discovery.wording import caveats, sentence
from symshare.judge import Verdict
from symshare.propose import Candidates

__all__ = ["SCHEMA", "Judged", "accuracy_entry", "verdict_record"]

SCHEMA = 1

KERNEL = 3
"""Side of the kernel whose permutation the record shows for each element."""


@dataclass(frozen=True)
class Judged:
    """What is known before networks are trained.

    Attributes:
        config: of the discovery.
        command: that repeats it.
        classes: names of the classes.
        candidates: what was judged.
        verdict: on them.
        planned: networks that are to be trained.
        notes: further caveats.
        seconds: by step.
    """

    config: DiscoveryConfig
    command: str
    classes: tuple[str, ...]
    candidates: Candidates
    verdict: Verdict
    planned: Sequence[str]
    notes: list[str]
    seconds: dict[str, float]


def verdict_record(judged: Judged, runs: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    """Everything a reader or a program may want to know, as plain values.

    Args:
        judged: what was found.
        runs: results of networks that have been trained, by the name of the model.
    """
    config, verdict, candidates = judged.config, judged.verdict, judged.candidates
    measures = [run["measure"] for run in runs.get("gated", [])]
    done = [run for model in runs.values() for run in model]
    seconds = {**judged.seconds, "fit": sum(run["seconds"] for run in done)}
    seconds["total"] = sum(seconds.values())
    return {
        "schema": SCHEMA,
        "symshare": version("symshare"),
        "source": config.source,
        "transform": config.transform,
        "verdict": verdict.word,
        "group": verdict.group,
        "sentence": sentence(verdict),
        "caveats": caveats(verdict, candidates, judged.classes, config.periodic) + judged.notes,
        "found": list(verdict.found),
        "approximate": list(verdict.approximate),
        "partial": list(verdict.partial),
        "delta": verdict.delta,
        "delta_approximate": verdict.delta_approximate,
        "alpha": verdict.alpha,
        "samples": verdict.samples,
        "elements": [
            _element(candidates, i, judgement, measures)
            for i, judgement in enumerate(verdict.judgements, start=1)
        ],
        "power": {
            **vars(verdict.power),
            "reasons": list(verdict.power.reasons),
            "random_permutations": [
                {"excess_loss": mean, "interval": list(interval)}
                for mean, interval in verdict.power.random_permutations
            ],
        },
        "accuracy": {
            name: accuracy_entry(runs.get(name, []))
            for name in ("cnn", "found", "gated", "sinkhorn")
        },
        "planned": list(judged.planned),
        "seconds": {name: round(value, 1) for name, value in seconds.items()},
        "seeds": {"judge": [config.seed], "fit": sorted({run["seed"] for run in done})},
        "versions": {
            "python": platform.python_version(),
            **{name: version(name) for name in ("torch", "numpy")},
        },
        "commands": [judged.command],
        "classes": list(judged.classes),
    }


def accuracy_entry(runs: list[dict[str, Any]]) -> dict[str, Any] | None:
    """Test accuracy of one model over its seeds; None where it was not run.

    >>> run = {"test_accuracy": 0.9, "parameters": 5, "representation_parameters": 0}
    >>> accuracy_entry([run, {**run, "test_accuracy": 0.8}])["mean"]
    0.85
    """
    if not runs:
        return None
    values = [run["test_accuracy"] for run in runs]
    return {
        "mean": round(statistics.fmean(values), 12),
        "std": statistics.stdev(values) if len(values) > 1 else None,
        "n": len(values),
        "values": values,
        "parameters": runs[0]["parameters"],
        "representation_parameters": runs[0]["representation_parameters"],
    }


def _element(
    candidates: Candidates, i: int, judgement: Any, measures: list[dict[str, float]]
) -> dict[str, Any]:
    candidate = candidates.elements[i]
    kernel = None
    if candidate.map is not None and candidate.map.linear.fits((KERNEL, KERNEL)):
        kernel = candidate.map.linear.permutation((KERNEL, KERNEL)).tolist()
    learned = [measure[candidate.name] for measure in measures if candidate.name in measure]
    values = {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in vars(judgement).items()
    }
    return {
        **values,
        "permutation": list(candidate.permutation),
        "shape": list(candidates.shape),
        "kernel_permutation": kernel,
        "kernel_shape": None if kernel is None else [KERNEL, KERNEL],
        "source": candidate.source,
        "measure": statistics.fmean(learned) if learned else None,
    }
