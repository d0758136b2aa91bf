"""The networks of the paper's experiments, a smaller sibling, and the witness of held-out tests."""

from symshare.models.building import (
    architecture_of,
    build_network,
    dictionary,
    free_parameters,
    matched_channels,
    plain,
    representations_of,
    wscnn,
)
from symshare.models.convolutional import MNIST, SMALL, VECTORS, Architecture, GroupCNN, probe
from symshare.models.network import GroupNetwork, representation_parameters

__all__ = [
    "MNIST",
    "SMALL",
    "VECTORS",
    "Architecture",
    "GroupCNN",
    "GroupNetwork",
    "architecture_of",
    "build_network",
    "dictionary",
    "free_parameters",
    "matched_channels",
    "plain",
    "probe",
    "representation_parameters",
    "representations_of",
    "wscnn",
]
