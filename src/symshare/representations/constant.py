"""A tensor that belongs to the architecture, not to the state."""

from collections.abc import Callable

import torch
from torch import Tensor, nn


class Constant(nn.Module):
    """Holds a tensor that moves with the module and is not saved with it.

    Its values survive whatever a plain buffer would lose them to: `to_empty` after a start on the
    meta device, and rounding by `half()`.

    >>> module = Constant(torch.eye(2)).to("meta").to_empty(device="cpu")
    >>> module()
    tensor([[1., 0.],
            [0., 1.]])
    """

    value: Tensor

    def __init__(self, value: Tensor):
        super().__init__()
        self._origin = value
        self.register_buffer("value", value.to(torch.get_default_device()), persistent=False)

    def forward(self) -> Tensor:
        return self.value

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> "Constant":
        super()._apply(fn, recurse)
        self.value = self._origin.to(self.value)
        return self
