"""Means over the group."""

from jaxtyping import Float
from torch import Tensor, nn

from symshare.representations import Measure
from symshare.representations.measure import check_gate

__all__ = ["GroupPool", "along_group", "check_map", "group_mean", "group_weights", "shares"]


class GroupPool(nn.Module):
    """Mean over the group axis, weighted by the measure: [B, C, G, ...] to [B, C, ...].

    Args:
        gate: the measure of the representation, `representation.gate`; None weighs all alike.

    >>> import torch
    >>> GroupPool()(torch.arange(4.0).reshape(1, 1, 4)).item()
    1.5
    """

    def __init__(self, gate: Measure | None = None):
        super().__init__()
        check_gate("GroupPool", gate)
        self.gate = gate

    def forward(self, f: Float[Tensor, "B C G *space"]) -> Float[Tensor, "B C *space"]:
        return group_mean(f, shares(self.gate))


def shares(gate: Measure | None) -> Float[Tensor, " G"] | None:
    """The measure, scaled to sum to one; None where all elements weigh alike.

    >>> shares(Measure(3)).tolist()
    [0.5, 0.25, 0.25]
    """
    if gate is None:
        return None
    measure = gate()
    return measure / measure.sum()


def group_mean(
    f: Float[Tensor, "B C G *space"], weights: Float[Tensor, " N"] | None
) -> Float[Tensor, "B C *space"]:
    """Mean over the group axis.

    Args:
        f: a map on the group.
        weights: of the elements, summing to one; None weighs all alike.

    Raises:
        ValueError: if f has no group axis, or there are more or fewer weights than elements.
    """
    check_map("GroupPool", f)
    return f.mean(2) if weights is None else (f * along_group(weights, f)).sum(2).to(f.dtype)


def check_map(who: str, f: Tensor) -> None:
    """Refuse what has no group axis.

    Raises:
        ValueError: saying where it belongs.
    """
    if f.ndim < 3:
        raise ValueError(
            f"{who}: expected a map [B, C, G, ...], got {tuple(f.shape)}; the group axis comes "
            "after the channels"
        )


def along_group(weights: Float[Tensor, " N"], f: Float[Tensor, "B C G *space"]) -> Tensor:
    """Weights, shaped to multiply f along its group axis.

    Raises:
        ValueError: if there are more or fewer than elements.
    """
    if len(weights) != f.shape[2]:
        raise ValueError(
            f"measure over {len(weights)} elements, but the map has {f.shape[2]}: "
            f"{tuple(f.shape)}; pass the gate of the representation that made the map"
        )
    return weights.reshape(-1, *(1,) * (f.ndim - 3))


def group_weights(gate: Measure | None, f: Float[Tensor, "B C G *space"]) -> Tensor:
    """Weights over the group axis of f that sum to one, shaped to multiply f.

    Raises:
        ValueError: if the measure has another number of elements than f.

    >>> import torch
    >>> group_weights(Measure(3), torch.ones(2, 5, 3)).tolist()
    [0.5, 0.25, 0.25]
    """
    weights = shares(gate)
    return along_group(f.new_full(f.shape[2:3], 1 / f.shape[2]) if weights is None else weights, f)
