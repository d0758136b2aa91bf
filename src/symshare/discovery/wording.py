"""The verdict in words."""

from symshare.judge import Verdict
from symshare.propose import Candidates


def sentence(verdict: Verdict) -> str:
    """One sentence that says what was found, for a reader who reads nothing else."""
    gain = f"{verdict.power.gain:.2f} nats"
    knows = f"of the {gain} that a network knows about the label"
    if verdict.word == "group":
        worst = max(j.interval[1] for j in verdict.judgements if j.name in verdict.found)
        return (
            f"The data has the symmetry group {verdict.group}: moving held-out images by "
            f"{_listed(verdict.found)} costs at most {worst:.3f} nats {knows}."
        )
    if verdict.word == "approximate":
        members = verdict.approximate
        worst = max(j.interval[1] for j in verdict.judgements if j.name in members)
        return (
            f"The data has the group {verdict.group} as an approximate symmetry only: moving "
            f"held-out images by {_listed(members)} costs up to {worst:.3f} nats {knows}."
        )
    if verdict.word == "partial":
        best = max(
            (j for j in verdict.judgements if j.name in verdict.partial),
            key=lambda j: j.kept_share_min,
        )
        return (
            f"No group, but a partial symmetry: {_listed(verdict.partial)} changes the data, yet "
            f"after {best.name} at least {best.kept_share_min:.0%} of the images of every class "
            "are still recognised."
        )
    if verdict.word == "none":
        broken = [j for j in verdict.judgements if j.status == "broken"]
        if not broken:
            return f"No symmetry: {_listed(_named(verdict, 'tolerated'))} is only tolerated."
        least = min(broken, key=lambda j: j.excess_loss)
        return (
            f"No symmetry among the {len(verdict.judgements)} candidates: of those that the "
            f"network minds, the mildest, {least.name}, costs {least.excess_loss:.2f} nats, where "
            f"a network knows {gain} about the label."
        )
    if not verdict.power.passed:
        return f"Undecided: {verdict.power.reasons[0]}."
    passing = _named(verdict, "symmetric", "approximate")
    if passing and not _named(verdict, "undecided"):
        return (
            f"Undecided: {_listed(passing)} passed the test by themselves, but they make no "
            "single group, which the symmetries of data always do."
        )
    return (
        f"Undecided: {verdict.samples} held-out images are too few to tell "
        f"{_listed(_named(verdict, 'undecided'))} from a symmetry or from a broken one."
    )


def caveats(
    verdict: Verdict, candidates: Candidates, classes: tuple[str, ...], periodic: tuple[str, ...]
) -> list[str]:
    """What a reader should know before relying on the verdict."""
    notes = []
    if (open_ := _named(verdict, "undecided")) and verdict.power.passed:
        notes.append(f"Undecided at this number of images: {_listed(open_)}.")
    if tolerated := _named(verdict, "tolerated"):
        notes.append(
            f"{_listed(tolerated)} leaves the network's answers alone, but makes images unlike "
            "those of the data (their second moments change): the label tolerates it, the data "
            "does not have it."
        )
    notes += _left_out(verdict)
    close = [
        j.name
        for j in verdict.judgements
        if j.status in ("approximate", "undecided") and j.interval[1] < verdict.delta
    ]
    if verdict.power.passed and close:
        notes.append(
            f"The loss after {_listed(close)} looks like that of a symmetry, but "
            f"{verdict.samples} held-out images are too few to show it, since a single one that "
            "was not drawn could change it: use more images."
        )
    for j in verdict.judgements:
        if j.name in verdict.found and j.kept_share_min < j.kept_share / 2:
            worst = classes[j.kept_share_by_class.index(j.kept_share_min)]
            notes.append(
                f"{j.name} holds on average, but leaves only {j.kept_share_min:.0%} of class "
                f"{worst!r} right."
            )
    notes += _coarse_shifts(candidates, periodic)
    if candidates.capped:
        notes.append(
            "The search over the data's statistics met its cap, so there may be candidates that "
            "it did not propose."
        )
    if verdict.word in ("group", "approximate"):
        notes.append(
            "A symmetry here means that the label stays the same; elements act on the whole image."
        )
    notes.append(
        "The verdict speaks of data like these: it says nothing about poses that no image shows."
    )
    return notes


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
        i = "HW".index(axis)
        maps = [element.map for element in candidates.elements if element.map is not None]
        pure = [m for m in maps if m.matrix == maps[0].matrix and not m.shift[1 - i]]
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
