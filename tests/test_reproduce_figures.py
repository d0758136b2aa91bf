"""Figures from the folders of finished runs."""

import json

import pytest

from symshare.reproduce.figures import _few_images, draw
from symshare.reproduce.toys.config import toy_config
from symshare.reproduce.toys.run import run_toy


@pytest.fixture
def folder(tmp_path):
    run_toy(toy_config("toy-shift", steps=20, size=5), tmp_path / "toy-shift/shift-seed0")
    return tmp_path


def test_figures_of_what_has_run(folder):
    paths = draw(folder, "svg", again=True)
    assert [path.relative_to(folder).as_posix() for path in paths] == [
        f"figures/toy-shift-{name}.svg"
        for name in ("samples", "kernels", "matrices", "coefficients")
    ]
    assert all("<svg" in path.read_text() for path in paths)


def test_figures_are_kept_where_nothing_has_changed(folder):
    first = draw(folder, "svg", again=True)
    first[0].write_text("mine")
    first[1].unlink()
    assert draw(folder, "svg", again=False) == first
    assert first[0].read_text() == "mine"
    assert "<svg" in first[1].read_text()
    draw(folder, "svg", again=True)
    assert "<svg" in first[0].read_text()


def test_nothing_is_drawn_of_nothing(tmp_path):
    assert draw(tmp_path, "png", again=True) == []


def test_accuracy_against_the_number_of_images(tmp_path):
    accuracies = {"images1000-cnn": [0.9], "images100-cnn": [0.5, 0.7], "images100-gcnn": [0.8]}
    accuracies |= {"images300-cnn-changed-abcdef": [0.1], "once-cnn": [0.2]}
    runs = {
        f"{row}{seed}": {"row": f"ablations/{row}", "seed": seed, "test_accuracy": {"rotated": a}}
        for row, values in accuracies.items()
        for seed, a in enumerate(values)
    }
    expected = ([100, 1000], pytest.approx([60.0, 90.0]), pytest.approx([200**0.5, 0.0]))
    assert _few_images(runs.values()) == {"CNN-64": expected}
    (tmp_path / "results.json").write_text(json.dumps({"runs": runs}))
    assert [path.name for path in draw(tmp_path, "svg", again=True)] == ["few-images.svg"]
