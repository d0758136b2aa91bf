"""The few plain modules of a baked model that `torch.nn` has no equivalent for.

They hold numbers that were learned or measured once, as buffers; nothing in them is shared or
trained. No forward pass depends on values or shapes, so that `torch.fx` and `torch.jit.script`
read them too; what does not fit is met by torch's own error.
"""

from torch import Tensor, nn
from torch.nn.functional import batch_norm

from symshare.layers.norms import normalise
from symshare.layers.pooling import group_mean


class Frozen(nn.Module):
    """A tensor that a module of the user asks for: a baked stack R or measure."""

    value: Tensor

    def __init__(self, value: Tensor):
        super().__init__()
        self.register_buffer("value", value)

    def forward(self) -> Tensor:
        return self.value


class GroupMean(nn.Module):
    """Mean over the group axis, [B, C, G, ...] to [B, C, ...], by :func:`group_mean`."""

    weights: Tensor | None

    def __init__(self, weights: Tensor | None):
        super().__init__()
        self.register_buffer("weights", weights)

    def forward(self, f: Tensor) -> Tensor:
        return group_mean(f, self.weights)


class GroupMax(nn.Module):
    """Maximum over the group axis: [B, C, G, ...] to [B, C, ...]."""

    def forward(self, f: Tensor) -> Tensor:
        return f.amax(2)


class OverSpace(nn.Module):
    """A pooling of `torch.nn` on maps with a group axis: [B, C, G, *space] to [B, C, G, *out]."""

    def __init__(self, pool: nn.Module):
        super().__init__()
        self.pool = pool

    def forward(self, f: Tensor) -> Tensor:
        return self.pool(f.flatten(1, 2)).unflatten(1, f.shape[1:3])


class Normalise(nn.Module):
    """Standardise each sample of a map on the group by :func:`normalise`: no parameters."""

    weights: Tensor | None

    def __init__(self, weights: Tensor | None, across_channels: bool, eps: float):
        super().__init__()
        self.register_buffer("weights", weights)
        self.across_channels = across_channels
        self.eps = eps

    def forward(self, f: Tensor) -> Tensor:
        return normalise(f, self.weights, self.across_channels, self.eps)

    def extra_repr(self) -> str:
        return f"across_channels={self.across_channels}, eps={self.eps}"


class FixedBatchNorm(nn.Module):
    """Batch norm with running statistics, in eval mode, of any number of axes behind channels."""

    mean: Tensor
    variance: Tensor
    scale: Tensor | None
    shift: Tensor | None

    def __init__(self, norm: nn.BatchNorm1d | nn.SyncBatchNorm):
        super().__init__()
        values = norm.running_mean, norm.running_var, norm.weight, norm.bias
        for name, value in zip(("mean", "variance", "scale", "shift"), values, strict=True):
            self.register_buffer(name, None if value is None else value.detach().clone())
        self.eps = norm.eps

    def forward(self, f: Tensor) -> Tensor:
        return batch_norm(f, self.mean, self.variance, self.scale, self.shift, eps=self.eps)
