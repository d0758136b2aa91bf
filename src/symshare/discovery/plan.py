"""Which networks a verdict makes worth comparing."""

from dataclasses import replace
from typing import Any

from symshare import groups
from symshare.data import LabelledImages
from symshare.groups import ChannelMap
from symshare.judge import Verdict
from symshare.models import MNIST, SMALL, architecture_of
from symshare.moments.statistics import FEWEST
from symshare.names import VECTOR
from symshare.propose import Candidates
from symshare.records import NetworkName
from symshare.settings import Kind, NetworkConfig

Map = tuple[int, ...] | tuple[tuple[float, ...], ...]
"""What a move makes of the classes, or [A | b] of numbers."""

POSITIONS = 400
"""Most positions of a stack that is computed in every step anew: those of 16 elements of 25."""


def plan_networks(
    verdict: Verdict, candidates: Candidates, data: LabelledImages
) -> tuple[dict[NetworkName, NetworkConfig], list[str]]:
    """Networks to compare, and notes on those that cannot be."""
    space, channels = data.space, data.images.shape[1]
    if min(space) < SMALL.smallest and space != VECTOR:
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
    still = ChannelMap.identity(channels)
    found = kernel_elements(candidates, members, still)
    maps = {j.name: j.target_map or j.label_map for j in verdict.judgements}
    fixed = _fixed(data)
    moved = _maps_of(candidates, members, found, maps, fixed, still)
    plan: dict[NetworkName, NetworkConfig] = {"cnn": NetworkConfig(width=width_cnn)}
    notes = []
    if found and moved is not None:
        maps_of_labels: dict[str, Any] = {"target_map" if data.numbers else "label_map": moved}
        plan["found"] = replace(_network("gcnn", found, still), width=width_cnn, **maps_of_labels)
    elif members:
        notes.append(
            "No G-CNN was built with these elements: as maps of kernels they are the identity, "
            "have no counterpart, or mean different maps of the labels."
        )
    # A measure, and stacks that are learned, have heads that leave the labels as they are.
    keeping = tuple(name for name in maps if maps[name] == fixed)
    dictionary = kernel_elements(candidates, keeping, still)
    taps = architecture_of(plan["cnn"], space).taps
    if dictionary and _fits(1 + len(dictionary), taps, "gated", notes):
        plan["gated"] = replace(_network("gated", dictionary, still), width=width_cnn)
    count = 1 + len(found or dictionary[:3])
    if any(m != still for _, m in found) or space == VECTOR:
        notes.append(
            "No free stacks were compared: those of this network act on positions only, and what "
            "was found moves channels. Layers of your own mix both, see symshare.learn_stacks."
        )
    elif _fits(count, taps, "sinkhorn", notes):
        plan["sinkhorn"] = NetworkConfig(kind="sinkhorn", elements=count, width=width_cnn)
        if verdict.found and found and not moved and len(data) >= FEWEST:
            # What moments find is a candidate; the verdict says which of them hold.
            within = tuple(name for name, _ in found)
            plan["sinkhorn"] = replace(plan["sinkhorn"], init="moments", within=within)
    return plan, notes


KernelElement = tuple[str, ChannelMap]
"""A move of kernels by name, and what goes with it for the channels."""


def _network(kind: Kind, elements: tuple[KernelElement, ...], still: ChannelMap) -> NetworkConfig:
    """A network with these elements."""
    config = NetworkConfig(kind=kind, group=tuple(name for name, _ in elements))
    if all(m == still for _, m in elements):
        return config
    signs = tuple(m.signs for _, m in elements)
    return replace(
        config,
        channels=tuple(m.sources for _, m in elements),
        signs=signs if any(-1 in row for row in signs) else (),
    )


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
    found: tuple[KernelElement, ...],
    maps: dict[str, Map],
    fixed: Map,
    still: ChannelMap,
) -> tuple[Map, ...] | None:
    """What each element of a kernel makes of the labels; empty where all leave them.

    None where candidates that do the same to kernels, such as a mirror and its shifts, do not do
    the same to the labels, or one that does nothing to kernels moves the labels.
    """
    identity, made = ("id", still), dict[KernelElement, set[Map]]()
    for name in members:
        (on_kernel,) = kernel_elements(candidates, (name,), still) or (identity,)
        made.setdefault(on_kernel, set()).add(maps[name])
    if any(len(rows) > 1 for rows in made.values()) or made.get(identity, {fixed}) != {fixed}:
        return None
    rows = tuple(next(iter(made[element])) for element in found)
    return () if all(row == fixed for row in rows) else rows


def kernel_elements(
    candidates: Candidates, names: tuple[str, ...], still: ChannelMap
) -> tuple[KernelElement, ...]:
    """What the elements do to kernels, and to the channels that these read.

    Shifts are left out: a translation moves no kernel.

    Args:
        candidates: with the elements among them.
        names: of the elements.
        still: the map that leaves the channels as they are.
    """
    linear = groups.hyperoctahedral(len(candidates.shape))
    named = {map.matrix: name for name, map in zip(linear.names, linear.maps, strict=True) if map}
    chosen = {
        (named[element.map.matrix], element.channels or still)
        for element in candidates.elements
        if element.name in names and element.map is not None
    }

    def order(element: KernelElement) -> tuple[int, tuple[int, ...], tuple[int, ...]]:
        return linear.names.index(element[0]), element[1].sources, element[1].signs

    return tuple(sorted(chosen - {("id", still)}, key=order))
