"""Run one row on images: build, train, test, and compare what was learned with known elements."""

import time
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save
from torch import nn

from experiments.finding import closed, find, once
from experiments.image_settings import ImageRun
from experiments.protocol import protocol
from experiments.scores import align, sharpness, stack_metrics
from experiments.study_networks import network
from symshare import groups
from symshare.data import Splits, Transform
from symshare.files import write_atomically
from symshare.groups import Action
from symshare.models import GroupNetwork, dictionary
from symshare.representations import Stack
from symshare.train.learning import Learning, network_of
from symshare.train.loop import train
from symshare.train.runs import measure_by_element

__all__ = ["build", "elements", "run_images"]

KNOWN = {
    "rotate:360": groups.rotations(4),
    "rotate:180": groups.rotations(4),
    "flip": groups.flips("W"),
}
"""Elements of kernels that a transformation of the data holds; it need not hold all of each."""

HIDDEN_ELEMENTS = 8
"""Largest number of elements whose orders are compared."""


def run_images(
    config: ImageRun, folder: Path, root: Path | None, findings: Path | None = None
) -> dict[str, Any]:
    """Train and test one network.

    An interrupted run continues from its last checkpoint and ends with the same numbers.

    Args:
        config: what to run.
        folder: for checkpoints, `metrics.csv` and `stacks.safetensors`.
        root: folder of the images.
        findings: folder of what is found in the images, which several runs share.

    Returns:
        Accuracies by test, loss and accuracy of the last evaluation, parameters, seconds with
        those of the search, the learned measure by element where there is one, what was learned
        before training where something was, and where the network has learned stacks, their metrics
        beside the elements that make the data.
    """
    seen = protocol(config.images, root, config.seed)
    action, searched = elements(config, seen.splits, seen.transform, findings)
    start = time.perf_counter()
    net, learning = build(config, action, seen.splits, seen.transform)
    if learning:
        learning.write(folder)
    measure = partial(measure_by_element, net, action)
    trained = train(
        net,
        seen.training,
        seen.transform,
        config.optim,
        config.seed,
        validation=seen.held_out,
        validation_law=seen.held_out_transform,
        out=folder,
        watch=measure,
    )
    stacks = net.stacks()
    write_atomically(folder / "stacks.safetensors", _tensors(net))
    gates = {id(p) for stack in stacks if stack.gate for p in stack.gate.parameters()}
    learned = any(id(p) not in gates for p in nn.ModuleList(stacks).parameters())
    return {
        **trained.validation(),
        "test_accuracy": {
            name: trained.test(seen.splits.test, transform)["test_accuracy"]
            for name, transform in seen.tests.items()
        },
        "elements": stacks[0].group_size,
        "dictionary": list(action.names),
        "parameters": net.free_parameters(),
        "representation_parameters": net.representation_parameters(),
        "recovery": _recovery(stacks, config.images.train) if learned else None,
        "measure": measure() or None,
        "learned": learning and [asdict(layer) for layer in learning.layers],
        "seconds": round(searched + time.perf_counter() - start, 1),
    }


def elements(
    config: ImageRun, splits: Splits, transform: Transform, findings: Path | None
) -> tuple[Action, float]:
    """Elements or dictionary of a run's network, and the seconds that it took to find them.

    Elements that hold in part count for a network that can use a part.
    """
    chosen = config.network
    if chosen.group != "found":
        return dictionary(chosen), 0.0
    seed, steps = config.seed, config.optim.steps
    finding = once(findings, config, lambda: find(splits, transform, seed, steps))
    names = finding.found or (finding.partial if chosen.kind == "gated" else ())
    return closed(names), finding.seconds


def build(
    config: ImageRun, action: Action, splits: Splits, transform: Transform
) -> tuple[GroupNetwork, Learning | None]:
    """The network of a run, on these elements, and what was learned for its stacks already."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.seed)
        make = partial(network, action=action, data=splits.train)
        return network_of(make, config.network, splits.train, transform, config.seed)


def _recovery(stacks: list[Stack], transform: str) -> dict[str, Any]:
    """Metrics of the lifting stack, and of every hidden one that may be formed.

    They are beside the elements that make the data what it is, if these are known: the elements
    of hidden layers come in no order of their own, so they are aligned with them first.
    """
    with torch.no_grad():
        lifting, *hidden = (stack().cpu() for stack in stacks)
    if stacks[0].membership == "free" or lifting.shape[0] > HIDDEN_ELEMENTS:
        return {}
    known = KNOWN.get(transform)
    if known is None:
        return {"beside": [], "layers": [sharpness(R) for R in (lifting, *hidden)]}
    side = round(lifting.shape[-1] ** 0.5)
    metrics = [stack_metrics(lifting, known.lift(side))]
    target = known.regular(side)
    for R in hidden:
        if R.shape[-1] == target.shape[-1]:
            metrics.append(stack_metrics(align(R, target, len(known)).R, target))
    return {"beside": list(known.names), "layers": metrics}


def _tensors(network: GroupNetwork) -> bytes:
    """What figures show of a network: stacks, lifted kernels, the measure."""
    lifting, *hidden = network.stacks()
    with torch.no_grad():
        tensors = {
            "lift.R": lifting(),
            "lift.kernels": network.lifting.kernel().unflatten(0, (-1, lifting.group_size)),
        }
        tensors |= {f"layer{i}.R": stack() for i, stack in enumerate(hidden, 1)}
        if lifting.measure is not None:
            tensors["measure"] = lifting.measure
    return save({name: tensor.detach().contiguous().clone() for name, tensor in tensors.items()})
