"""The report's sentences: numbers of the verdict put into words, and why a part is missing."""

import re
import warnings
from collections.abc import Sequence

from symshare.groups import ChannelMap
from symshare.records import NetworkName, VerdictRecord

NONE = "\N{EN DASH}"
GLUE = "\N{NO-BREAK SPACE}"
ELEMENTS = {
    "id": "leaves everything as it is",
    "reverse": "back to front",
    "rot90": "quarter turn, counter-clockwise",
    "rot180": "half turn",
    "rot270": "quarter turn, clockwise",
    "flipW": "left-right mirror",
    "flipH": "up-down mirror",
    "transpose": "mirror in the main diagonal",
    "antitranspose": "mirror in the other diagonal",
}

SOURCES = {
    "statistics": "proposed by the data's statistics",
    "moments": "learned from the data's second moments",
    "user": "handed over by the user",
    "function": "a function, handed over by the user",
}


def minus(text: str) -> str:
    """The text with true minus signs."""
    return text.replace("-", "\N{MINUS SIGN}")


def decimals(value: float) -> str:
    """A loss in nats, or a change of the images, to three decimals.

    >>> decimals(0.01234), decimals(-0.0001)
    ('0.012', '0.000')
    """
    return minus(f"{round(value, 3) + 0.0:.3f}")


def interval(bounds: tuple[float, float]) -> str:
    """An interval of losses, or of changes.

    >>> interval((0.01, 0.5))
    '[0.010, 0.500]'
    """
    return f"[{decimals(bounds[0])}, {decimals(bounds[1])}]"


def percent(fraction: float | None, digits: int = 1) -> str:
    r"""A fraction in percent.

    >>> percent(0.9512), percent(None)
    ('95.1\xa0%', '–')
    """
    return NONE if fraction is None else minus(f"{100 * fraction:.{digits}f}{GLUE}%")


def count(number: int) -> str:
    r"""A whole number with its thousands set apart.

    >>> count(410890)
    '410\xa0890'
    """
    return f"{number:,}".replace(",", GLUE)


def duration(seconds: float) -> str:
    r"""Seconds, in minutes where there are many.

    >>> duration(12.34), duration(250.0)
    ('12.3\xa0s', '4\xa0min 10\xa0s')
    """
    if seconds < 100:
        return f"{seconds:.1f}{GLUE}s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}{GLUE}h {minutes}{GLUE}min"
    return f"{minutes}{GLUE}min {rest}{GLUE}s"


def element(
    name: str,
    source: str,
    channels: Sequence[int] | None = None,
    signs: Sequence[int] | None = None,
    names: Sequence[str] = (),
) -> str:
    """What an element does and, unless it is a plain lattice element, who proposed it.

    >>> element("rot180", "lattice"), element("shift3", "statistics")
    ('half turn', "cyclic shift by 3; proposed by the data's statistics")
    >>> element("reverse*(0 1)", "lattice", (1, 0, 2), (1, 1, -1))
    'back to front, channels 0 and 1 exchanged and the sign of channel 2 changed'
    """
    move = name.partition("*")[0]
    shift = re.fullmatch(r"shift(\d+)", move)
    parts = [f"cyclic shift by {shift[1]}" if shift else ELEMENTS.get(move, "")]
    if channels is not None:
        moved = ChannelMap(tuple(channels), tuple(signs or (1,) * len(channels)))
        parts.append(moved.phrase(names) or f"channels {moved.word(names)}")
    what = ", ".join(part for part in parts if part)
    return "; ".join(part for part in (what, SOURCES.get(source, "")) if part)


def listed(names: Sequence[str], most: int = 8) -> str:
    """Names in a row, cut where there are many.

    >>> listed(["rot90", "rot180"]), listed([]), listed(["a", "b", "c"], most=1)
    ('rot90, rot180', 'nothing', 'a and 2 more')
    """
    if len(names) <= most:
        return ", ".join(names) or "nothing"
    return f"{', '.join(names[:most])} and {len(names) - most} more"


def broken_classes(indices: Sequence[int], classes: Sequence[str]) -> str:
    """The classes in which a candidate breaks; empty where it breaks in none.

    >>> broken_classes((1,), ("cat", "dog")), broken_classes((0, 1), ("cat", "dog"))
    ('dog', 'all 2')
    """
    if len(indices) == len(classes):
        return f"all {len(classes)}"
    return listed([classes[i] for i in indices], most=12) if indices else ""


def open_classes(indices: Sequence[int], classes: Sequence[str], most: int = 8) -> str:
    """The classes left open, or their number where there are many; empty where there are none.

    >>> open_classes((0, 2), ("cat", "dog", "hen")), open_classes((0, 2), "abc", most=1)
    ('cat, hen', '2 of 3')
    """
    if most < len(indices) < len(classes):
        return f"{len(indices)} of {len(classes)}"
    return broken_classes(indices, classes)


def numbers(label: Sequence[float], names: Sequence[str]) -> str:
    """The numbers of one label.

    >>> numbers([1.234, -0.5], ["row", "column"])
    'row 1.23, column −0.5'
    """
    return ", ".join(
        f"{name} {minus(f'{value:.3g}')}" for name, value in zip(names, label, strict=True)
    )


def errors(values: Sequence[float] | None) -> str:
    """Errors of the numbers of a label, in their units; empty for classes.

    >>> errors([0.1234, 12.0]), errors(None)
    ('0.123, 12', '')
    """
    return ", ".join(f"{value:.3g}" for value in values or ())


def _known_numbers(verdict: VerdictRecord) -> str:
    """Which numbers the networks know, so that a change of them would be noticed."""
    names, known = verdict.numbers, verdict.power.told_apart
    unknown = [name for j, name in enumerate(names) if j not in known]
    if not unknown:
        of = names[0] if len(names) == 1 else f"each of {', '.join(names)}"
        return f"The network explains some of the variance of {of}."
    return (
        f"The network explains nothing of {', '.join(unknown)}. Whether a move changes what it "
        "does not know was not tested."
    )


def told_apart(verdict: VerdictRecord) -> str:
    """Which classes or numbers the networks know, so that an exchange would be noticed."""
    if verdict.numbers:
        return _known_numbers(verdict)
    classes, known = verdict.classes, verdict.power.told_apart
    mixed = [i for i in range(len(classes)) if i not in known]
    if not mixed:
        return f"The network tells each of the {len(classes)} classes from every other one."
    if not known:
        return f"The network tells none of the {len(classes)} classes from every other one."
    return (
        f"The network tells {len(known)} of {len(classes)} classes from every other one. Not told "
        f"from some other class: {open_classes(mixed, classes)}. Whether a move exchanges what the "
        "network mixes was not tested."
    )


def welch(found: Sequence[float], cnn: Sequence[float]) -> tuple[float, float] | None:
    """The 95 % interval of a difference of two means (Welch's t test, unequal variances).

    Returns:
        Lower and upper bound as fractions, or None with fewer than two seeds each or no spread at
        all, which says nothing about what other seeds would do.

    >>> [round(x, 3) for x in welch([0.9, 0.92, 0.91], [0.8, 0.82, 0.81])]
    [0.077, 0.123]
    """
    from scipy.stats import ttest_ind

    if min(len(found), len(cnn)) < 2 or len({*found}) == len({*cnn}) == 1:
        return None
    with warnings.catch_warnings():
        # One network may reach the same accuracy with every seed, which leaves the other's spread.
        warnings.filterwarnings("ignore", "Precision loss", RuntimeWarning)
        low, high = ttest_ind(found, cnn, equal_var=False).confidence_interval(0.95)
    return float(low), float(high)


def points(fraction: float) -> str:
    """A difference of shares in percentage points, always with its sign.

    >>> points(0.129)
    '+12.9'
    """
    return minus(f"{round(100 * fraction, 1) + 0.0:+.1f}")


def _built_in(verdict: VerdictRecord) -> tuple[str, ...]:
    """The elements that a G-CNN can have built in: an exact group, an approximate one, or parts."""
    return verdict.found or verdict.approximate or verdict.partial


def missing_accuracy(verdict: VerdictRecord, model: NetworkName) -> str:
    """Why a network has no accuracy."""
    if model == "found" and not _built_in(verdict):
        return "nothing was found, so there is no symmetry to build in"
    planned = model in verdict.planned
    return "not trained in this run" if planned else "no such network exists here"


def missing_tensors(verdict: VerdictRecord, model: NetworkName) -> str:
    """Why a network has no kernels to show."""
    if model == "found" and not _built_in(verdict):
        return "Nothing was found, so no network with it was trained."
    if model not in verdict.planned:
        return "No such network exists for data of this shape and these elements."
    return "This network was not trained in this run, or kept no tensors."


def help_answer(verdict: VerdictRecord) -> tuple[str, str]:
    """Does using the symmetry help? The answer in a word or two, and the sentences behind it."""
    cnn, found = verdict.accuracy["cnn"], verdict.accuracy["found"]
    if not _built_in(verdict):
        does = "explains" if verdict.numbers else "reaches"
        of = " of the variance of the labels" if verdict.numbers else ""
        rest = f" The plain CNN {does} {percent(cnn.mean)}{of} on the test set." if cnn else ""
        return "Not measured", ("Nothing was found to hold, so no network was built on it." + rest)
    if "found" not in verdict.planned:
        return "Not measured", (
            "No network can be built with these elements; the remarks below the verdict say why."
        )
    kind = "found" if verdict.found else "approximate" if verdict.approximate else "partial"
    if not (cnn and found):
        return "Not measured", (
            f"The networks with and without the {kind} symmetry were not both trained. "
            "The same command with the same output folder takes up where it stopped."
        )
    difference = found.mean - cnn.mean
    fewer = ""
    if cnn.mean < 1:
        change = difference / (1 - cnn.mean)
        what = "squared error" if verdict.numbers else "errors"
        more, less = ("more", "less") if verdict.numbers else ("more", "fewer")
        fewer = f", {percent(abs(change), 0)} {less if change >= 0 else more} {what}"
    reached = "test accuracy is"
    if verdict.numbers:
        reached = "explained variance on the test set is"
    compared = (
        f"With the {kind} symmetry built in the {reached} {percent(found.mean)}, "
        f"without it {percent(cnn.mean)}: {points(difference)} percentage points{fewer}"
    )
    bounds = welch(found.values, cnn.values)
    if bounds is None:
        few = "a single seed" if min(found.n, cnn.n) < 2 else "seeds that all agree"
        return f"Not clear from {few}", (
            f"{compared}. With {few} the spread between trainings is unknown."
        )
    low, high = bounds
    answer = "Yes" if low > 0 else f"No, it costs {verdict.metric}" if high < 0 else "Not clearly"
    return answer, (
        f"{compared} (95 % interval {points(low)} to {points(high)}, Welch, {found.n} and {cnn.n} "
        "seeds, one and the same test part)."
    )
