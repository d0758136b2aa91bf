"""Run a `FitConfig`: train, write a run directory, read the test part once at the end."""

import json
import math
import time
from functools import partial
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save

from symshare.data import TEST_SEED, LabelledImages, Splits, Transform, freeze, load, transform
from symshare.files import claimed, write_atomically
from symshare.groups import Action
from symshare.models import GroupNetwork, build_network, dictionary
from symshare.records import ResultRecord
from symshare.settings import READERS, NetworkConfig
from symshare.train.learning import network_of
from symshare.train.loop import Progress, Trained, train, unseen
from symshare.train.objective import Task
from symshare.train.processes import together
from symshare.train.regression import Regress, affine_maps, task_of
from symshare.train.settings import FitConfig, Hardware

__all__ = ["fit", "fit_splits", "measure_by_element"]

RESULT, REPRESENTATIONS = "result.json", "representations.safetensors"
"""What a run writes last."""


def fit(
    config: FitConfig,
    out: Path,
    *,
    progress: Progress = unseen,
    reading: Progress = unseen,
    hardware: Hardware = Hardware(),
) -> ResultRecord:
    """Train one network and write its run directory; a finished run is not run again.

    An interrupted run continues from its last checkpoint and ends with the same numbers as one
    that was not interrupted.

    Args:
        config: what to train.
        out: run directory: `config.yaml`, `metrics.csv`, `checkpoints/`, `result.json`,
            `representations.safetensors`.
        progress: called after every step of the training.
        reading: called while pictures are decoded, where that takes long.
        hardware: what to train on.

    Returns:
        What `result.json` holds.

    Raises:
        ValueError: if `out` holds a run of another configuration, or data and model do not fit.
        OSError: if `out` cannot be written.
    """
    law = transform(config.data.transform)  # a wrong name should not wait for the data

    def run() -> ResultRecord:
        data = config.data
        splits = load(data.source, **data.options(), seed=config.seed, progress=reading)
        return fit_splits(config, splits, law, out, progress=progress, hardware=hardware)

    return together(hardware, run)


def fit_splits(
    config: FitConfig,
    splits: Splits,
    law: Transform,
    out: Path,
    *,
    progress: Progress = unseen,
    hardware: Hardware = Hardware(),
) -> ResultRecord:
    """As :func:`fit`, on data that is loaded already, in the first of several processes."""
    start = time.perf_counter()
    if all((out / name).exists() for name in (RESULT, REPRESENTATIONS)):
        with claimed(out, config.to_dict(), splits.fingerprint):
            return ResultRecord.read(out / RESULT)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.seed)
        data = splits.train
        maps = affine_maps(config.model.target_map, data.outputs)
        task = task_of(data, maps)
        build = partial(
            build_network,
            image=data.images.shape[1:],
            classes=data.outputs,
            target="numbers" if data.numbers else "classes",
            matrices=task.matrices(maps)
            if isinstance(task, Regress) and maps is not None
            else None,
        )
        network, learning = network_of(build, config.model, data, law, config.seed)
    with claimed(out, config.to_dict(), splits.fingerprint):
        if learning:
            learning.write(out)
        return _fit_in(out, config, network, splits, law, task, start, progress, hardware)


def _fit_in(
    out: Path,
    config: FitConfig,
    network: GroupNetwork,
    splits: Splits,
    law: Transform,
    task: Task,
    start: float,
    progress: Progress,
    hardware: Hardware,
) -> ResultRecord:
    """Train a network in a folder that is claimed."""
    trained = train(
        network,
        splits.train,
        law,
        config.optim,
        config.seed,
        validation=splits.validation,
        task=task,
        out=out,
        watch=partial(measure_by_element, network, dictionary(config.model, network.lifting.dims)),
        progress=progress,
        hardware=hardware,
    )
    learned = trained.validation()
    if not all(map(math.isfinite, learned.values())):
        raise ValueError(
            f"fit: training of {config.model.kind} diverged, its validation loss is "
            f"{learned['val_loss']}; use a smaller optim.lr or other optim.representation_lr"
        )
    test, errors = splits.test, _errors(trained, splits.test, law, task)
    reached: dict[str, Any] = {**learned, **trained.test(test, law, task), **errors}
    result = ResultRecord(
        model=config.model.kind,
        seed=config.seed,
        **reached,
        parameters=network.free_parameters(),
        representation_parameters=network.representation_parameters(),
        seconds=round(time.perf_counter() - start, 2),
    )
    write_atomically(out / REPRESENTATIONS, _representations(network, config.model))
    result.write(out / RESULT)
    return result


def _errors(trained: Trained, test: LabelledImages, law: Transform, task: Task) -> dict[str, Any]:
    """What a result says of numbers beside the share of their variance that is explained."""
    if not isinstance(task, Regress):
        return {}
    shown = freeze(test, law, TEST_SEED)
    errors = task.errors(trained.logits(shown.images), shown.labels)
    return {"metric": "explained variance", "test_error": errors}


def measure_by_element(network: GroupNetwork, action: Action) -> dict[str, float]:
    """The learned measure on the elements of a dictionary; nothing where none is learned.

    Args:
        network: its layers share one measure.
        action: the elements of its first layer.
    """
    with torch.no_grad():
        measure = network.stacks()[0].measure
    return {} if measure is None else dict(zip(action.names, measure.tolist(), strict=True))


def _representations(network: GroupNetwork, config: NetworkConfig) -> bytes:
    """What a report shows of a network: stacks, lifted kernels, the measure."""
    lifting, *hidden = network.stacks()
    with torch.no_grad():
        kernels = network.lifting.kernel().unflatten(0, (-1, lifting.group_size))
        tensors = {"lift.R": lifting(), "lift.kernels": kernels}
        tensors |= {f"layer{i}.R": stack() for i, stack in enumerate(hidden, 1)}
        if lifting.measure is not None:
            tensors["measure"] = lifting.measure
    named = config.kind in ("cnn", *READERS["group"]) and config.kind != "birkhoff"
    names = (
        list(dictionary(config, network.lifting.dims).names)
        if named
        else [f"element {g}" for g in range(lifting.group_size)]
    )
    tensors = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}
    return save(tensors, {"names": json.dumps(names)})
