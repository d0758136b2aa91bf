"""Batch norm in eval mode: one scale and one shift for each channel."""

from typing import Any, NamedTuple

from torch import Tensor, nn

from symshare.layers import GroupBatchNorm

__all__ = ["ChannelMap", "channel_map", "is_batch_norm"]

_KINDS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm, GroupBatchNorm)


class ChannelMap(NamedTuple):
    """What each channel is multiplied by, [C], and what is then added, [C], in float64."""

    scale: Tensor
    shift: Tensor


def is_batch_norm(module: nn.Module, channels: int) -> bool:
    """Whether this normalises that many channels with fixed statistics."""
    if type(module) not in _KINDS or module.training:
        return False
    mean = module.running_mean
    return isinstance(mean, Tensor) and len(mean) == channels


def channel_map(norm: Any) -> ChannelMap:
    """The map of a batch norm with fixed statistics.

    >>> norm = nn.BatchNorm2d(2, eps=0.0).eval()
    >>> norm.running_mean.fill_(3.0), norm.running_var.fill_(4.0)
    (tensor([3., 3.]), tensor([4., 4.]))
    >>> [x.tolist() for x in channel_map(norm)]
    [[0.5, 0.5], [-1.5, -1.5]]
    """
    scale = (norm.running_var.double() + norm.eps).rsqrt()
    if norm.weight is not None:
        scale = scale * norm.weight.double()
    shift = -norm.running_mean.double() * scale
    if norm.bias is not None:
        shift = shift + norm.bias.double()
    return ChannelMap(scale, shift)
