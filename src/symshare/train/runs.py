"""Run a `FitConfig`: train, write a run directory, read the test part once at the end."""

import json
import math
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

import torch
from safetensors.torch import save

from symshare import groups
from symshare.data import LabelledImages, Splits, Transform, load, transform
from symshare.files import claim, read_json, write_atomically
from symshare.groups import Action, GroupAction
from symshare.models import (
    MNIST,
    SMALL,
    Architecture,
    GroupCNN,
    GroupNetwork,
    free_parameters,
    matched_channels,
    plain,
    wscnn,
)
from symshare.representations import Fixed, Gated, Representation, Sinkhorn
from symshare.train.loop import Progress, train, unseen
from symshare.train.processes import together
from symshare.train.settings import FitConfig, Hardware, ModelConfig

__all__ = ["build", "dictionary", "fit", "fit_splits", "measure_by_element"]


def fit(
    config: FitConfig, out: Path, *, progress: Progress = unseen, hardware: Hardware = Hardware()
) -> dict:
    """Train one network and write its run directory; a finished run is not run again.

    An interrupted run continues from its last checkpoint and ends with the same numbers as one
    that was not interrupted.

    Args:
        config: what to train.
        out: run directory: `config.yaml`, `metrics.csv`, `checkpoints/`, `result.json`,
            `representations.safetensors`.
        progress: called after every step of the training.
        hardware: what to train on.

    Returns:
        The content of `result.json`.

    Raises:
        ValueError: if `out` holds a run of another configuration, or data and model do not fit.
        OSError: if `out` cannot be written.
    """
    data = config.data
    law = transform(data.transform)  # a wrong name should not wait for the data

    def run() -> dict:
        root = None if data.root is None else Path(data.root)
        splits = load(data.source, root=root, seed=config.seed, limit=data.limit)
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
) -> dict:
    """As :func:`fit`, on data that is loaded already, in the first of several processes."""
    start = time.perf_counter()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.seed)
        network = build(config.model, splits.train)
    claim(out, config.to_dict(), splits.fingerprint)
    finished, tensors = out / "result.json", out / "representations.safetensors"
    if finished.exists() and tensors.exists():
        return read_json(finished, "model", "test_accuracy", "parameters", "seconds")
    trained = train(
        network,
        splits.train,
        law,
        config.optim,
        config.seed,
        validation=splits.validation,
        out=out,
        watch=partial(measure_by_element, network, dictionary(config.model)),
        progress=progress,
        hardware=hardware,
    )
    learned = trained.validation()
    if not all(map(math.isfinite, learned.values())):
        raise ValueError(
            f"fit: training of {config.model.kind} diverged, its validation loss is "
            f"{learned['val_loss']}; use a smaller optim.lr or other optim.representation_lr"
        )
    result = {
        "model": config.model.kind,
        "seed": config.seed,
        **learned,
        **trained.test(splits.test, law),
        "parameters": network.free_parameters(),
        "representation_parameters": network.representation_parameters(),
        "seconds": round(time.perf_counter() - start, 2),
    }
    write_atomically(tensors, _representations(network, config.model))
    write_atomically(finished, json.dumps(result, indent=2, allow_nan=False).encode())
    return result


def measure_by_element(network: GroupNetwork, action: Action) -> dict[str, float]:
    """The learned measure on the elements of a dictionary; nothing where none is learned.

    Args:
        network: its layers share one measure.
        action: the elements of its first layer.
    """
    with torch.no_grad():
        measure = network.stacks()[0].measure
    return {} if measure is None else dict(zip(action.names, measure.tolist(), strict=True))


def build(config: ModelConfig, data: LabelledImages) -> GroupCNN:
    """The network of a configuration, for images of this size and these classes."""
    _, in_channels, height, width = data.images.shape
    classes = len(data.classes)
    architecture = _architecture(config, (height, width))
    reference = free_parameters(architecture, in_channels, classes, config.cnn_channels)
    action = dictionary(config)
    representations: list[Representation]
    if config.kind == "cnn":
        channels, representations = config.cnn_channels, plain(architecture.blocks)
    else:
        channels = matched_channels(architecture, in_channels, classes, len(action), reference)
        if config.kind == "gcnn":
            representations = [Fixed(action)] * architecture.blocks
        elif config.kind == "gated":
            representations = [Gated(action)] * architecture.blocks
        else:
            make = partial(Sinkhorn, init=config.init, iterations=config.iterations)
            representations = wscnn(architecture, len(action), make)
    return GroupCNN(architecture, in_channels, classes, channels, representations, (height, width))


def dictionary(config: ModelConfig) -> GroupAction:
    """The elements of a configuration, by their names in the symmetries of the square."""
    square = groups.dihedral(4)
    return groups.rotations(1) if config.kind == "cnn" else square.subset(config.elements)


def _architecture(config: ModelConfig, size: tuple[int, int]) -> Architecture:
    fitting = MNIST if min(size) >= MNIST.smallest else SMALL
    named = {"auto": fitting, "mnist": MNIST, "small": SMALL}
    chosen = named[config.architecture]
    return chosen if config.norm == "auto" else replace(chosen, norm=config.norm)


def _representations(network: GroupCNN, config: ModelConfig) -> bytes:
    """What a report shows of a network: stacks, lifted kernels, the measure."""
    lifting, *hidden = network.stacks()
    with torch.no_grad():
        kernels = network.lifting.kernel().unflatten(0, (-1, lifting.group_size))
        tensors = {"lift.R": lifting(), "lift.kernels": kernels}
        tensors |= {f"layer{i}.R": stack() for i, stack in enumerate(hidden, 1)}
        if lifting.measure is not None:
            tensors["measure"] = lifting.measure
    names = (
        [f"element {g}" for g in range(lifting.group_size)]
        if config.kind == "sinkhorn"
        else list(dictionary(config).names)
    )
    tensors = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}
    return save(tensors, {"names": json.dumps(names)})
