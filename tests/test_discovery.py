import json
import math
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from functools import cache, partial

import jsonschema
import numpy as np
import pytest
import torch

import symshare
import test_judge
from experiments.studies.ranges import CASES
from symshare import groups
from symshare.data import LabelledImages, split
from symshare.discovery import config as budgets
from symshare.discovery.config import Budget, DiscoveryConfig
from symshare.discovery.handed import Handed
from symshare.discovery.plan import plan_networks
from symshare.discovery.search import judge_pool
from symshare.discovery.wording import caveats, sentence
from symshare.judge import decide
from symshare.moments import commutant
from symshare.names import THINGS, Storage
from symshare.propose import propose
from symshare.records import NETWORKS, LabelNames, Seeds, VerdictRecord
from symshare.train.loop import Trained
from symshare.train.settings import DataConfig, FitConfig, Hardware


@pytest.fixture(scope="module", autouse=True)
def tiny():
    """A standard budget that ends in seconds."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(budgets.BUDGETS, "standard", Budget(1000, 200, 4, 2))
        patch.setitem(budgets.BUDGETS, "quick", Budget(1000, 200, 4, 1))
        patch.setattr("symshare.moments.network.commutant", partial(commutant, steps=20))
        yield


@cache
def lattice_candidates():
    """The symmetries of the square, proposed once."""
    return propose(torch.rand(64, 1, 4, 4))


@pytest.fixture(scope="module")
def turned():
    """Images of four chiral shapes, each turned by a random quarter."""
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(960) % 4
    images = 0.1 * torch.rand(960, 1, 8, 8, generator=generator)
    for i, label in enumerate(labels.tolist()):
        images[i, 0, 1, 1 : 4 + label] += 1.0
        images[i, 0, 1:4, 1] += 1.0 if label % 2 else 0.5
        quarter = int(torch.randint(4, (1,), generator=generator))
        images[i] = images[i].rot90(quarter, (-2, -1))
    return images.numpy(), labels.numpy()


@pytest.fixture(scope="module")
def whole(tiny, turned, tmp_path_factory):
    """A discovery on the turned shapes, without what only extras bring."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("matplotlib", "datasets", "pyarrow", "PIL", "onnx", "onnxscript"):
            patch.setitem(sys.modules, name, None)
        return symshare.discover(*turned, out=tmp_path_factory.mktemp("whole") / "run")


def test_finds_the_group_of_arrays_and_writes_the_evidence(whole):
    found = whole
    assert (found.verdict, found.group) == ("group", "C4")
    assert set(found.found) == {"rot90", "rot180", "rot270"}
    assert found.action.name == "C4"
    record = VerdictRecord.read(found.out / "verdict.json")
    assert record == found.record
    jsonschema.validate(json.loads(record.to_json()), VerdictRecord.json_schema())
    assert {e.name for e in record.elements} >= set(groups.dihedral(4).names[1:])
    assert all(record.accuracy[model].n == 2 for model in ("cnn", "found", "gated"))
    assert record.seeds == Seeds(judge=(0,), fit=(0, 1))
    measures = {e.name: e.measure for e in record.elements}
    assert all(0 <= measures[name] <= 1 for name in groups.dihedral(4).names[1:])
    assert "C4" in found.report.read_text()
    runs = sorted(path.name for path in (found.out / "runs").iterdir())
    assert runs == [f"{m}-seed{s}" for m in ("cnn", "found", "gated", "sinkhorn") for s in (0, 1)]


def test_a_second_call_computes_nothing(turned, whole):
    def written():
        anew = ("verdict.json", "report.html", "examples.safetensors")
        files = [path for path in whole.out.rglob("*") if path.is_file() and path.name not in anew]
        return {path: path.stat().st_mtime_ns for path in files}

    before = written()
    assert symshare.discover(*turned, out=whole.out).record == whole.record
    assert written() == before
    assert len(before) > 8


def cut_at(step, *arrays, out, **options):
    """A discovery in which the power is cut where a step would begin."""

    def cut(*_, **__):
        raise RuntimeError("power cut")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(f"symshare.discovery.run.{step}", cut)
        with pytest.raises(RuntimeError, match="power cut"):
            symshare.discover(*arrays, out=out, **options)


def verdict_alone(*arrays, out, **options):
    """What is on record before any networks are compared."""
    cut_at("fit_splits", *arrays, out=out, **options)
    return VerdictRecord.read(out / "verdict.json")


def test_goes_on_after_a_power_cut_before_every_step(turned, whole, tmp_path):
    for step in ("propose_candidates", "gather_evidence"):
        cut_at(step, *turned, out=tmp_path / "cut")
        assert not (tmp_path / "cut/verdict.json").exists()
    record = verdict_alone(*turned, out=tmp_path / "cut")
    assert (record.group, record.accuracy["cnn"]) == ("C4", None)
    resumed = symshare.discover(*turned, out=tmp_path / "cut")
    assert resumed.record.elements == whole.record.elements
    assert resumed.record.accuracy == whole.record.accuracy


def test_judges_the_users_candidates(turned, tmp_path):
    images, labels = turned
    corner = torch.arange(64)
    corner[0], corner[63] = 63, 0
    extra = groups.from_permutations(
        torch.stack([torch.arange(64), corner]), (8, 8), ["id", "swap"]
    )
    record = verdict_alone(images, labels, candidates=extra, out=tmp_path / "run")
    element = next(e for e in record.elements if e.name == "swap")
    assert element.source == "user"
    assert element.kernel_permutation is None


def noisy(shape, count, seed):
    """[count, *shape] drawn from three templates, with their numbers as labels."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(count) % 3
    noise = torch.randn(count, *shape, generator=generator)
    return torch.randn(3, *shape, generator=generator)[labels] + 0.5 * noise, labels


def test_ranges_and_the_advice_that_follows(turned, whole, tmp_path):
    """They go on after a power cut, and the exact group is to be built in."""
    images, labels = turned
    cut_at("examine_ranges", images, labels, out=tmp_path / "run", ranges=["turn"])
    with_ranges = VerdictRecord.read(tmp_path / "run/verdict.json")
    assert with_ranges.ranges is None
    cut_at("fit_splits", images, labels, out=tmp_path / "run", ranges=["turn"])
    record = VerdictRecord.read(tmp_path / "run/verdict.json")
    assert [r.family for r in record.ranges.families] == ["turn"]
    assert (tmp_path / "run/ranges.json").exists()
    assert not (tmp_path / "run/ranges").exists()
    built_in = record.advice[0]
    assert (built_in.kind, set(built_in.elements)) == ("build in", {"rot90", "rot180", "rot270"})
    # What was decided without them does not depend on them.
    assert record.elements == replace_measures(whole.record.elements)
    assert whole.record.ranges is None


def replace_measures(elements):
    return tuple(replace(element, measure=None) for element in elements)


@pytest.mark.parametrize("ranges", [["trun"], ["gain"]])
def test_families_that_the_data_lacks_are_refused_before_anything_is_written(
    turned, tmp_path, ranges
):
    with pytest.raises(ValueError, match="ranges: expected all, or some of"):
        symshare.discover(*turned, out=tmp_path / "run", ranges=ranges)
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_upright_and_turned_photographs_have_the_derived_verdict(tmp_path, monkeypatch):
    """Which way a photograph stands, to 30 degrees: quarter turns pass classes on, others break."""
    monkeypatch.setitem(budgets.BUDGETS, "quick", Budget(8000, 1000, 4, 1))
    case = CASES["photographs"]
    data = case.data(3, 4000)
    found = symshare.discover(
        data.images[:, 0], data.labels, out=tmp_path / "run", budget="quick", ranges=["turn"]
    )
    assert (found.verdict, found.group) == ("group", "C4")
    quarter = next(e for e in found.record.elements if e.name == "rot90")
    assert quarter.label_map == (1, 2, 3, 0)
    (turn,) = found.record.ranges.families
    for reach, share in ((turn.safe, 0.05), (turn.safe_approximate, 0.2)):
        derived = case.safe(share)
        for end in (-reach.low, reach.high):
            assert 0.5 * derived <= end <= 1.2 * derived
    assert {a.kind for a in found.record.advice} == {"build in", "augment", "keep away"}
    assert 'data-range="turn"' in found.report.read_text()


def test_images_too_small_for_networks_still_get_a_verdict(tmp_path):
    signals, labels = noisy((6,), 600, 0)
    signals[::2] = signals[::2].flip(-1)
    found = symshare.discover(signals, labels, layout="NL", out=tmp_path / "run", budget="quick")
    assert found.record.accuracy == dict.fromkeys(NETWORKS)
    assert any("at least 7 positions" in caveat for caveat in found.record.caveats)
    assert (found.verdict, found.found) == ("group", ("reverse",))


def test_a_mirror_that_exchanges_left_and_right(tmp_path):
    """It is found with its map of the labels, and a network has it built in."""
    generator = torch.Generator().manual_seed(0)
    fields, labels = torch.randn(2, 8, 8, generator=generator), torch.arange(900) % 3
    images = torch.stack([fields[0], fields[0].flip(-1), fields[1]])[labels]
    images[2::6] = images[2::6].flip(-1)
    images = images + 0.5 * torch.randn(images.shape, generator=generator)
    found = symshare.discover(
        images, labels, classes=("left", "right", "round"), out=tmp_path / "run", budget="quick"
    )
    assert (found.verdict, found.found) == ("group", ("flipW",))
    exchanged = "Moved by flipW with left and right exchanged, these images mean the same"
    assert found.record.sentence.startswith(exchanged)
    element = next(e for e in found.record.elements if e.name == "flipW")
    assert element.label_map == (1, 0, 2)
    assert "with left and right exchanged" in found.report.read_text()
    settings = (found.out / "runs/found-seed0/config.yaml").read_text()
    assert "label_map:\n  - - 1\n    - 0\n    - 2\n" in settings
    assert found.record.accuracy["found"].n == 1
    assert "flipW" not in (found.out / "runs/gated-seed0/config.yaml").read_text()


def test_a_ring_that_wraps_around_has_all_its_shifts_and_reversals(tmp_path):
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(1200) % 2
    signals = torch.zeros(1200, 12)
    for i, label in enumerate(labels.tolist()):
        start = int(torch.randint(12, (1,), generator=generator))
        signals[i, (torch.tensor([0, 1 + 3 * label]) + start) % 12] = 1.0
    signals += 0.1 * torch.rand(signals.shape, generator=generator)
    record = verdict_alone(signals, labels, layout="NL", periodic=("L",), out=tmp_path / "run")
    assert (record.verdict, record.group, len(record.found)) == ("group", "D12", 23)


def test_signals_that_may_be_reversed(tmp_path):
    signals, labels = noisy((2, 12), 600, 0)
    signals[::2] = signals[::2].flip(-1)
    found = symshare.discover(signals, labels, layout="NCL", out=tmp_path / "run", budget="quick")
    assert (found.verdict, found.group, found.found) == ("group", "C2", ("reverse",))
    assert found.record.accuracy["found"].n == 1
    assert (found.record.elements[0].shape, found.record.elements[0].kernel_shape) == ((12,), (3,))
    page = found.report.read_text()
    assert "data:image/svg+xml;base64," in page


def test_leads_that_are_swapped_and_reversed_together(tmp_path):
    """Neither the swap nor the reversal is a symmetry by itself, only their product is."""
    signals, labels = noisy((4, 16), 900, 0)
    signals += torch.tensor([0.0, 0.0, 1.0, -1.0]).view(4, 1)
    swap = torch.tensor([1, 0, 3, 2])
    signals[::2] = -signals[::2].flip(-1)[:, swap]
    found = symshare.discover(signals, labels, layout="NCL", out=tmp_path / "run", budget="quick")
    assert (found.verdict, found.found) == ("group", ("reverse*(0 1)(2 3)*negate",))
    element = next(e for e in found.record.elements if e.name == found.found[0])
    assert (element.channels, element.signs) == ((1, 0, 3, 2), (-1, -1, -1, -1))
    assert found.action.channels == 4
    network = (found.out / "runs/found-seed0/config.yaml").read_text()
    assert "channels:\n  - - 1\n    - 0\n    - 3\n    - 2\n  signs:\n  - - -1\n" in network
    assert found.record.planned == ("cnn", "found", "gated")
    assert element.measure is not None
    words = "channels 0 and 1 exchanged, channels 2 and 3 exchanged and all signs changed"
    assert found.record.sentence.startswith(f"Moved by reverse with {words}, these signals mean")
    assert f"back to front, {words}" in found.report.read_text()


def test_vectors_under_a_hidden_group(tmp_path):
    generator = torch.Generator().manual_seed(0)
    labels, steps = torch.arange(1200) % 3, torch.randint(4, (1200,), generator=generator)
    templates = torch.randn(3, 2, 4, generator=generator)
    order = torch.randperm(8, generator=generator)
    vectors = templates[labels] + 0.4 * torch.randn(1200, 2, 4, generator=generator)
    moved = [v.roll(k, -1) for v, k in zip(vectors, steps.tolist(), strict=True)]
    vectors = torch.stack(moved).flatten(1)[:, order]
    found = symshare.discover(vectors, labels, layout="NC", out=tmp_path / "run", budget="quick")
    assert (found.verdict, found.group, len(found.found)) == ("group", "C4", 3)
    step = torch.arange(8).view(2, 4).roll(1, -1).flatten()
    hidden = order.argsort()[step[order]]
    assert tuple(hidden.tolist()) in [e.channels for e in found.record.elements]
    assert found.record.sentence.endswith("as far as a network sees.")
    assert "these vectors mean the same" in found.record.sentence
    assert found.record.accuracy["found"].n == found.record.accuracy["cnn"].n == 1


def test_vectors_that_admit_no_permutation_are_judged_by_nothing(tmp_path):
    vectors, labels = noisy((10,), 900, 0)
    vectors = vectors * torch.linspace(1, 3, 10)
    found = symshare.discover(vectors, labels, layout="NC", out=tmp_path / "run", budget="quick")
    assert (found.verdict, found.record.elements) == ("none", ())
    assert found.record.sentence.startswith("No symmetry: second moments of the vectors admit no")
    assert "nothing to judge" in found.report.read_text()


@pytest.mark.parametrize(
    ("shape", "options", "message"),
    [
        ((401,), {}, "vectors of at most 400 numbers are searched, got 401"),
        ((6,), {"periodic": ("L",)}, r"vectors of shape \(1,\) have no axes, got \['L'\]"),
        ((6,), {"channels": ("a", "b")}, "a name of its own for each of 6 channels"),
        ((6,), {"channels": ("a",) * 6}, "a name of its own for each of 6 channels"),
        ((6,), {"channels": (" ", *"abcde")}, "a name of its own for each of 6 channels"),
        ((6,), {"transform": "flip"}, "expected at least 1 axes of space, got 0"),
        ((6,), {"candidates": groups.cyclic_shifts(7)}, "defined on shape \\(7,\\) only"),
    ],
    ids=["long", "periodic", "few names", "one name", "no name", "flip", "another ring"],
)
def test_vectors_that_are_refused_leave_nothing(tmp_path, shape, options, message):
    vectors, labels = noisy(shape, 60, 0)
    with pytest.raises(ValueError, match=message):
        symshare.discover(vectors, labels, layout="NC", out=tmp_path / "run", **options)
    assert not (tmp_path / "run").exists()


def test_volumes_that_may_be_turned_about_one_axis(tmp_path):
    volumes, labels = noisy((7, 7, 7), 600, 0)
    steps = torch.randint(4, (600,), generator=torch.Generator().manual_seed(1)).tolist()
    turned = [v.rot90(k, (-2, -1)) for v, k in zip(volumes, steps, strict=True)]
    found = symshare.discover(
        torch.stack(turned), labels, layout="NDHW", out=tmp_path / "run", budget="quick"
    )
    assert (found.verdict, found.group) == ("group", "C4")
    assert found.found == ("x90", "x180", "x270")
    assert found.record.accuracy["found"].n == 1
    assert found.record.planned == ("cnn", "found", "sinkhorn")
    assert any("48 elements" in caveat for caveat in found.record.caveats)


def test_partial_sets_become_networks_of_two_elements():
    square = groups.dihedral(4)
    evidence = test_judge.evidence([2.0] * 7, kept=[0.7, 0, 0.8, 0, 0, 0, 0])
    verdict = decide(evidence, square)
    images = torch.rand(64, 1, 8, 8)
    data = LabelledImages(images, torch.arange(64) % 2, ("a", "b"))
    plan, notes = plan_networks(verdict, lattice_candidates(), data)
    assert plan["found"].group == ("rot270",)
    assert notes == []


@pytest.mark.parametrize(
    ("config", "command"),
    [
        (DiscoveryConfig("digits", "quarter"), "symshare discover digits --transform quarter"),
        (
            DiscoveryConfig(
                "my data.npz", data=Storage(root="/tmp/x y", limit=10), periodic=("W",)
            ),
            "symshare discover 'my data.npz' --data.root '/tmp/x y' --data.limit 10 "
            "--periodic '[W]'",
        ),
        (
            DiscoveryConfig("scans", data=Storage(size="32x32", colour="grey", skip_broken=True)),
            "symshare discover scans --data.size 32x32 --data.colour grey --data.skip_broken True",
        ),
        (
            DiscoveryConfig("arrays", seed=2, periodic=("H",)),
            "symshare.discover(images, labels, seed=2, periodic=('H',))",
        ),
    ],
    ids=["plain", "quoted", "pictures", "arrays"],
)
def test_the_command_that_remakes_it(config, command):
    assert config.command() == command


def test_settings_that_are_left_out_are_not_written():
    """Folders of earlier versions, which did not know them, go on."""
    assert DiscoveryConfig("digits").to_dict()["data"] == {"root": None, "limit": None}
    data = {"source": "digits", "transform": "none", "root": None, "limit": None}
    assert FitConfig().to_dict()["data"] == data
    given = DataConfig("scans", size="32x32", skip_broken=True)
    written = FitConfig(given).to_dict()["data"]
    assert written == {**data, "source": "scans", "size": "32x32", "skip_broken": True}


@pytest.mark.slow
def test_an_interrupt_at_the_terminal_resumes(tmp_path):
    command = [
        sys.executable, "-m", "symshare", "discover", "digits", "--transform", "flip",
        "--budget", "quick", "--out", str(tmp_path / "run"),
    ]  # fmt: skip
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)
    while not (tmp_path / "run/runs").exists():
        time.sleep(0.1)
    time.sleep(1)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=600)
    assert process.returncode == 130, errors
    assert "goes on where" in errors
    subprocess.run(command, env=environment, check=True)
    record = VerdictRecord.read(tmp_path / "run/verdict.json")
    assert (record.verdict, record.group, record.found) == ("group", "C2", ("flipW",))


def test_what_the_label_tolerates_is_not_called_a_symmetry(tmp_path):
    generator = np.random.default_rng(0)
    labels = np.arange(480) % 2
    # Every pixel has a brightness of its own, so that no two of them can be exchanged.
    brightness = np.linspace(0.1, 1.0, 80).reshape(8, 10)
    images = (generator.random((480, 8, 10)) * brightness).astype(np.float32)
    images[labels == 1, :, 1:4] += 1
    images[labels == 0, :, 6:9] += 1
    found = symshare.discover(images, labels, layout="NHW", out=tmp_path / "run")
    assert (found.verdict, found.found) == ("none", ())
    statuses = {e.name: e.status for e in found.record.elements}
    # The network reads the columns and does not mind an upside-down image; the data has none.
    assert statuses["flipH"] == "tolerated"
    assert any("flipH" in caveat for caveat in found.record.caveats)
    assert found.record.accuracy["found"] is None
    assert found.record.accuracy["cnn"].n == 2


@pytest.mark.parametrize(
    "name",
    [
        "candidates.json",
        "evidence.safetensors",
        "runs/cnn-seed0/result.json",
        "runs/gated-seed1/representations.safetensors",
    ],
)
def test_a_damaged_file_is_named(turned, whole, tmp_path, name):
    shutil.copytree(whole.out, tmp_path / "run")
    path = tmp_path / "run" / name
    path.write_bytes(path.read_bytes()[:40])
    with pytest.raises(ValueError, match=f"{path.name} is damaged; delete it and repeat"):
        symshare.discover(*turned, out=tmp_path / "run")
    path.unlink()
    resumed = symshare.discover(*turned, out=tmp_path / "run")
    assert resumed.record.elements == whole.record.elements


def test_neither_proposing_nor_judging_reads_the_test_part(turned, whole, tmp_path):
    splits = split(LabelledImages.from_arrays(*turned), seed=0)
    pool = judge_pool(splits, budgets.BUDGETS["standard"], 0)
    held_out = {image.numpy().tobytes() for image in splits.test.images}
    assert not held_out & {image.numpy().tobytes() for image in pool.images}
    assert len(pool) + len(splits.test) == 960


@pytest.mark.parametrize("step", ["propose_candidates", "gather_evidence"])
def test_proposing_and_judging_are_given_that_pool(turned, tmp_path, monkeypatch, step):
    given = []

    def stop(folder, config, pool, *rest):
        given.append(pool)
        raise InterruptedError

    monkeypatch.setattr(f"symshare.discovery.run.{step}", stop)
    with pytest.raises(InterruptedError):
        symshare.discover(*turned, out=tmp_path / "run")
    splits = split(LabelledImages.from_arrays(*turned), seed=0)
    pool = judge_pool(splits, budgets.BUDGETS["standard"], 0)
    assert torch.equal(given[0].images, pool.images)


def test_a_folder_in_use_is_left_alone(turned, tmp_path, monkeypatch):
    seen = []

    def again(*_):
        with pytest.raises(BlockingIOError, match="run is in use by process"):
            symshare.discover(*turned, out=tmp_path / "run")
        seen.append(True)
        raise InterruptedError

    monkeypatch.setattr("symshare.discovery.run.propose_candidates", again)
    with pytest.raises(InterruptedError):
        symshare.discover(*turned, out=tmp_path / "run")
    assert seen == [True]


def test_takes_numbers_and_names_of_numpy(turned, tmp_path):
    images, labels = turned
    record = verdict_alone(
        images,
        labels,
        classes=np.unique(labels),
        seed=np.int64(1),
        candidates=groups.rotations(4),
        out=tmp_path / "run",
    )
    assert record.classes == ("0", "1", "2", "3")
    assert record.commands == (
        "symshare.discover(images, labels, classes=classes, candidates=candidates, seed=1)",
    )


def test_takes_channels_last_where_that_is_said(turned, monkeypatch, unchecked):
    images, labels = turned
    last = np.repeat(images[:, 0, :, :, None], 2, axis=3)
    seen = []
    monkeypatch.setattr("symshare.discovery.run._discover", lambda *a, **k: seen.append(a))
    with pytest.raises(ValueError, match="several things; .*layout='NHWC'"):
        symshare.discover(last, labels)
    symshare.discover(last, labels, layout="NHWC")
    _, command, parts, *_ = seen[0]
    assert command == "symshare.discover(images, labels, layout=layout)"
    assert parts(seed=0).train.images.shape[1:] == (2, 8, 8)


def test_judges_functions_that_are_handed_over(turned, tmp_path):
    images, labels = turned
    functions = {"louder": lambda x: 1.5 * x, "half a turn": lambda x: x.rot90(2, (-2, -1))}
    options = {"candidates": functions, "out": tmp_path / "run"}
    record = verdict_alone(images, labels, **options)
    louder, half = record.elements[-2:]
    assert (louder.name, louder.source, louder.permutation) == ("louder", "function", None)
    assert louder.status in ("tolerated", "broken")
    assert half.status == "symmetric"
    assert record.group == "C4"
    assert any(caveat.startswith("half a turn, which was handed over") for caveat in record.caveats)
    assert "candidates=candidates" in record.commands[0]
    found = symshare.discover(images, labels, **options)
    losses = [[e.excess_loss for e in one.elements] for one in (found.record, record)]
    assert losses[0] == losses[1], "nothing is judged anew"
    assert "the image after louder" in found.report.read_text()
    functions["louder"] = lambda x: 2.0 * x
    with pytest.raises(ValueError, match="another configuration or of other data"):
        symshare.discover(images, labels, **options)


@pytest.mark.parametrize(
    ("functions", "message"),
    [
        ({"cut": lambda x: x[..., 1:]}, r"'cut': expected images like those given, .*8, 7\]; keep"),
        ({"double": lambda x: x.double()}, "got torch.float64"),
        ({"nothing": lambda x: None}, "'nothing': expected images .* got None"),
        ({"in place": lambda x: x.mul_(2)}, "writes into the images that it is given"),
        ({"log": lambda x: (x - x).log()}, "expected finite images, got NaN or infinity"),
        ({"rot90": lambda x: x.clone()}, "'rot90': a move that is proposed has, or may have, this"),
        ({"flipW_shift0_2": lambda x: x.clone()}, "has, or may have, this name; call the function"),
        ({"perm12": lambda x: x.clone()}, "'perm12': a move that is proposed"),
        ({"three": 3}, "expected functions of a batch by name .* got 'three': 3"),
        ({1: lambda x: x}, "expected functions of a batch by name .* got 1"),
    ],
    ids=[
        "shape",
        "dtype",
        "nothing",
        "in place",
        "nan",
        "taken",
        "a shift",
        "a find",
        "no function",
        "no name",
    ],
)
def test_functions_that_cannot_be_judged_are_refused(
    turned, tmp_path, unchecked, functions, message
):
    with pytest.raises(ValueError, match=message):
        symshare.discover(*turned, candidates=functions, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_functions_for_several_processes_have_to_be_importable(turned, tmp_path, unchecked):
    options = {"hardware": Hardware(devices=2), "out": tmp_path / "run"}
    with pytest.raises(ValueError, match="'louder': several processes cannot share it .* `def`"):
        symshare.discover(*turned, candidates={"louder": lambda x: 2 * x}, **options)
    assert Handed.of({"turn": torch.fliplr}, processes=2).functions == {"turn": torch.fliplr}
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("candidates", [["rot90"], "rot90", groups.dihedral])
def test_candidates_of_another_kind_are_refused(turned, unchecked, candidates):
    with pytest.raises(ValueError, match="as a GroupAction or .*, got a .*; use for example"):
        symshare.discover(*turned, candidates=candidates)


def test_different_calls_have_different_folders(turned, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("symshare.discovery.run.propose_candidates", lambda *seen: 1 / 0)
    for options in ({}, {"periodic": ("W",)}, {"seed": 1}, {"candidates": groups.rotations(2)}):
        with pytest.raises(ZeroDivisionError):
            symshare.discover(*turned, **options)
    assert len(list((tmp_path / "runs").iterdir())) == 4


@pytest.mark.parametrize(
    ("statuses", "note"),
    [
        (["broken", "symmetric", "broken", "approximate"], "flipW holds approximately, but"),
        (["approximate", "symmetric", "approximate", "broken"], "rot90 or rot270 holds approx"),
    ],
)
def test_names_what_passed_and_is_left_out(statuses, note):
    assert note in " ".join(_notes(statuses))


def test_says_where_images_are_too_few_to_tell_approximate_from_exact():
    half = groups.rotations(2)
    found = test_judge.evidence([0.03], noise=0.9)
    verdict = decide(found, half)
    assert (verdict.word, verdict.possible) == ("approximate", None)
    words = sentence(verdict, False, LabelNames(tuple("abcd")), THINGS[2])
    assert "these images mean the same at least approximately: the symmetry group is C2." in words
    assert "400 independent samples are too few to tell whether it is exact" in words


def test_says_contains_where_a_cap_cut_the_candidates():
    verdict = decide(test_judge.evidence([0.0]), groups.rotations(2))
    assert sentence(verdict, True, LabelNames(tuple("abcd")), THINGS[2]).startswith(
        "Moved by rot180, these images mean the same: the symmetry group of the data contains C2. "
    )


def test_says_which_part_of_the_label_was_not_tested():
    found = test_judge.evidence([0.0], n=2000, loss=1.1)
    found = replace(found, chance_loss=torch.full((2000,), math.log(4)))
    verdict = decide(found, groups.rotations(2))
    assert any("Of the 1.39 nats of the label" in note for note in _all_caveats(verdict))


def test_says_how_many_samples_copies_are():
    clusters = torch.arange(2000) // 2
    found = replace(test_judge.evidence([0.0], n=2000, clusters=clusters), copies=1.0)
    notes = _all_caveats(decide(found, groups.rotations(2)))
    assert any("the 2000 held-out images count as 1000 independent samples" in n for n in notes)
    notes = _all_caveats(decide(replace(found, chained=True), groups.rotations(2)))
    assert any("name these as groups" in note for note in notes)


def _all_caveats(verdict):
    return caveats(verdict, lattice_candidates(), LabelNames(tuple("abcd")), ())


def test_groups_go_from_the_call_to_the_verdict(turned, tmp_path):
    images, labels = turned
    patients = [f"patient {i // 4}" for i in range(960)]
    record = verdict_alone(images, labels, groups=patients, out=tmp_path / "run")
    assert record.group == "C4"
    assert record.independent <= 240 * 0.9
    assert "groups=groups" in record.commands[0]


def test_groups_that_cannot_be_divided_are_refused_before_anything_is_written(turned, tmp_path):
    """One group has nearly all images: there is nothing to divide on its other side."""
    images, labels = turned
    uneven = np.maximum(np.arange(960) // 4 - 230, 0)
    with pytest.raises(ValueError, match=r"a division of the data: .* groups"):
        symshare.discover(images, labels, groups=uneven, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_evidence_of_before_is_refused_by_name(turned, whole, tmp_path):
    from safetensors.torch import save_file

    shutil.copytree(whole.out, tmp_path / "run")
    path = tmp_path / "run/evidence.safetensors"
    save_file({"moved_loss": torch.zeros(7, 9)}, path, {"seconds": "1.0", "classes": "4"})
    with pytest.raises(ValueError, match=r"evidence\.safetensors was written by another version"):
        symshare.discover(*turned, out=tmp_path / "run")


def _notes(statuses):
    """Caveats where rot90, rot180, rot270 and flipW have these statuses."""
    action = groups.dihedral(4).subset(["id", "rot90", "rot180", "rot270", "flipW"])
    excess = {"symmetric": 0.0, "approximate": 0.01, "broken": 3.0}
    verdict = decide(test_judge.evidence([excess[status] for status in statuses]), action)
    judgements = tuple(
        replace(j, status=status) for j, status in zip(verdict.judgements, statuses, strict=True)
    )
    found = ("rot180",) if "symmetric" in statuses else ()
    approximate = () if found else ("rot180",)
    verdict = replace(
        verdict, judgements=judgements, found=found, approximate=approximate, word="group"
    )
    return caveats(verdict, lattice_candidates(), LabelNames(tuple("0123456789")), ())


def test_every_network_reads_the_test_part_once(turned, whole, tmp_path, monkeypatch):
    read = []
    test = Trained.test

    def count(self, data, law, task):
        read.append(len(data))
        return test(self, data, law, task)

    monkeypatch.setattr(Trained, "test", count)
    shutil.copytree(whole.out, tmp_path / "run")
    shutil.rmtree(tmp_path / "run/runs")
    symshare.discover(*turned, out=tmp_path / "run")
    assert read == [192] * 8


@pytest.mark.parametrize(
    ("width", "note"), [(12, []), (97, ["Of the 97 shifts along W, only 1 were judged"])]
)
def test_says_which_shifts_were_not_judged(width, note):
    candidates = propose(torch.rand(64, 1, 2, width), periodic=("W",))
    evidence = test_judge.evidence([2.0] * (len(candidates) - 1))
    verdict = decide(evidence, candidates.action())
    found = caveats(verdict, candidates, LabelNames(tuple("abcd")), ("W",))
    assert [text.partition(" (")[0] for text in found if "shifts along" in text] == note
