"""The network of a configuration, whose free stacks may be learned from the images first."""

import json
from collections import defaultdict
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TypeVar

import torch
from jaxtyping import Float
from safetensors.torch import save
from torch import Tensor
from torch.nn.functional import one_hot

from symshare import groups
from symshare.analysis import nearest_permutation
from symshare.data import LabelledImages, Transform, freeze, sample
from symshare.files import write_atomically
from symshare.layers.convolution import Convolution
from symshare.models import GroupNetwork
from symshare.moments import LearnedLayer, learned_network, open_gates
from symshare.moments.network import LIFTING_IMAGES
from symshare.settings import NetworkConfig
from symshare.train.loop import Standardise

Network = TypeVar("Network", bound=GroupNetwork)
Config = TypeVar("Config", bound=NetworkConfig)

STEPS_KEPT = (0, 25, 50, 75, 100, 125, 150)
"""Steps of the search at which matrices are kept to be shown, beside the last."""

_KEPT_ELEMENTS = 3
"""Elements of each layer whose way is kept."""


@dataclass(frozen=True, eq=False)
class Learning:
    """What was learned from images before training.

    Attributes:
        layers: the record of each layer.
        paths: by the name of a layer and a number, an element on its way from one entry that is
            held to the permutation that it was rounded to, of a few that are no products of
            others.
    """

    layers: tuple[LearnedLayer, ...]
    paths: dict[str, Float[Tensor, "steps D D"]]

    def write(self, folder: Path) -> None:
        """Write `learned.json` and `learned.safetensors`."""
        layers = [asdict(layer) for layer in self.layers]
        content = json.dumps({"layers": layers, "steps": STEPS_KEPT}, indent=1)
        write_atomically(folder / "learned.json", content.encode())
        write_atomically(folder / "learned.safetensors", save(self.paths))


def network_of(
    build: Callable[[Config], Network],
    config: Config,
    data: LabelledImages,
    law: Transform,
    seed: int,
) -> tuple[Network, Learning | None]:
    """Build a network; with `init: moments` learn its start from what training will show it.

    Args:
        build: makes the network of a configuration.
        config: which network.
        data: training images.
        law: their random transformation, drawn once here.
        seed: of the images that are read, their transformation and the search.

    Returns:
        The network, and what was learned; None where nothing was to be learned.

    Raises:
        ValueError: where the images have more elements than the configuration allows, or there
            are too few images.
    """
    if config.init != "moments":
        return build(config), None
    seen = shown(data, law, seed)
    # Moments of all images together say what no number of a label changes.
    labels = None if data.numbers else seen.labels
    if config.kind == "gated":
        gated = build(replace(config, init="sharp"))
        return gated, Learning((open_gates(gated, seen.images, labels, seed=seed),), {})
    ways, moves = _Ways(), groups.hyperoctahedral(len(data.space))
    network, layers = learned_network(
        lambda elements: build(replace(config, elements=elements, init="sharp", within=())),
        seen.images,
        labels,
        slots=config.elements,
        within=moves.subset(config.within) if config.within else None,
        seed=seed,
        watch=ways.watch,
    )
    found = {layer.name: layer.elements for layer in layers}
    with torch.no_grad():
        stacks = {
            name: nearest_permutation(module.stack())[: found[name]]
            for name, module in network.named_modules()
            if isinstance(module, Convolution) and found.get(name)
        }
    return network, Learning(layers, ways.of(stacks))


def shown(data: LabelledImages, law: Transform, seed: int) -> LabelledImages:
    """Training images as a network sees them, at most as many as stacks are learned from."""
    seen = freeze(sample(data, LIFTING_IMAGES, seed), law, seed)
    return replace(seen, images=Standardise(data.images)(seen.images))


class _Ways:
    """Keeps matrices of some steps of every round of the search."""

    def __init__(self) -> None:
        self._rounds: dict[str, list[list[Tensor]]] = defaultdict(list)
        self._last: dict[str, list[Tensor]] = defaultdict(list)

    def watch(self, layer: str, step: int, R: Float[Tensor, "S D D"]) -> None:
        """See one step of the search for a layer; it keeps the last of each round as well."""
        if step == 0:
            self._rounds[layer].append([])
            self._last[layer].append(R)
        if step in STEPS_KEPT:
            self._rounds[layer][-1].append(R)
        self._last[layer][-1] = R

    def of(self, elements: dict[str, Tensor]) -> dict[str, Float[Tensor, "steps D D"]]:
        """The ways of some of these elements [G, D] of each layer, the identity left out."""
        kept = {}
        for layer, sources in elements.items():
            wanted = sources[1:].tolist()
            for steps, last in zip(self._rounds[layer], self._last[layer], strict=True):
                for place, end in enumerate(nearest_permutation(last).tolist()):
                    count = len(sources) - 1 - len(wanted)
                    if end in wanted and count < _KEPT_ELEMENTS:
                        wanted.remove(end)
                        exact = one_hot(torch.tensor(end), len(end)).to(last)
                        way = [*(R[place] for R in (*steps, last)), exact]
                        kept[f"{layer}.{count}"] = torch.stack(way).contiguous()
        return kept
