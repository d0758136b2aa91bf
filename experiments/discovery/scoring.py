"""Compare an answer with the truth, and count the answers."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from experiments.discovery.answers import Answer
from experiments.discovery.truths import Truth, of_numbers, same_on, verify

Outcome = Literal["exact", "missed", "weak", "wrong name", "false"]

OUTCOMES: tuple[Outcome, ...] = ("false", "missed", "wrong name", "weak", "exact")
"""All outcomes, the worst first."""

CLAIMS = ("symmetric", "approximate")


@dataclass(frozen=True)
class Score:
    """How an answer stands beside the truth.

    Attributes:
        outcome: false where anything was named that is no symmetry; else missed where a symmetry
            was called none or was no candidate; else weak where one was left undecided or called
            approximate, or where nothing is one and that was left undecided; else wrong name where
            the moves are right and the group's name is not; else exact.
        false: names of moves that were named and are no symmetries.
        missed: symmetries that were called none, or "not proposed".
        weak: names of symmetries that were neither named exactly nor called none.
        open: names of moves that were named and of which the truth is not known.
    """

    outcome: Outcome
    false: tuple[str, ...]
    missed: tuple[str, ...]
    weak: tuple[str, ...]
    open: tuple[str, ...]


def score(answer: Answer, truth: Truth, images: np.ndarray) -> Score:
    """Compare an answer with the truth.

    Args:
        answer: of a method.
        truth: the symmetries.
        images: that were asked about; moves that do the same to each of them are the same.
    """
    numbers = int(np.prod(images.shape[1:]))
    truth = truth.of_numbers(numbers)
    moves = {name: of_numbers(move, numbers) for name, move in answer.moves.items()}
    answer = replace(answer, moves=moves)
    said = verify(truth, answer.moves, images)
    maps, exchanges = answer.maps or {}, truth.exchanges if answer.maps is not None else frozenset()
    for name, label_map in maps.items():
        said[name] = "true" if (answer.moves[name], label_map) in truth.exchanges else "false"
    named = [name for name, status in answer.statuses.items() if status in CLAIMS]
    false = tuple(name for name in named if said[name] == "false")
    open_ = tuple(name for name in named if said[name] == "open")
    missed, weak = [], []
    fixed = {name: move for name, move in answer.moves.items() if name not in maps}
    wanted: list[str | None] = [
        next((n for n, g in answer.moves.items() if (g, maps.get(n)) == exchange), None)
        for exchange in sorted(exchanges)
    ]
    for move in truth.moves if not truth.large else ():
        if not same_on(images, move, tuple(range(len(move)))):
            name = next((n for n, g in fixed.items() if g == move), None) or next(
                (n for n, g in fixed.items() if same_on(images, g, move)), None
            )
            wanted.append(name)
    for name in wanted:
        status = None if name is None else answer.statuses[name]
        if name is None or status in ("broken", "tolerated"):
            missed.append(name or "not proposed")
        elif status != "symmetric" or name not in answer.found:
            weak.append(name)
    if truth.large and not answer.found:
        weak = ["all"]
    only_open = bool(answer.found) and all(said[name] == "open" for name in answer.found)
    if (
        not truth.moves
        and not exchanges
        and not only_open
        and answer.word not in ("none", "partial")
    ):
        weak = ["none"]
    outcome: Outcome
    if false:
        outcome = "false"
    elif missed:
        outcome = "missed"
    elif weak:
        outcome = "weak"
    elif _misnamed(answer, truth, said):
        outcome = "wrong name"
    else:
        outcome = "exact"
    return Score(outcome, false, tuple(missed), tuple(weak), open_)


def _misnamed(answer: Answer, truth: Truth, said: dict[str, str]) -> bool:
    """Whether the moves are right and their group is called by a wrong name.

    Where there are more than are judged, the answer has to say so. Where an open move is among
    them, no name is expected.
    """
    if truth.large:
        return not answer.capped
    if any(said[name] == "open" for name in answer.found):
        return False
    return answer.group != truth.group_for(answer.maps is not None)


def interval(events: int, runs: int) -> tuple[float, float]:
    """The 95 % interval of a share by Clopper and Pearson.

    >>> [round(bound, 4) for bound in interval(0, 300)]
    [0.0, 0.0122]
    """
    from scipy.stats import binomtest

    if not runs:
        return 0.0, 1.0
    found = binomtest(events, runs).proportion_ci(0.95, "exact")
    return float(found.low), float(found.high)


def summary(rows: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Shares over the rows of one half and one method.

    Returns:
        `exact`, the share of the cases with enough images that are exact, and `n_cases`, their
        number; `exact_all` and `n_all`, the same for all cases; `outcomes`, counts of all cases;
        `false_discovery`, the share of the `n_null` null runs in which anything was named, with
        `ci`, its 95 % interval (Clopper and Pearson). A share of nothing is None.
    """
    rows = list(rows)
    null = [row for row in rows if row["null"]]
    cases = [row for row in rows if not row["null"]]
    enough = [row for row in cases if row["enough"]]
    events = sum(row["outcome"] == "false" for row in null)
    counts = Counter(row["outcome"] for row in cases)

    def exact(chosen: list[dict[str, Any]]) -> float | None:
        right = sum(row["outcome"] == "exact" for row in chosen)
        return right / len(chosen) if chosen else None

    return {
        "exact": exact(enough),
        "n_cases": len(enough),
        "exact_all": exact(cases),
        "n_all": len(cases),
        "outcomes": {outcome: counts[outcome] for outcome in OUTCOMES},
        "false_discovery": events / len(null) if null else None,
        "n_null": len(null),
        "ci": list(interval(events, len(null))),
    }
