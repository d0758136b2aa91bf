"""A symmetry between colours, which the paper names as a limitation: planted, found, and learned.

    python -m experiments.studies.colours --root DIR --seeds 10 --out docs/studies/colours.json

MNIST in colours: red is the digit, green its edges, blue the digit blurred in half the contrast. An
element of the planted group is put on every image, at random: quarter turns, of which the odd ones
exchange red and blue. Neither these turns nor the exchange are symmetries by themselves. A seed is
one of images, law and networks.

- `verdict`: the elements that the held-out test finds, and whether they are those of the group.
- `learned`: the stacks that `learned_network` takes from second moments, over colours and positions
  in the lifting layer, and how many of them are elements of the group.
- test accuracies of a plain network, of one with the planted group built in, and of one that starts
  from what was learned, each of nearly as many free parameters and as many steps.
"""

import argparse
import time
from dataclasses import replace
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import avg_pool2d

from experiments.resumed import resumed
from symshare import Sinkhorn, groups
from symshare.analysis import nearest_permutation
from symshare.data import LabelledImages, Splits, load, sample, transform
from symshare.discovery.config import BUDGETS
from symshare.discovery.judging import verdict_on
from symshare.groups import ChannelAction, ChannelMap
from symshare.models import SMALL, GroupCNN, build_network
from symshare.moments import learned_network
from symshare.representations import Representation
from symshare.settings import NetworkConfig
from symshare.train.loop import Standardise, train
from symshare.train.settings import OptimConfig

IMAGES = {"train": 6000, "validation": 1500, "test": 5000}
STEPS, WIDTH = 1500, 32

EXCHANGE = ChannelMap((2, 1, 0), (1, 1, 1))
STILL = ChannelMap.identity(3)
PLANTED = ChannelAction(
    groups.rotations(4),
    [("id", STILL), ("rot90", EXCHANGE), ("rot180", STILL), ("rot270", EXCHANGE)],
)
"""Quarter turns that exchange red and blue: a C4 of colours and positions."""

KNOWN = NetworkConfig(
    kind="gcnn",
    group=("rot90", "rot180", "rot270"),
    channels=tuple(channels.sources for _, channels in PLANTED.elements[1:]),
    width=WIDTH,
)
NETWORKS = ("plain", "known", "learned")


def main(options: list[str] | None = None) -> None:
    """Run what is missing and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", type=Path, required=True, help="folder of MNIST's idx files")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args(options)
    torch.set_num_threads(1)
    wanted = [(seed,) for seed in range(arguments.seeds)]
    rows = resumed(arguments.out, ("seed",), wanted, lambda seed: run(arguments.root, seed))
    exact = sum(row["exact"] for row in rows)
    layers = sum(row["elements"] == [row["true"]] * len(row["elements"]) for row in rows)
    print(f"The verdict names the planted group in {exact} of {len(rows)} runs.")
    print(f"Learned stacks have its elements in every layer in {layers} of {len(rows)} runs.")
    print("| network | test accuracy [%] |")
    print("|---|---|")
    for name in NETWORKS:
        values = [100 * row["accuracy"][name] for row in rows]
        spread = f" ± {stdev(values):.2f}" if len(values) > 1 else ""
        print(f"| {name} | {mean(values):.2f}{spread} |")


def run(root: Path, seed: int) -> dict[str, Any]:
    """One seed: the verdict, what is learned, and three networks."""
    splits = coloured(load("mnist", root=root, seed=seed), seed)
    law, seconds = transform("none"), {}
    start = time.perf_counter()
    pool = sample(splits.train.joined(splits.validation), BUDGETS["quick"].judge_images, seed)
    candidates, verdict = verdict_on(pool, law, BUDGETS["quick"].judge_steps, seed)
    seconds["verdict"] = time.perf_counter() - start
    named = set(candidates.action(verdict.found).names)
    start = time.perf_counter()
    images = Standardise(splits.train.images)(splits.train.images)
    torch.manual_seed(seed)
    network, layers = learned_network(
        _free, images, splits.train.labels, slots=len(PLANTED), seed=seed
    )
    seconds["learned"] = time.perf_counter() - start
    planted = PLANTED.lift(SMALL.kernel_size).argmax(-1).tolist()
    lifted = nearest_permutation(network.lifting.stack()).tolist()
    accuracy = {}
    for name in NETWORKS:
        torch.manual_seed(seed)
        if name != "learned":
            config = KNOWN if name == "known" else NetworkConfig(width=WIDTH)
            network = build_network(config, images.shape[1:], len(splits.train.classes))
        optim = OptimConfig(steps=STEPS, evaluations=1, representation_lr=0.1)
        trained = train(network, splits.train, law, optim, seed, validation=splits.validation)
        accuracy[name] = trained.test(splits.test, law)["test_accuracy"]
    return {
        "seed": seed,
        "found": sorted(named),
        "exact": named == set(PLANTED.names),
        "elements": [layer.elements for layer in layers],
        "true": sum(row in planted for row in lifted),
        "accuracy": accuracy,
        "seconds": {name: round(value, 1) for name, value in seconds.items()},
    }


def coloured(splits: Splits, seed: int) -> Splits:
    """MNIST in colours under the planted law, so many images of each part."""

    def part(name: str, data: LabelledImages) -> LabelledImages:
        chosen = sample(data, IMAGES[name], seed)
        generator = torch.Generator().manual_seed(10 * seed + len(name))
        drawn = torch.randint(len(PLANTED), (len(chosen),), generator=generator).tolist()
        images = colours(chosen.images)
        moved = [PLANTED.apply(image, g) for image, g in zip(images, drawn, strict=True)]
        return replace(chosen, images=torch.stack(moved))

    return replace(
        splits,
        train=part("train", splits.train),
        validation=part("validation", splits.validation),
        test=part("test", splits.test),
    )


def colours(digits: Float[Tensor, "N 1 28 28"]) -> Float[Tensor, "N 3 14 14"]:
    """Red, green and blue made of each digit, in half the size."""
    small = avg_pool2d(digits, 2)
    blurred = avg_pool2d(small, 3, stride=1, padding=1)
    return torch.cat([small, (small - blurred).abs(), blurred / 2], 1)


def _free(elements: int) -> GroupCNN:
    """A network of free stacks, whose lifting layer reads colours and positions together."""
    taps = SMALL.taps
    sizes = [3 * taps, *[elements * taps] * (SMALL.blocks - 1)]
    stacks: list[Representation] = [Sinkhorn(elements, positions) for positions in sizes]
    config = NetworkConfig(kind="sinkhorn", elements=elements, width=WIDTH)
    return build_network(config, (3, 14, 14), 10, representations=stacks)


if __name__ == "__main__":
    main()
