"""Figures from the folders of finished runs."""

import os

import pytest
import torch
from matplotlib.figure import Figure
from safetensors import safe_open
from safetensors.torch import save_file

from experiments.catalogue import select
from experiments.finished import Record, read_run
from experiments.jobs import digest
from experiments.result_figures import draw, few_images
from experiments.toys.running import run_toy
from experiments.toys.setup import toy_config


@pytest.fixture
def toy(tmp_path):
    run_toy(toy_config("toy-shift", steps=20, size=5), tmp_path / "toy-shift/shift-seed0")
    return record(tmp_path, "toy-shift/shift")


MADE = {"settings": {}, "device": "a CPU", "threads": 1, "torch": "2.13.0", "seconds": 1.0}
TOY = {**MADE, "test_accuracy": 1.0, "exact": 1.0, "sharpness": 1.0, "explained": 1.0}
IMAGES = {**MADE, "test_accuracy": {"rotated": 1.0}, "elements": 1, "dictionary": ["id"]}
IMAGES |= {"parameters": 1, "representation_parameters": 0}


def written(folder, *runs):
    """A record of runs, and its file."""
    found = {f"{run['row']}-seed{run['seed']}": read_run(run) for run in runs}
    record = Record(folder / "results.json", "cpu", found)
    record.write()
    return record


def record(folder, name, settings=None):
    """With one run of a row, of the settings of its file or of others."""
    of_file = digest(*select(name), "cpu", 0)
    return written(folder, {**TOY, "row": name, "seed": 0, "digest": settings or of_file})


def test_figures_of_what_has_run(toy, tmp_path):
    paths = draw(toy, "svg")
    assert [path.relative_to(tmp_path).as_posix() for path in paths] == [
        f"figures/toy-shift-{name}.svg"
        for name in ("samples", "kernels", "matrices", "coefficients")
    ]
    assert all("<svg" in path.read_text() for path in paths)


def test_figures_are_kept_where_nothing_has_changed(toy, tmp_path):
    first = draw(toy, "svg")
    first[0].write_text("mine")
    first[1].unlink()
    assert draw(toy, "svg") == first
    assert first[0].read_text() == "mine"
    assert "<svg" in first[1].read_text()
    stack = tmp_path / "toy-shift/shift-seed0/stack.safetensors"
    later = first[0].stat().st_mtime_ns + 1_000_000_000
    os.utime(stack, ns=(later, later))
    draw(toy, "svg")
    assert "<svg" in first[0].read_text()


@pytest.mark.parametrize(
    ("rows", "noted"),
    [
        ("step,id,rot90,flipW\n10,1.0,0.5,0.4\n20,1.0,0.9,0.1\n", True),
        ("step\n10\n20\n", False),
        ("step,id,rot90,flipW\n10,,,\n20,1.0,0.9,0.1\n", False),
    ],
    ids=["from the start", "never", "later"],
)
def test_the_measure_is_drawn_over_steps_where_it_was_noted(tmp_path, monkeypatch, rows, noted):
    name = "table1/rotated-gated"
    measure = {"id": 1.0, "rot90": 0.9, "flipW": 0.1}
    runs = [
        {
            **IMAGES,
            "row": name,
            "seed": seed,
            "digest": digest(*select(name), "cpu", seed),
            "measure": measure,
        }
        for seed in (0, 2)
    ]
    for seed in (0, 2):
        run = tmp_path / f"{name}-seed{seed}"
        run.mkdir(parents=True)
        (run / "metrics.csv").write_text(rows)
    drawn = []
    monkeypatch.setattr(
        "experiments.figures.curves",
        lambda series, *_, **__: (drawn.append(series), Figure())[1],
    )
    names = [path.name for path in draw(written(tmp_path, *runs), "svg")]
    if not noted:
        assert names == []
        return
    assert names == [f"rotated-gated-measure-seed{seed}.svg" for seed in (0, 2)]
    steps, still = [10.0, 20.0], [0.0, 0.0]
    expected = {"rot90": (steps, [0.5, 0.9], still), "flipW": (steps, [0.4, 0.1], still)}
    assert drawn == [expected, expected]


def test_runs_of_other_settings_are_not_drawn(toy, tmp_path):
    other = record(tmp_path, "toy-shift/shift", settings="of another day")
    assert draw(other, "svg") == []


def test_elements_without_an_order_are_drawn_in_that_of_the_known_ones(tmp_path, monkeypatch):
    name = "toy-shift-invariant/shift-invariant"
    run_toy(toy_config("toy-shift-invariant", steps=1, size=5), tmp_path / f"{name}-seed0")
    found = record(tmp_path, name)
    path = tmp_path / f"{name}-seed0/stack.safetensors"
    with safe_open(path, "pt") as file:
        tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
        metadata = file.metadata()
    truth, theta = tensors["truth"], tensors["theta"][:4]
    save_file({**tensors, "R": truth[[0, 2, 4, 1, 3]].contiguous()}, path, metadata)
    drawn = {}
    for kind in ("stack", "matrices"):
        monkeypatch.setattr(
            f"experiments.figures.{kind}",
            lambda x, *rest, kind=kind: (drawn.setdefault(kind, x), Figure())[1],
        )
    draw(found, "svg")
    torch.testing.assert_close(drawn["matrices"], truth)
    torch.testing.assert_close(drawn["stack"], torch.einsum("gij,cj->gci", truth, theta))


def test_nothing_is_drawn_of_nothing(tmp_path):
    assert draw(Record(tmp_path / "results.json", "cpu", {}), "png") == []


def test_accuracy_against_the_number_of_images(tmp_path):
    accuracies = {"images1000-cnn": [0.9], "images100-cnn": [0.5, 0.7], "images100-gcnn": [0.8]}
    accuracies |= {"images300-cnn": [0.1], "once-cnn": [0.2], "images500-cnn": [0.3]}
    rows = {row.name: row for row in select("ablations")}
    runs = [
        {
            **IMAGES,
            "row": f"ablations/{row}",
            "seed": seed,
            "test_accuracy": {"rotated": a},
            "digest": digest(rows[f"ablations/{row}"], "cpu", seed)
            if row not in ("images300-cnn", "images500-cnn")  # other settings, and no row
            else "0",
        }
        for row, values in accuracies.items()
        for seed, a in enumerate(values)
    ]
    record = written(tmp_path, *runs)
    expected = ([100, 1000], pytest.approx([60.0, 90.0]), pytest.approx([200**0.5, 0.0]))
    assert few_images(record) == {"CNN-64": expected}
    assert [path.name for path in draw(record, "svg")] == ["few-images.svg"]


def test_the_cost_is_drawn_from_the_record_alone(tmp_path, monkeypatch):
    drawn = []
    monkeypatch.setattr("experiments.figures.cost", lambda rows: (drawn.append(rows), Figure())[1])
    run = {**MADE, "row": "cost/layer", "seed": 0, "rows": [{"contender": "ours"}]}
    run["digest"] = digest(*select("cost/layer"), "cpu", 0)
    assert [path.name for path in draw(written(tmp_path, run), "svg")] == ["cost.svg"]
    assert drawn == [run["rows"]]
