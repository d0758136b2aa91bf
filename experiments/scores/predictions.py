"""What transformed images do to the predictions of a network."""

from collections.abc import Callable, Hashable, Mapping
from typing import NamedTuple, TypeVar

import torch
from jaxtyping import Float, Int
from torch import Tensor

Key = TypeVar("Key", bound=Hashable)


class PredictionChange(NamedTuple):
    """Predictions on transformed images beside those on the images themselves.

    Args:
        divergence: E KL(p(x) || p(T x)), in nats; 0 where T changes nothing.
        accuracy: on T x.
        drop: accuracy on x minus that on T x.
    """

    divergence: float
    accuracy: float
    drop: float


@torch.no_grad()
def prediction_changes(
    f: Callable[[Tensor], Tensor],
    images: Float[Tensor, "B C *space"],
    labels: Int[Tensor, " B"],
    transformations: Mapping[Key, Callable[[Tensor], Tensor]],
    batch_size: int = 512,
) -> dict[Key, PredictionChange]:
    """How predictions change under each transformation of a sweep.

    Args:
        f: the network, from images to logits; put it in evaluation mode first.
        images: x.
        labels: y.
        transformations: T, from images to images of any size that f takes; by angle or by name.
        batch_size: images at a time.

    Raises:
        ValueError: without images, or where there are not as many labels, or logits are not
            finite.

    Example:
        >>> brightest = lambda x: x.amax((1, 2))
        >>> x, y = torch.tensor([[[[0.0, 2.0]]], [[[3.0, 0.0]]]]), torch.tensor([1, 0])
        >>> sweep = {0: lambda x: x, 180: lambda x: x.flip(-1)}
        >>> changes = prediction_changes(brightest, x, y, sweep)
        >>> changes[0]
        PredictionChange(divergence=0.0, accuracy=1.0, drop=0.0)
        >>> changes[180].accuracy, round(changes[180].divergence, 3)
        (0.0, 2.119)
    """
    if not len(images) == len(labels) > 0:
        raise ValueError(
            f"prediction_changes: expected one label for each of at least one image, got "
            f"{len(images)} images and {len(labels)} labels"
        )
    before = _log_probabilities(f, images, batch_size)
    reference = _accuracy(before, labels)
    changes = {}
    for key, transform in transformations.items():
        after = _log_probabilities(lambda x, T=transform: f(T(x)), images, batch_size)
        divergence = torch.nn.functional.kl_div(after, before, log_target=True, reduction="sum")
        accuracy = _accuracy(after, labels)
        changes[key] = PredictionChange(
            divergence=float(divergence) / len(images),
            accuracy=accuracy,
            drop=reference - accuracy,
        )
    return changes


def _log_probabilities(f: Callable[[Tensor], Tensor], images: Tensor, batch_size: int) -> Tensor:
    logits = torch.cat([f(batch) for batch in images.split(batch_size)]).double()
    if not logits.isfinite().all():
        raise ValueError("prediction_changes: f gives logits that are not finite; check training")
    return logits.log_softmax(-1)


def _accuracy(log_probabilities: Tensor, labels: Tensor) -> float:
    return float((log_probabilities.argmax(-1) == labels).double().mean())
