"""Which networks a verdict makes worth comparing."""

from dataclasses import replace

from symshare import groups
from symshare.data import LabelledImages
from symshare.judge import Verdict
from symshare.models import MNIST, SMALL
from symshare.moments.statistics import FEWEST
from symshare.propose import Candidates
from symshare.records import NetworkName
from symshare.settings import NetworkConfig


def plan_networks(
    verdict: Verdict, candidates: Candidates, data: LabelledImages
) -> tuple[dict[NetworkName, NetworkConfig], list[str]]:
    """Networks to compare, and notes on those that cannot be."""
    height, width = data.images.shape[2:]
    if min(height, width) < SMALL.smallest:
        return {}, [
            f"No networks were compared: they need images of at least {SMALL.smallest} pixels a "
            f"side, these have {height} x {width}."
        ]
    width_cnn = 16 if min(height, width) >= MNIST.smallest else 32
    dictionary = kernel_elements(candidates, candidates.names)
    members = verdict.found or verdict.approximate
    if not members and verdict.partial:
        # {id, g} and {id, g^-1} are one partial set up to a translation: use the clearer one.
        kept = {j.name: j.kept_share_min for j in verdict.judgements}
        members = (max(verdict.partial, key=kept.__getitem__),)
    found = kernel_elements(candidates, members)
    plan: dict[NetworkName, NetworkConfig] = {"cnn": NetworkConfig(width=width_cnn)}
    notes = []
    if found:
        plan["found"] = NetworkConfig(kind="gcnn", group=found, width=width_cnn)
    elif members:
        notes.append(
            "No G-CNN was built with these elements: as maps of kernels they are the identity "
            "or have no counterpart."
        )
    if dictionary:
        plan["gated"] = NetworkConfig(kind="gated", group=dictionary, width=width_cnn)
    count = 1 + len(found or dictionary[:3])
    plan["sinkhorn"] = NetworkConfig(kind="sinkhorn", elements=count, width=width_cnn)
    if verdict.found and found and len(data) >= FEWEST:
        # What moments find is a candidate; the verdict says which of them hold.
        plan["sinkhorn"] = replace(plan["sinkhorn"], init="moments", within=found)
    return plan, notes


def kernel_elements(candidates: Candidates, names: tuple[str, ...]) -> tuple[str, ...]:
    """Names, among the symmetries of the square, of the elements' action on kernels.

    Shifts are left out: a translation moves no kernel.
    """
    chosen = {
        element.map.matrix
        for element in candidates.elements
        if element.name in names and element.map is not None
    }
    square = groups.dihedral(4)
    named = zip(square.names[1:], square.maps[1:], strict=True)
    return tuple(name for name, map in named if map is not None and map.matrix in chosen)
