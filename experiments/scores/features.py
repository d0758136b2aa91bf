"""Equivariance of the hidden layers of a network whose group axis has no known order."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn


class FeatureError(NamedTuple):
    """Error of equivariance of a layer, with the group axis put in order.

    Args:
        error: `E|f(T x) - T f(x)| / E|f(x)|`; 0 is exact.
        source: the order: element h of f(T x) is compared with element `source[h]` of T f(x).
    """

    error: float
    source: Int[Tensor, " G"]


@torch.no_grad()
def feature_error(
    f: Callable[[Tensor], Tensor],
    transform: Callable[[Tensor], Tensor],
    images: Float[Tensor, "B C *space"],
) -> FeatureError:
    """Relative error `E|f(T x) - T pi f(x)| / E|f(x)|` with the best order pi of the group axis.

    Learned elements come in any order, so the permutation pi of the group axis that T calls for
    is found by linear assignment. For a known action `equivariance_error` knows the order.

    Args:
        f: from images to the features [B, C, G, *space] of a layer, such as `up_to(network,
            name)`; put the network in evaluation mode first.
        transform: T, which acts on the last axes of images and of features alike.
        images: x.

    Raises:
        ValueError: where f(x) has no group axis or is zero, or T changes its shape.

    Example:
        >>> turns = lambda x: torch.stack([x.rot90(k, (-2, -1)) for k in range(4)], 2)
        >>> found = feature_error(turns, lambda x: x.rot90(1, (-2, -1)), torch.rand(2, 1, 5, 5))
        >>> found.error, found.source
        (0.0, tensor([0, 1, 2, 3]))
        >>> lift = lambda x: turns(x) * torch.arange(5.0)
        >>> feature_error(lift, lambda x: x.flip(-1), torch.rand(2, 1, 5, 5)).error > 0.1
        True
    """
    from scipy.optimize import linear_sum_assignment

    features, moved = f(images), f(transform(images))
    if features.ndim != images.ndim + 1:
        raise ValueError(
            f"feature_error: expected features [B, C, G, *space] for images of shape "
            f"{tuple(images.shape)}, got {tuple(features.shape)}; take a layer before the pooling"
        )
    if not features.any():
        raise ValueError("feature_error: f is zero on all images, so no error is defined")
    expected = transform(features)
    if expected.shape != moved.shape:
        raise ValueError(
            f"feature_error: T makes {tuple(expected.shape)} of the features, and f makes "
            f"{tuple(moved.shape)} of the transformed images; T must act on the last axes only"
        )
    sources = expected.unbind(2)
    costs = torch.stack(
        [torch.stack([(h - s).abs().mean() for s in sources]) for h in moved.unbind(2)]
    )
    costs = costs.double().cpu()
    rows, source = (torch.from_numpy(i) for i in linear_sum_assignment(costs.numpy()))
    return FeatureError(
        error=float(costs[rows, source].mean() / features.abs().double().mean()),
        source=source.to(images.device),
    )


def up_to(network: nn.Module, name: str) -> Callable[[Tensor], Tensor]:
    """The network up to the output of one of its modules.

    Args:
        network: its forward pass has to reach the module once.
        name: as in `network.named_modules()`.

    Raises:
        ValueError: where no module has the name; when called, where none or several outputs come.

    Example:
        >>> network = nn.Sequential(nn.Flatten(), nn.Linear(4, 2), nn.ReLU())
        >>> up_to(network, "1")(torch.ones(1, 2, 2)).shape
        torch.Size([1, 2])
    """
    modules = dict(network.named_modules())
    if name not in modules:
        raise ValueError(f"up_to: no module {name!r}; choose from {[n for n in modules if n]}")

    def features(x: Tensor) -> Tensor:
        outputs: list[Tensor] = []
        hook = modules[name].register_forward_hook(lambda _, __, output: outputs.append(output))
        try:
            network(x)
        finally:
            hook.remove()
        if len(outputs) != 1:
            raise ValueError(f"up_to: expected one output of {name!r}, got {len(outputs)}")
        return outputs[0]

    return features
