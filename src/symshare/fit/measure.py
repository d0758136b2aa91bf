"""The learned measure of a network, by the names of its elements."""

import torch

from symshare.groups import Action
from symshare.models import GroupNetwork

__all__ = ["measure_by_element"]


def measure_by_element(network: GroupNetwork, action: Action) -> dict[str, float]:
    """The measure on the elements of a dictionary; nothing where none is learned.

    Args:
        network: its layers share one measure.
        action: the elements of its first layer.
    """
    with torch.no_grad():
        measure = network.stacks()[0].measure
    return {} if measure is None else dict(zip(action.names, measure.tolist(), strict=True))
