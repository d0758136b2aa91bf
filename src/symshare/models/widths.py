"""Networks of equal cost: free parameters without building a network, and the width for them."""

from functools import partial

from symshare.models.convolutional import Architecture
from symshare.models.residual import ResidualArchitecture

__all__ = ["free_parameters", "matched_channels"]


def free_parameters(
    architecture: Architecture | ResidualArchitecture,
    in_channels: int,
    classes: int,
    channels: int,
    group_size: int = 1,
) -> int:
    """Free parameters of a network of this architecture, without building it.

    >>> from symshare.models import CIFAR10, MNIST
    >>> free_parameters(MNIST, 1, 10, 64), free_parameters(MNIST, 1, 10, 16, group_size=4)
    (412170, 103050)
    >>> free_parameters(CIFAR10, 3, 10, 64), free_parameters(CIFAR10, 3, 10, 32, group_size=4)
    (1660170, 1632394)
    """
    return architecture.free_parameters(in_channels, classes, channels, group_size)


def matched_channels(
    architecture: Architecture | ResidualArchitecture,
    in_channels: int,
    classes: int,
    group_size: int,
    parameters: int,
) -> int:
    """Width at which a network with G elements has nearest to this many free parameters.

    >>> from symshare.models import MNIST
    >>> matched_channels(MNIST, 1, 10, group_size=4, parameters=412_170)
    32
    """
    count = partial(free_parameters, architecture, in_channels, classes, group_size=group_size)
    upper = 1
    while count(upper) < parameters:
        upper += 1
    return min(range(max(1, upper - 1), upper + 1), key=lambda c: abs(count(c) - parameters))
