"""The verdict in words."""

from collections.abc import Mapping
from types import MappingProxyType

from symshare.groups import CAP
from symshare.judge import Verdict
from symshare.names import AXES, Things, things_of
from symshare.propose import Candidates
from symshare.records import Judgement, LabelNames


def sentence(
    verdict: Verdict,
    capped: bool,
    labels: LabelNames,
    things: Things,
    said: Mapping[str, str] = MappingProxyType({}),
) -> str:
    """What was found, for a reader who reads nothing else: plain words, then the numbers.

    Args:
        verdict: on all candidates.
        capped: whether the group of the data may be larger than what was judged.
        labels: what labels are called.
        things: what the samples are called.
        said: what candidates are called, beside their names, see :func:`in_words`.
    """
    knows = f"of the {verdict.power.gain:.2f} nats that a network knows about the label"
    members = verdict.found or verdict.approximate
    if members:
        judged = [j for j in verdict.judgements if j.name in members]
        loss = max(j.interval[1] for j in judged)
        change = max(j.change_interval[1] for j in judged)
        has = "the symmetry group of the data contains" if capped else "the symmetry group is"
        cost = (
            f"On held-out {things.many} that costs at most {loss:.3f} nats {knows}, and changes "
            f"their law by at most {max(change, 0.0):.3f} as far as a network sees"
        )
        rest = f"; {verdict.possible} is not excluded" if verdict.possible else ""
        if open_ := {c for j in judged for c in j.classes_open}:
            shown = [name for c, name in enumerate(labels.parts) if c not in open_]
            left = [name for c, name in enumerate(labels.parts) if c in open_]
            rest += (
                f". This holds for {_parts(shown, labels)}; of {_parts(left, labels)} it was not "
                "shown"
            )
        same = f"Moved by {_moves(judged, labels, said)}, these {things.many} mean the same"
        if verdict.word == "group":
            return f"{same}: {has} {verdict.group}. {cost}{rest}."
        if not any(map(verdict.is_inexact, judged)):
            return (
                f"{same} at least approximately: {has} {verdict.group}. {cost}, and "
                f"{verdict.independent} independent samples are too few to tell whether it is "
                f"exact{rest}."
            )
        return f"{same} approximately, and not exactly: {has} {verdict.group}. {cost}{rest}."
    if verdict.word == "partial":
        best = max(
            (j for j in verdict.judgements if j.name in verdict.partial),
            key=lambda j: j.kept_share_min,
        )
        kept = f"{things.many} of every class are still recognised"
        if labels.numbers:
            kept = "variance of the labels is still explained, whatever these are"
        return (
            f"No group, but a partial symmetry: {_listed(verdict.partial)} changes the data, yet "
            f"after {best.name} at least {best.kept_share_min:.0%} of the {kept}."
        )
    if verdict.word == "none" and not verdict.judgements:
        return (
            f"No symmetry: second moments of the {things.many} admit no permutation of their "
            f"{things.positions}, so there was nothing to judge."
        )
    if verdict.word == "none":
        broken = [j for j in verdict.judgements if j.status == "broken"]
        if not broken:
            return f"No symmetry: {_listed(_named(verdict, 'tolerated'))} is only tolerated."
        least = min(broken, key=lambda j: (j.excess_loss, j.change))
        where = ""
        if len(least.classes_broken) == 1:
            alone = labels.parts[least.classes_broken[0]]
            where = f"; of single {labels.kinds} it was shown for {alone!r} alone"
        return (
            f"No symmetry among the {len(verdict.judgements)} candidates: of those that are "
            f"broken, the mildest, {least.name}, costs {least.excess_loss:.2f} nats {knows}, and "
            f"changes the {things.many} by {least.change:.2f}{where}."
        )
    if not verdict.power.passed:
        return f"Undecided: {verdict.power.reasons[0]}."
    passing = _named(verdict, "symmetric", "approximate")
    if passing and not _named(verdict, "undecided"):
        return (
            f"Undecided: {_listed(passing)} passed the tests by themselves, but they make no "
            "single group, which the symmetries of data always do."
        )
    possible = f"; {verdict.possible} is not excluded" if verdict.possible else ""
    return (
        f"Undecided: {verdict.independent} independent held-out samples are too few to tell "
        f"{_listed(_named(verdict, 'undecided'))} from a symmetry or from a broken one{possible}."
    )


def in_words(candidates: Candidates, channels: tuple[str, ...] = ()) -> dict[str, str]:
    """What candidates that move channels are called in sentences, where there are short words.

    Args:
        candidates: what was judged.
        channels: names of the channels, where they have some.
    """
    of_space = {e.permutation: e.name for e in candidates.elements if e.channels is None}
    said = {}
    for element in candidates.elements:
        if element.channels is not None and (moved := element.channels.phrase(channels)):
            name = of_space.get(element.permutation, element.name)
            said[element.name] = moved if name == "id" else f"{name} with {moved}"
    return said


def _moves(judged: list[Judgement], labels: LabelNames, said: Mapping[str, str]) -> str:
    """The names of candidates, and what they do to labels; of many numbers only that they do."""
    moving = [j for j in judged if labels.moved(j)]
    if labels.numbers and len(moving) > _WITH_MAPS:
        *most, last = labels.numbers
        numbers = f"{', '.join(most)} and {last}" if most else last
        return f"{_listed([said.get(j.name, j.name) for j in judged])}, with {numbers} moved alike"
    return _listed([_with_map(j, labels, said.get(j.name)) for j in judged])


_WITH_MAPS = 3
"""Most moves of which a sentence says what each does to numbers; the report says it of all."""


def _with_map(judgement: Judgement, labels: LabelNames, name: str | None = None) -> str:
    """The name of a candidate, and what it does to labels."""
    name = name or judgement.name
    moved = labels.moved(judgement)
    return f"{name} with {moved}" if moved else name


def caveats(
    verdict: Verdict, candidates: Candidates, labels: LabelNames, periodic: tuple[str, ...]
) -> list[str]:
    """What a reader should know before relying on the verdict."""
    notes, things = [], things_of(candidates.shape)
    if (open_ := _named(verdict, "undecided")) and verdict.power.passed:
        notes.append(f"Undecided at this number of {things.many}: {_listed(open_)}.")
    if tolerated := _named(verdict, "tolerated"):
        notes.append(
            f"{_listed(tolerated)} leaves the network's answers alone, but makes {things.many} "
            "unlike those of the data (a network tells them apart): the label tolerates it, the "
            "data does not have it."
        )
    notes += [_of_function(j, verdict, labels) for j in verdict.functions]
    notes += _left_out(verdict)
    notes += _of_parts(verdict, labels)
    notes += _of_numbers(verdict, labels) if labels.numbers else _of_labels(verdict, labels.classes)
    if verdict.chained:
        notes.append(
            f"{verdict.copies:.0%} of the {things.many} have a near copy, in chains too long to be "
            f"copies of one {things.one}; they were counted as independent. If they come from "
            "fewer sources, name these as groups."
        )
    elif verdict.copies:
        notes.append(
            f"{verdict.copies:.0%} of the {things.many} have a near copy: the {verdict.samples} "
            f"held-out {things.many} count as {verdict.independent} independent samples."
        )
    notes += _coarse_shifts(candidates, periodic)
    if candidates.capped:
        notes.append(
            f"The search for candidates ended at its number of steps, or at {CAP} candidates, so "
            "the data may have more symmetries than were judged; those that you hand over "
            "(candidates= in Python) are judged as well."
        )
    if verdict.word in ("group", "approximate"):
        notes.append(
            "A symmetry here means that the label stays the same, or moves as is said; elements "
            f"act on the whole {things.one}."
        )
    notes.append(
        "The verdict speaks of data like these: it says nothing about poses that no "
        f"{things.one} shows."
    )
    return notes


def _of_function(judgement: Judgement, verdict: Verdict, labels: LabelNames) -> str:
    """What was shown of a function that was handed over."""
    name, loss, change = (
        _with_map(judgement, labels),
        judgement.interval,
        judgement.change_interval,
    )
    said = {
        "symmetric": "changes neither labels nor data, as far as a network sees",
        "approximate": "changes labels and data little, within the looser bounds",
        "tolerated": "leaves the network's answers alone, but makes data unlike those given: good "
        "for augmentation, and no symmetry",
        "broken": "is no symmetry",
        "undecided": "is undecided",
    }[judgement.status]
    return (
        f"{name}, which was handed over, {said} (a loss of {loss[0]:.3f} to {loss[1]:.3f} nats, a "
        f"change of {change[0]:.3f} to {change[1]:.3f})."
    )


def _of_parts(verdict: Verdict, labels: LabelNames) -> list[str]:
    """Say where single classes, or strata, break or lose what holds on average."""
    notes = []
    for j in verdict.judgements:
        mean_holds = j.interval[1] < verdict.delta and j.change_interval[1] < verdict.change
        if j.classes_broken and mean_holds:
            names = [labels.parts[c] for c in j.classes_broken]
            notes.append(f"{j.name} holds on average, but not for {_listed(names)}.")
        elif labels.classes and j.name in verdict.found and j.kept_share_min < j.kept_share / 2:
            worst = labels.classes[j.kept_share_by_class.index(j.kept_share_min)]
            notes.append(
                f"{j.name} holds on average, but leaves only {j.kept_share_min:.0%} of class "
                f"{worst!r} right."
            )
    return notes


def _of_labels(verdict: Verdict, classes: tuple[str, ...]) -> list[str]:
    """Say which part of the label the networks do not know, and so was not tested."""
    power, notes = verdict.power, []
    mixed = [name for c, name in enumerate(classes) if c not in power.told_apart]
    if mixed:
        notes.append(
            f"The networks do not tell {_classes(mixed)} from each "
            "other class; whether a move exchanges what they mix was not tested."
        )
    assert power.label_entropy is not None
    if power.passed and power.gain < power.label_entropy / 2:
        notes.append(
            f"Of the {power.label_entropy:.2f} nats of the label the networks know "
            f"{power.gain:.2f}; {1 - power.accuracy:.0%} of their answers are wrong. They "
            f"contradict {power.label_noise:.0%} of the labels with confidence: if these are "
            f"wrong, about {power.knowable:.2f} nats could be known. What else is missing is a "
            "part of the label that these networks do not learn; a move that changes only that "
            "part would not be noticed."
        )
    return notes


def _of_numbers(verdict: Verdict, labels: LabelNames) -> list[str]:
    """Say which part of the numbers the networks do not know, and so was not tested."""
    power, notes = verdict.power, []
    unknown = [name for j, name in enumerate(labels.numbers) if j not in power.told_apart]
    if unknown:
        notes.append(
            f"The networks explain nothing of {_listed(unknown)}; whether a move changes what they "
            "do not know was not tested."
        )
    if power.passed and power.accuracy < 0.5:
        notes.append(
            f"The networks explain {power.accuracy:.0%} of the variance of the labels. The rest is "
            "noise, or a part of the labels that these networks do not learn; a move that changes "
            "only that part would not be noticed."
        )
    return notes


def _parts(names: list[str], labels: LabelNames) -> str:
    """Classes, or strata of numbers, by name."""
    if not labels.numbers:
        return _classes(names)
    return f"labels in {', '.join(names)}" if names else "no labels"


def _classes(names: list[str]) -> str:
    """Classes by name where there are few, else their number.

    >>> _classes(["a", "b"]), _classes(["a"]), _classes([])
    ('classes a, b', 'class a', 'no class')
    """
    if len(names) > 12:
        return f"{len(names)} classes"
    return (
        f"{'class' if len(names) == 1 else 'classes'} {', '.join(names)}" if names else "no class"
    )


def _left_out(verdict: Verdict) -> list[str]:
    """Say which elements passed a test and are in no group."""
    if verdict.word == "undecided" and not _named(verdict, "undecided"):
        return []  # the verdict's sentence names them
    members = verdict.found or verdict.approximate
    outside = [name for name in _named(verdict, "symmetric") if name not in members]
    looser = [name for name in _named(verdict, "approximate") if name not in members]
    notes = []
    if outside and members:
        notes.append(
            f"{_listed(outside)} passed the test by itself, but some product with the group did "
            "not, or was no candidate."
        )
    elif outside:
        notes.append(f"{_listed(outside)} passed the test by itself, but belongs to no one group.")
    if looser:
        notes.append(f"{_listed(looser)} holds approximately, but belongs to no one group.")
    return notes


def _coarse_shifts(candidates: Candidates, periodic: tuple[str, ...]) -> list[str]:
    """Say where only some of the shifts along a periodic axis were judged."""
    notes = []
    for axis in periodic:
        i = AXES[len(candidates.shape)].index(axis)
        maps = [element.map for element in candidates.elements if element.map is not None]
        pure = [m for m in maps if m.matrix == maps[0].matrix and not sum(m.shift) - m.shift[i]]
        shifts = {m.shift[i] for m in pure}
        if len(shifts) < candidates.shape[i]:
            notes.append(
                f"Of the {candidates.shape[i]} shifts along {axis}, only {len(shifts)} were judged "
                "(shift 0 counted in): at most 48 elements are."
            )
    return notes


def _named(verdict: Verdict, *statuses: str) -> tuple[str, ...]:
    return tuple(j.name for j in verdict.judgements if j.status in statuses)


def _listed(names: tuple[str, ...] | list[str]) -> str:
    """Names in a row, with "or" before the last.

    >>> _listed(["rot90", "rot180", "rot270"])
    'rot90, rot180 or rot270'
    """
    *most, last = names
    return f"{', '.join(most)} or {last}" if most else last
