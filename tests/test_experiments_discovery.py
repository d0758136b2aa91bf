"""The benchmark of discovery: derived truths, how answers are scored, resuming, and the page."""

import itertools
import json
import math
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from itertools import product as pairs
from pathlib import Path

import numpy as np
import pytest
import torch

from experiments.__main__ import main
from experiments.discovery import cases, former, methods, rivals, running
from experiments.discovery.answers import Answer, Question
from experiments.discovery.cases import Upright, moved_by
from experiments.discovery.enough import IMAGES, is_enough
from experiments.discovery.former import ask_former
from experiments.discovery.page import page
from experiments.discovery.plan import CASES, NULL, planned
from experiments.discovery.rivals import ask_augmentation, ask_gates, ask_kernel
from experiments.discovery.scoring import OUTCOMES, score, summary
from experiments.discovery.truths import LAWS, lattice, lattice_truth
from symshare.data import LabelledImages
from symshare.files import alone
from symshare.groups import dihedral, from_permutations
from symshare.representations import Measure
from symshare.train.loop import Trained
from symshare.train.settings import OptimConfig

SUBGROUPS = [(), ("flipW",), ("flipH",), ("rot180",), ("flipW", "flipH", "rot180")]
SUBGROUPS += [("rot90", "rot180", "rot270"), ("transpose",), tuple(LAWS["d4"][1:])]
FOLDERS = ("mnist", "cifar10")


def move(images, permutation):
    return images.reshape(*images.shape[:2], -1)[..., list(permutation)].reshape(images.shape)


def test_moves_are_those_of_the_library():
    square = dihedral(4)
    named = dict(zip(square.names, square.permutation(5).tolist(), strict=True))
    assert {name: list(moved) for name, moved in lattice((5, 5)).items()} == named


@pytest.mark.parametrize(("law", "own"), [*pairs(LAWS, SUBGROUPS)])
def test_lattice_truths_are_those_of_one_image_in_all_its_poses(law, own):
    """The poses of one random image, made its own by averaging, are a law that can be compared."""
    moves = lattice((5, 5))
    image = np.random.default_rng(0).integers(1000, size=25)
    image = sum(image[list(moves[name])] for name in ("id", *own))
    poses = sorted(image[list(moves[name])].tolist() for name in LAWS[law])
    true = {
        name
        for name, moved in moves.items()
        if sorted(np.array(pose)[list(moved)].tolist() for pose in poses) == poses
    }
    truth = lattice_truth((5, 5), law, own)
    assert truth.true == {moves[name] for name in true}
    assert (truth.group is None) == (len(true) == 1)
    assert truth.group in (None, from_permutations(sorted(truth.true), (5, 5)).name)
    assert not truth.open


def test_what_a_photograph_may_have_is_open():
    moves = lattice((4, 4))
    for law, names in {
        "none": {"flipW"},
        "flips": set(),
        "flip": set(),
        "quarter": {"flipW", "flipH", "transpose", "antitranspose"},
    }.items():
        assert lattice_truth((4, 4), law, maybe=["flipW"]).open == {moves[n] for n in names}


ARRAYS = ("signals", "channels", "volumes", "vectors")
"""Kinds of data sets that are no images under lattice moves alone."""

ALL = [
    pytest.param(data, law, id=f"{data.name}-{law}")
    for sets in (CASES["dev"], CASES["test"], NULL["dev"], NULL["test"])
    for data in sets.values()
    for law in dict.fromkeys([data.laws[0], data.laws[-1]])
    if not data.name.startswith(FOLDERS) and not data.name.endswith("parity")
    if data.kind not in ARRAYS
]
OF_ARRAYS = [
    pytest.param(data, id=data.name)
    for sets in (CASES["dev"], CASES["test"], NULL["dev"], NULL["test"])
    for data in sets.values()
    if data.kind in ARRAYS
]


def moved_numbers(images, sources):
    """What a signed move of all numbers makes of images."""
    flat, sources = images.reshape(len(images), -1), np.asarray(sources)
    return np.where(sources >= 0, flat[:, sources], -flat[:, ~sources])


@pytest.mark.parametrize("data", OF_ARRAYS)
def test_truths_of_arrays_hold_on_the_samples(data):
    """The same with moves of channels: of two parts of the samples one is moved."""
    upright = data.make(5, None)
    images, truth = upright.images, upright.truth_under("none")
    size, labels = images[0].size, upright.labels
    truth = truth.of_numbers(size)
    weights = np.random.default_rng(7).normal(size=(size, 60)) / (np.sqrt(size) * images.std())

    def change(sources):
        before, after = (
            np.maximum(x.reshape(len(x), -1) @ weights + 0.3, 0)
            for x in (images, moved_numbers(images, sources))
        )
        found = 0.0
        for label in np.unique(labels):
            apart = (after - before)[labels == label]
            found = max(
                found, np.max(np.abs(apart.mean(0)) * np.sqrt(len(apart)) / apart.std(0).clip(1e-9))
            )
        return found

    for sources in sorted(truth.moves)[:: max(len(truth.moves) // 8, 1)]:
        assert change(sources) < 5.5
    channels, *space = images.shape[1:]
    grid = np.arange(size).reshape(channels, *space)
    others = {"negate": [~s for s in range(size)], "order": grid[::-1].ravel().tolist()}
    others |= {
        f"mirror {axis}": np.flip(grid, axis).ravel().tolist() for axis in range(1, grid.ndim)
    }
    others["step"] = np.roll(grid, 1, -1).ravel().tolist()
    for name, sources in others.items():
        if tuple(sources) not in truth.true:
            assert change(sources) > 6, name
    assert (truth.group is None) == (len(truth.true) == 1)
    rows = [tuple(s if s >= 0 else size + ~s for s in g) for g in truth.true]
    doubled = [(*row, *((s + size) % (2 * size) for s in row)) for row in rows]
    action = from_permutations(sorted(doubled), 2 * size)
    assert action.is_group
    if data.kind == "vectors" and not truth.moves:
        assert least_exchange(images[..., 0], labels) > 0.2
    if truth.group:
        assert action.name.replace("Z", "C") == truth.group.replace("Z", "C")


def least_exchange(vectors, labels):
    """Total variation between the law and its image under the nearest exchange of two numbers.

    Classes are normal laws of one spread, of which an exchange moves the mean by sqrt(2) times the
    difference of two numbers.
    """
    means = np.stack([vectors[labels == label].mean(0) for label in np.unique(labels)])
    spread = np.mean([vectors[labels == label].std(0).mean() for label in np.unique(labels)])
    return min(
        np.mean([math.erf(apart / spread / 2) for apart in np.abs(means[:, i] - means[:, j])])
        for i, j in itertools.combinations(range(len(means[0])), 2)
    )


def largest_change(images, labels, permutation, weights):
    """Largest z score, over classes and features, of what a move does to the means of features."""
    before, after = (
        np.maximum(x.reshape(len(x), -1) @ weights + 0.3, 0)
        for x in (images, move(images, permutation))
    )
    found = 0.0
    for label in np.unique(labels):
        change = (after - before)[labels == label]
        spread = change.std(0) / np.sqrt(len(change))
        found = max(found, float(np.max(np.abs(change.mean(0)) / np.maximum(spread, 1e-9))))
    return found


@pytest.mark.parametrize(("data", "law"), ALL)
def test_truths_hold_on_the_images(data, law):
    """Means of 60 nonlinear features, class by class, before and after each move.

    A symmetry leaves them; in every other move of the lattice some class shows that it is none.
    """
    upright = data.make(5, None)
    truth = upright.truth_under(law)
    stride = len(upright.labels) // (upright.independent or len(upright.labels))
    images = moved_by(upright.images, law, np.random.default_rng(6))[::stride]
    labels = upright.labels[::stride]
    size = images[0].size
    weights = np.random.default_rng(7).normal(size=(size, 60)) / (np.sqrt(size) * images.std())
    symmetries = sorted(truth.moves)[:: max(len(truth.moves) // 8, 1)]
    for moved in symmetries:
        assert largest_change(images, labels, moved, weights) < 5.5
    shape = images.shape[2:]
    for name, moved in lattice(shape).items():
        if moved not in truth.true | truth.open and name != "id":
            assert largest_change(images, labels, moved, weights) > 6, name
    if truth.moves:
        assert from_permutations(sorted(truth.true), shape).name == truth.group
    else:
        assert truth.group is None


def test_parity_is_that_of_the_left_half():
    """No feature tells that a mirror changes it, so it is counted; the pixels are all different."""
    upright = cases.parity(400, 0)
    bar = np.repeat(np.eye(4), 2, 1)[upright.labels // 2][:, :, None]
    signs = np.sign(upright.images[:, 0] - 2 * bar)
    odd = (signs[:, :, :4].reshape(400, -1).prod(1) > 0).astype(int)
    assert np.array_equal(odd, upright.labels % 2)
    mirrored = (signs[:, :, 4:].reshape(400, -1).prod(1) > 0).astype(int)
    assert 0.4 < (mirrored == odd).mean() < 0.6
    unmoved = np.abs(upright.images[0, 0] - 2 * bar[0])
    assert len(np.unique(unmoved.round(9))) == 64
    assert upright.truth_under("none").group is None
    assert not is_enough(upright, "none")


def test_halves_share_neither_data_sets_nor_seeds():
    sets = [CASES["dev"], NULL["dev"], CASES["test"], NULL["test"]]
    assert len({name for chosen in sets for name in chosen}) == sum(map(len, sets))
    assert len(CASES["test"]) >= 14
    assert len({data.kind for data in CASES["test"].values()}) >= 8
    assert len(NULL["test"]) >= 6
    runs = {half: planned(half, None, None, None, "symshare") for half in ("dev", "test")}
    assert sum(run.null for run in runs["test"]) >= 300
    assert not {run.seed for run in runs["dev"]} & {run.seed for run in runs["test"]}
    assert len({run.key for run in runs["test"]}) == len(runs["test"])
    counts = [run.data for run in runs["test"] if run.null]
    assert {counts.count(name) for name in NULL["test"]} == {len(counts) // len(NULL["test"])}
    for name, data in NULL["test"].items() | NULL["dev"].items():
        assert not data.make(3, None).truth_under("none").moves, name


def test_enough_images_are_a_matter_of_copies_noise_classes_and_poses():
    n = 2 * IMAGES
    labels = np.arange(n) % 4
    images = np.zeros((n, 1, 2, 2))

    def enough(law="none", **options):
        return is_enough(Upright(images, labels, **options), law)

    assert enough()
    assert not enough(independent=n // 2)
    assert not enough(clean=0.7)
    assert not enough(learnable=False)
    assert is_enough(Upright(images, np.where(labels == 0, 1, labels)), "d4")
    assert not is_enough(Upright(images[:IMAGES], labels[:IMAGES]), "none")
    assert not is_enough(Upright(images, np.arange(n) % 20), "d4")


SQUARE = lattice((3, 3))
TURNS = ("rot90", "rot180", "rot270")


def answer(word, statuses, found=(), group=None, capped=False, moves=SQUARE):
    moves = {name: moves[name] for name in statuses}
    numbers = {name: {"excess": [0.1, 0.05, 0.15]} for name in statuses}
    return Answer(word, group, tuple(found), capped, None, moves, statuses, numbers)


BROKEN = dict.fromkeys(list(SQUARE)[1:], "broken")
GOOD = BROKEN | dict.fromkeys(TURNS, "symmetric")
C4 = lattice_truth((3, 3), "quarter")
NONE = lattice_truth((3, 3), "none")
MIRROR = lattice_truth((3, 3), "none", maybe=["flipW"])


@pytest.mark.parametrize(
    ("given", "truth", "outcome"),
    [
        (answer("group", GOOD, TURNS, "C4"), C4, "exact"),
        (answer("group", GOOD | {"flipW": "undecided"}, TURNS, "C4"), C4, "exact"),
        (answer("group", GOOD | {"flipW": "symmetric"}, TURNS, "C4"), C4, "false"),
        (answer("group", GOOD | {"flipW": "approximate"}, TURNS, "C4"), C4, "false"),
        (answer("group", GOOD | {"rot90": "broken"}, ["rot180"], "C2"), C4, "missed"),
        (answer("group", GOOD | {"rot90": "tolerated"}, ["rot180"], "C2"), C4, "missed"),
        (answer("group", {"rot180": "symmetric"}, ["rot180"], "C2"), C4, "missed"),
        (answer("group", GOOD | {"rot90": "undecided"}, ["rot180"], "C2"), C4, "weak"),
        (answer("approximate", GOOD | {"rot90": "approximate"}, TURNS, "C4"), C4, "weak"),
        (answer("undecided", BROKEN | dict.fromkeys(TURNS, "undecided")), C4, "weak"),
        (answer("group", GOOD, TURNS, "C2xC2"), C4, "wrong name"),
        (answer("none", BROKEN), C4, "missed"),
        (answer("none", BROKEN), NONE, "exact"),
        (answer("partial", BROKEN), NONE, "exact"),
        (answer("undecided", BROKEN | {"flipW": "undecided"}), NONE, "weak"),
        (answer("group", BROKEN | {"flipW": "symmetric"}, ["flipW"], "C2"), NONE, "false"),
        (answer("group", BROKEN | {"flipW": "symmetric"}, ["flipW"], "C2"), MIRROR, "exact"),
        (answer("none", BROKEN), MIRROR, "exact"),
    ],
)
def test_scores(given, truth, outcome):
    images = np.random.default_rng(0).normal(size=(20, 1, 3, 3))
    found = score(given, truth, images)
    assert found.outcome == outcome
    assert bool(found.open) == ("flipW" in given.found and truth is MIRROR)


SWAP = (1, 0, 2)
EXCHANGED = lattice_truth((3, 3), "none", exchanges={"flipW": SWAP})
FLIPPED = answer("group", BROKEN | {"flipW": "symmetric"}, ["flipW"], "C2")


@pytest.mark.parametrize(
    ("given", "truth", "outcome"),
    [
        (replace(FLIPPED, maps={"flipW": SWAP}), EXCHANGED, "exact"),
        (replace(FLIPPED, maps={"flipW": (0, 2, 1)}), EXCHANGED, "false"),
        (replace(FLIPPED, maps={}), EXCHANGED, "false"),
        (replace(FLIPPED, maps={"flipW": SWAP}), NONE, "false"),
        (replace(FLIPPED, maps={"flipW": SWAP}, group="C4"), EXCHANGED, "wrong name"),
        (replace(answer("none", BROKEN), maps={}), EXCHANGED, "missed"),
        (replace(answer("none", BROKEN), maps={"rot90": SWAP}), EXCHANGED, "missed"),
        (answer("none", BROKEN), EXCHANGED, "exact"),
        (FLIPPED, EXCHANGED, "false"),
    ],
    ids=["right", "wrong map", "labels fixed", "not so", "misnamed", "not named", "of another",
         "labels taken as fixed", "named by who takes labels as fixed"],
)  # fmt: skip
def test_scores_of_moves_that_exchange_classes(given, truth, outcome):
    images = np.random.default_rng(0).normal(size=(20, 1, 3, 3))
    assert score(given, truth, images).outcome == outcome


def test_exchanges_under_a_law_follow_from_those_before():
    """Half a turn at random: up-down then exchanges what left-right does; quarter turns give D4."""
    half = lattice_truth((3, 3), "half", exchanges={"flipW": SWAP})
    assert half.exchanges == {(SQUARE["flipW"], SWAP), (SQUARE["flipH"], SWAP)}
    quarter = lattice_truth((3, 3), "quarter", exchanges={"flipW": SWAP})
    mirrors = ("flipW", "flipH", "transpose", "antitranspose")
    assert quarter.exchanges == {(SQUARE[name], SWAP) for name in mirrors}
    assert (quarter.group, quarter.exchange_group) == ("C4", "D4")


def test_more_elements_than_are_judged_have_to_be_said_to_be_contained():
    images, truth = np.random.default_rng(0).normal(size=(20, 1, 5, 5)), S5
    some = {"perm1": sorted(truth.moves)[3]}
    sure, capped = (
        answer("group", {"perm1": "symmetric"}, ["perm1"], "C2", capped, some)
        for capped in (False, True)
    )
    assert truth.large
    assert score(capped, truth, images).outcome == "exact"
    assert score(sure, truth, images).outcome == "wrong name"
    open_ = answer("undecided", {"perm1": "undecided"}, moves=some)
    assert score(open_, truth, images).outcome == "weak"


S5 = cases.any_order(10, 0, look=1, parts=5, length=5).truth_under("none")


def test_moves_that_differ_on_dead_pixels_are_the_same():
    images = np.random.default_rng(0).normal(size=(20, 1, 3, 3))
    images[:, :, 0, 0] = images[:, :, 2, 2] = 0
    other = list(SQUARE["rot180"])
    other[0], other[8] = other[8], other[0]
    given = answer("group", {"perm1": "symmetric"}, ["perm1"], "C2", moves={"perm1": tuple(other)})
    assert score(given, lattice_truth((3, 3), "half"), images).outcome == "exact"


def fake(question):
    """Names nothing, and fails on what is sky."""
    if question.data.images.shape[1] == 3:
        raise ValueError("no colours, please")
    return answer("none", {"rot180": "broken"}, moves=lattice(question.data.images.shape[2:]))


COMMAND = ["discovery", "--cases", "fields/none,saw/none,sky/none,mnist/none,null-fields"]
COMMAND += ["--null", "3", "--processes", "1"]


def test_what_is_finished_is_not_asked_again_and_what_failed_is(tmp_path, monkeypatch, capsys):
    asked = []
    monkeypatch.setitem(methods.METHODS, "symshare", lambda q: asked.append(q) or fake(q))
    with pytest.raises(SystemExit) as ended:
        main([*COMMAND, "--out", str(tmp_path)])
    assert ended.value.code == 1
    said = capsys.readouterr().out
    assert "failed     symshare/dev/case/sky/none/1000: ValueError: no colours, please" in said
    assert "skipped    symshare/dev/case/mnist/none/1000: expected a folder mnist in" in said
    results = json.loads((tmp_path / running.RESULTS).read_text())
    outcomes = {row["data"]: row["outcome"] for row in results["rows"]}
    assert outcomes == {"fields": "exact", "saw": "missed", "null-fields": "exact"}
    assert results["summary"]["n_cases"] == 2
    assert results["summary"]["n_null"] == 1
    assert len(asked) == 4
    before = (tmp_path / running.PAGE).read_text()
    with pytest.raises(SystemExit):
        main([*COMMAND, "--out", str(tmp_path)])
    assert len(asked) == 5
    assert (tmp_path / running.PAGE).read_text() == before
    assert "5 runs, 3 of them done" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--cases", "fild"], "of the half dev in --cases, got 'fild'; did you mean fields"),
        (["--cases", "roman"], "expected data sets of the half dev"),
        (["--half", "tset"], "tset"),
        (["--seeds", "-1"], "seeds must be 0 or more, got -1"),
        (["--processes", "0"], "processes must be at least 1, got 0"),
        (["--data.root", "/no/such"], "there is no folder /no/such"),
        (["--cases", "fields"], "discovery-results.json is damaged"),
    ],
)
def test_bad_input_is_answered_in_one_line(tmp_path, capsys, arguments, said):
    (tmp_path / running.RESULTS).write_text('{"rows": [')
    with pytest.raises(SystemExit) as ended:
        main(["discovery", *arguments, "--out", str(tmp_path)])
    assert ended.value.code == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1


def has_processes(group):
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def test_the_page_of_the_project_is_that_of_its_record():
    docs = Path(__file__).parents[1] / "docs"
    results = json.loads((docs / "discovery-results.json").read_text())
    assert (docs / "discovery.md").read_text() == page(results)


@pytest.mark.skipif(os.name == "nt", reason="there are no process groups")
def test_an_interrupt_ends_the_processes_of_the_runs_as_well(tmp_path):
    options = ["--half=dev", "--cases=parity,rare", "--null=0", "--processes=2"]
    process = subprocess.Popen(
        [sys.executable, "-m", "experiments", "discovery", *options, f"--out={tmp_path / 'out'}"],
        cwd=Path(__file__).parents[1],
        start_new_session=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout.readline().startswith("2 runs, 0 of them done")
        time.sleep(3)  # for the processes to start; each run takes far longer
        process.terminate()
        process.communicate(timeout=20)
        assert process.returncode == 130
        ends = time.monotonic() + 10
        while has_processes(process.pid):
            assert time.monotonic() < ends
            time.sleep(0.1)
    finally:
        if has_processes(process.pid):
            os.killpg(process.pid, signal.SIGKILL)


def test_a_folder_in_use_is_refused(tmp_path):
    with alone(tmp_path), pytest.raises(BlockingIOError, match="is in use by process"):
        running.run_all([], None, str(tmp_path), 1, running.Reporter())


def test_data_sets_are_listed(capsys):
    main(["discovery", "--list", "--half", "test"])
    assert "roman  glyphs: none, flips, quarter, d4" in capsys.readouterr().out
    main(["--list"])
    assert "discovery  How often the verdict" in capsys.readouterr().out


def made_row(data, outcome, *, seed=0, null=False, enough=True, half="test", method="symshare"):
    wrong = {"rot90": "undecided"}
    return {
        "key": f"{method}/{half}/{data}/{seed}", "method": method, "half": half, "null": null,
        "data": data, "kind": f"kind of {data}", "law": "quarter", "seed": seed, "images": 10,
        "shape": [1, 8, 8], "enough": enough, "truth_group": "C4", "truth_open": 1,
        "word": "group", "group": "C2",
        "found": ["rot180"], "possible": "C4", "outcome": outcome, "missed": [], "open": [],
        "false": ["flipW"] if outcome == "false" else [],
        "weak": ["rot90"] if outcome == "weak" else [], "statuses": wrong,
        "numbers": {"rot90": {"excess": [0.1, 0.05, 0.15], "shown": 3}}, "facts": {"reasons": []},
        "seconds": 3.0,
    }  # fmt: skip


def test_the_page_names_failures_first():
    rows = [made_row("a", "exact", seed=i) for i in range(3)]
    rows += [made_row("b", "weak"), made_row("c", "weak", enough=False), made_row("d", "false")]
    rows += [made_row("n", "exact", null=True, seed=i) for i in range(4)]
    rows += [made_row("z", "exact", half="dev"), made_row("k", "missed", method="kernel")]
    results = running.results(rows)
    assert results["half"] == "test"
    assert results["summary"]["exact"] == 3 / 5
    assert results["summary"]["n_cases"] == 5
    assert results["summary"]["outcomes"] == dict(zip(OUTCOMES, (1, 0, 0, 2, 3), strict=True))
    text = page(results)
    heads = [line for line in text.splitlines() if line.startswith("#")]
    assert heads[1:4] == ["## test, symshare", "### What went wrong", "### Summary"]
    assert [head for head in heads if head.startswith("## ")] == [
        "## test, symshare", "## test, kernel", "## dev, symshare",
    ]  # fmt: skip
    wrong = text.partition("### Summary")[0].splitlines()
    failures = [line for line in wrong if line.startswith(("| b |", "| c |", "| d |"))]
    assert [line.split(" | ")[0] for line in failures] == ["| d", "| b"]
    assert "C4 not excluded | rot90 undecided: excess 0.1 (0.05 to 0.15), shown 3" in failures[1]
    assert "| kind of a | 10 of 1x8x8 | quarter | C4, 1 open | yes | 3 | 3 | - |" in text
    assert "Null runs: 4; in 0.0% something was named" in text
    for line in text.splitlines():
        assert not line.startswith("|") or line.endswith("|")


def test_methods_are_compared_on_what_all_were_asked():
    rows = [made_row("a", "exact"), made_row("b", "exact"), made_row("n", "exact", null=True)]
    rows += [made_row("a", "false", method="kernel"), made_row("c", "exact", method="kernel")]
    rows += [made_row("n", "false", method="kernel", null=True)]
    text = page(running.results(rows)).partition("\n## test, symshare")[0]
    assert "## test, all methods on the same 2 runs" in text
    assert [line for line in text.splitlines() if line.startswith(("| symshare", "| kernel"))] == [
        "| symshare | 1 | 1 | - | - | - | - | 1 | 0 | 3 |",
        "| kernel | 1 | - | - | - | - | 1 | 1 | 1 | 3 |",
    ]
    assert "all methods" not in page(running.results(rows[:3]))


def test_a_summary_of_nothing_has_no_shares():
    found = summary([])
    assert (found["exact"], found["false_discovery"], found["ci"]) == (None, None, [0.0, 1.0])


def turned_templates(n, side):
    upright = cases.templates(n, 8, look=1, side=side)
    images = moved_by(upright.images, "quarter", np.random.default_rng(9)).astype(np.float32)
    return Question(LabelledImages.from_arrays(images, upright.labels), (), 0)


def test_the_kernel_test_tells_symmetries_from_others(monkeypatch):
    monkeypatch.setattr(rivals, "KERNEL_IMAGES", 200)
    given = ask_kernel(turned_templates(200, side=6))
    assert set(given.found) == set(TURNS)
    assert given.group == "C4"
    assert all(given.numbers[name]["p"] == 0.005 for name in ("flipW", "flipH", "transpose"))


def test_augmentation_that_makes_new_images_costs_more_than_what_the_data_has(monkeypatch):
    monkeypatch.setattr(rivals, "OPTIM", OptimConfig(steps=40, evaluations=1))
    given = ask_augmentation(turned_templates(300, side=6))
    extra = {name: numbers["loss"] for name, numbers in given.numbers.items()}
    mirrors = set(extra) - set(TURNS)
    assert np.mean([extra[g] for g in TURNS]) < np.mean([extra[g] for g in mirrors])
    assert set(given.found) == {name for name in extra if extra[name] <= 0}
    assert {name for name, status in given.statuses.items() if status == "symmetric"} == set(
        given.found
    )


@pytest.mark.parametrize(("raised", "count"), [(0.0, 7), (1.0, 0)])
def test_gates_that_rise_are_for_their_elements(monkeypatch, raised, count):
    monkeypatch.setattr(rivals, "OPTIM", OptimConfig(steps=2, evaluations=1))
    monkeypatch.setattr(rivals, "RAISED", raised)
    given = ask_gates(turned_templates(64, side=8))
    assert len(given.found) == count
    assert list(given.numbers) == list(lattice((8, 8)))[1:]
    assert all(0 < numbers["measure"] < 1 for numbers in given.numbers.values())


@pytest.mark.parametrize("name", ["rot90", "flipH", "transpose"])
def test_a_gate_is_read_under_the_name_of_its_element(monkeypatch, name):
    def trained(network, *rest):
        (gate,) = {m for m in network.modules() if isinstance(m, Measure)}
        rising = torch.tensor([element == name for element in dihedral(4).names[1:]])
        gate.logits.data.copy_(torch.where(rising, 3.0, -3.0))
        return Trained(network, [])

    monkeypatch.setattr(rivals, "train", trained)
    assert ask_gates(turned_templates(20, side=8)).found == (name,)


def test_gates_leave_small_images_undecided():
    given = ask_gates(turned_templates(20, side=4))
    assert (given.word, set(given.statuses.values())) == ("undecided", {"undecided"})


@pytest.mark.slow
def test_the_former_rule_finds_what_it_found():
    given = ask_former(turned_templates(1500, side=8))
    assert (given.word, given.group, set(given.found)) == ("group", "C4", set(TURNS))


def test_the_former_rule_needs_the_history(monkeypatch):
    monkeypatch.setattr(former, "COMMIT", "0" * 40)
    former._library.cache_clear()
    with pytest.raises(FileNotFoundError, match="clone it with its history"):
        ask_former(turned_templates(20, side=4))
