"""Which data set is asked about under which laws, in which half, and how often."""

import difflib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from experiments.discovery import arrays, cases, sources
from experiments.discovery.cases import Upright
from experiments.discovery.command import Half, Method

Make = Callable[[int, Path | None], Upright]

SEEDS: dict[Half, int] = {"dev": 1, "test": 5}
"""Runs of each case."""

NULL_RUNS: dict[Half, int] = {"dev": 48, "test": 312}
"""Runs on data without a symmetry, a multiple of the number of such data sets."""

FIRST_SEED: dict[Half, int] = {"dev": 1_000, "test": 2_000}
FIRST_NULL_SEED: dict[Half, int] = {"dev": 30_000, "test": 40_000}


@dataclass(frozen=True)
class DataSet:
    """Images that a law may move.

    Attributes:
        name: as on the command line.
        kind: what is special about them.
        make: the images before the law, of a seed and the folder of the data.
        laws: under which a verdict is asked for.
    """

    name: str
    kind: str
    make: Make
    laws: tuple[str, ...] = ("none",)


@dataclass(frozen=True)
class Run:
    """One question to one method.

    Attributes:
        half: dev or test.
        data: name of the data set.
        law: that moves its images.
        seed: of the images and of the method.
        null: whether it counts as a null run.
        method: that is asked.
    """

    half: Half
    data: str
    law: str
    seed: int
    null: bool
    method: Method

    @property
    def key(self) -> str:
        """The name of its row."""
        kind = "null" if self.null else "case"
        return f"{self.method}/{self.half}/{kind}/{self.data}/{self.law}/{self.seed}"

    @property
    def data_set(self) -> DataSet:
        """What it is asked about."""
        return (NULL if self.null else CASES)[self.half][self.data]


def _made(make: Callable[..., Upright], n: int, **options: object) -> Make:
    return lambda seed, root: make(n, seed, **options)


def _planted(
    n: int, look: int, shape: tuple[int, ...], group: str | None, **options: object
) -> Make:
    return _made(arrays.planted, n, look=look, shape=shape, group=group, **options)


def _by_name(*sets: DataSet) -> dict[str, DataSet]:
    return {data.name: data for data in sets}


_SANS = partial(sources.letters, fonts=("DejaVuSans", "DejaVuSans-Bold", "DejaVuSerif"))
_ROMAN = partial(sources.letters, fonts=("cmr10", "cmss10", "STIXGeneral"))
_POINTS = ("none", "flip", "flips", "half", "quarter", "d4")
_TWO_POSES = {"id": 0.5, "rot90": 0.5}
_UNEQUAL = {"id": 0.75, "rot180": 0.25}

CASES: dict[Half, dict[str, DataSet]] = {
    "dev": _by_name(
        DataSet("digits", "written", sources.digits, _POINTS),
        DataSet("mnist", "written", sources.mnist, ("none", "quarter")),
        DataSet("cifar10-gray", "photographs", sources.cifar10_gray, ("none", "quarter")),
        DataSet("photographs", "patches", sources.photographs, ("flips", "quarter")),
        DataSet("letters", "glyphs", _SANS, ("none", "flip", "quarter", "d4")),
        DataSet("fields", "templates", _made(cases.templates, 3000, look=11), _POINTS),
        DataSet(
            "third-redrawn",
            "label noise",
            _made(cases.templates, 9000, look=12, redrawn=0.35),
            ("quarter",),
        ),
        DataSet("saw", "even moments", _made(cases.saw, 3000), ("none", "flips", "quarter")),
        DataSet("sky", "colours trade", _made(cases.sky, 3000), ("none", "half", "quarter")),
        DataSet(
            "butterflies", "own mirror", _made(cases.butterflies, 3000, look=13), ("none", "half")
        ),
        DataSet("rare", "rare class", _made(cases.rare_upright, 8000, look=14, share=0.02)),
        DataSet("film", "near copies", _made(cases.repeated, 400, look=15, copies=8, apart=0.02)),
        DataSet("swaps", "labels move", _made(cases.mirror_swaps, 5000, look=16)),
        DataSet(
            "five-rows", "hidden groups", _made(cases.any_order, 6000, look=4, parts=5, length=5)
        ),
        DataSet("hidden-turns", "hidden groups", _made(cases.hidden, 4000, look=17, law="quarter")),
        DataSet("parity", "unlearnable", _made(cases.parity, 6000)),
        DataSet("echoes", "signals", _planted(4000, 71, (1, 40), "reversal")),
        DataSet("leads", "channels", _planted(4000, 72, (6, 32), "lead swap")),
        DataSet("signs", "channels", _planted(4000, 73, (2, 24), "sign")),
        DataSet("red-blue", "channels", _planted(4000, 74, (3, 8, 8), "colours")),
        DataSet("turned-volumes", "volumes", _planted(4000, 75, (1, 6, 6, 6), "about an axis")),
        DataSet("wheel", "vectors", _planted(4000, 76, (12,), "wheel of six")),
    ),
    "test": _by_name(
        DataSet("mnist-held-out", "written", sources.mnist_held_out, _POINTS),
        DataSet(
            "cifar10-colour", "photographs", sources.cifar10_colour, ("none", "flips", "quarter")
        ),
        DataSet(
            "portrait-terrain", "patches", sources.portrait_and_terrain, ("none", "half", "d4")
        ),
        DataSet("roman", "glyphs", _ROMAN, ("none", "flips", "quarter", "d4")),
        DataSet(
            "wide-fields",
            "templates",
            _made(cases.templates, 4000, look=31, classes=6, side=12),
            _POINTS,
        ),
        DataSet(
            "strips",
            "not square",
            _made(cases.templates, 3000, look=32, width=12),
            ("none", "flip", "flips", "half"),
        ),
        DataSet(
            "tails",
            "heavy tails",
            _made(cases.templates, 4000, look=33, tails=2.5),
            ("none", "quarter", "d4"),
        ),
        DataSet(
            "lamps",
            "nuisances",
            _made(cases.templates, 4000, look=34, nuisance=0.5),
            ("none", "half", "quarter"),
        ),
        DataSet(
            "uneven",
            "imbalance",
            _made(cases.templates, 5000, look=35, priors=(0.7, 0.2, 0.08, 0.02)),
            ("none", "quarter"),
        ),
        DataSet(
            "fifth-redrawn",
            "label noise",
            _made(cases.templates, 6000, look=36, redrawn=0.2),
            ("none", "quarter"),
        ),
        DataSet(
            "half-redrawn",
            "label noise",
            _made(cases.templates, 9000, look=37, redrawn=0.5),
            ("quarter",),
        ),
        DataSet("few", "few images", _made(cases.templates, 250, look=38), ("none", "quarter")),
        DataSet(
            "saw-down",
            "even moments",
            _made(cases.saw, 4000, axis=0, side=10, teeth=2),
            ("none", "flips", "quarter"),
        ),
        DataSet(
            "dusk", "colours trade", _made(cases.sky, 3000, side=8, low=True), ("none", "half")
        ),
        DataSet("twins", "colours trade", _made(cases.twins, 3000, look=39), ("none", "quarter")),
        DataSet(
            "moths",
            "own mirror",
            _made(cases.butterflies, 4000, look=40, side=9),
            ("none", "quarter"),
        ),
        DataSet(
            "rarer", "rare class", _made(cases.rare_upright, 8000, look=41, share=0.01, classes=6)
        ),
        DataSet(
            "told-film",
            "near copies",
            _made(cases.repeated, 1600, look=42, copies=3, apart=0.3, told=True),
        ),
        DataSet(
            "doubled", "exact copies", _made(cases.repeated, 2000, look=43, copies=2, apart=0.0)
        ),
        DataSet("other-swaps", "labels move", _made(cases.mirror_swaps, 4000, look=44, classes=5)),
        DataSet("hands", "labels move", _made(cases.handed, 3000, look=45)),
        DataSet("two-poses", "no group", _made(cases.some_poses, 3000, look=46, shares=_TWO_POSES)),
        DataSet("stamp", "stamps", _made(cases.stamped, 4000, look=47)),
        DataSet("ring", "periodic", _made(cases.rolled, 4000, look=48)),
        DataSet(
            "four-columns",
            "hidden groups",
            _made(cases.any_order, 5000, look=49, parts=4, length=6, columns=True),
        ),
        DataSet("hidden-flips", "hidden groups", _made(cases.hidden, 4000, look=50, law="flips")),
        DataSet("wide-parity", "unlearnable", _made(cases.parity, 6000, side=12)),
        DataSet("two-traces", "signals", _planted(4000, 81, (2, 50), "reversal", classes=4)),
        DataSet("wrapped", "signals", _planted(4000, 82, (2, 12), "ring", noise=0.5)),
        DataSet("twisted", "channels", _planted(4000, 83, (3, 28), "twisted")),
        DataSet("pairs", "channels", _planted(4000, 84, (4, 20), "pairs", classes=5)),
        DataSet("turned-colours", "channels", _planted(4000, 85, (3, 9, 9), "turned colours")),
        DataSet("cubes", "volumes", _planted(6000, 86, (1, 5, 5, 5), "cube", noise=0.5)),
        DataSet("mirrored", "volumes", _planted(4000, 87, (1, 7, 6, 5), "mirrored volume")),
        DataSet("triples", "vectors", _planted(4000, 88, (12,), "triples")),
    ),
}
"""The data sets of both halves by name; no data set is in both."""

NULL: dict[Half, dict[str, DataSet]] = {
    "dev": _by_name(
        DataSet("null-letters", "glyphs", partial(_SANS, n=1500)),
        DataSet("null-fields", "templates", _made(cases.templates, 1500, look=18)),
        DataSet("null-saw", "even moments", _made(cases.saw, 1500, lame=True)),
        DataSet("null-sky", "colours trade", _made(cases.sky, 1500)),
        DataSet("null-swaps", "labels move", _made(cases.mirror_swaps, 2000, look=19, classes=4)),
        DataSet("null-leads", "channels", _planted(2000, 77, (4, 24), None)),
        DataSet("null-volumes", "volumes", _planted(2000, 78, (1, 5, 5, 5), None)),
        DataSet("null-wheel", "vectors", _planted(2000, 70, (10,), None)),
    ),
    "test": _by_name(
        DataSet("null-roman", "glyphs", partial(_ROMAN, n=1500)),
        DataSet("null-tails", "heavy tails", _made(cases.templates, 1500, look=61, tails=2.5)),
        DataSet("null-lamps", "nuisances", _made(cases.templates, 1500, look=62, nuisance=0.5)),
        DataSet("null-saw-down", "even moments", _made(cases.saw, 1500, axis=0, side=9, lame=True)),
        DataSet("null-dusk", "colours trade", _made(cases.sky, 1500, side=8)),
        DataSet("null-twins", "colours trade", _made(cases.twins, 1500, look=63)),
        DataSet("null-hands", "labels move", _made(cases.handed, 1500, look=64)),
        DataSet("null-poses", "no group", _made(cases.some_poses, 2000, look=65, shares=_UNEQUAL)),
        DataSet("null-rare", "rare class", _made(cases.rare_upright, 3000, look=66, share=0.05)),
        DataSet("null-traces", "signals", _planted(2000, 91, (2, 36), None)),
        DataSet("null-colours", "channels", _planted(2000, 92, (3, 8, 8), None)),
        DataSet("null-cubes", "volumes", _planted(2000, 93, (1, 6, 5, 4), None)),
        DataSet("null-triples", "vectors", _planted(2000, 94, (9,), None)),
    ),
}
"""Clean data sets in which no candidate is a symmetry, small enough for a few seconds each."""


def names(half: Half) -> list[tuple[str, str, tuple[str, ...]]]:
    """Name, kind and laws of every data set of a half, those of null runs at the end."""
    return [(d.name, d.kind, d.laws) for d in [*CASES[half].values(), *NULL[half].values()]]


def planned(
    half: Half, chosen: str | None, seeds: int | None, null: int | None, method: Method
) -> list[Run]:
    """The runs that a command stands for, one seed of all cases before the next.

    Args:
        half: dev or test.
        chosen: names of data sets, or "name/law", with commas between; None for all.
        seeds: runs of each case, None for as many as the half has.
        null: null runs, in turn over the data sets, None for as many as the half has.
        method: that is asked.

    Raises:
        ValueError: for a name that the half does not have, or a number below 0.
    """
    for option, value in (("seeds", seeds), ("null", null)):
        if value is not None and value < 0:
            raise ValueError(f"discovery: {option} must be 0 or more, got {value}")
    seeds = SEEDS[half] if seeds is None else seeds
    null = NULL_RUNS[half] if null is None else null
    sets, empty = CASES[half], NULL[half]
    runs = [
        Run(half, data.name, law, FIRST_SEED[half] + seed, False, method)
        for seed in range(seeds)
        for data in sets.values()
        for law in data.laws
    ]
    order = list(empty)
    runs += [
        Run(half, order[i % len(order)], "none", FIRST_NULL_SEED[half] + i, True, method)
        for i in range(null)
    ]
    if chosen is None:
        return runs
    known = {*sets, *empty, *(f"{data.name}/{law}" for data in sets.values() for law in data.laws)}
    wanted = [name.strip() for name in chosen.split(",")]
    for name in wanted:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=3)
            hint = f"did you mean {' or '.join(near)}?" if near else "--list names them all"
            raise ValueError(
                f"discovery: expected data sets of the half {half} in --cases, got {name!r}; {hint}"
            )
    return [run for run in runs if {run.data, f"{run.data}/{run.law}"} & set(wanted)]
