"""Which networks a verdict makes worth comparing."""

from dataclasses import replace
from typing import Any

from symshare import groups
from symshare.data import LabelledImages
from symshare.judge import Verdict
from symshare.models import MNIST, SMALL, architecture_of
from symshare.moments.statistics import FEWEST
from symshare.propose import Candidates
from symshare.records import NetworkName
from symshare.settings import NetworkConfig

Map = tuple[int, ...] | tuple[tuple[float, ...], ...]
"""What a move makes of the classes, or [A | b] of numbers."""

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
    members = verdict.found or verdict.approximate
    if not members and verdict.partial:
        # {id, g} and {id, g^-1} are one partial set up to a translation: use the clearer one.
        kept = {j.name: j.kept_share_min for j in verdict.judgements}
        members = (max(verdict.partial, key=kept.__getitem__),)
    found = kernel_elements(candidates, members)
    maps = {j.name: j.target_map or j.label_map for j in verdict.judgements}
    fixed = _fixed(data)
    moved = _maps_of(candidates, members, found, maps, fixed)
    plan: dict[NetworkName, NetworkConfig] = {"cnn": NetworkConfig(width=width_cnn)}
    notes = []
    if found and moved is not None:
        maps_of_labels: dict[str, Any] = {"target_map" if data.numbers else "label_map": moved}
        plan["found"] = NetworkConfig(kind="gcnn", group=found, width=width_cnn, **maps_of_labels)
    elif members:
        notes.append(
            "No G-CNN was built with these elements: as maps of kernels they are the identity, "
            "have no counterpart, or mean different maps of the labels."
        )
    # A measure, and stacks that are learned, have heads that leave the labels as they are.
    dictionary = kernel_elements(candidates, tuple(name for name in maps if maps[name] == fixed))
    taps = architecture_of(plan["cnn"], space).taps
    if dictionary and _fits(1 + len(dictionary), taps, "gated", notes):
        plan["gated"] = NetworkConfig(kind="gated", group=dictionary, width=width_cnn)
    count = 1 + len(found or dictionary[:3])
    if _fits(count, taps, "sinkhorn", notes):
        plan["sinkhorn"] = NetworkConfig(kind="sinkhorn", elements=count, width=width_cnn)
        if verdict.found and found and not moved and len(data) >= FEWEST:
            # What moments find is a candidate; the verdict says which of them hold.
            plan["sinkhorn"] = replace(plan["sinkhorn"], init="moments", within=found)
    return plan, notes


def _fixed(data: LabelledImages) -> Map:
    """The map that leaves labels as they are."""
    if not data.numbers:
        return tuple(range(len(data.classes)))
    d = len(data.numbers)
    return tuple(tuple(float(i == j) for j in range(d + 1)) for i in range(d))


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


def _maps_of(
    candidates: Candidates,
    members: tuple[str, ...],
    found: tuple[str, ...],
    maps: dict[str, Map],
    fixed: Map,
) -> tuple[Map, ...] | None:
    """What each element of a kernel makes of the labels; empty where all leave them.

    None where candidates that do the same to kernels, such as a mirror and its shifts, do not do
    the same to the labels, or one that does nothing to kernels moves the labels.
    """
    made: dict[str, set[Map]] = {}
    for name in members:
        (on_kernel,) = kernel_elements(candidates, (name,)) or ("id",)
        made.setdefault(on_kernel, set()).add(maps[name])
    if any(len(rows) > 1 for rows in made.values()) or made.get("id", {fixed}) != {fixed}:
        return None
    rows = tuple(next(iter(made[name])) for name in found)
    return () if all(row == fixed for row in rows) else rows


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
