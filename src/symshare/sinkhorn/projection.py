"""The projection onto doubly stochastic matrices with its exact derivative."""

from math import isfinite
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from symshare.sinkhorn import adaptive, scaling
from symshare.sinkhorn.inputs import (
    adapts,
    at_least_float32,
    check_finite,
    check_square,
    full_precision,
    transforming,
)
from symshare.sinkhorn.scaling import CONVERGED, Scaling, Schedule


class Projected(NamedTuple):
    """What :func:`project` returns.

    Attributes:
        R: doubly stochastic matrices.
        entropy: of each matrix, in nats: the sum of -R log R over its entries.
        potentials: where the next projection may start; not differentiable.
    """

    R: Float[Tensor, "*batch D D"]
    entropy: Float[Tensor, "*batch"]
    potentials: Float[Tensor, "*batch D"]


def project(
    logits: Float[Tensor, "*batch D D"],
    start: Float[Tensor, "*batch D"] | None = None,
    schedule: Schedule = CONVERGED,
) -> Projected:
    r"""The limit of the Sinkhorn operator.

    .. math:: R = \mathrm{diag}(e^f) \, e^\Theta \, \mathrm{diag}(e^g), \qquad
              R \mathbf 1 = R^\top \mathbf 1 = \mathbf 1

    The derivative is that of the limit, whatever the work was: for a cotangent G

    .. math:: \frac{\partial L}{\partial \Theta}
              = R \odot (G - a \mathbf 1^\top - \mathbf 1 b^\top)

    with a, b from one symmetric linear system (Luise et al. 2018; Eisenberger et al. 2022), so
    nothing but R is kept for the backward pass. Works with `torch.compile`, `torch.export`, and
    `vmap` and reverse mode of `torch.func`; forward mode and second derivatives are refused. The
    arithmetic is at least float32, also inside autocast.

    Args:
        logits: finite; natural logarithms of unnormalised entries.
        start: potentials that an earlier call returned for logits not far from these. The result
            does not depend on it but for rounding.
        schedule: the work where it cannot adapt to the error: on accelerators, and in compiled
            and exported programs.

    Returns:
        Columns of R sum to one to rounding, rows on the CPU in float32 within 4e-5 and mostly
        within 2e-6; a warning says where they do not. The gradient is within 1e-3 of that of the
        limit in float64 up to a second singular value of 0.9999, and mostly within 1e-5; after a
        fixed schedule less, down to 1e-1, where many singular values lie close below one. That
        schedule needs a start that fits where logits of a standard deviation above 5 are not near
        a permutation; on the CPU any logits are projected from any start.

    Raises:
        ValueError: if the last two axes differ, the start has another shape than a row of the
            logits or, on the CPU, logits are not finite.
        RuntimeError: on a second or forward-mode derivative.

    >>> project(torch.tensor([[3.0, 1.0], [0.0, 2.0]])).R
    tensor([[0.8808, 0.1192],
            [0.1192, 0.8808]])
    """
    check_square("project", logits)
    M = at_least_float32(logits).resolve_neg()
    if start is None:
        start = M.new_zeros(M.shape[:-1])
    elif start.shape != M.shape[:-1]:
        raise ValueError(
            f"project: logits {tuple(M.shape)} start from potentials {tuple(M.shape[:-1])}, got "
            f"{tuple(start.shape)}; pass those that an earlier call returned"
        )
    elif start.dtype != M.dtype:
        start = start.to(M.dtype)
    if torch.compiler.is_compiling():
        function = _Projection
    else:
        function = _Transformed if transforming() else _Eager
    return Projected(*function.apply(M, start, schedule))


class _Projection(torch.autograd.Function):
    @staticmethod
    def forward(M: Tensor, start: Tensor, schedule: Schedule) -> tuple[Tensor, Tensor, Tensor]:
        batch, D = M.shape[:-2], M.shape[-1]
        if M.numel() == 0:
            return torch.zeros_like(M), M.new_zeros(batch), torch.zeros_like(start)
        if len(batch) == 1:
            R, g, entropy = _scale(M, start, schedule)
            return R, entropy, g
        R, g, entropy = _scale(M.reshape(-1, D, D), start.reshape(-1, D), schedule)
        return R.view(M.shape), entropy.view(batch), g.view(start.shape)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple, output: tuple) -> None:
        ctx.save_for_backward(inputs[0], output[0])
        ctx.mark_non_differentiable(output[2])
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx: Any, *cotangents: Tensor | None) -> tuple[Tensor | None, None, None]:
        G, H, _ = cotangents
        if G is None and H is None:
            return None, None, None
        # Calling another differentiable function takes torch a quarter of a small adjoint's time.
        asked = torch.is_grad_enabled() or transforming()
        adjoint = _Adjoint.apply if asked else _adjoint
        return adjoint(G, H, *ctx.saved_tensors), None, None

    @staticmethod
    def vmap(info: Any, in_dims: tuple, *args: Any) -> tuple:
        M = _batched(args[0], in_dims[0], info.batch_size)
        start = _batched(args[1], in_dims[1], info.batch_size)
        return _Transformed.apply(M, start, args[2]), (0, 0, 0)


class _Transformed(_Projection):
    """The same for `torch.func`; a compiler takes no function that has a `jvp`."""

    @staticmethod
    def jvp(ctx: Any, *_: Tensor | None) -> None:
        raise RuntimeError(
            "project: the projection has a derivative in reverse mode only; take `backward`, "
            "`torch.func.vjp` or `jacrev`, or the unrolled operator: Sinkhorn(..., iterations=20)"
        )


class _Eager(torch.autograd.Function):
    """The same without a `setup_context`, which `torch.func` needs and which takes longer."""

    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> tuple[Tensor, Tensor, Tensor]:
        output = _Projection.forward(*inputs)
        _Projection.setup_context(ctx, inputs, output)
        return output

    backward = staticmethod(_Projection.backward)
    jvp = staticmethod(_Transformed.jvp)


class _Adjoint(torch.autograd.Function):
    @staticmethod
    def forward(G: Tensor | None, H: Tensor | None, M: Tensor, R: Tensor) -> Tensor:
        return _adjoint(G, H, M, R)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple, output: Tensor) -> None: ...

    @staticmethod
    def backward(ctx: Any, *_: Tensor) -> None:
        raise RuntimeError(
            "project: the derivative of the projection has no derivative itself; for second "
            "derivatives use the unrolled operator: Sinkhorn(..., iterations=20)"
        )

    @staticmethod
    def vmap(info: Any, in_dims: tuple, *args: Tensor | None) -> tuple:
        size = info.batch_size
        every = (
            None if x is None else _batched(x, dim, size)
            for x, dim in zip(args, in_dims, strict=True)
        )
        return _Adjoint.apply(*every), 0


def _scale(M: Tensor, start: Tensor, schedule: Schedule) -> Scaling:
    if not adapts(M):
        with full_precision(M):
            return scaling.scale(M, start, schedule)
    found = adaptive.scale(M, start)
    if found is None or not isfinite(sum(found.entropy.tolist())):
        check_finite("project", M)
    if found is None:
        raise ValueError(
            f"project: logits from {M.min():.3g} to {M.max():.3g} are too far apart to "
            "exponentiate; scale them down"
        )
    return found


def _adjoint(G: Tensor | None, H: Tensor | None, M: Tensor, R: Tensor) -> Tensor:
    if R.numel() == 0:
        return torch.zeros_like(R)
    if R.ndim != 3:
        matrices = (-1, *R.shape[-2:])
        G = None if G is None else G.reshape(matrices)
        H = None if H is None else H.reshape(-1)
        return _adjoint(G, H, M.reshape(matrices), R.reshape(matrices)).view(R.shape)
    if adapts(R):
        return adaptive.adjoint(G, H, M, R)
    with full_precision(R):
        return scaling.adjoint(G, H, M, R)


def _batched(x: Tensor, dim: int | None, size: int) -> Tensor:
    return x.expand(size, *x.shape) if dim is None else x.movedim(dim, 0)
