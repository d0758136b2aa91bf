"""A tensor that belongs to the architecture, not to the state."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn


class Constant(nn.Module):
    """Holds a tensor that moves with the module, and that nothing else changes.

    A copy, out of reach of the graph and the hands that the tensor came from. Not a buffer:
    `to_empty` and `load_state_dict(assign=True)` after a start on the meta device would lose its
    values, `half()` would round them, and an average of models mix them.

    >>> module = Constant(torch.eye(2)).to("meta").to_empty(device="cpu")
    >>> module()
    tensor([[1., 0.],
            [0., 1.]])
    """

    _where: Tensor

    def __init__(self, value: Tensor):
        super().__init__()
        self._origin = value.detach().clone()
        floating = value.dtype if value.is_floating_point() else None
        where = torch.empty(0, dtype=floating)
        self.register_buffer("_where", where, persistent=False)
        self._follow()

    def forward(self) -> Tensor:
        return self._value

    def _follow(self) -> None:
        dtype = self._where.dtype if self._origin.is_floating_point() else self._origin.dtype
        self._value = self._origin.to(self._where.device, dtype)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> "Constant":
        super()._apply(fn, recurse)
        self._follow()
        return self

    def _load_from_state_dict(self, *args: Any, **kwargs: Any) -> None:
        super()._load_from_state_dict(*args, **kwargs)
        if self._where.is_meta:
            # Parameters that are assigned bring their device with them; this has none to assign.
            self._where = torch.empty(0, dtype=self._where.dtype)
            self._follow()
