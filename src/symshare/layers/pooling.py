"""Means over the group."""

from jaxtyping import Float
from torch import Tensor, nn

from symshare.representations import Measure

__all__ = ["GroupPool", "group_weights"]


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
        self.gate = gate

    def forward(self, f: Float[Tensor, "B C G *space"]) -> Float[Tensor, "B C *space"]:
        return (f * group_weights(self.gate, f)).sum(2)


def group_weights(gate: Measure | None, f: Float[Tensor, "B C G *space"]) -> Tensor:
    """Weights over the group axis of f that sum to one, shaped to multiply f.

    Raises:
        ValueError: if the measure has another number of elements than f.

    >>> import torch
    >>> group_weights(Measure(3), torch.ones(2, 5, 3)).tolist()
    [0.5, 0.25, 0.25]
    """
    G = f.shape[2]
    if gate is None:
        return f.new_full((G, *(1,) * (f.ndim - 3)), 1 / G)
    measure = gate()
    if len(measure) != G:
        raise ValueError(
            f"measure over {len(measure)} elements, but the map has {G}: {tuple(f.shape)}; pass "
            "the gate of the representation that made the map"
        )
    return (measure / measure.sum()).reshape(G, *(1,) * (f.ndim - 3))
