"""The linear layer on functions over a G-space."""

import torch
from jaxtyping import Float
from torch import Tensor
from torch.types import Device

from symshare.layers import functional
from symshare.layers.weights import WeightSharing
from symshare.representations import Representation, Stack


class GroupLinear(WeightSharing):
    r"""Linear layer W = R theta on a G-space, without translation: from [B, I, D] to [B, O, G].

    .. math:: y[b, o, g] = \sum_{i, d} [R_g \theta_{oi}](d) \, x[b, i, d] + \beta_o

    Eq. (5) of arXiv:2412.04594, with channels. They come second, as in all layers.

    Args:
        in_channels: I.
        out_channels: O.
        representation: the stack R [G, D, D] on the D positions of the input, or elements that
            have positions of their own, such as `Fixed(groups.cyclic_shifts(12))`.
        bias: whether to add one number for each output channel, shared over G.
        device: where the parameters are, as in torch.
        dtype: their type, as in torch.

    Raises:
        TypeError: if the representation is not one.
        ValueError: if there are no channels, if the representation has no positions of its own,
            or if the input does not fit.

    >>> import torch
    >>> from symshare import Fixed, groups
    >>> GroupLinear(1, 3, Fixed(groups.cyclic_shifts(12)))(torch.ones(2, 1, 12)).shape
    torch.Size([2, 3, 12])
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        representation: Representation | None = None,
        *,
        bias: bool = True,
        device: Device = None,
        dtype: torch.dtype | None = None,
    ):
        super().__init__(in_channels, out_channels)
        self._share(representation, 1, bias, device, dtype)

    def kernel(self) -> Float[Tensor, "O G I D"]:
        """Expanded weights R theta."""
        return self.stack.expand(self.theta)

    def forward(self, x: Float[Tensor, "B I D"]) -> Float[Tensor, "B O G"]:
        functional.check_vectors("GroupLinear", x, self.in_channels, self.theta.shape[-1])
        return functional.contract(x, self.kernel(), self.bias)

    def extra_repr(self) -> str:
        return f"{self.in_channels}, {self.out_channels}, bias={self.bias is not None}"

    def _stack_of(self, representation: Representation) -> Stack:
        if representation.gate is not None:
            raise ValueError(
                "GroupLinear: it sums over no group, so a learned measure has nothing to weigh; "
                "use Fixed or Sinkhorn, and give the gate to GroupPool"
            )
        return representation.on_domain()
