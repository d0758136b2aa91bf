"""From a configuration to a network."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from experiments.settings import Kind, NetworkConfig
from symshare.data import LabelledImages
from symshare.groups import Action
from symshare.layers import GroupConv2d, LiftConv2d
from symshare.models import (
    CIFAR10,
    MNIST,
    Architecture,
    GroupCNN,
    GroupNetwork,
    GroupResNet,
    ResidualArchitecture,
    wscnn,
)
from symshare.representations import (
    Birkhoff,
    Fixed,
    Gated,
    Kronecker,
    Representation,
    RowStochastic,
    Sinkhorn,
    Unconstrained,
)
from symshare.representations.starts import random_permutations, with_identity

__all__ = ["channels", "disk", "network"]


def network(config: NetworkConfig, action: Action, data: LabelledImages) -> GroupNetwork:
    """The network of a configuration, for images of this size and these classes.

    Args:
        config: which network.
        action: its elements or dictionary; without a dictionary, the identity alone.
        data: images as the network will see them.
    """
    _, in_channels, *size = data.images.shape
    classes, image_size = len(data.classes), (size[0], size[1])
    if config.architecture == "residual":
        residual = replace(CIFAR10, lifting_padding=config.lifting_padding)
        stacks = _stacks(config, action, residual)
        C = channels(config, stacks[0].group_size)
        net = GroupResNet(residual, in_channels, classes, C, stacks, image_size)
    else:
        shape = replace(MNIST, norm=config.norm)
        stacks = _stacks(config, action, shape)
        C = channels(config, stacks[0].group_size)
        net = GroupCNN(shape, in_channels, classes, C, stacks, image_size)
    if config.weights == "published":
        _start_as_published(net, config.kind)
    return net


def channels(config: NetworkConfig, group_size: int) -> int:
    """Channels of a block whose layers have this many elements.

    >>> [channels(NetworkConfig(width=64), size) for size in (1, 4, 8)]
    [64, 32, 23]
    """
    return max(1, round(config.width / group_size**0.5))


def disk(kernel_size: int) -> Float[Tensor, " P"]:
    """1 for taps whose centre is within half a kernel of the middle, else 0.

    >>> [int(disk(size).sum()) for size in (3, 5, 7)]
    [9, 21, 37]
    """
    offset = torch.arange(kernel_size) - (kernel_size - 1) / 2
    inside = offset[:, None].square() + offset.square() <= (kernel_size / 2) ** 2
    return inside.flatten().to(torch.get_default_dtype())


def _start_as_published(net: GroupNetwork, kind: Kind) -> None:
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


def _stacks(
    config: NetworkConfig, action: Action, shape: Architecture | ResidualArchitecture
) -> list[Representation]:
    """A representation for every convolution, the lifting one first."""
    if config.mask == "disk":
        lifting, hidden = _on_disk(action, shape.kernel_size)
        return [lifting, *[hidden] * (shape.convolutions - 1)]
    if config.kind in _ONE_FOR_ALL:
        return [_ONE_FOR_ALL[config.kind](config, action, shape.kernel_size)] * shape.convolutions
    if config.kind == "sinkhorn-near":
        hidden = action.regular(shape.kernel_size)
        lifting = Sinkhorn.near(action.lift(shape.kernel_size))
        return [lifting, *(Sinkhorn.near(hidden) for _ in range(shape.convolutions - 1))]
    return wscnn(shape, config.elements, partial(_FREE[config.kind], config))


def _on_disk(action: Action, kernel_size: int) -> tuple[Representation, Representation]:
    """Known elements that read no tap outside the disk, for lifting and for group layers."""
    inside = disk(kernel_size)
    lifting, hidden = action.lift(kernel_size), action.regular(kernel_size)
    return Fixed(lifting * inside), Fixed(hidden * inside.repeat(len(action)))


def _kronecker(config: NetworkConfig, action: Action, kernel_size: int) -> Representation:
    return Kronecker.from_action(action, kernel_size, learn=True)


def _birkhoff(config: NetworkConfig, action: Action, kernel_size: int) -> Representation:
    init: Literal["sharp", "paper"] = "paper" if config.init == "paper" else "sharp"
    return Birkhoff(action, config.elements, anchor=config.anchor, init=init)


_ONE_FOR_ALL: dict[str, Callable[[NetworkConfig, Action, int], Representation]] = {
    "cnn": lambda config, action, kernel_size: Fixed(action),
    "gcnn": lambda config, action, kernel_size: Fixed(action),
    "gated": lambda config, action, kernel_size: Gated(action),
    "birkhoff": _birkhoff,
    "kronecker": _kronecker,
}


def _sinkhorn(config: NetworkConfig, elements: int, positions: int) -> Representation:
    return Sinkhorn(
        elements,
        positions,
        anchor=config.anchor,
        init=config.init,
        iterations=config.iterations,
    )


def _frozen(config: NetworkConfig, elements: int, positions: int) -> Representation:
    return Fixed(with_identity(random_permutations(elements - 1, positions)))


_FREE: dict[str, Callable[[NetworkConfig, int, int], Representation]] = {
    "sinkhorn": _sinkhorn,
    "frozen-random": _frozen,
    "row-stochastic": lambda config, elements, positions: RowStochastic(
        elements, positions, anchor=config.anchor, init=config.init
    ),
    "unconstrained": lambda config, elements, positions: Unconstrained(
        elements, positions, anchor=config.anchor, init=config.init
    ),
}
