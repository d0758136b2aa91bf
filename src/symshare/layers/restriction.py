"""From the convolutions of a group to those of a subgroup."""

from collections.abc import Iterable
from typing import TypeVar

import torch
from jaxtyping import Int
from torch import Tensor

from symshare.groups import Action, GroupAction
from symshare.layers.convolution import Convolution
from symshare.representations import Fixed

Layer = TypeVar("Layer", bound=Convolution)


def restrict(layer: Layer, elements: Iterable[str]) -> Layer:
    r"""The same function as a layer of a subgroup, whose weights may then leave the larger group.

    A group G falls into cosets H c of a subgroup H, and a map f on G is one on H with a channel
    for each channel i and coset: f'((i, c), h) = f(i, h c). Between such maps the layer is a
    group convolution of H with the base weights

    .. math:: \theta'_{(o, d), (i, c)}(h, x) = [R_d \theta_{o i}](h c, x),

    since R is a homomorphism. So the kernel of h in H is R_h theta' = [R_{hd} theta](. c), the
    one that the element hd had. For a lifting layer (h c) and c are left out. All channels
    become as many as there are cosets; those of i, or o, stand side by side. :func:`cosets` says
    which element of G is which: `f[:, :, cosets(action, elements)].flatten(1, 2)` is f'.

    Args:
        layer: a lifting or group convolution with `Fixed(action)`; it is left as it is.
        elements: names of the subgroup's elements in `action.names`; the identity always stays.

    Returns:
        A layer of the same kind with `Fixed(action.subset(elements))` and copies of the weights.

    Raises:
        ValueError: if the layer has no exact group, or the elements are none.

    >>> from symshare import GroupConv2d, groups
    >>> layer = GroupConv2d(2, 3, 3, Fixed(groups.dihedral(4)))
    >>> turning = restrict(layer, groups.rotations(4).names)
    >>> layer.theta.shape, turning.theta.shape  # [O, I, K * P]
    (torch.Size([3, 2, 72]), torch.Size([6, 4, 36]))
    >>> f = torch.randn(1, 2, 8, 5, 5)
    >>> index = cosets(groups.dihedral(4), groups.rotations(4).names)
    >>> y = turning(f[:, :, index].flatten(1, 2))
    >>> torch.allclose(y, layer(f)[:, :, index].flatten(1, 2), atol=1e-5)
    True
    """
    action = layer.representation.action if isinstance(layer.representation, Fixed) else None
    if not isinstance(action, GroupAction):
        raise ValueError(
            "restrict: expected a layer with Fixed(action) of an exact group, got "
            f"{type(layer.representation).__name__}; matrices that are learned, interpolated or "
            "given by themselves have no subgroups"
        )
    subgroup = action.subset(elements)
    index = cosets(action, subgroup.names).to(layer.theta.device)
    number = len(index)
    theta = layer.stack.expand(layer.theta.detach())[:, index[:, 0]]  # [O, cosets, I, D]
    if not layer.lifting:
        theta = theta.unflatten(-1, (len(action), -1))[:, :, :, index].flatten(4).flatten(2, 3)
    options = layer.geometry._asdict()
    del options["transposed"]
    if not layer.transposed:
        del options["output_padding"]
    restricted = type(layer)(
        layer.in_channels * (1 if layer.lifting else number),
        layer.out_channels * number,
        representation=Fixed(subgroup),
        bias=layer.bias is not None,
        **options,
    ).to(theta)
    with torch.no_grad():
        restricted.theta.copy_(theta.flatten(0, 1))
        if layer.bias is not None and restricted.bias is not None:
            restricted.bias.copy_(layer.bias.repeat_interleave(number))
    return restricted.train(layer.training)


def cosets(action: Action, elements: Iterable[str]) -> Int[Tensor, "C H"]:
    """Where the element h c of every coset H c stands in a group, h along a row.

    Args:
        action: a group.
        elements: names of the elements of a subgroup H; the identity always stays.

    Raises:
        ValueError: if either is not closed, or a name is unknown.

    >>> from symshare import groups
    >>> cosets(groups.rotations(4), ["rot180"])
    tensor([[0, 2],
            [1, 3]])
    """
    subgroup = action.subset(elements)
    if not (action.is_group and subgroup.is_group):
        raise ValueError(
            f"cosets: {action if subgroup.is_group else subgroup} is no group; add the products "
            "of its elements"
        )
    members = [action.names.index(name) for name in subgroup.names]
    rows: list[Tensor] = []
    for row in action.table[members].T:
        if not any(row[0] in other for other in rows):
            rows.append(row)
    return torch.stack(rows)
