"""The learned measure on group elements."""

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.types import Device

from symshare.representations.state import Shareable


class Measure(Shareable):
    """Learned measure mu [G] in [0, 1] on group elements; the identity is fixed at 1.

    Args:
        group_size: number of elements G, the identity first.
        device, dtype: of the parameter, as in torch.

    Raises:
        ValueError: for a size below 1.

    >>> Measure(4)()
    tensor([1.0000, 0.5000, 0.5000, 0.5000], grad_fn=<CatBackward0>)
    """

    def __init__(self, group_size: int, *, device: Device = None, dtype: torch.dtype | None = None):
        if group_size < 1:
            raise ValueError(
                f"Measure: group_size must be at least 1, got {group_size}; the identity counts"
            )
        super().__init__()
        self.logits = nn.Parameter(torch.zeros(group_size - 1, device=device, dtype=dtype))

    def forward(self) -> Float[Tensor, " G"]:
        return torch.cat([self.logits.new_ones(1), self.logits.sigmoid()])

    def extra_repr(self) -> str:
        return f"group_size={len(self.logits) + 1}"


def check_gate(who: str, gate: object) -> None:
    """Refuse what is no measure, such as the tensor that one returns."""
    if not (gate is None or isinstance(gate, Measure)):
        raise TypeError(
            f"{who}: gate must be a Measure or None, got {type(gate).__name__}; pass "
            "representation.gate"
        )
