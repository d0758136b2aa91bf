"""Lifting convolutions: from images to maps on the group."""

from symshare.layers.convolution import PlainConvolution

__all__ = ["LiftConv1d", "LiftConv2d", "LiftConv3d"]


class LiftConv1d(PlainConvolution):
    """Lifting convolution of signals: from [B, I, L] to [B, O, G, L'].

    :class:`LiftConv2d` has the equation; `__init__` describes the arguments.

    >>> import torch
    >>> from symshare import Fixed, groups
    >>> representation = Fixed(groups.ring_dihedral(12))
    >>> layer = LiftConv1d(3, 8, 5, representation, padding=2, padding_mode="circular")
    >>> layer(torch.ones(2, 3, 12)).shape
    torch.Size([2, 8, 24, 12])
    """

    dims = 1
    lifting = True


class LiftConv2d(PlainConvolution):
    r"""Lifting convolution of images: from [B, I, H, W] to [B, O, G, H', W'].

    .. math:: (k \star f)(x, g) = \sum_{x'} [R_g \theta](x' - x) f(x')

    Eq. (4) of arXiv:2412.04594 with the representation R [G, P, P] on the P kernel positions in
    place of a known group's action. `__init__` describes the arguments.

    >>> import torch
    >>> from symshare import Fixed, groups
    >>> LiftConv2d(3, 8, 5, Fixed(groups.rotations(4)))(torch.ones(2, 3, 9, 9)).shape
    torch.Size([2, 8, 4, 5, 5])
    """

    dims = 2
    lifting = True


class LiftConv3d(PlainConvolution):
    """Lifting convolution of volumes: from [B, I, D, H, W] to [B, O, G, D', H', W'].

    :class:`LiftConv2d` has the equation; `__init__` describes the arguments.

    >>> import torch
    >>> from symshare import Sinkhorn
    >>> LiftConv3d(1, 8, 2, Sinkhorn(4, positions=8))(torch.ones(2, 1, 5, 5, 5)).shape
    torch.Size([2, 8, 4, 4, 4, 4])
    """

    dims = 3
    lifting = True
