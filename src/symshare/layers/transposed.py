"""Transposed convolutions: up-sampling twins of the lifting and group convolutions."""

from symshare.layers.convolution import TransposedConvolution

__all__ = [
    "GroupConvTranspose1d",
    "GroupConvTranspose2d",
    "GroupConvTranspose3d",
    "LiftConvTranspose1d",
    "LiftConvTranspose2d",
    "LiftConvTranspose3d",
]


class LiftConvTranspose1d(TransposedConvolution):
    """Transposed lifting convolution of signals: from [B, I, L] to [B, O, G, L'].

    :class:`LiftConvTranspose2d` has the equation; `__init__` describes the arguments.

    >>> import torch
    >>> from symshare import Sinkhorn
    >>> layer = LiftConvTranspose1d(3, 8, 2, Sinkhorn(4, positions=2), stride=2)
    >>> layer(torch.ones(2, 3, 6)).shape
    torch.Size([2, 8, 4, 12])
    """

    dims = 1
    lifting = True


class LiftConvTranspose2d(TransposedConvolution):
    r"""Transposed lifting convolution of images: from [B, I, H, W] to [B, O, G, H', W'].

    .. math:: y(x, g) = \sum_{x'} [R_g \theta](x - s x') f(x')

    with stride s: every pixel x' stamps the kernels of all elements, as in Section 4 of
    arXiv:1603.07285. R [G, P, P] acts on the P kernel positions. `__init__` describes the
    arguments.

    >>> import torch
    >>> from symshare import Fixed, groups
    >>> layer = LiftConvTranspose2d(3, 8, 2, Fixed(groups.rotations(4)), stride=2)
    >>> layer(torch.ones(2, 3, 5, 5)).shape
    torch.Size([2, 8, 4, 10, 10])
    """

    dims = 2
    lifting = True


class LiftConvTranspose3d(TransposedConvolution):
    """Transposed lifting convolution of volumes: from [B, I, D, H, W] to [B, O, G, D', H', W'].

    :class:`LiftConvTranspose2d` has the equation; `__init__` describes the arguments.

    >>> import torch
    >>> from symshare import Sinkhorn
    >>> layer = LiftConvTranspose3d(1, 8, 2, Sinkhorn(4, positions=8), stride=2)
    >>> layer(torch.ones(2, 1, 3, 3, 3)).shape
    torch.Size([2, 8, 4, 6, 6, 6])
    """

    dims = 3
    lifting = True


class GroupConvTranspose1d(TransposedConvolution):
    """Transposed group convolution of signals: from [B, I, K, L] to [B, O, G, L'].

    :class:`GroupConvTranspose2d` has the equation; `__init__` describes the arguments.

    >>> import torch
    >>> from symshare import Sinkhorn
    >>> layer = GroupConvTranspose1d(3, 8, 2, Sinkhorn(4, positions=4 * 2), stride=2)
    >>> layer(torch.ones(2, 3, 4, 6)).shape
    torch.Size([2, 8, 4, 12])
    """

    dims = 1
    lifting = False


class GroupConvTranspose2d(TransposedConvolution):
    r"""Transposed group convolution of images: from [B, I, K, H, W] to [B, O, G, H', W'].

    .. math:: y(x, g) = \sum_{h, x'} \mu(h) [R_g \theta](h, x - s x') f(x', h)

    with stride s: every pixel x' stamps the kernels of all elements, as in Section 4 of
    arXiv:1603.07285. R [G, K*P, K*P] acts on input elements and kernel positions (K slow, P
    fast), as in :class:`GroupConv2d`. `__init__` describes the arguments.

    >>> import torch
    >>> from symshare import Fixed, groups
    >>> layer = GroupConvTranspose2d(8, 8, 2, Fixed(groups.rotations(4)), stride=2)
    >>> layer(torch.ones(2, 8, 4, 5, 5)).shape
    torch.Size([2, 8, 4, 10, 10])
    """

    dims = 2
    lifting = False


class GroupConvTranspose3d(TransposedConvolution):
    """Transposed group convolution of volumes: from [B, I, K, D, H, W] to [B, O, G, D', H', W'].

    :class:`GroupConvTranspose2d` has the equation; `__init__` describes the arguments.

    >>> import torch
    >>> from symshare import Sinkhorn
    >>> layer = GroupConvTranspose3d(2, 4, 2, Sinkhorn(4, positions=4 * 8), stride=2)
    >>> layer(torch.ones(2, 2, 4, 3, 3, 3)).shape
    torch.Size([2, 4, 4, 6, 6, 6])
    """

    dims = 3
    lifting = False
