"""The report's sentences: numbers of the verdict put into words, and why a part is missing."""

import math
import re
import statistics
from typing import Any

__all__ = [
    "count",
    "duration",
    "element",
    "help_answer",
    "interval",
    "listed",
    "missing_accuracy",
    "missing_tensors",
    "nats",
    "percent",
    "points",
    "welch",
]

# JSON writes a round float as an integer.
Number = float | int

NONE = "\N{EN DASH}"
GLUE = "\N{NO-BREAK SPACE}"
ELEMENTS = {
    "id": "leaves everything as it is",
    "rot90": "quarter turn, counter-clockwise",
    "rot180": "half turn",
    "rot270": "quarter turn, clockwise",
    "flipW": "left-right mirror",
    "flipH": "up-down mirror",
    "transpose": "mirror in the main diagonal",
    "antitranspose": "mirror in the other diagonal",
}

SOURCES = {"statistics": "proposed by the data's statistics", "user": "handed over by the user"}


def _signed(text: str) -> str:
    return text.replace("-", "\N{MINUS SIGN}")


def nats(value: Number | None) -> str:
    """A loss in nats, to three decimals.

    >>> nats(0.01234), nats(-0.0001), nats(None)
    ('0.012', '0.000', '–')
    """
    if value is None or not math.isfinite(value):
        return NONE
    return _signed(f"{round(value, 3) + 0.0:.3f}")


def interval(bounds: list[Number] | None) -> str:
    """An interval of losses.

    >>> interval([0.01, 0.5])
    '[0.010, 0.500]'
    """
    return NONE if bounds is None else f"[{nats(bounds[0])}, {nats(bounds[1])}]"


def percent(fraction: Number | None, digits: int = 1) -> str:
    r"""A fraction in percent.

    >>> percent(0.9512), percent(None)
    ('95.1\xa0%', '–')
    """
    if fraction is None or not math.isfinite(fraction):
        return NONE
    return _signed(f"{100 * fraction:.{digits}f}{GLUE}%")


def count(number: int | None) -> str:
    r"""A whole number with its thousands set apart.

    >>> count(410890)
    '410\xa0890'
    """
    return NONE if number is None else f"{number:,}".replace(",", GLUE)


def duration(seconds: Number | None) -> str:
    r"""Seconds, in minutes where there are many.

    >>> duration(12.34), duration(250)
    ('12.3\xa0s', '4\xa0min 10\xa0s')
    """
    if seconds is None:
        return NONE
    if seconds < 100:
        return f"{seconds:.1f}{GLUE}s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}{GLUE}h {minutes}{GLUE}min"
    return f"{minutes}{GLUE}min {rest}{GLUE}s"


def element(name: str, source: str) -> str:
    """What an element does and, unless it is a plain lattice element, who proposed it.

    >>> element("rot180", "lattice"), element("shift3", "statistics")
    ('half turn', "cyclic shift by 3; proposed by the data's statistics")
    """
    shift = re.fullmatch(r"shift(\d+)", name)
    what = f"cyclic shift by {shift[1]}" if shift else ELEMENTS.get(name, "")
    return "; ".join(part for part in (what, SOURCES.get(source, "")) if part)


def listed(names: list[str], most: int = 8) -> str:
    """Names in a row, cut where there are many.

    >>> listed(["rot90", "rot180"]), listed([]), listed(["a", "b", "c"], most=1)
    ('rot90, rot180', 'nothing', 'a and 2 more')
    """
    if len(names) <= most:
        return ", ".join(names) or "nothing"
    return f"{', '.join(names[:most])} and {len(names) - most} more"


def welch(found: list[Number], cnn: list[Number]) -> tuple[float, float, float] | None:
    """Difference of two means with its 95 % interval (Welch's t, unequal variances).

    Args:
        found: accuracies, one per seed.
        cnn: accuracies to compare with.

    Returns:
        Difference, lower and upper bound as fractions, or None with fewer than two seeds each or
        no spread at all, which says nothing about what other seeds would do.

    >>> [round(x, 3) for x in welch([0.9, 0.92, 0.91], [0.8, 0.82, 0.81])]
    [0.1, 0.077, 0.123]
    """
    if min(len(found), len(cnn)) < 2:
        return None
    from scipy.special import stdtrit

    parts = [statistics.variance(values) / len(values) for values in (found, cnn)]
    difference = statistics.fmean(found) - statistics.fmean(cnn)
    total = sum(parts)
    if total == 0:
        return None
    squares = (part**2 / (len(v) - 1) for part, v in zip(parts, (found, cnn), strict=True))
    reach = float(stdtrit(total**2 / sum(squares), 0.975)) * math.sqrt(total)
    return difference, difference - reach, difference + reach


def points(fraction: Number) -> str:
    """A difference of accuracies in percentage points, always with its sign.

    >>> points(0.129)
    '+12.9'
    """
    return _signed(f"{round(100 * fraction, 1) + 0.0:+.1f}")


def missing_accuracy(verdict: dict[str, Any], model: str) -> str:
    """Why a network has no accuracy."""
    if model == "found" and not verdict["found"]:
        return "nothing was found, so there is no symmetry to build in"
    return "not trained in this run" if _planned(verdict, model) else "no such network exists here"


def missing_tensors(verdict: dict[str, Any], model: str) -> str:
    """Why a network has no kernels to show."""
    if model == "found" and not verdict["found"]:
        return "Nothing was found, so no network with it was trained."
    if not _planned(verdict, model):
        return "No such network exists for these images and these elements."
    return "This network was not trained in this run, or kept no tensors."


def _planned(verdict: dict[str, Any], model: str) -> bool:
    """Whether the run trains a network sooner or later."""
    return model in verdict.get("planned", [model])


def help_answer(verdict: dict[str, Any]) -> tuple[str, str]:
    """Does using the symmetry help? A short answer, and the sentence behind it.

    Returns:
        The answer in a word or two (`Yes`, `Not clearly`, ...), and one to two sentences.
    """
    accuracy = verdict.get("accuracy") or {}
    cnn, found = accuracy.get("cnn"), accuracy.get("found")
    if not found and not verdict["found"]:
        rest = f" The plain CNN reaches {percent(cnn['mean'])} on the test set." if cnn else ""
        return "Not measured", (
            "Nothing was found to hold exactly, so no network was built on it." + rest
        )
    if not _planned(verdict, "found"):
        return "Not measured", (
            "No network can be built with what was found; the remarks below the verdict say why."
        )
    if not (cnn and found):
        return "Not measured", (
            "The networks with and without the found symmetry were not both trained. "
            "The same command with the same output folder takes up where it stopped."
        )
    kind = next((k for k in ("found", "approximate") if verdict.get(k)), "partial")
    difference = found["mean"] - cnn["mean"]
    wrong = 1 - cnn["mean"]
    fewer = ""
    if wrong > 0:
        change = difference / wrong
        fewer = f", {percent(abs(change), 0)} {'fewer' if change >= 0 else 'more'} errors"
    compared = (
        f"with the {kind} symmetry built in the test accuracy is {percent(found['mean'])}, "
        f"without it {percent(cnn['mean'])}: {points(difference)} percentage points{fewer}"
    )
    bounds = welch(found["values"], cnn["values"])
    if bounds is None:
        few = "a single seed" if min(found["n"], cnn["n"]) < 2 else "seeds that all agree"
        return f"Not clear from {few}", (
            f"{compared[0].upper()}{compared[1:]}. "
            f"With {few} the spread between trainings is unknown."
        )
    _, low, high = bounds
    answer = "Yes" if low > 0 else "No, it costs accuracy" if high < 0 else "Not clearly"
    return answer, (
        f"{compared[0].upper()}{compared[1:]} (95 % interval {points(low)} to {points(high)}, "
        f"Welch, {found['n']} and {cnn['n']} seeds, one and the same test part)."
    )
