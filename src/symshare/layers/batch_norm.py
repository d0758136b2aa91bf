"""Batch norm with the measure over the group."""

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.modules.batchnorm import _BatchNorm

from symshare.layers.pooling import group_weights
from symshare.representations import Measure
from symshare.representations.measure import check_gate

__all__ = ["GroupBatchNorm"]


class GroupBatchNorm(_BatchNorm):
    r"""Normalise each channel over batch, group and space.

    .. math:: y = \gamma \frac{f - E f}{\sqrt{V f + \epsilon}} + \beta, \quad
        E f = \sum_g \frac{\mu_g}{\sum_h \mu_h} \operatorname{mean}_{b, x} f(b, g, x)

    `torch.nn.BatchNorm2d` (arXiv:1502.03167) with the group as one more axis and the measure mu
    over it. The running variance is unbiased: in n/(n - 1), n counts the elements as
    (sum mu)^2 / (sum mu^2), which is G for equal weights.

    Its parameters and buffers are torch's, and it counts as a batch norm where torch looks for
    one. `SyncBatchNorm.convert_sync_batchnorm` knows no gate: it weighs all elements alike.

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
        super().__init__(num_features, eps, momentum, affine, track_running_stats)
        self.gate = gate

    def forward(self, input: Float[Tensor, "B C G *space"]) -> Float[Tensor, "B C G *space"]:
        if input.ndim < 3 or input.shape[1] != self.num_features:
            raise ValueError(
                f"GroupBatchNorm: expected a map [B, {self.num_features}, G, ...], got "
                f"{tuple(input.shape)}; set num_features to the channels of the layer before"
            )
        return super().forward(input) if self.gate is None else self._weighted(input)

    def _check_input_dim(self, input: Tensor) -> None:
        """Any number of spatial axes goes."""

    def _weighted(self, f: Tensor) -> Tensor:
        per_channel = (1, -1, *(1,) * (f.ndim - 2))
        # Squares overflow in half precision.
        exact = f.to(torch.promote_types(f.dtype, torch.float32))
        if self.training or self.running_mean is None or self.running_var is None:
            mean, variance = self._moments(exact)
        else:
            mean, variance = self.running_mean, self.running_var
        scale = (variance + self.eps).rsqrt()
        y = (exact - mean.view(per_channel)) * scale.view(per_channel)
        if self.weight is not None:
            y = y * self.weight.view(per_channel)
        if self.bias is not None:
            y = y + self.bias.view(per_channel)
        return y.to(f.dtype)

    def _moments(self, f: Tensor) -> tuple[Tensor, Tensor]:
        """Weighted mean and biased variance [C]; moves the running statistics in training."""
        flat = f.flatten(3) if f.ndim > 3 else f.unsqueeze(-1)
        count = flat.shape[0] * flat.shape[-1]
        if count * flat.shape[2] <= 1:
            raise ValueError(
                f"GroupBatchNorm: expected more than one value per channel in training, got "
                f"{tuple(f.shape)}; use a larger batch"
            )
        variances, means = torch.var_mean(flat, (0, 3), correction=0)
        weights = group_weights(self.gate, flat[..., 0]).to(flat.dtype)
        mean = (means * weights).sum(1)
        variance = ((variances + (means - mean[:, None]).square()) * weights).sum(1)
        if self.training and self.track_running_stats:
            self._track(mean.detach(), variance.detach(), weights.detach().square().sum() / count)
        return mean, variance

    def _track(self, mean: Tensor, variance: Tensor, concentration: Tensor) -> None:
        assert self.num_batches_tracked is not None
        assert self.running_mean is not None
        assert self.running_var is not None
        self.num_batches_tracked.add_(1)
        momentum = 1 / self.num_batches_tracked if self.momentum is None else self.momentum
        # With n values of equal weight the concentration is 1/n, and this is n/(n - 1).
        unbiased = variance / (1 - concentration).clamp_min(1e-6)
        self.running_mean.lerp_(mean.to(self.running_mean.dtype), momentum)
        self.running_var.lerp_(unbiased.to(self.running_var.dtype), momentum)
