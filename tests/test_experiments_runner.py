"""Runs of studies: results, failures, interrupts, and what is not done twice."""

import json
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import yaml

from experiments.image_runs import _recovery
from experiments.runner import Observer, Settings, run_studies
from symshare import groups
from symshare.representations import Fixed

TOY = {"title": "a toy", "task": "toy", "config": {"task": "toy-shift", "steps": 30, "size": 5}}
NUMBERS = ("test_accuracy", "val_loss", "parameters", "recovery")


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    """A small set of images as large as those of MNIST."""
    generator = np.random.default_rng(0)
    path = tmp_path_factory.mktemp("images") / "stripes.npz"
    labels = np.arange(60) % 2
    rows = generator.random((60, 1, 28)) + np.zeros((60, 28, 1))
    pixels = np.where(labels[:, None, None] == 1, rows, rows.swapaxes(1, 2))
    np.savez(path, images=pixels[:, None].astype(np.float32), labels=labels)
    return path


def images_row(path, **optim):
    return {
        "title": "stripes",
        "config": {
            "images": {"source": str(path), "train": "quarter", "test": {"turned": "quarter"}},
            "network": {"kind": "sinkhorn", "elements": 2, "width": 4},
            "optim": {"steps": 12, "batch_size": 8, "evaluations": 4, **optim},
        },
    }


def write(folder, name, row):
    path = folder / f"{name}.yaml"
    path.write_text(yaml.safe_dump(row))
    return str(path)


def settings(folder, **options):
    return Settings(**{"out": str(folder / "out"), "processes": 1, "seeds": 1, **options})


class Listener(Observer):
    """Notes what it is told."""

    def __init__(self):
        self.told = []

    def started(self, *_):
        self.told.append("started")

    def begun(self, _):
        self.told.append("begun")

    def ended(self, _):
        self.told.append("ended")

    def failed(self, _):
        self.told.append("failed")

    def finished(self, _):
        self.told.append("finished")


def results(outcome):
    return json.loads(outcome.results.read_text())["runs"]


def test_a_run_is_recorded_and_not_repeated(tmp_path):
    row = write(tmp_path, "toy", TOY)
    observer = Listener()
    first = run_studies(row, settings(tmp_path, seeds=2), observer)
    assert observer.told == ["started", "begun", "ended", "begun", "ended", "finished"]
    assert (first.ran, first.failures) == (2, ())
    (one, other) = results(first).values()
    assert (one["seed"], other["seed"]) == (0, 1)
    assert {"test_accuracy", "exact", "seconds", "device", "threads", "torch"} <= set(one)
    observer = Listener()
    second = run_studies(row, settings(tmp_path, seeds=2), observer)
    assert second.ran == 0
    assert observer.told == ["started", "finished"]
    assert results(second) == results(first)


def test_a_record_from_elsewhere_counts(tmp_path):
    row = write(tmp_path, "toy", TOY)
    first = run_studies(row, settings(tmp_path))
    copy = tmp_path / "copy"
    (copy / "cpu").mkdir(parents=True)
    (copy / "cpu/results.json").write_bytes(first.results.read_bytes())
    assert run_studies(row, settings(tmp_path, out=str(copy))).ran == 0


def test_other_settings_are_another_run(tmp_path):
    row = write(tmp_path, "toy", TOY)
    run_studies(row, settings(tmp_path))
    again = run_studies(row, settings(tmp_path, changes=("noise=0.2",)))
    assert again.ran == 1
    changed, kept = results(again).values()
    assert "noise" not in kept["settings"]
    assert changed["settings"]["noise"] == 0.2
    assert "changed" in again.page.read_text()


def test_a_result_that_was_not_yet_recorded_is_found(tmp_path):
    row = write(tmp_path, "toy", TOY)
    first = run_studies(row, settings(tmp_path))
    before = results(first)
    first.results.unlink()
    again = run_studies(row, settings(tmp_path))
    assert again.ran == 0
    assert results(again) == before


@pytest.mark.parametrize("name", ["job.json", "result.json"])
@pytest.mark.parametrize("content", ["", '{"digest": "of another run"}', "[1]"])
def test_a_damaged_run_is_run_again(tmp_path, name, content):
    row = write(tmp_path, "toy", TOY)
    first = run_studies(row, settings(tmp_path))
    before = results(first)
    ((key, run),) = before.items()
    first.results.unlink()
    (first.results.parent / key / name).write_text(content)
    if name == "job.json":
        (first.results.parent / key / "result.json").unlink()
    again = run_studies(row, settings(tmp_path))
    assert again.ran == 1
    assert {**results(again)[key], "seconds": 0} == {**run, "seconds": 0}


def test_what_is_left_of_unknown_settings_is_not_continued(tmp_path, images):
    row = write(tmp_path, "stripes", images_row(images))
    first = run_studies(row, settings(tmp_path))
    (key,) = results(first)
    folder = first.results.parent / key
    first.results.unlink()
    for name in ("job.json", "result.json"):
        (folder / name).unlink()
    write(tmp_path, "stripes", images_row(images, lr=0.001))
    again = run_studies(row, settings(tmp_path))
    fresh = run_studies(row, settings(tmp_path, out=str(tmp_path / "fresh")))
    assert results(again)[key]["val_loss"] == results(fresh)[key]["val_loss"]


def test_a_run_that_cannot_start_is_reported(tmp_path):
    row = write(tmp_path, "toy", TOY)
    folder = tmp_path / "out/cpu" / tmp_path.name
    folder.mkdir(parents=True)
    (folder / "toy-seed0").write_text("a file")
    outcome = run_studies(row, settings(tmp_path, seeds=2))
    assert [failure.job.seed for failure in outcome.failures] == [0]
    assert outcome.ran == 1


def test_a_killed_run_is_reported(tmp_path, images, monkeypatch):
    row = write(tmp_path, "stripes", images_row(images, steps=4000))

    class Killer(Observer):
        def begun(self, progress):
            pids = [p.pid for p in multiprocessing.active_children()]
            log = tmp_path / f"out/cpu/{progress.job.key}/log.txt"
            wait_for(log.exists)
            log.write_text("some advice of a library\n")
            os.kill(max(pids), signal.SIGKILL)

    outcome = run_studies(row, settings(tmp_path), Killer())
    (failure,) = outcome.failures
    assert failure.reason == "killed by signal 9; was there too little memory?"


def test_a_failure_is_reported_and_the_rest_carried_on(tmp_path, images):
    # Accuracies of a source that is not there.
    missing = images_row(tmp_path / "none.npz")
    folder = tmp_path / "rows"
    folder.mkdir()
    observer = Listener()
    path = write(folder, "missing", missing)
    outcome = run_studies(path, settings(tmp_path), observer)
    (failure,) = outcome.failures
    assert "none.npz" in failure.reason
    assert "Traceback" in failure.log.read_text()
    assert observer.told == ["started", "begun", "failed", "finished"]
    assert results(outcome) == {}
    # The same command tries again once the cause is gone.
    (tmp_path / "none.npz").write_bytes(images.read_bytes())
    assert run_studies(path, settings(tmp_path)).ran == 1


def test_runs_on_images_end_with_numbers_and_stacks(tmp_path, images):
    outcome = run_studies(write(tmp_path, "stripes", images_row(images)), settings(tmp_path))
    assert not outcome.failures
    ((key, run),) = results(outcome).items()
    assert 0 <= run["test_accuracy"]["turned"] <= 1
    assert run["elements"] == 2
    assert run["representation_parameters"] == 25**2 + 4 * 50**2
    assert run["recovery"]["layers"][0]["elements"] == 2
    assert (outcome.results.parent / key / "stacks.safetensors").exists()


@pytest.mark.parametrize(
    ("transform", "known", "hits"),
    [
        ("rotate:360", ["id", "rot90", "rot180", "rot270"], [1]),
        ("flip", ["id", "flipW"], [2, 2]),
        ("scale:0.3-1", [], [None, None]),
    ],
)
def test_stacks_are_compared_with_what_makes_the_data(transform, known, hits):
    flips = groups.flips("W")
    stacks = [Fixed(flips.lift(3)).on_domain(), Fixed(flips.regular(3)).on_domain()]
    found = _recovery(stacks, transform)
    assert found["beside"] == known
    assert [layer.get("exact_hits") for layer in found["layers"]] == hits


COMMAND = """
import sys
from experiments.runner import Settings, run_studies
if __name__ == "__main__":
    run_studies(sys.argv[1], Settings(seeds=1, processes=1, out=sys.argv[2]))
"""


def call(row, out):
    script = out.parent / "call.py"
    script.write_text(COMMAND)
    command = [sys.executable, str(script), row, str(out)]
    root = Path(__file__).parents[1]
    path = os.pathsep.join([str(root / "src"), str(root)])
    return subprocess.Popen(command, env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": path})


def wait_for(condition, seconds=600):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "took too long"
        time.sleep(0.02)


def test_a_killed_run_ends_with_the_numbers_of_one_that_was_not(tmp_path, images):
    # Long enough that the kill comes in the middle.
    row = write(tmp_path, "stripes", images_row(images, steps=48, evaluations=12))
    whole = run_studies(row, settings(tmp_path, out=str(tmp_path / "whole")))
    out = tmp_path / "cut"
    process = call(row, out)
    folder = out / f"cpu/{tmp_path.name}/stripes-seed0"
    metrics = folder / "metrics.csv"
    ended = process.poll
    wait_for(lambda: ended() or (metrics.exists() and metrics.read_text().count("\n") >= 3))
    assert ended() is None
    process.send_signal(signal.SIGKILL)
    process.wait()
    # What it started ends with it; else two processes would write into one folder.
    rows = metrics.read_text().count("\n")
    assert rows < 13
    time.sleep(1.5)
    rows = metrics.read_text().count("\n")
    time.sleep(1.5)
    assert metrics.read_text().count("\n") == rows
    assert not (folder / "result.json").exists()
    again = run_studies(row, settings(tmp_path, out=str(out)))
    assert again.ran == 1
    ((_, cut),), ((_, uncut),) = results(again).items(), results(whole).items()
    assert {name: cut[name] for name in NUMBERS} == {name: uncut[name] for name in NUMBERS}
    assert metrics.read_text() == (tmp_path / "whole" / metrics.relative_to(out)).read_text()


def test_two_studies_do_not_share_a_folder(tmp_path, images):
    row = write(tmp_path, "stripes", images_row(images, steps=4000))
    out = tmp_path / "out"
    process = call(row, out)
    try:
        started = out / f"cpu/{tmp_path.name}/stripes-seed0/job.json"
        wait_for(lambda: process.poll() or started.exists())
        assert process.poll() is None
        with pytest.raises(BlockingIOError, match=rf"cpu is in use by process {process.pid} on"):
            run_studies(row, settings(tmp_path))
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "results.json is damaged"),
        ('{"schema": 1}', "results.json is damaged"),
        ('{"schema": 1, "budget": "cpu", "runs": []}', "results.json is damaged"),
        ('{"schema": 1, "budget": "cpu", "runs": {"a": {"seed": 1}}}', "results.json is damaged"),
        ('{"schema": 2, "budget": "cpu", "runs": {}}', "expected schema 1 .*got schema 2"),
        ('{"schema": 1, "budget": "paper", "runs": {}}', "got schema 1 and budget paper"),
    ],
)
def test_a_record_that_is_none_is_refused_and_kept(tmp_path, content, message):
    path = tmp_path / "out/cpu/results.json"
    path.parent.mkdir(parents=True)
    path.write_text(content)
    with pytest.raises(ValueError, match=message):
        run_studies(write(tmp_path, "toy", TOY), settings(tmp_path))
    assert path.read_text() == content


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"processes": 0}, "processes must be at least 1"),
        ({"seeds": 0}, "seeds must be at least"),
        ({"root": "/no/such/folder"}, "data.root: there is no folder /no/such/folder"),
        ({"changes": ("seed=7",)}, "'seed=7' would make it another run; use --seeds"),
        ({"changes": ("task=toy-cube",)}, "'task=toy-cube' would make it another run"),
        ({"changes": ("lr=.inf",)}, "toy-changed-.*: Out of range float values"),
        ({"changes": ("steps=abc",)}, "toy-changed-.*: a setting is missing or of the wrong kind"),
        ({"changes": ("stepz=3",)}, "toy-changed-.*: no setting 'stepz'; choose among .*steps"),
    ],
)
def test_wrong_numbers_are_refused(tmp_path, options, message):
    with pytest.raises(ValueError, match=message):
        run_studies(write(tmp_path, "toy", TOY), settings(tmp_path, **options))
