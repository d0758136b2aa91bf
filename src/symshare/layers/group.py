"""Group convolutions: from maps on the group to maps on the group."""

from symshare.layers.convolution import PlainConvolution

__all__ = ["GroupConv1d", "GroupConv2d", "GroupConv3d"]


class GroupConv1d(PlainConvolution):
    """Group convolution of signals: from [B, I, K, L] to [B, O, G, L'].

    :class:`GroupConv2d` has the equation; `__init__` describes the arguments.

    >>> import torch
    >>> from symshare import Fixed, groups
    >>> representation = Fixed(groups.ring_dihedral(12))
    >>> layer = GroupConv1d(8, 8, 3, representation, padding=1, padding_mode="circular")
    >>> layer(torch.ones(2, 8, 24, 12)).shape
    torch.Size([2, 8, 24, 12])
    """

    dims = 1
    lifting = False


class GroupConv2d(PlainConvolution):
    r"""Group convolution of images: from [B, I, K, H, W] to [B, O, G, H', W'].

    .. math:: (k \star f)(x, g) = \sum_{h, x'} \mu(h) [R_g \theta](h, x' - x) f(x', h)

    Eq. (2) of arXiv:2412.04594 with the representation R [G, K*P, K*P] (K slow, P fast) in place
    of a known group's action. For C4 the kernel of element g is `roll(rot90(theta, g), g)` over
    the group axis. The measure of the representation, where it has one, weighs the sum over the
    K input elements. `__init__` describes the arguments.

    >>> import torch
    >>> from symshare import Fixed, groups
    >>> layer = GroupConv2d(8, 8, 3, Fixed(groups.rotations(4)), padding=1)
    >>> layer(torch.ones(2, 8, 4, 5, 5)).shape
    torch.Size([2, 8, 4, 5, 5])
    """

    dims = 2
    lifting = False


class GroupConv3d(PlainConvolution):
    """Group convolution of volumes: from [B, I, K, D, H, W] to [B, O, G, D', H', W'].

    :class:`GroupConv2d` has the equation; `__init__` describes the arguments.

    >>> import torch
    >>> from symshare import Sinkhorn
    >>> layer = GroupConv3d(4, 8, 2, Sinkhorn(4, positions=4 * 8))
    >>> layer(torch.ones(2, 4, 4, 5, 5, 5)).shape
    torch.Size([2, 8, 4, 4, 4, 4])
    """

    dims = 3
    lifting = False
