"""Lists of representations, one for each convolution of a network."""

from collections.abc import Callable

from symshare import groups
from symshare.models.convolutional import Architecture
from symshare.models.residual import ResidualArchitecture
from symshare.representations import Fixed, Representation, Sinkhorn

__all__ = ["plain", "wscnn"]


def plain(blocks: int) -> list[Representation]:
    """Representations of a plain CNN: the trivial group in every convolution."""
    return [Fixed(groups.rotations(1))] * blocks


def wscnn(
    architecture: Architecture | ResidualArchitecture,
    group_size: int,
    make: Callable[..., Representation] = Sinkhorn,
) -> list[Representation]:
    """Representations of the paper's networks: a free stack for each convolution.

    >>> from symshare.models import MNIST
    >>> sum(p.numel() for rep in wscnn(MNIST, 4) for p in rep.parameters())
    121875
    """
    taps = architecture.kernel_size**2
    sizes = [taps] + [group_size * taps] * (architecture.convolutions - 1)
    return [make(group_size, positions) for positions in sizes]
