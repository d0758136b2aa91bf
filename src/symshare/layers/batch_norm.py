"""Batch norm with the measure over the group; statistics of one process, or of all of them."""

from typing import Any, cast

import torch
from jaxtyping import Float
from torch import Tensor, distributed, nn

from symshare.layers.pooling import check_map, shares
from symshare.representations import Measure
from symshare.representations.measure import check_gate
from symshare.representations.state import Versioned

_Norm = nn.BatchNorm1d | nn.SyncBatchNorm


class GroupBatchNorm(Versioned):
    r"""Normalise each channel over batch, group and space.

    .. math:: y = \gamma \frac{f - E f}{\sqrt{V f + \epsilon}} + \beta, \quad
        E f = \sum_g \frac{\mu_g}{\sum_h \mu_h} \operatorname{mean}_{b, x} f(b, g, x)

    `torch.nn.BatchNorm2d` (arXiv:1502.03167) with the group as one more axis and the measure mu
    over it. The running variance is unbiased: in n/(n - 1), n counts the elements as
    (sum mu)^2 / (sum mu^2), which is G for equal weights.

    Parameters, running statistics and options stand in the batch norm of torch that it holds,
    `norm`. So whatever looks for batch norms finds one: `torch.optim.swa_utils.update_bn` sets its
    statistics, and after `torch.nn.SyncBatchNorm.convert_sync_batchnorm`, or :func:`synchronise`,
    the statistics are those of all processes, with the measure.

    Args:
        num_features: channels C.
        eps: added to the variance.
        momentum: weight of a new batch in the running statistics; None for their plain mean.
        affine: whether to learn gamma (`weight`) and beta (`bias`), one of each for a channel.
        track_running_stats: whether to keep running statistics and use them in evaluation.
        gate: the measure of the representation before it; None weighs all elements alike.

    Raises:
        ValueError: if the input does not fit.

    >>> y = GroupBatchNorm(3)(torch.randn(2, 3, 4, 5, 5))
    >>> bool(y.mean((0, 2, 3, 4)).abs().max() < 1e-5)
    True
    """

    # Before 3 this was a batch norm of torch, whose own version is 2.
    _version = 3

    norm: _Norm

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        gate: Measure | None = None,
    ):
        check_gate("GroupBatchNorm", gate)
        super().__init__()
        self.norm = nn.BatchNorm1d(num_features, eps, momentum, affine, track_running_stats)
        self.gate = gate
        self.register_load_state_dict_pre_hook(_read_older)

    def forward(self, f: Float[Tensor, "B C G *space"]) -> Float[Tensor, "B C G *space"]:
        if f.ndim < 3 or f.shape[1] != self.norm.num_features:
            raise ValueError(
                f"GroupBatchNorm: expected a map [B, {self.norm.num_features}, G, ...], got "
                f"{tuple(f.shape)}; set num_features to the channels of the layer before"
            )
        if self.gate is None:
            return self.norm(f.flatten(2)).reshape(f.shape)
        check_map("GroupBatchNorm", f, self.gate)
        return _normalised(self.norm, f, self.gate)


class SyncBatchNorm(nn.BatchNorm1d):
    """Batch norm over all processes and any axes of space; :func:`synchronise` makes it.

    Not a `torch.nn.SyncBatchNorm`, which `DistributedDataParallel` refuses on CPUs.

    Attributes:
        process_group: the processes that share statistics; None for all.
    """

    process_group: distributed.ProcessGroup | None

    def forward(self, input: Tensor) -> Tensor:
        if _synchronised(self):
            return _normalised(self, input.unsqueeze(2), None).squeeze(2)
        return super().forward(input.flatten(2) if input.ndim > 2 else input).reshape(input.shape)


def synchronise(
    module: nn.Module, process_group: distributed.ProcessGroup | None = None
) -> nn.Module:
    """Let all batch norms below a module use the statistics of all processes.

    As `torch.nn.SyncBatchNorm.convert_sync_batchnorm`, but not for accelerators alone. Several
    processes then compute what one would that had all their samples in one batch, however many
    each has. Call it before `DistributedDataParallel`, on every process; without
    `torch.distributed.init_process_group` it changes nothing. Names in the state dict stay.

    Args:
        module: its :class:`GroupBatchNorm` and torch's own batch norms are changed in place.
        process_group: the processes that share statistics; None for all.

    Returns:
        The module; a new one where it is a batch norm of torch itself.

    >>> synchronise(nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3)))[1]
    SyncBatchNorm(3, eps=1e-05, momentum=0.1, affine=True, bias=True, track_running_stats=True)
    """
    module = nn.SyncBatchNorm.convert_sync_batchnorm(module, process_group)
    for norm in module.modules():
        if type(norm) is nn.SyncBatchNorm:
            cast(Any, norm).__class__ = SyncBatchNorm
    return module


def _synchronised(norm: nn.Module) -> bool:
    """Whether the statistics of the next batch are to be those of all processes."""
    return (
        isinstance(norm, SyncBatchNorm | nn.SyncBatchNorm)
        and norm.training
        and distributed.is_available()
        and distributed.is_initialized()
    )


def _normalised(norm: _Norm, f: Tensor, gate: Measure | None) -> Tensor:
    per_channel = (1, -1, *(1,) * (f.ndim - 2))
    # Squares overflow in half precision.
    exact = f.to(torch.promote_types(f.dtype, torch.float32))
    if norm.training or norm.running_mean is None or norm.running_var is None:
        mean, variance = _moments(norm, exact, gate)
    else:
        mean, variance = norm.running_mean, norm.running_var
    scale = (variance + norm.eps).rsqrt()
    y = (exact - mean.view(per_channel)) * scale.view(per_channel)
    if norm.weight is not None:
        y = y * norm.weight.view(per_channel)
    if norm.bias is not None:
        y = y + norm.bias.view(per_channel)
    return y.to(f.dtype)


def _moments(norm: _Norm, f: Tensor, gate: Measure | None) -> tuple[Tensor, Tensor]:
    """Weighted mean and biased variance [C]; moves the running statistics in training."""
    flat = f.flatten(3) if f.ndim > 3 else f.unsqueeze(-1)
    count: int | Tensor = flat.shape[0] * flat.shape[-1]
    if _synchronised(norm):
        count, means, variances = _moments_of_all(flat, norm.process_group)
    elif count * flat.shape[2] <= 1:
        raise ValueError(
            f"GroupBatchNorm: expected more than one value per channel in training, got "
            f"{tuple(f.shape)}; use a larger batch"
        )
    else:
        variances, means = torch.var_mean(flat, (0, 3), correction=0)
    weights = shares(gate)
    weights = means.new_full(means.shape[1:], 1 / flat.shape[2]) if weights is None else weights
    mean = (means * weights).sum(1)
    variance = ((variances + (means - mean[:, None]).square()) * weights).sum(1)
    if norm.training and norm.track_running_stats:
        _track(norm, mean.detach(), variance.detach(), weights.detach().square().sum() / count)
    return mean, variance


def _moments_of_all(flat: Tensor, group: Any) -> tuple[Tensor, Tensor, Tensor]:
    """Samples, and mean and biased variance [C, G], over the processes; some may have none."""
    count = torch.tensor(flat.shape[0] * flat.shape[-1], device=flat.device)
    distributed.all_reduce(count, group=group)
    means = _SumOfAll.apply(flat.sum((0, 3)), group) / count
    squares = (flat - means.unsqueeze(-1)).square()
    return count, means, _SumOfAll.apply(squares.sum((0, 3)), group) / count


class _SumOfAll(torch.autograd.Function):
    """The sum over processes; every one's loss depends on it, so gradients are summed too."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, group: Any) -> Tensor:
        ctx.group = group
        total = x.clone(memory_format=torch.contiguous_format)
        distributed.all_reduce(total, group=group)
        return total

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        return _SumOfAll.apply(*gradients, ctx.group), None


def _track(norm: _Norm, mean: Tensor, variance: Tensor, concentration: Tensor) -> None:
    assert norm.num_batches_tracked is not None
    assert norm.running_mean is not None
    assert norm.running_var is not None
    norm.num_batches_tracked.add_(1)
    momentum = 1 / norm.num_batches_tracked if norm.momentum is None else norm.momentum
    # With n values of equal weight the concentration is 1/n, and this is n/(n - 1).
    unbiased = variance / (1 - concentration).clamp_min(1e-6)
    norm.running_mean.lerp_(mean.to(norm.running_mean.dtype), momentum)
    norm.running_var.lerp_(unbiased.to(norm.running_var.dtype), momentum)


def _read_older(
    module: nn.Module, state: dict[str, Any], prefix: str, metadata: Any, *rest: Any
) -> None:
    """Find the tensors of torch's batch norm where they stood before version 3."""
    for name in ("weight", "bias", "running_mean", "running_var", "num_batches_tracked"):
        if prefix + name in state:
            state[f"{prefix}norm.{name}"] = state.pop(prefix + name)
