"""What a method is asked, and what it answers."""

from dataclasses import dataclass, field
from typing import Any

from experiments.discovery.truths import LabelMap, Permutation
from symshare.data import LabelledImages


@dataclass(frozen=True, eq=False)
class Question:
    """What a method is asked.

    Attributes:
        data: the images as their law left them, with labels and, where they are told, groups.
        periodic: axes along which images wrap around, as a user would say.
        seed: of everything random in the method.
    """

    data: LabelledImages
    periodic: tuple[str, ...]
    seed: int


@dataclass(frozen=True)
class Answer:
    """What a method says.

    Attributes:
        word: group, approximate, partial, none or undecided.
        group: name of the group that it claims.
        found: names of the moves of this group, the identity left out.
        capped: whether it says that there may be more.
        possible: name of a larger group that it does not exclude.
        moves: the moves that were judged, by name.
        statuses: of each: symmetric and approximate are claims.
        maps: the class that a move makes of each class, for those that exchange some; None of a
            method that takes labels as fixed.
        numbers: of each, what it rests on.
        facts: numbers and reasons of the whole answer.
        seconds: that it took.
    """

    word: str
    group: str | None
    found: tuple[str, ...]
    capped: bool
    possible: str | None
    moves: dict[str, Permutation]
    statuses: dict[str, str]
    numbers: dict[str, dict[str, Any]]
    maps: dict[str, LabelMap] | None = None
    facts: dict[str, Any] = field(default_factory=dict)
    seconds: float = 0.0
