"""The steps before networks are compared, each of which leaves a file and is not done twice."""

import json
import shutil
import time
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors.torch import save

from symshare.data import LabelledImages, Transform, freeze, strata_of
from symshare.discovery.config import BUDGETS, DiscoveryConfig
from symshare.discovery.judging import evidence_on, witness_optim
from symshare.discovery.search import candidates_of
from symshare.files import damaged, open_tensors, read_json, write_atomically
from symshare.groups import ChannelAction, GroupAction
from symshare.judge import Evidence, Function
from symshare.names import check_ranges
from symshare.propose import Candidates
from symshare.ranges import examine
from symshare.records import Ranges
from symshare.train.loop import Progress, unseen
from symshare.train.settings import Hardware


def propose_candidates(
    folder: Path,
    config: DiscoveryConfig,
    pool: LabelledImages,
    transform: Transform,
    extra: GroupAction | ChannelAction | None,
) -> tuple[Candidates, float]:
    """Candidates, and the seconds it took to find them; `candidates.json`."""
    path = folder / "candidates.json"
    if not path.exists():
        start = time.perf_counter()
        candidates = candidates_of(
            pool,
            transform,
            config.seed,
            periodic=config.periodic,
            extra=extra,
            channels=config.channels,
        )
        content = {**candidates.to_json(), "seconds": time.perf_counter() - start}
        write_atomically(path, json.dumps(content, indent=1).encode())
    content = read_json(path, "elements", "seconds")
    return Candidates.from_json(content), content["seconds"]


def gather_evidence(
    folder: Path,
    config: DiscoveryConfig,
    pool: LabelledImages,
    transform: Transform,
    action: GroupAction | ChannelAction,
    functions: Mapping[str, Function],
    progress: Progress = unseen,
    hardware: Hardware = Hardware(),
) -> tuple[Evidence, float]:
    """Held-out losses, and the seconds it took to get them; `evidence.safetensors`."""
    path, folds = folder / "evidence.safetensors", folder / "judge"
    if not path.exists():
        start = time.perf_counter()
        steps = BUDGETS[config.budget].judge_steps
        evidence = evidence_on(
            action,
            pool,
            transform,
            steps,
            config.seed,
            functions=functions,
            out=folds,
            progress=progress,
            hardware=hardware,
        )
        seconds = time.perf_counter() - start
        metadata = {"seconds": str(seconds), **evidence.numbers()}
        write_atomically(path, save(evidence.tensors(), metadata))
        shutil.rmtree(folds)
    with open_tensors(path) as file:
        seconds = float(file.metadata()["seconds"])
    evidence = Evidence.read(path)
    if evidence.moved_loss.shape[0] != len(action) - 1 + len(functions):
        raise ValueError(damaged(path))
    return evidence, seconds


def examine_ranges(
    folder: Path,
    config: DiscoveryConfig,
    pool: LabelledImages,
    transform: Transform,
    progress: Progress = unseen,
    hardware: Hardware = Hardware(),
) -> Ranges:
    """The sizes of moves that the labels bear; `ranges.json`."""
    path, parts = folder / "ranges.json", folder / "ranges"
    if not path.exists():
        names = check_ranges(config.ranges, len(pool.space))
        optim = witness_optim(BUDGETS[config.budget].judge_steps)
        ranges = examine(
            pool,
            transform,
            names,
            optim,
            config.seed,
            out=parts,
            progress=progress,
            hardware=hardware,
        )
        ranges.write(path)
        shutil.rmtree(parts)
    return Ranges.read(path)


def write_examples(
    folder: Path,
    data: LabelledImages,
    transform: Transform,
    functions: Mapping[str, Function],
    seed: int,
) -> None:
    """One held-out image of each of at most ten classes, or strata, and what functions do to it."""
    strata = strata_of(data).index
    first = [int((strata == s).nonzero()[0]) for s in strata.unique().tolist()[:10]]
    shown = freeze(data.subset(first), transform, seed)
    tensors = {"images": shown.images.contiguous(), "labels": shown.labels}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        tensors |= {
            f"moved.{name}": function(shown.images.clone()).contiguous()
            for name, function in functions.items()
        }
    write_atomically(folder / "examples.safetensors", save(tensors))
