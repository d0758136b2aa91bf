"""Do stacks learn from running second moments while the task is trained, in one training?

    python -m experiments.studies.jointly --root DIR --seeds 3 --out docs/studies/jointly.json

Table 1's network on rotated MNIST, budget `cpu`, test part. Each layer keeps running second moments
of what it sees: 16 blocks, each a mean whose memory grows with what it has seen. The penalty is
what `symshare.moments.commutant` minimises, the roots of energies less their noise and a rising
entropy. It has no weight: the task says next to nothing about R, and Adam takes out the scale.
Elements are asked for as there, by entries that are held; after `ROUND` steps those that the
moments refuse, and copies, are asked for anew; products of what was found are written down. Stacks
start near uniform, and the task is trained from the first step.

- `at once`: all layers ask from the start.
- `in order`: a layer starts its moments and asks once all layers below have all their elements,
  which are then held at all but 1e-6 of their mass, as in the search before training.
"""

import argparse
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, get_args

import torch
from torch import Generator, Tensor
from torch.nn.functional import one_hot

from experiments.catalogue import select
from experiments.image_settings import ImageRun, source_folder
from experiments.jobs import settings
from experiments.moments.running import named
from experiments.protocol import protocol
from experiments.resumed import resumed
from experiments.study_networks import network
from symshare import groups
from symshare.analysis import nearest_permutation
from symshare.layers.convolution import Convolution
from symshare.moments import Moments, commutant_among
from symshare.moments.alignment import ENTROPY, SOFT, Questions, starts_with
from symshare.moments.network import HARD
from symshare.moments.readings import Readings
from symshare.moments.sight import Sight
from symshare.moments.statistics import BLOCKS
from symshare.representations import Sinkhorn
from symshare.representations.starts import SHARP_MASS, near
from symshare.train.loop import train
from symshare.train.objective import Classify

Order = Literal["at once", "in order"]

WARM_UP = 300
"""Steps of the training before anything is asked: at the rate that stacks have before, of a
one-cycle schedule, no question is answered within a round, and each is asked once."""

FIRST = 2 * BLOCKS
"""Steps of a layer before it asks."""

ROUND = 100
"""Steps from a question to what is made of the answer."""

TRUTH = ("rot90", "rot180", "rot270")


class Jointly(Classify):
    """Cross entropy of the labels, and the penalty of every layer."""

    def __init__(self, layers: list[Convolution], classes: int, order: Order, seed: int):
        generator = torch.Generator().manual_seed(seed)
        self.order, self.steps = order, 0
        self.layers = [Running(layer, classes, generator) for layer in layers]

    def prepare(self, images: Tensor, labels: Tensor, generator: Generator) -> tuple[Tensor, ...]:
        """Before a step, when logits may still change."""
        self.steps += 1
        for layer in self.layers if self.steps > WARM_UP else ():
            layer.turn()
        return images, labels

    def loss(self, model: torch.nn.Module, *prepared: Tensor) -> tuple[Tensor, Tensor]:
        images, labels = prepared
        loss, logits = super().loss(model, images, labels)
        if torch.is_grad_enabled():
            for layer in self.layers:
                loss = loss + layer.penalty(labels)
                if self.order == "in order" and not layer.done:
                    break
        return loss, logits


class Running:
    """What one layer has seen, and the elements that it asks for."""

    def __init__(self, layer: Convolution, classes: int, generator: Generator):
        assert isinstance(layer.stack, Sinkhorn)
        self.layer, self.stack, self.generator = layer, layer.stack, generator
        self.sight = Sight(layer, classes, generator)
        self.step, self.since, self.done = 0, 0, False
        self.known = torch.arange(self.stack.positions)[None]
        self.held = torch.zeros_like(self.stack.logits, dtype=torch.bool)
        self.questions: Questions | None = None
        self._input: Tensor | None = None
        layer.register_forward_pre_hook(self._keep)
        self.stack.logits.register_hook(lambda gradient: gradient.masked_fill(self.held, 0))

    def _keep(self, _: torch.nn.Module, inputs: tuple[Tensor, ...]) -> None:
        self._input = inputs[0].detach()

    def penalty(self, labels: Tensor) -> Tensor | float:
        """After a forward pass with these labels."""
        assert self._input is not None
        self._see(self._input, labels)
        if self.questions is None:
            return 0.0
        readings = Readings(self._moments(), self.generator)
        self.since += 1
        ramp = 1.0 if self.done else max(0.0, 2 * self.since / ROUND - 1)
        R = self.stack()[1:]
        entropy = self.stack.entropy() * len(R)
        return (readings.energies(R) + SOFT).sqrt().sum() + ENTROPY * ramp * entropy

    def turn(self) -> None:
        """Ask, or look at the answer, when it is time to."""
        if self.done:
            # What Adam has still to give would otherwise move them.
            for slot, element in enumerate(self.stack()[1:].argmax(-1)):
                self._write(slot, element, HARD)
        elif self.step < FIRST:
            return
        elif self.questions is None:
            self.questions = Questions(Readings(self._moments(), self.generator).mean)
            self._ask(torch.arange(len(self.stack.logits)))
        elif self.since == ROUND:
            self._answer(self._moments())

    def _moments(self) -> Moments:
        return Moments(torch.stack(self.sight.blocks))

    def _see(self, inputs: Tensor, labels: Tensor) -> None:
        """Move one of the blocks towards what this batch says."""
        self.sight.add(inputs, labels)
        place, seen = self.step % BLOCKS, self.step // BLOCKS
        if seen:
            new = self.sight.blocks.pop()
            self.sight.blocks[place].lerp_(new, 2 / (seen + 2))
        self.step += 1

    def _ask(self, slots: Tensor) -> None:
        """Ask for an element in each of these slots."""
        assert self.questions is not None
        self.since = 0
        wanted = self.questions.next(self.known, len(slots))
        logits, held = starts_with(wanted, self.stack.positions, self.generator)
        slots = slots[: len(wanted)]
        with torch.no_grad():
            self.stack.logits[slots] = logits
            self.held[slots] = held

    def _answer(self, moments: Moments) -> None:
        """Keep what the moments do not refuse; ask for what is missing."""
        with torch.no_grad():
            sources = nearest_permutation(self.stack())[1:]
        self.known = commutant_among(moments, sources).sources
        rows, known = sources.tolist(), self.known[1:].tolist()
        again = [i for i, row in enumerate(rows) if row not in known or row in rows[:i]]
        # Products of what was found need no question.
        for element in known:
            if again and element not in rows:
                self._write(again.pop(0), torch.tensor(element), SHARP_MASS)
        self.done = not again
        if again:
            self._ask(torch.tensor(again))

    def _write(self, slot: int, element: Tensor, mass: float) -> None:
        """Start a slot near a permutation."""
        with torch.no_grad():
            self.stack.logits[slot] = near(one_hot(element, len(element)).float(), mass)
            self.held[slot] = False


def main(options: list[str] | None = None) -> None:
    """Run what is missing and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=1500)
    parser.add_argument("--orders", nargs="+", choices=get_args(Order), default=get_args(Order))
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args(options)
    torch.set_num_threads(1)
    seeds, orders = range(arguments.seeds), arguments.orders
    wanted = [(order, seed, arguments.steps) for seed in seeds for order in orders]
    rows = resumed(arguments.out, ("order", "seed", "steps"), wanted, partial(run, arguments.root))
    print("| order | seed | steps | exact elements by layer | asked | test accuracy | s |")
    print("|---|---|---|---|---|---|---|")
    for row in rows:
        exact = " ".join(f"{len(set(found) & set(TRUTH))}" for found in row["found"])
        asked = " ".join(map(str, row["asked"]))
        print(
            f"| {row['order']} | {row['seed']} | {row['steps']} | {exact} | {asked} "
            f"| {100 * row['test_accuracy']:.1f} % | {row['seconds']:.0f} |"
        )


def run(root: Path, order: Order, seed: int, steps: int) -> dict[str, Any]:
    """One training."""
    (row,) = select("table1/rotated-moments")
    config = settings(row, "cpu", seed)
    assert isinstance(config, ImageRun)
    optim = replace(config.optim, steps=steps)
    seen = protocol(config.images, source_folder(root, config.images.source), seed)
    torch.manual_seed(seed)
    net = network(replace(config.network, init="paper"), groups.rotations(1), seen.splits.train)
    layers = [module for module in net.modules() if isinstance(module, Convolution)]
    task = Jointly(layers, len(seen.splits.train.classes), order, seed)
    start = time.perf_counter()
    trained = train(net, seen.training, seen.transform, optim, seed, task=task)
    with torch.no_grad():
        found = [
            [
                named(row, round(layer.geometry.taps**0.5))
                for row in nearest_permutation(layer.stack())[1:]
            ]
            for layer in layers
        ]
        sharp = [float(layer.stack()[1:].amax(-1).mean()) for layer in layers]
    test = trained.test(seen.splits.test, seen.tests["rotated"])
    return {
        "order": order,
        "seed": seed,
        "steps": steps,
        "found": found,
        "sharp": sharp,
        "asked": [layer.step for layer in task.layers],
        "test_accuracy": test["test_accuracy"],
        "seconds": time.perf_counter() - start,
    }


if __name__ == "__main__":
    main()
