"""The network of `symshare.models` as one sequence of plain modules, without a group axis."""

from collections import OrderedDict
from collections.abc import Mapping
from typing import TypeGuard, cast

from torch import nn

from symshare.convert.modules import observed
from symshare.convert.plain import filled, plain, plain_convolution
from symshare.layers import (
    GroupBatchNorm,
    GroupConv2d,
    GroupInstanceNorm,
    GroupLayerNorm,
    GroupPool,
    LiftConv2d,
)
from symshare.layers.convolution import Convolution
from symshare.layers.pooling import shares
from symshare.models import GroupCNN

__all__ = ["is_known_network", "plain_network"]

_NORMS = (GroupBatchNorm, GroupInstanceNorm, GroupLayerNorm)


def is_known_network(module: nn.Module) -> TypeGuard[GroupCNN]:
    """Whether this is a `GroupCNN` that nobody changed, and that nothing looks into."""
    return (
        type(module) is GroupCNN
        and not any(observed(part) or "forward" in vars(part) for part in module.modules())
        and type(module.lifting) is LiftConv2d
        and all(type(layer) is GroupConv2d for layer in module.hidden)
        and all(type(norm) in _NORMS for norm in module.norms)
        and type(module.pool) is GroupPool
        and type(module.head) is nn.Linear
    )


def plain_network(network: GroupCNN, folded: Mapping[nn.Module, nn.Module]) -> nn.Sequential:
    """Convolutions, norms, ReLU, mean over space, head; the mean over the group is in the head.

    Args:
        network: one that :func:`is_known_network`.
        folded: the batch norm to fold into each convolution.
    """
    modules: OrderedDict[str, nn.Module] = OrderedDict()
    convolutions = cast("list[Convolution]", [network.lifting, *network.hidden])
    G = network.stacks()[-1].group_size
    for i, (convolution, norm) in enumerate(zip(convolutions, network.norms, strict=True)):
        modules[f"conv{i}"] = plain_convolution(convolution, folded.get(convolution))
        if convolution not in folded:
            elements = convolution.representation.group_size
            modules[f"norm{i}"] = _norm(norm, convolution.out_channels, elements)
        modules[f"relu{i}"] = nn.ReLU()
    modules["mean"] = nn.AdaptiveAvgPool2d(1)
    modules["flatten"] = nn.Flatten()
    modules["head"] = _head(network.pool, network.head, G)
    return nn.Sequential(modules)


def _norm(norm: nn.Module, channels: int, group_size: int) -> nn.Module:
    """A norm on maps [B, C*G, H, W]."""
    maps = channels * group_size
    if type(norm) is GroupLayerNorm and norm.gate is None:
        return nn.GroupNorm(1, maps, norm.eps, affine=False)
    if type(norm) is GroupInstanceNorm and norm.gate is None:
        return nn.GroupNorm(channels, maps, norm.eps, affine=False)
    return nn.Sequential(nn.Unflatten(1, (channels, group_size)), plain(norm), nn.Flatten(1, 2))


def _head(pool: GroupPool, head: nn.Linear, group_size: int) -> nn.Linear:
    """The head behind the mean over the group, on vectors [B, C*G]."""
    weights = shares(pool.gate)
    if weights is None:
        weights = head.weight.new_full((group_size,), 1 / group_size)
    weight = (head.weight.unsqueeze(-1) * weights).flatten(1)
    return filled(nn.Linear, (weight.shape[1], head.out_features), weight, head.bias)
