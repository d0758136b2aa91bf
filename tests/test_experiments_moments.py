"""The study of what stacks learn from images alone, and the processes that studies share."""

import json
import operator
import threading
from functools import partial
from pathlib import Path

import pytest
import torch

from experiments.__main__ import main
from experiments.each import each
from experiments.moments import running
from experiments.moments.page import is_exact, page
from symshare import groups
from symshare.data import load
from symshare.moments import commutant


@pytest.fixture
def glance(monkeypatch):
    """Handwritten digits of 8 x 8 pixels in the place of MNIST, and fewer steps."""
    monkeypatch.setattr(running, "load", lambda source, root, seed: load("digits", seed=seed))
    monkeypatch.setattr("symshare.moments.network.commutant", partial(commutant, steps=100))


def test_a_case_from_images_to_the_page(tmp_path, glance, capsys):
    command = ["moments", "--cases", "mnist/flip/lifting", "--seeds", "2", "--processes", "1"]
    command += ["--out", str(tmp_path)]
    main(command)
    said = capsys.readouterr().out
    assert "2 runs, 0 of them done" in said
    assert "mnist/flip/lifting, seed 1: flipW" in said
    rows = json.loads((tmp_path / running.RESULTS).read_text())["rows"]
    assert [(row["case"], row["seed"]) for row in rows] == [
        ("mnist/flip/lifting", s) for s in (0, 1)
    ]
    assert all(is_exact(row) for row in rows)
    text = (tmp_path / running.PAGE).read_text()
    assert "| mnist/flip/lifting | flipW | 2 | 2 | - | - | - |" in text
    main(command)
    assert "2 runs, 2 of them done" in capsys.readouterr().out
    assert (tmp_path / running.PAGE).read_text() == text
    assert "`python -m experiments moments --seeds 2`" in text
    other = ["moments", "--cases", "mnist/none/lifting", "--seeds", "1", *command[5:]]
    main(other)  # fewer seeds and another case: what is there stays
    again = json.loads((tmp_path / running.RESULTS).read_text())["rows"]
    assert again[1:] == rows
    assert again[0]["case"] == "mnist/none/lifting"


def row(*found, truth=("rot180",), unknown=()):
    layer = {"ratios": [0.0, 0.9], "nearest": 1e-5}
    layers = [{**layer, "found": list(names)} for names in found]
    return {
        "case": "a", "seed": 0, "truth": list(truth), "open": list(unknown), "layers": layers,
        "seconds": 3.0,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("found", "unknown", "exact"),
    [
        ([["rot180"]], [], True),
        ([["rot180"], ["rot180"]], [], True),
        ([["rot180"], []], [], False),
        ([["rot180", "flipW"]], [], False),
        ([["rot180", "flipW"]], ["flipW", "flipH"], True),
        ([["rot180", "rot180"]], [], False),
        ([["rot180", "other"]], ["flipW"], False),
    ],
)
def test_a_run_is_exact_where_every_layer_is(found, unknown, exact):
    assert is_exact(row(*found, unknown=unknown)) == exact


def test_the_page_counts_what_is_missed_too_much_and_open():
    rows = [row(["rot180"]), row([], ["rot180", "flipW", "other"], unknown=["flipW"])]
    rows[0]["open"] = ["flipW"]
    cells = [cell.strip() for cell in page(rows).splitlines()[-1].strip("|").split("|")]
    assert cells[:7] == ["a", "rot180", "2", "1", "rot180 (1)", "other (1)", "flipW (1)"]
    assert cells[7:] == ["0.90 to 0.90", "1e-05", "3"]


def test_the_page_of_the_project_is_that_of_its_record():
    docs = Path(__file__).parents[1] / "docs" / "studies"
    rows = json.loads((docs / "moments.json").read_text())["rows"]
    assert (docs / "moments.md").read_text() == page(rows)


@pytest.mark.parametrize(
    ("case", "unknown"),
    [
        (("mnist", "half"), set()),
        (("cifar10", "flip"), set()),
        (("cifar10", "half"), {"flipW", "flipH"}),
        (("cifar10", "rotate:90"), {"transpose"}),
        (("cifar10", "rotate:180"), {"flipH"}),
    ],
)
def test_what_a_mirror_of_photographs_adds_is_open(case, unknown):
    assert set(running.Case(*case, "lifting").open) == unknown


@pytest.mark.parametrize(("law", "reflection"), running.REFLECTED.items())
def test_turns_of_mirrored_images_have_a_reflection(law, reflection):
    """That of x turned by t is the mirrored x turned by A - t, at quarter turns t in [0, A]."""
    x = torch.randn(1, 1, 7, 7, generator=torch.Generator().manual_seed(0))
    move = groups.dihedral(4).subset(["id", reflection]).permutation((7, 7))[1]
    quarters = int(law.partition(":")[2]) // 90
    for t in range(quarters + 1):
        turned = x.rot90(t, (2, 3)).flatten(2)[..., move].view_as(x)
        assert torch.equal(turned, x.flip(3).rot90(quarters - t, (2, 3)))


def test_an_element_is_named_by_what_it_does_in_space():
    turn = [6, 3, 0, 7, 4, 1, 8, 5, 2]
    assert running.named(torch.tensor(turn), 3) in ("rot90", "rot270")
    both = torch.tensor(turn).repeat(2) + torch.tensor([9, 0]).repeat_interleave(9)
    assert running.named(both, 3) == running.named(torch.tensor(turn), 3)
    assert running.named(torch.arange(18).roll(1), 3) == "other"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--cases", "mnits"], "no case begins with mnits"),
        (["--seeds", "0"], "seeds must be at least 1, got 0"),
        (["--processes", "0"], "processes must be at least 1, got 0"),
    ],
)
def test_bad_input_is_answered_in_one_line(tmp_path, capsys, arguments, said):
    with pytest.raises(SystemExit) as ended:
        main(["moments", *arguments, "--out", str(tmp_path)])
    assert ended.value.code == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1


def test_images_that_are_not_at_hand_fail_by_name(tmp_path, capsys):
    options = ["--data.root", str(tmp_path), "--seeds", "1", "--processes", "1"]
    with pytest.raises(SystemExit) as ended:
        main(["moments", "--cases", "cifar10/none", *options, "--out", str(tmp_path / "out")])
    assert ended.value.code == 1
    assert "failed  cifar10/none/lifting, seed 0: cifar10: no " in capsys.readouterr().out
    assert not (tmp_path / "out" / running.RESULTS).exists()


def test_cases_are_listed(capsys):
    main(["moments", "--list"])
    lines = capsys.readouterr().out.splitlines()
    assert "mnist/none/lifting  nothing to find" in lines
    assert "cifar10/flip/all  flipW" in lines


@pytest.mark.parametrize("processes", [1, 2])
def test_each_answers_all_and_keeps_what_went_wrong(processes):
    answers = list(each(partial(operator.floordiv, 12), [1, 0, 3], processes))
    found = {thing: (answer, type(error)) for thing, answer, error in answers}
    assert found == {
        1: (12, type(None)),
        0: (None, ZeroDivisionError),
        3: (4, type(None)),
    }
    # What still runs at the end of the process complains of closed pipes there.
    assert "_ExecutorManagerThread" not in {type(t).__name__ for t in threading.enumerate()}
