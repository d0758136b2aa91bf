"""The last layer of a network whose classes, or numbers, move with the group."""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.types import Device


class GroupHead(nn.Module):
    r"""Linear layer from features on the group to what it moves: [B, C, G] to [B, K].

    .. math:: y[b] = \frac{1}{G} \sum_g \rho_g \, z[b, g], \qquad
        z[b, g] = V \, f[b, :, g] + \beta

    Element g moves an answer y [K] by the matrix \rho_g [K, K]: it permutes classes, or mixes
    numbers, as a turn does the two of a direction. Moving the input by h sends f[b, c, g] to
    f[b, c, h^-1 g], and with it y(h x) = \rho_h y(x), where g -> \rho_g is a homomorphism. Where
    every \rho_g is the identity this is `GroupPool` and a linear layer; it has as many parameters
    in any case.

    Args:
        in_channels: C.
        label_map: \rho, for every element of the group, the identity first: of classes
            `label_map[g, k]`, the class that g makes of class k; of numbers the matrices
            `label_map[g]`.
        device: where the parameters are, as in torch.
        dtype: their type, as in torch.

    Raises:
        ValueError: if a row is no permutation of the classes, matrices are not square, or the first
            is not the identity; in forward, if the input is not [B, C, G].

    >>> import torch
    >>> swap = torch.tensor([[0, 1, 2], [1, 0, 2]])    # the second element exchanges two classes
    >>> head, f = GroupHead(4, swap), torch.randn(5, 4, 2)
    >>> torch.allclose(head(f.flip(-1)), head(f)[:, [1, 0, 2]])
    True
    >>> sign = torch.tensor([[[1.0]], [[-1.0]]])       # the second element turns the sign
    >>> head = GroupHead(4, sign)
    >>> torch.allclose(head(f.flip(-1)), -head(f))
    True
    """

    label_map: Tensor

    def __init__(
        self,
        in_channels: int,
        label_map: Int[Tensor, "G K"] | Float[Tensor, "G K K"],
        *,
        device: Device = None,
        dtype: torch.dtype | None = None,
    ):
        super().__init__()
        rows = label_map.cpu()
        if rows.ndim == 2:
            order = torch.arange(rows.shape[1])
            sound = torch.equal(rows.sort(1)[0], order.expand_as(rows)) and rows[0].equal(order)
            if not sound:
                raise ValueError(
                    "GroupHead: expected what each element makes of the classes 0, 1, ..., the "
                    f"identity first, got {rows.tolist()}; give each row every class once"
                )
        elif not rows[0].equal(torch.eye(rows.shape[1], dtype=rows.dtype)):
            raise ValueError(
                "GroupHead: expected what each element makes of the numbers, as square matrices "
                f"with the identity first, got {rows[0].tolist()} first; put it there"
            )
        else:
            rows = rows.to(torch.get_default_dtype() if dtype is None else dtype)
        self.linear = nn.Linear(in_channels, rows.shape[1], device=device, dtype=dtype)
        self.register_buffer("label_map", rows.to(device))

    def moved(self, values: Float[Tensor, "K ..."]) -> Float[Tensor, "G K ..."]:
        """What each element makes of values of the classes, or of the numbers."""
        if self.label_map.ndim == 2:
            return values[self.label_map.argsort(1)]
        return torch.einsum("gij,j...->gi...", self.label_map, values)

    def forward(self, f: Float[Tensor, "B C G"]) -> Float[Tensor, "B K"]:
        C, G = self.linear.in_features, len(self.label_map)
        if f.shape[1:] != (C, G):
            raise ValueError(
                f"GroupHead: expected features [B, {C}, {G}], got {list(f.shape)}; take the mean "
                "over space first, and keep the axis of the group"
            )
        scores = self.linear(f.transpose(1, 2))
        if self.label_map.ndim == 3:
            return torch.einsum("gij,bgj->bi", self.label_map, scores) / G
        sources = self.label_map.argsort(1)
        return scores.gather(2, sources.expand(len(f), -1, -1)).mean(1)

    def extra_repr(self) -> str:
        return f"elements={len(self.label_map)}"
