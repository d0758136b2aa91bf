"""What follows from a verdict and from ranges: a line for each move, with the evidence in it."""

import math
from collections.abc import Sequence

from symshare.records import Advice, AdviceKind, Element, Range, Reach, VerdictRecord

FAMILIES = {
    "turn": "turns",
    "turnx": "turns about x",
    "turny": "turns about y",
    "turnz": "turns about z",
    "scale": "scalings",
    "shift": "shifts",
    "shiftH": "shifts along H",
    "shiftW": "shifts along W",
    "shiftx": "shifts along x",
    "shifty": "shifts along y",
    "shiftz": "shifts along z",
    "shear": "shears",
    "warp": "time warps",
    "gain": "gains",
    "offset": "offsets",
    "brightness": "changes of brightness",
    "contrast": "changes of contrast",
    "blur": "blur",
    "noise": "noise",
}
"""What moves of each family are called."""

_LISTED = 8
"""Most moves that are named one by one."""


def advise(record: VerdictRecord) -> tuple[Advice, ...]:
    """What to build in, what to augment with, and what to keep away from, in this order.

    It follows from the verdict and the ranges alone; where the networks were too weak to decide
    anything there is none.
    """
    lines = [*_of_moves(record), *(line for r in _ranges(record) for line in _of_range(r, record))]
    order = ("build in", "augment", "keep away")
    return tuple(sorted(lines, key=lambda line: order.index(line.kind)))


def sized(range_: Range, size: float) -> str:
    """A size as a person writes it; of doublings the factor.

    >>> from symshare.records import Reach
    >>> none = Reach(0.0, 0.0, None, None)
    >>> turn = Range("turn", "degrees", False, True, True, 180.0, none, none, none, ())
    >>> sized(turn, -14.0625), sized(turn, 0.0)
    ('-14', '0')
    >>> sized(Range("scale", "times", True, True, True, 1.0, none, none, none, ()), -0.5)
    '0.71'
    """
    if range_.doubling:
        return f"{2**size:.2f}"
    return f"{size:.2g}" if abs(size) < 10 else f"{size:.0f}"


def interval(range_: Range, low: float, high: float) -> str:
    """Sizes between two, with the unit.

    >>> from symshare.records import Reach
    >>> none = Reach(0.0, 0.0, None, None)
    >>> interval(Range("blur", "pixels", False, False, False, 2.0, none, none, none, ()), 0.0, 1.5)
    'up to 1.5 pixels'
    """
    if not range_.signed:
        return f"up to {sized(range_, high)} {range_.unit}"
    return f"from {sized(range_, low)} to {sized(range_, high)} {range_.unit}"


def at_least(range_: Range, reach: Reach) -> str:
    """Which ends were shown up to the largest size that is examined; empty where none was."""
    low = reach.beyond_low is None and reach.low < 0
    high = reach.beyond_high is None and reach.high > 0
    if not (low or high):
        return ""
    ends = "both ends" if low and high else "the lower end" if low else "the upper end"
    single = ends if range_.signed else "it"
    return f"; {single} may lie further out, where nothing was examined"


def _ranges(record: VerdictRecord) -> Sequence[Range]:
    return record.ranges.families if record.ranges else ()


def _of_moves(record: VerdictRecord) -> list[Advice]:
    """Lines about exact moves: those of the group, those that labels tolerate, broken ones."""
    if not record.power.passed:
        return []
    members = record.found or record.approximate
    judged = {status: [e for e in record.elements if e.status == status] for status in
              ("tolerated", "broken")}  # fmt: skip
    lines = []
    if members:
        own = [e for e in record.elements if e.name in members]
        costs = (
            f"shown to cost at most {max(e.interval[1] for e in own):.3f} nats of the "
            f"{record.power.gain:.2f} known (bound {record.delta:.3f}), and to change the "
            f"{record.things.many} by at most {max(e.change_interval[1] for e in own):.3f} "
            f"(bound {record.change:g})"
        )
        if record.found:
            lines.append(_moves("build in", f"{record.group}: {_named(own, record)}", costs, own))
        else:
            costs = costs.replace("shown to cost", "not exact; it costs")
            lines.append(_moves("augment", f"{record.group}: {_named(own, record)}", costs, own))
    if own := judged["tolerated"]:
        why = (
            f"the labels bear it (at most {max(e.interval[1] for e in own):.3f} nats), while "
            f"networks tell moved {record.things.many} from those of the data: it adds "
            f"{record.things.many} that the data lacks"
        )
        lines.append(_moves("augment", _named(own, record), why, own))
    if own := [e for e in judged["broken"] if e.name not in members]:
        least = min(own, key=lambda e: (e.excess_loss, e.change))
        why = (
            f"shown to be no symmetry; the mildest, {least.name}, costs {least.excess_loss:.3f} "
            f"nats (bound {record.delta:.3f}) and changes the {record.things.many} by "
            f"{least.change:.3f} (bound {record.change:g})"
        )
        lines.append(_moves("keep away", _named(own, record), why, own))
    return lines


def _moves(kind: AdviceKind, what: str, why: str, elements: Sequence[Element]) -> Advice:
    return Advice(kind, what, why, tuple(e.name for e in elements), None, None, None)


def _named(elements: Sequence[Element], record: VerdictRecord) -> str:
    """Moves by name, with what they do to the classes."""
    words = [
        f"{e.name} with {moved}" if (moved := record.labels.moved(e)) else e.name for e in elements
    ]
    more = f" and {len(words) - _LISTED} more" if len(words) > _LISTED else ""
    return ", ".join(words[:_LISTED]) + more


def _of_range(range_: Range, record: VerdictRecord) -> list[Advice]:
    """What is safe of a family, and what was shown not to be."""
    assert record.ranges is not None
    delta, looser = record.ranges.delta, record.ranges.delta_approximate
    lines = [_safe(range_, delta, looser), _broken(range_, delta, record.classes)]
    return [line for line in lines if line is not None]


def _safe(range_: Range, delta: float, looser: float) -> Advice | None:
    """The sizes to augment with: those that are safe and of which enough is left to see."""
    safe, wide, same = range_.safe, range_.safe_approximate, range_.unnoticed
    inside = [s for s in range_.sizes if safe.low <= s.size <= safe.high]
    worn = [s.size for s in inside if s.resampling_loss > looser]
    least = max((size for size in worn if size < 0), default=-math.inf)
    most = min((size for size in worn if size > 0), default=math.inf)
    kept = [0.0, *(s.size for s in inside if least < s.size < most)]
    low, high = min(kept), max(kept)
    if low == high:
        return None
    why = (
        f"each of {len(kept) - 1} sizes was shown to cost less than delta = {delta:.3f} nats"
        f"{'' if worn else at_least(range_, safe)}; {interval(range_, wide.low, wide.high)} less "
        f"than {looser:.3f}"
    )
    if worn:
        why += (
            f"; further out, {interval(range_, safe.low, safe.high)}, the move itself is safe too, "
            f"but borders and interpolation alone cost more than {looser:.3f} nats"
        )
    if same.low < same.high:
        why += (
            f"; {interval(range_, same.low, same.high)} networks do not tell moved from others: "
            "such moves add little"
        )
    what = f"{FAMILIES[range_.family]} {interval(range_, low, high)}"
    return Advice("augment", what, why, (), range_.family, low, high)


def _broken(range_: Range, delta: float, classes: Sequence[str]) -> Advice | None:
    """The sizes to keep away from, on either side."""
    broken = [s for s in range_.sizes if s.broken]
    below = max((s for s in broken if s.size < 0), key=lambda s: s.size, default=None)
    above = min((s for s in broken if s.size > 0), key=lambda s: s.size, default=None)
    ends = [s for s in (below, above) if s is not None]
    if not ends:
        return None
    where = [f"{sized(range_, s.size)} and {'more' if s.size > 0 else 'less'}" for s in ends]
    costs = [f"{s.excess_loss:.3f} nats at {sized(range_, s.size)}" for s in ends]
    lost = sorted({c for s in ends for c in s.classes_broken})
    names = f"; classes that break: {', '.join(classes[c] for c in lost[:_LISTED])}" if lost else ""
    return Advice(
        "keep away",
        f"{FAMILIES[range_.family]} of {', or '.join(where)} {range_.unit}",
        f"{' and '.join(costs)}, shown to be too much (delta = {delta:.3f}){names}",
        (),
        range_.family,
        below.size if below else None,
        above.size if above else None,
    )
