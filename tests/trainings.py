"""Trainings for one process or two: `python trainings.py FOLDER` has two do them."""

import sys
from pathlib import Path

import torch

from experiments.residual import GroupResNet, ResidualArchitecture
from symshare import groups
from symshare.data import load, transform
from symshare.judge.classes import Classes
from symshare.judge.witness import GuessBoth, Moves, Witness
from symshare.models import build_network
from symshare.representations import Gated, Sinkhorn
from symshare.settings import NetworkConfig
from symshare.train.loop import train
from symshare.train.processes import together
from symshare.train.settings import Early, Hardware, OptimConfig

# An odd number, so that two processes have unequal parts.
OPTIM = OptimConfig(steps=12, evaluations=3, batch_size=15, entropy=0.01, norm=0.01, measure=0.1)


def residual(representations):
    """Without dropout, which each process draws for itself.

    Nothing depends on a bias before a norm: its gradient is rounding, of which Adam makes steps.
    """
    architecture = ResidualArchitecture(3)
    network = GroupResNet(architecture, 1, 10, 4, representations, (8, 8))
    network.head[3].p = 0.0
    first, second = network.blocks
    for before in (network.lifting, first.conv1, first.conv2, second.conv1, second.conv2):
        before.bias.requires_grad_(False)
    second.shortcut.bias.requires_grad_(False)
    return network


def networks():
    """One of each kind, by its name; one measure, or one stack, in several layers."""
    torch.manual_seed(0)
    for kind in ("cnn", "gated", "sinkhorn"):
        yield kind, build_network(NetworkConfig(kind=kind, width=8), (1, 8, 8), 10)
    stack = Sinkhorn(2, 18)
    yield "residual", residual([Sinkhorn(2, 9), *[stack] * 4])
    yield "residual, gated", residual([Gated(groups.flips("W"))] * 5)


def trainings(hardware):
    """Rows of metrics, weights and answers of each."""
    splits, law, found = load("digits", limit=200), transform("quarter"), {}
    for name, network in networks():
        trained = train(
            network, splits.train, law, OPTIM, 1, validation=splits.validation, hardware=hardware
        )
        rows = [list(row.values()) for row in trained.rows]
        state = {key: value.clone() for key, value in network.state_dict().items()}
        found[name] = {**state, "rows": torch.tensor(rows), "y": trained.logits(splits.test.images)}
    found["witness"] = witness(splits, law, hardware)
    return found


def witness(splits, law, hardware):
    """The network of the held-out tests, which guesses moves as well and stops by itself."""
    torch.manual_seed(0)
    sources, signs = groups.dihedral(4).entries(1, (8, 8))
    digits = Classes.of(splits.train)
    optim = OptimConfig(steps=12, evaluations=4, batch_size=15, lr=5e-3, schedule="constant")
    trained = train(
        Witness(1, 10, len(sources), (8, 8)),
        splits.train,
        law,
        optim,
        1,
        validation=splits.validation,
        task=GuessBoth(Moves(sources, signs, digits.fixed(len(sources))), digits),
        early=Early(patience=1),
        hardware=hardware,
    )
    rows = torch.tensor([list(row.values()) for row in trained.rows])
    labels, moves = trained.model(splits.test.images)
    return {"rows": rows, "labels": labels.detach(), "moves": moves.detach()}


if __name__ == "__main__":
    two = Hardware(devices=2, accelerator="cpu")
    found = together(two, lambda: trainings(two))
    rank = torch.distributed.get_rank()
    torch.save(found, Path(sys.argv[1]) / f"{rank}.pt")
