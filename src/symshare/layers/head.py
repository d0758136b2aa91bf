"""The last layer of a network whose classes move with the group."""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.types import Device


class GroupHead(nn.Module):
    r"""Linear layer from features on the group to classes that it permutes: [B, C, G] to [B, K].

    .. math:: y[b, k] = \frac{1}{G} \sum_g z[b, \pi_g^{-1}(k), g], \qquad
        z[b, k, g] = \sum_c V_{kc} \, f[b, c, g] + \beta_k

    Element g makes class \pi_g(k) of class k. Moving the input by h sends f[b, c, g] to
    f[b, c, h^-1 g], and with it each score to that of the class that h makes: y(h x)[\pi_h(k)] =
    y(x)[k], where g -> \pi_g is a homomorphism. Where every \pi_g is the identity this is
    `GroupPool` and a linear layer; it has as many parameters in any case.

    Args:
        in_channels: C.
        label_map: \pi, `label_map[g, k]` for every element g of the group and class k; the first
            element is the identity.
        device: where the parameters are, as in torch.
        dtype: their type, as in torch.

    Raises:
        ValueError: if a row is no permutation of the classes, or the first is not the identity; in
            forward, if the input is not [B, C, G].

    >>> import torch
    >>> swap = torch.tensor([[0, 1, 2], [1, 0, 2]])    # the second element exchanges two classes
    >>> head, f = GroupHead(4, swap), torch.randn(5, 4, 2)
    >>> torch.allclose(head(f.flip(-1)), head(f)[:, [1, 0, 2]])
    True
    """

    label_map: Tensor

    def __init__(
        self,
        in_channels: int,
        label_map: Int[Tensor, "G K"],
        *,
        device: Device = None,
        dtype: torch.dtype | None = None,
    ):
        super().__init__()
        order = torch.arange(label_map.shape[1])
        rows = label_map.cpu()
        if not torch.equal(rows.sort(1)[0], order.expand_as(rows)) or not rows[0].equal(order):
            raise ValueError(
                "GroupHead: expected what each element makes of the classes 0, 1, ..., the "
                f"identity first, got {rows.tolist()}; give each row every class once"
            )
        self.linear = nn.Linear(in_channels, rows.shape[1], device=device, dtype=dtype)
        self.register_buffer("label_map", rows.to(device))

    @property
    def sources(self) -> Int[Tensor, "G K"]:
        """The class that element g makes class k of."""
        return self.label_map.argsort(1)

    def forward(self, f: Float[Tensor, "B C G"]) -> Float[Tensor, "B K"]:
        C, G = self.linear.in_features, len(self.label_map)
        if f.shape[1:] != (C, G):
            raise ValueError(
                f"GroupHead: expected features [B, {C}, {G}], got {list(f.shape)}; take the mean "
                "over space first, and keep the axis of the group"
            )
        scores = self.linear(f.transpose(1, 2))
        return scores.gather(2, self.sources.expand(len(f), -1, -1)).mean(1)

    def extra_repr(self) -> str:
        return f"elements={len(self.label_map)}"
