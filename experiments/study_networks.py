"""The networks of the studies: those of the library, the paper's, ablations, published starts."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import torch
from jaxtyping import Float
from torch import Tensor, nn

from experiments.ablations import RowStochastic, Unconstrained
from experiments.image_settings import StudyNetwork
from experiments.residual import CIFAR10, GroupResNet
from symshare.data import LabelledImages
from symshare.groups import Action
from symshare.layers import GroupConv2d, LiftConv2d
from symshare.models import (
    GroupNetwork,
    architecture_of,
    build_network,
    free_parameters,
    matched_channels,
    representations_of,
    wscnn,
)
from symshare.models.building import Shape
from symshare.representations import Fixed, Representation
from symshare.representations.starts import Init, random_permutations, with_identity

__all__ = ["disk", "network"]


def network(config: StudyNetwork, action: Action, data: LabelledImages) -> GroupNetwork:
    """The network of a configuration, for images of this size and these classes.

    Args:
        config: which network.
        action: its elements or dictionary; without a dictionary, the identity alone.
        data: images as the network will see them.
    """
    image, classes = data.images.shape[1:], len(data.classes)
    size = (image[1], image[2])
    residual = config.architecture == "residual"
    shape = replace(CIFAR10, lifting_padding=config.lifting_padding) if residual else None
    stacks = _representations(config, action, shape or architecture_of(config, size))
    net: GroupNetwork
    if shape is None:
        net = build_network(config, image, classes, representations=stacks)
    else:
        reference = free_parameters(shape, image[0], classes, config.width)
        C = matched_channels(shape, image[0], classes, stacks[0].group_size, reference)
        net = GroupResNet(shape, image[0], classes, C, stacks, size)
    if config.weights == "published":
        _start_as_published(net, config.kind)
    return net


def _representations(config: StudyNetwork, action: Action, shape: Shape) -> list[Representation]:
    """A representation for every convolution, the lifting one first."""
    if config.mask == "disk":
        lifting, hidden = _on_disk(action, shape.kernel_size)
        return [lifting, *[hidden] * (shape.convolutions - 1)]
    if config.kind not in _ABLATIONS:
        return representations_of(config, action, shape)
    assert config.init != "moments"  # which only the library's free stacks start from
    make = _ABLATIONS[config.kind]
    return wscnn(shape, config.elements, partial(make, config.anchor, config.init))


_ABLATIONS: dict[str, Callable[[bool, Init, int, int], Representation]] = {
    "row-stochastic": lambda anchor, init, G, D: RowStochastic(G, D, anchor=anchor, init=init),
    "unconstrained": lambda anchor, init, G, D: Unconstrained(G, D, anchor=anchor, init=init),
    "frozen-random": lambda anchor, init, G, D: Fixed(with_identity(random_permutations(G - 1, D))),
}


def disk(kernel_size: int) -> Float[Tensor, " P"]:
    """1 for taps whose centre is within half a kernel of the middle, else 0.

    >>> [int(disk(size).sum()) for size in (3, 5, 7)]
    [9, 21, 37]
    """
    offset = torch.arange(kernel_size) - (kernel_size - 1) / 2
    inside = offset[:, None].square() + offset.square() <= (kernel_size / 2) ** 2
    return inside.flatten().to(torch.get_default_dtype())


def _start_as_published(net: GroupNetwork, kind: str) -> None:
    """Start layers as the published code does; plain CNNs and heads stay as they are."""
    layers = [m for m in net.modules() if isinstance(m, LiftConv2d | GroupConv2d)]
    for layer in layers:
        fan_in = layer.theta[0].numel()
        if kind == "gcnn":
            nn.init.normal_(layer.theta, std=2 / fan_in**0.5)
        elif kind == "sinkhorn" and layer is net.lifting:
            nn.init.normal_(layer.theta, std=(3 * fan_in) ** -0.5)
        if kind != "cnn" and layer.bias is not None:
            nn.init.zeros_(layer.bias)


def _on_disk(action: Action, kernel_size: int) -> tuple[Representation, Representation]:
    """Known elements that read no tap outside the disk, for lifting and for group layers."""
    inside = disk(kernel_size)
    lifting, hidden = action.lift(kernel_size), action.regular(kernel_size)
    return Fixed(lifting * inside), Fixed(hidden * inside.repeat(len(action)))
