"""Networks as the published code has them, beside those of the library."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from experiments.image_settings import PublishedNetwork
from symshare.data import LabelledImages
from symshare.groups import Action
from symshare.layers import GroupConv2d, LiftConv2d
from symshare.models import GroupNetwork, architecture_of, build_network
from symshare.representations import Fixed, Representation
from symshare.settings import Kind

__all__ = ["disk", "network"]


def network(config: PublishedNetwork, action: Action, data: LabelledImages) -> GroupNetwork:
    """The network of a configuration, for images of this size and these classes.

    Args:
        config: which network.
        action: its elements or dictionary; without a dictionary, the identity alone.
        data: images as the network will see them.
    """
    image = data.images.shape[1:]
    stacks = None
    if config.mask == "disk":
        shape = architecture_of(config, (image[1], image[2]))
        lifting, hidden = _on_disk(action, shape.kernel_size)
        stacks = [lifting, *[hidden] * (shape.convolutions - 1)]
    net = build_network(config, image, len(data.classes), action=action, representations=stacks)
    if config.weights == "published":
        _start_as_published(net, config.kind)
    return net


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


def _on_disk(action: Action, kernel_size: int) -> tuple[Representation, Representation]:
    """Known elements that read no tap outside the disk, for lifting and for group layers."""
    inside = disk(kernel_size)
    lifting, hidden = action.lift(kernel_size), action.regular(kernel_size)
    return Fixed(lifting * inside), Fixed(hidden * inside.repeat(len(action)))
