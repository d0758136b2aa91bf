"""Each layer of symshare, and the network of `symshare.models`, as plain modules."""

from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, TypeGuard, cast

import torch
from torch import Tensor, nn

from symshare.convert.constants import FixedBatchNorm, GroupMax, GroupMean, Normalise, OverSpace
from symshare.convert.modules import observed
from symshare.layers import (
    GroupBatchNorm,
    GroupHead,
    GroupInstanceNorm,
    GroupLayerNorm,
    GroupLinear,
    GroupMaxPool,
    GroupPool,
    SpatialAvgPool,
    SpatialMaxPool,
)
from symshare.layers.batch_norm import SyncBatchNorm
from symshare.layers.convolution import Convolution
from symshare.layers.pooling import shares
from symshare.models import GroupCNN

_BATCH_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm, SyncBatchNorm)
_NORMS = (GroupBatchNorm, GroupInstanceNorm, GroupLayerNorm)


def plain(layer: nn.Module, norm: nn.Module | None = None) -> nn.Module:
    """Plain modules with the input, output and shapes of a layer, into which a norm is folded.

    Raises:
        ValueError: for a subclass whose forward pass is not the layer's, or a layer with hooks.
    """
    if "forward" in vars(layer) or not type(layer).forward.__module__.startswith("symshare."):
        raise ValueError(
            f"bake: {type(layer).__name__} has a forward pass of its own, which is not known to "
            "be that of the layer it derives from; hold the layer as a submodule instead"
        )
    if observed(layer) or (isinstance(layer, GroupBatchNorm) and observed(layer.norm)):
        raise ValueError(
            f"bake: {type(layer).__name__} has forward hooks, which may change what it computes "
            "and which plain modules would not have; remove them first (those of torch that "
            "compute weights, such as pruning, may stay)"
        )
    if norm is not None:
        return _drop_in(layer, norm)
    return next(rule for kind, rule in _RULES.items() if isinstance(layer, kind))(layer)


def _convolution(layer: Convolution, norm: nn.Module | None) -> nn.Module:
    """The convolution of a layer on maps [B, I*K, ...] to [B, O*G, ...] without a group axis."""
    kernel = layer.kernel()
    G = layer.representation.group_size
    bias = None if layer.bias is None else layer.bias.repeat_interleave(G)
    if norm is not None:
        kernel, bias = _fold(layer, kernel, bias, norm)
    inputs = kernel.shape[0] if layer.transposed else kernel.shape[1] * layer.groups
    names = ["stride", "padding", "padding_mode", "dilation", "groups"]
    options = {name: getattr(layer, name) for name in names}
    if layer.transposed:
        options["output_padding"] = layer.output_padding
    uneven = layer.padding == "same" and not layer.geometry.centred
    if uneven and layer.padding_mode == "zeros":
        options["padding"] = 0  # torch pads too, but warns about it
    kind = getattr(nn, f"Conv{'Transpose' if layer.transposed else ''}{layer.dims}d")
    sizes = (inputs, layer.out_channels * G, layer.kernel_size)
    convolution = _filled(kind, sizes, kernel, bias, **options)
    if options["padding"] == layer.padding:
        return convolution
    # Padding counts from the last axis.
    margins = [n for pair in reversed(layer.geometry.margins) for n in pair]
    return nn.Sequential(getattr(nn, f"ZeroPad{layer.dims}d")(tuple(margins)), convolution)


def _filled(
    kind: Any, sizes: tuple[Any, ...], weight: Tensor, bias: Tensor | None, **options: Any
) -> Any:
    """A module of `torch.nn` with copies of these parameters; draws no random numbers."""
    options |= {"bias": bias is not None, "device": weight.device, "dtype": weight.dtype}
    module: Any = nn.utils.skip_init(kind, *sizes, **options)
    assert module.weight.shape == weight.shape, (module.weight.shape, weight.shape)
    with torch.no_grad():
        module.weight.copy_(weight)
        if bias is not None:
            module.bias.copy_(bias)
    return module


def _drop_in(layer: Any, norm: nn.Module | None = None) -> nn.Module:
    """A convolution with the shapes of its layer, [B, I, K, ...] to [B, O, G, ...]."""
    convolution = _convolution(layer, norm)
    split = nn.Unflatten(1, (layer.out_channels, layer.representation.group_size))
    if layer.lifting:
        return nn.Sequential(convolution, split)
    return nn.Sequential(nn.Flatten(1, 2), convolution, split)


def fixed_norm(module: nn.Module, channels: int) -> Any:
    """The batch norm of torch that a module is or holds, if it maps channels by fixed numbers."""
    norm = module.norm if type(module) is GroupBatchNorm else module
    if type(norm) not in _BATCH_NORMS or norm.training or observed(module) or observed(norm):
        return None
    mean = norm.running_mean
    return norm if isinstance(mean, Tensor) and len(mean) == channels else None


def _fold(
    layer: Convolution, kernel: Tensor, bias: Tensor | None, module: nn.Module
) -> tuple[Tensor, Tensor]:
    """Kernel and bias [O*G] that include the batch norm over O behind the layer."""
    norm = fixed_norm(module, layer.out_channels)
    scale = (norm.running_var.double() + norm.eps).rsqrt()
    if norm.weight is not None:
        scale = scale * norm.weight.double()
    shift = -norm.running_mean.double() * scale
    if norm.bias is not None:
        shift = shift + norm.bias.double()
    G = layer.representation.group_size
    scale, shift = scale.repeat_interleave(G), shift.repeat_interleave(G)
    taps = (1,) * layer.dims
    if layer.transposed:  # [groups * inputs, outputs of one group, ...]
        blocks = kernel.double().unflatten(0, (layer.groups, -1))
        folded = (blocks * scale.view(layer.groups, 1, -1, *taps)).flatten(0, 1)
    else:
        folded = kernel.double() * scale.view(-1, 1, *taps)
    if bias is not None:
        shift = shift + bias.double() * scale
    return folded.to(kernel.dtype), shift.to(kernel.dtype)


def _linear(layer: GroupLinear) -> nn.Module:
    kernel = layer.kernel()
    O, G, I, D = kernel.shape
    weight = kernel.reshape(O * G, I * D)
    bias = None if layer.bias is None else layer.bias.repeat_interleave(G)
    linear = _filled(nn.Linear, (I * D, O * G), weight, bias)
    return nn.Sequential(nn.Flatten(1, 2), linear, nn.Unflatten(1, (O, G)))


def _on_channels(layer: GroupHead) -> nn.Linear:
    """One linear layer on channels and elements together, [B, C*G] to [B, K]."""
    weight = layer.moved(layer.linear.weight).movedim(0, -1).flatten(1) / len(layer.label_map)
    bias = layer.moved(layer.linear.bias).mean(0)
    return _filled(nn.Linear, (weight.shape[1], weight.shape[0]), weight, bias)


def _head(layer: GroupHead) -> nn.Module:
    return nn.Sequential(nn.Flatten(1, 2), _on_channels(layer))


def _batch_norm(layer: GroupBatchNorm | SyncBatchNorm) -> nn.Module:
    norm = layer.norm if isinstance(layer, GroupBatchNorm) else layer
    if norm.running_mean is None:
        raise ValueError(
            f"bake: {type(layer).__name__}(track_running_stats=False) normalises by the batch at "
            "hand, so it is no constant; use GroupInstanceNorm, or track statistics"
        )
    return FixedBatchNorm(norm)


_RULES: dict[type[nn.Module], Callable[[Any], nn.Module]] = {
    Convolution: _drop_in,
    GroupBatchNorm: _batch_norm,
    GroupHead: _head,
    GroupInstanceNorm: lambda layer: Normalise(shares(layer.gate), False, layer.eps),
    GroupLayerNorm: lambda layer: Normalise(shares(layer.gate), True, layer.eps),
    GroupLinear: _linear,
    GroupMaxPool: lambda layer: GroupMax(),
    GroupPool: lambda layer: GroupMean(shares(layer.gate)),
    SpatialAvgPool: lambda layer: OverSpace(layer.pool),
    SpatialMaxPool: lambda layer: OverSpace(layer.pool),
    SyncBatchNorm: _batch_norm,
}

LAYERS = tuple(_RULES)
"""Every kind of layer that is replaced."""


def is_known_network(module: nn.Module) -> TypeGuard[GroupCNN]:
    """Whether this is a `GroupCNN` that nobody changed, and that nothing looks into."""
    return (
        type(module) is GroupCNN
        and not any(observed(part) or "forward" in vars(part) for part in module.modules())
        and all(_is_ours(layer) for layer in (module.lifting, *module.hidden))
        and all(type(norm) in _NORMS for norm in module.norms)
        and type(module.pool) is GroupPool
        and module.places is None
        and type(module.head) in (nn.Linear, GroupHead)
    )


def _is_ours(layer: nn.Module) -> bool:
    """Whether a convolution is of no class derived from ours."""
    return isinstance(layer, Convolution) and type(layer).__module__ == Convolution.__module__


def plain_network(network: GroupCNN, folded: Mapping[nn.Module, nn.Module]) -> nn.Sequential:
    """Convolutions, norms, ReLU, mean over space, head; the mean over the group is in the head.

    `folded` has the batch norm to fold into each convolution.
    """
    modules: OrderedDict[str, nn.Module] = OrderedDict()
    head, G = network.head, network.stacks()[-1].group_size
    convolutions = cast("list[Convolution]", [network.lifting, *network.hidden])
    for i, (convolution, norm) in enumerate(zip(convolutions, network.norms, strict=True)):
        modules[f"conv{i}"] = _convolution(convolution, folded.get(convolution))
        if convolution not in folded:
            elements = convolution.representation.group_size
            modules[f"norm{i}"] = _norm(norm, convolution.out_channels, elements)
        modules[f"relu{i}"] = nn.ReLU()
    modules["mean"] = getattr(nn, f"AdaptiveAvgPool{network.lifting.dims}d")(1)
    modules["flatten"] = nn.Flatten()
    if isinstance(head, GroupHead):
        modules["head"] = _on_channels(head)
        return nn.Sequential(modules)
    weights = shares(network.pool.gate)
    if weights is None:
        weights = head.weight.new_full((G,), 1 / G)
    weight = (head.weight.unsqueeze(-1) * weights).flatten(1)
    modules["head"] = _filled(nn.Linear, (weight.shape[1], head.out_features), weight, head.bias)
    return nn.Sequential(modules)


def _norm(norm: Any, channels: int, group_size: int) -> nn.Module:
    """A norm on maps [B, C*G, *space]."""
    groups = {GroupLayerNorm: 1, GroupInstanceNorm: channels}.get(type(norm))
    if groups is None or norm.gate is not None:
        split = nn.Unflatten(1, (channels, group_size))
        return nn.Sequential(split, plain(norm), nn.Flatten(1, 2))
    return nn.GroupNorm(groups, channels * group_size, norm.eps, affine=False)
