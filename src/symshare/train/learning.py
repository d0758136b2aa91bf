"""The network of a configuration, whose free stacks may be learned from the images first."""

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from symshare.data import LabelledImages, Transform, freeze, sample
from symshare.models import GroupNetwork
from symshare.moments import LearnedLayer, learned_network
from symshare.moments.network import LIFTING_IMAGES
from symshare.settings import NetworkConfig
from symshare.train.loop import Standardise

Network = TypeVar("Network", bound=GroupNetwork)
Config = TypeVar("Config", bound=NetworkConfig)


def network_of(
    build: Callable[[Config], Network],
    config: Config,
    data: LabelledImages,
    law: Transform,
    seed: int,
) -> tuple[Network, tuple[LearnedLayer, ...]]:
    """Build a network; with `init: moments` learn its stacks from what training will show it.

    Args:
        build: makes the network of a configuration.
        config: which network.
        data: training images.
        law: their random transformation, drawn once here.
        seed: of the images that are read, their transformation and the search.

    Returns:
        The network, and what was learned for each layer; nothing where nothing was to be learned.

    Raises:
        ValueError: where the images have more elements than the configuration allows.
    """
    if config.init != "moments":
        return build(config), ()
    seen = freeze(sample(data, LIFTING_IMAGES, seed), law, seed)
    images = Standardise(data.images)(seen.images)
    return learned_network(
        lambda elements: build(replace(config, elements=elements, init="sharp")),
        images,
        seen.labels,
        slots=config.elements,
        seed=seed,
    )
