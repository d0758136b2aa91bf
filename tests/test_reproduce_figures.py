"""Figures from the folders of finished runs."""

import pytest

from symshare.reproduce.figures import draw
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
