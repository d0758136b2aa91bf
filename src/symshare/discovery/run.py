"""Propose, judge, fit, report: every step leaves a file from which the next one can go on."""

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from operator import index
from pathlib import Path
from typing import Any, SupportsIndex

import torch
from torch import Tensor

from symshare.data import LabelledImages, Splits, load, split, strata_of
from symshare.data import transform as named_transform
from symshare.discovery.config import BUDGETS, BudgetName, DiscoveryConfig
from symshare.discovery.handed import Handed
from symshare.discovery.observer import Observer
from symshare.discovery.plan import plan_networks
from symshare.discovery.record import Judged, TrainedNetwork, verdict_record
from symshare.discovery.search import judge_pool
from symshare.discovery.steps import (
    examine_ranges,
    gather_evidence,
    propose_candidates,
    write_examples,
)
from symshare.files import claimed, open_tensors
from symshare.groups import ChannelAction, GroupAction
from symshare.judge import Function, decide, divisions
from symshare.models import MNIST
from symshare.names import VECTOR, Storage, Target, check_ranges
from symshare.propose import check_names, check_shape
from symshare.records import LabelNames, VerdictRecord, Word
from symshare.report import write_report
from symshare.settings import NetworkConfig
from symshare.train.processes import together
from symshare.train.runs import fit_splits
from symshare.train.settings import DataConfig, FitConfig, Hardware, OptimConfig

GATE_LEARNING_RATE, GATE_WEIGHT = 0.3, 5e-3
"""Of a measure: a few logits, each of which has to move by several units early in a run."""

LARGE_IMAGES = 2
"""Times the steps that images from 21 pixels a side get: their network is deeper and slower."""


@dataclass(frozen=True)
class Discovery:
    """What a discovery found, and where its files are.

    Attributes:
        verdict: group, partial, approximate, none or undecided.
        group: name of the group, such as "C4"; None where there is none.
        found: names of the symmetric elements, the identity left out.
        record: what `verdict.json` holds: every candidate, the power gate, accuracies.
        out: the folder with all files.
        report: the HTML page.
        action: the found elements as a `GroupAction` on the images' grid, or, where they move
            channels, a `ChannelAction`.
    """

    verdict: Word
    group: str | None
    found: tuple[str, ...]
    record: VerdictRecord
    out: Path
    report: Path
    action: GroupAction | ChannelAction


def discover(
    images: Any,
    labels: Any,
    *,
    classes: Iterable[object] | None = None,
    layout: str | None = None,
    groups: Any = None,
    target: Target = "classes",
    numbers: Iterable[object] | None = None,
    transform: str = "none",
    candidates: GroupAction | ChannelAction | Mapping[str, Function] | None = None,
    periodic: tuple[str, ...] = (),
    channels: Sequence[str] = (),
    ranges: bool | Iterable[str] = False,
    budget: BudgetName = "standard",
    seed: SupportsIndex = 0,
    out: Path | str | None = None,
    hardware: Hardware = Hardware(),
) -> Discovery:
    """Find the symmetries of labelled images, and say whether a network gains by them.

    Args:
        images: array or tensor of images, signals or volumes; uint8 is divided by 255.
        labels: integers [N]; or numbers, [N] or [N, d].
        classes: names of the classes.
        layout: order of their axes, asked for where the shape leaves it open: "NHW", "NCHW" or
            "NHWC" for images, "NL", "NCL" or "NLC" for signals, "NDHW", "NCDHW" or "NDHWC" for
            volumes, "NC" for vectors.
        groups: numbers or text [N]; images that share one depend on one another, as those of one
            patient, one film or one device do, and are never on both sides of a test.
        target: what labels are, "classes" or "numbers".
        numbers: names of the numbers of a label, such as ("row", "column").
        transform: random transformation put on every image, "none" for the data as it is; it moves
            no labels.
        candidates: further transformations to judge: a `GroupAction` on the grid of the images, or
            on the numbers of vectors, a `ChannelAction`, which moves channels as well, or
            functions of a batch [B, C, *space] by name, such as {"louder": lambda x: 1.2 * x},
            which are judged one by one and not built into networks.
        periodic: axes, such as "W" of images or "L" of signals, along which images wrap around.
        channels: names of the channels, by which candidates are called, and of which those that
            differ in left and right ("left arm", "right arm") are exchanged.
        ranges: whether to find the sizes of moves, such as turns by any angle, that the labels
            bear, or the names of families, such as ["turn", "scale"]; it trains two more networks.
        budget: "quick", "standard" or "thorough".
        seed: of everything random but the test part.
        out: folder for all files, by default below `runs/`; a call that was interrupted goes on
            where it stopped.
        hardware: what networks are trained on, as `symshare.train.settings.Hardware(devices=2)`.

    Returns:
        The verdict with all its evidence.

    Raises:
        ValueError: where the data cannot be used, or `out` holds another run.
        OSError: where `out` cannot be written.
    """
    handed = Handed.of(candidates, hardware.processes)
    data = LabelledImages.from_arrays(images, labels, classes, layout, groups, target, numbers).to(
        "cpu"
    )
    stored = Storage(target=None if target == "classes" else target)
    families = (("all",) if ranges else ()) if isinstance(ranges, bool) else tuple(ranges)
    config = DiscoveryConfig(
        "arrays",
        transform,
        budget,
        index(seed),
        tuple(periodic),
        channels=tuple(channels),
        data=stored,
        ranges=families,
    )
    options = {
        "classes": classes,
        "layout": layout,
        "groups": groups,
        "numbers": numbers,
        "candidates": candidates,
    }
    command = config.command([name for name, value in options.items() if value is not None])
    parts = partial(split, data, name="arrays")
    work = partial(_discover, config, command, parts, handed, out, Observer(), hardware)
    return together(hardware, work)


def discover_source(
    config: DiscoveryConfig,
    out: Path | str | None,
    observer: Observer,
    hardware: Hardware = Hardware(),
) -> Discovery:
    """As :func:`discover`, for a source that :func:`symshare.data.load` knows."""
    reading = partial(observer.progress, "read")
    options = {"groups": config.groups, "progress": reading, **config.data.options()}
    parts = partial(load, config.source, **options)
    work = partial(_discover, config, config.command(), parts, Handed(), out, observer, hardware)
    return together(hardware, work)


def _discover(
    config: DiscoveryConfig,
    command: str,
    parts: Callable[..., Splits],
    handed: Handed,
    out: Path | str | None,
    observer: Observer,
    hardware: Hardware,
) -> Discovery:
    transform = named_transform(config.transform)
    splits = parts(seed=config.seed)
    transform(splits.train.images[:0], torch.Generator())  # refuses shapes that it cannot act on
    _, channels, *space = splits.train.images.shape
    check_names(config.channels, channels)
    check_shape(channels, tuple(space), config.periodic, handed.action is not None)
    if config.ranges:
        check_ranges(config.ranges, 0 if tuple(space) == VECTOR else len(space))
        if splits.train.numbers:
            raise ValueError(
                "ranges: sizes of moves are examined for classes only, got labels of "
                f"{', '.join(splits.train.numbers)}; leave ranges out"
            )
    pool = judge_pool(splits, BUDGETS[config.budget], config.seed)
    if pool.groups is not None:
        list(divisions(pool, config.seed))  # refuses groups that leave a class on one side
    fingerprint = handed.fingerprint(splits)
    folder = Path(out) if out is not None else Path("runs") / _name(config, fingerprint)
    with claimed(folder, config.to_dict(), fingerprint):
        sizes = len(splits.train), len(splits.validation), len(splits.test)
        shape, names = tuple(splits.train.images.shape[1:]), _label_names(pool)
        said = f"labels of {', '.join(names.numbers)}" if names.numbers else None
        observer.started(config, sizes, shape, said or f"{len(names.classes)} classes", folder)
        candidates, propose_seconds = propose_candidates(
            folder, config, pool, transform, handed.action
        )
        observer.proposed(Counter(candidate.source for candidate in candidates.elements[1:]))
        action = candidates.action()
        evidence, judge_seconds = gather_evidence(
            folder,
            config,
            pool,
            transform,
            action,
            handed.functions,
            partial(observer.progress, "judge"),
            hardware,
        )
        verdict = decide(evidence, action, tuple(handed.functions))
        write_examples(folder, splits.validation, transform, handed.functions, config.seed)
        plan, notes = plan_networks(verdict, candidates, splits.train)
        if plan and config.budget == "quick":
            notes.append(
                "The networks were trained briefly and with one seed: their accuracies show that "
                "they run, not which is better. --budget standard or thorough compares them."
            )
        judged = Judged(
            config,
            command,
            names,
            candidates,
            verdict,
            planned=tuple(plan),
            notes=notes,
            propose_seconds=propose_seconds,
            judge_seconds=judge_seconds,
        )
        record = _publish(folder, judged, [])
        observer.judged(record)
        if config.ranges:
            ranging = partial(observer.progress, "ranges")
            ranges = examine_ranges(folder, config, pool, transform, ranging, hardware)
            judged = replace(judged, ranges=ranges)
            record = _publish(folder, judged, [])
            observer.ranged(ranges, record)

        trained: list[TrainedNetwork] = []
        for seed in range(config.seed, config.seed + BUDGETS[config.budget].fit_seeds):
            seed_splits = splits if seed == config.seed else parts(seed=seed)
            for name, model in plan.items():
                run = folder / "runs" / f"{name}-seed{seed}"
                settings = _fit_config(config, model, seed, splits)
                progress = partial(observer.progress, name)
                result = fit_splits(
                    settings, seed_splits, transform, run, progress=progress, hardware=hardware
                )
                trained.append(TrainedNetwork(name, result, _measure(run)))
                observer.trained(name, result)
                record = _publish(folder, judged, trained)
        discovery = Discovery(
            verdict=verdict.word,
            group=verdict.group,
            found=verdict.found,
            record=record,
            out=folder,
            report=write_report(folder),
            action=candidates.action(verdict.found),
        )
        observer.finished(record, discovery.report)
        return discovery


def _label_names(pool: LabelledImages) -> LabelNames:
    """What the labels of the images that are judged are called."""
    strata = strata_of(pool).names if pool.numbers else ()
    return LabelNames(pool.classes, pool.numbers, strata)


def _publish(folder: Path, judged: Judged, trained: list[TrainedNetwork]) -> VerdictRecord:
    """Write what is known so far to `verdict.json`: an interrupt loses nothing."""
    record = verdict_record(judged, trained)
    record.write(folder / "verdict.json")
    return record


def _name(config: DiscoveryConfig, fingerprint: str) -> str:
    source, transform = Path(config.source).stem, config.transform.replace(":", "")
    all_else = hashlib.sha256(f"{config.to_dict()} {fingerprint}".encode()).hexdigest()
    return f"{source}-{transform}-{config.budget}-seed{config.seed}-{all_else[:6]}"


def _fit_config(
    config: DiscoveryConfig, model: NetworkConfig, seed: int, splits: Splits
) -> FitConfig:
    large = min(splits.train.space) >= MNIST.smallest
    steps = BUDGETS[config.budget].fit_steps * (LARGE_IMAGES if large else 1)
    optim = OptimConfig(steps=steps)
    if model.kind == "gated":
        optim = replace(optim, representation_lr=GATE_LEARNING_RATE, measure=GATE_WEIGHT)
    data = DataConfig(config.source, config.transform, **config.data.options())
    return FitConfig(data, model, optim, seed)


def _measure(run: Path) -> dict[str, float]:
    """Learned measure of a run by element; empty where it has none."""
    with open_tensors(run / "representations.safetensors") as file:
        if "measure" not in file.keys():  # noqa: SIM118
            return {}
        values: Tensor = file.get_tensor("measure")
        return dict(zip(json.loads(file.metadata()["names"]), values.tolist(), strict=True))
