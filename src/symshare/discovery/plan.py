"""Which networks a verdict makes worth comparing."""

from dataclasses import replace

from symshare import groups
from symshare.data import LabelledImages
from symshare.judge import Verdict
from symshare.models import MNIST, SMALL, architecture_of
from symshare.moments.statistics import FEWEST
from symshare.propose import Candidates
from symshare.records import NetworkName
from symshare.settings import NetworkConfig

POSITIONS = 400
"""Most positions of a stack that is computed in every step anew: those of 16 elements of 25."""


def plan_networks(
    verdict: Verdict, candidates: Candidates, data: LabelledImages
) -> tuple[dict[NetworkName, NetworkConfig], list[str]]:
    """Networks to compare, and notes on those that cannot be."""
    space = data.space
    if min(space) < SMALL.smallest:
        return {}, [
            f"No networks were compared: they need at least {SMALL.smallest} positions along each "
            f"axis, these images have {' x '.join(map(str, space))}."
        ]
    width_cnn = 16 if min(space) >= MNIST.smallest or len(space) > 2 else 32
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
    taps = architecture_of(plan["cnn"], space).taps
    if dictionary and _fits(1 + len(dictionary), taps, "gated", notes):
        plan["gated"] = NetworkConfig(kind="gated", group=dictionary, width=width_cnn)
    count = 1 + len(found or dictionary[:3])
    if _fits(count, taps, "sinkhorn", notes):
        plan["sinkhorn"] = NetworkConfig(kind="sinkhorn", elements=count, width=width_cnn)
        if verdict.found and found and len(data) >= FEWEST:
            # What moments find is a candidate; the verdict says which of them hold.
            plan["sinkhorn"] = replace(plan["sinkhorn"], init="moments", within=found)
    return plan, notes


def _fits(elements: int, taps: int, name: NetworkName, notes: list[str]) -> bool:
    """Whether stacks of so many elements are trained; a note where they are too large."""
    positions = elements * taps
    if positions <= POSITIONS:
        return True
    notes.append(
        f"No network {name} was compared: with {elements} elements its stacks would mix "
        f"{positions} positions in every step, and at most {POSITIONS} are trained here."
    )
    return False


def kernel_elements(candidates: Candidates, names: tuple[str, ...]) -> tuple[str, ...]:
    """Names of what the elements do to kernels.

    Shifts are left out: a translation moves no kernel.
    """
    chosen = {
        element.map.matrix
        for element in candidates.elements
        if element.name in names and element.map is not None
    }
    linear = groups.hyperoctahedral(len(candidates.shape))
    named = zip(linear.names[1:], linear.maps[1:], strict=True)
    return tuple(name for name, map in named if map is not None and map.matrix in chosen)
