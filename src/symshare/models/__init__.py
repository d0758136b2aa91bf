"""The networks of the paper's experiments, a smaller sibling, and the witness of held-out tests."""

from symshare.models.building import (
    architecture_of,
    build_network,
    dictionary,
    free_parameters,
    matched_channels,
    plain,
    wscnn,
)
from symshare.models.convolutional import MNIST, SMALL, Architecture, GroupCNN, probe
from symshare.models.network import GroupNetwork, representation_parameters
from symshare.models.residual import CIFAR10, GroupResNet, ResidualArchitecture

__all__ = [
    "CIFAR10",
    "MNIST",
    "SMALL",
    "Architecture",
    "GroupCNN",
    "GroupNetwork",
    "GroupResNet",
    "ResidualArchitecture",
    "architecture_of",
    "build_network",
    "dictionary",
    "free_parameters",
    "matched_channels",
    "plain",
    "probe",
    "representation_parameters",
    "wscnn",
]
