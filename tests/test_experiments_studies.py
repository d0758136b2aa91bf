"""The scripts that study the method: each from its command line to its last word, at its smallest.

What they find is in docs/studies; here no number is judged.
"""

import json
from dataclasses import replace

import pytest
import torch
from torch import nn

from experiments.resumed import resumed
from experiments.studies import (
    advice,
    benefit,
    colours,
    commutants,
    jointly,
    kronecker,
    null,
    ranges,
    residuals,
    toys,
    verdicts,
)
from symshare import GroupConv2d, GroupPool, LiftConv2d, Sinkhorn, groups
from symshare.data import LabelledImages, load, transform
from symshare.discovery.config import BUDGETS
from symshare.moments import of_samples
from symshare.moments.network import move_in_space
from symshare.records import Advice
from symshare.train.loop import train
from symshare.train.settings import OptimConfig


@pytest.fixture
def glance(monkeypatch):
    """The budgets of a discovery, a few steps on a few images."""
    for name, budget in BUDGETS.items():
        small = replace(budget, judge_images=300, judge_steps=4)
        monkeypatch.setitem(BUDGETS, name, small)


def test_verdicts(tmp_path, monkeypatch, glance, capsys):
    truths = {name: verdicts.TRUTHS[name] for name in ("none", "rotate:180")}
    monkeypatch.setattr(verdicts, "TRUTHS", truths)
    out = tmp_path / "digits.json"
    command = ["digits", "--threads", "1", "--budget", "quick", "--out", str(out)]
    with pytest.raises(SystemExit) as ended:
        verdicts.main(command)
    rows = json.loads(out.read_text())
    assert [row["transform"] for row in rows] == list(truths)
    assert ended.value.code == (not all(row["right"] for row in rows))
    assert out.with_suffix(".md").read_text().count("| none | 0 |") == 1
    capsys.readouterr()
    with pytest.raises(SystemExit):
        verdicts.main(command)
    assert capsys.readouterr().out.strip().endswith("of 2 right.")
    assert json.loads(out.read_text()) == rows
    with pytest.raises(SystemExit):
        verdicts.main([*command, "--budget", "standard"])
    assert "holds rows of another source or budget" in capsys.readouterr().err


def test_null(tmp_path, monkeypatch, glance, capsys):
    monkeypatch.setattr(null, "IMAGES", 200)
    monkeypatch.setattr(null, "KINDS", null.KINDS[:2])  # scrambled pixels have many candidates
    out = tmp_path / "null.json"
    with pytest.raises(SystemExit) as ended:
        null.main(["--runs", "2", "--threads", "1", "--out", str(out)])
    rows = json.loads(out.read_text())
    assert [row["kind"] for row in rows] == list(null.KINDS)
    assert ended.value.code == any(row["named"] for row in rows)
    assert [line.partition(":")[0] for line in capsys.readouterr().out.splitlines()] == [
        "upright",
        "shuffled labels",
    ]


def test_scrambled_pixels_are_in_another_order_in_every_image():
    images = torch.arange(16.0).reshape(1, 1, 4, 4).repeat(2, 1, 1, 1)
    data = LabelledImages(images, torch.arange(2), ("a", "b"))
    first, second = null.spoil(data, "scrambled pixels", 0).images.flatten(1).tolist()
    assert sorted(first) == sorted(second) == list(range(16))
    assert first != second


def test_benefit(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(benefit, "SOURCE", "digits")
    out = tmp_path / "benefit.json"
    command = ["--root", str(tmp_path), "--runs", str(tmp_path / "runs"), "--out", str(out)]
    command += ["--seeds", "2", "--steps", "2", "--limits", "60", "--transforms", "quarter"]
    benefit.main([*command, "--models", "cnn", "gated"])
    rows = json.loads(out.read_text())
    assert [(row["model"], len(row["values"])) for row in rows] == [("cnn", 2), ("gated", 2)]
    assert capsys.readouterr().out.count("| quarter | 60 |") == 2


def test_ranges(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(ranges, "IMAGES", 600)
    small = replace(BUDGETS["standard"], judge_steps=200)
    monkeypatch.setitem(BUDGETS, "standard", small)
    out = tmp_path / "ranges.json"
    command = ["--out", str(out), "--seeds", "1", "--cases", "pulses"]
    ranges.main(command)
    rows = json.loads(out.read_text())
    assert [(row["family"], row["bound"]) for row in rows] == [("gain", 0.05), ("gain", 0.2)]
    assert all(row["low"] <= 0 <= row["high"] for row in rows)
    said = capsys.readouterr().out
    assert said.count("| pulses | gain | doublings |") == 2
    ranges.main(command)
    assert capsys.readouterr().out == said
    assert json.loads(out.read_text()) == rows


def test_kronecker(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(kronecker, "STEPS", 2)
    cases = list({task: (task, start, rate) for task, start, rate in kronecker.CASES}.values())
    assert len(cases) == 4
    cases += [("digits", "known", 0.0), ("regression", "homomorphism", 1e-2)]
    monkeypatch.setattr(kronecker, "CASES", cases)
    out = tmp_path / "kronecker.json"
    kronecker.main(["--seeds", "2", "--out", str(out)])
    rows = json.loads(out.read_text())
    assert [(row["task"], row["start"], row["rate"]) for row in rows] == [*cases, *cases]
    assert capsys.readouterr().out.count("/2 |") == 2 * len(cases)


def test_rows_are_made_once_and_a_damaged_file_is_refused(tmp_path):
    path, made = tmp_path / "rows.json", []

    def run(name, seed):
        made.append((name, seed))
        return {"name": name, "seed": seed}

    wanted = [("a", 0), ("b", 0)]
    first = resumed(path, ("name", "seed"), wanted[:1], run)
    assert resumed(path, ("name", "seed"), wanted, run) == [*first, {"name": "b", "seed": 0}]
    assert made == wanted
    for content in ("[{", "[1]", '[{"name": "a"}]'):
        path.write_text(content)
        with pytest.raises(ValueError, match=r"rows\.json is damaged; delete it"):
            resumed(path, ("name", "seed"), wanted, run)


def test_commutants(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(
        commutants, "CASES", {"C3": (commutants.regular(groups.cyclic_shifts(3), 3), 2000)}
    )
    out = tmp_path / "commutants.json"
    commutants.main(["--seeds", "1", "--out", str(out)])
    rows = json.loads(out.read_text())
    assert [row["way"] for row in rows] == list(commutants.WAYS)
    assert (rows[0]["true"], rows[0]["false"]) == (3, 0)
    assert capsys.readouterr().out.splitlines()[-1].startswith("| C3 | 3 | 3 (")


def test_toys(tmp_path, monkeypatch, capsys):
    """Half of the shifts of a ring are no group: nothing but the identity leaves their law."""
    monkeypatch.setattr(toys, "TASKS", ("toy-shift", "toy-shift-half"))
    out = tmp_path / "toys.json"
    toys.main(["--seeds", "1", "--out", str(out)])
    found = [
        (row["elements"], row["symmetries"], row["found"]) for row in json.loads(out.read_text())
    ]
    assert found == [(12, 12, 12), (6, 1, 1)]
    assert capsys.readouterr().out.count("| toy-shift") == 2


def test_residuals_of_starts_that_end_at_an_element_fall_below_the_others():
    x = torch.randn(8000, 9, generator=torch.Generator().manual_seed(0)) * torch.arange(1, 10)
    x[:4000] = x[:4000, [2, 1, 0, 5, 4, 3, 8, 7, 6]]
    series = residuals.followed(of_samples(x))
    found, none = (line for _, line, _ in series.values())
    assert [name.rpartition(" ")[0] for name in series] == ["an element", "none there"]
    assert found[-1] < none[-1]
    assert found[0] > 2 * found[-1]


def test_stacks_learn_jointly_with_the_task(monkeypatch):
    """Mirrored streaks of two classes; a lifting layer and a group layer."""
    monkeypatch.setattr(jointly, "ROUND", 80)
    monkeypatch.setattr(jointly, "WARM_UP", 0)
    torch.manual_seed(0)
    images = torch.randn(1200, 1, 8, 8).cumsum(2).cumsum(3)
    images[::2] = images[::2].flip(-1)
    data = LabelledImages(images, torch.arange(1200) // 600, ("a", "b"))
    layers = (
        LiftConv2d(1, 4, 3, Sinkhorn(2, 9, init="paper")),
        GroupConv2d(4, 4, 3, Sinkhorn(2, 18, init="paper")),
    )
    network = nn.Sequential(*layers, GroupPool(), nn.Flatten(), nn.LazyLinear(2))
    network(images[:2])
    task = jointly.Jointly(list(layers), 2, "in order", seed=0)
    optim = OptimConfig(steps=240, evaluations=1, representation_lr=0.1)
    train(network, data, transform("none"), optim, 0, task=task)
    assert all(layer.done for layer in task.layers)
    mirror = [2, 1, 0, 5, 4, 3, 8, 7, 6]
    assert layers[0].stack()[1].argmax(-1).tolist() == mirror
    assert move_in_space(layers[1].stack()[1].argmax(-1), 9) == mirror


def like_mnist(source, *, root, seed):
    """Digits in the size of MNIST."""
    splits = load("digits", seed=seed, limit=400)

    def large(data):
        return replace(data, images=torch.nn.functional.interpolate(data.images, size=28))

    parts = {name: large(getattr(splits, name)) for name in ("train", "validation", "test")}
    return replace(splits, **parts)


def test_colours(tmp_path, monkeypatch, glance, capsys):
    monkeypatch.setattr(colours, "load", like_mnist)
    monkeypatch.setattr(colours, "IMAGES", {"train": 250, "validation": 50, "test": 60})
    monkeypatch.setattr(colours, "STEPS", 2)
    out = tmp_path / "colours.json"
    colours.main(["--root", str(tmp_path), "--seeds", "1", "--out", str(out)])
    (row,) = json.loads(out.read_text())
    assert set(row["accuracy"]) == set(colours.NETWORKS)
    assert capsys.readouterr().out.count("of 1 runs") == 2


def test_the_planted_law_of_colours_is_no_move_of_space_alone():
    images = colours.colours(torch.rand(3, 1, 28, 28))
    assert images.shape == (3, 3, 14, 14)
    red, _, blue = images.unbind(1)
    turned = torch.stack([colours.PLANTED.apply(image, 1) for image in images])
    assert torch.equal(turned[:, 2], red.rot90(1, (-2, -1)))
    assert torch.equal(turned[:, 0], blue.rot90(1, (-2, -1)))


def test_advice(tmp_path, monkeypatch, glance, capsys):
    monkeypatch.setattr(advice, "load", like_mnist)
    monkeypatch.setattr(advice, "LAWS", ("none",))
    monkeypatch.setattr(advice, "IMAGES", 250)
    monkeypatch.setattr(advice, "TESTED", 60)
    monkeypatch.setattr(advice, "STEPS", 2)
    out = tmp_path / "advice.json"
    advice.main(["--root", str(tmp_path), "--seeds", "1", "--out", str(out)])
    (row,) = json.loads(out.read_text())
    assert set(row["accuracy"]) == set(advice.ARMS)
    assert "| none | None |" in capsys.readouterr().out


def test_advised_moves_stay_between_their_ends():
    line = Advice("augment", "shifts", "", (), "shiftW", -2.0, 2.0)
    images = torch.rand(200, 1, 8, 8)
    moved = advice.advised([line], images)(images, torch.Generator().manual_seed(0))
    still = (moved == images).flatten(1).all(1)
    assert 0.3 < still.float().mean() < 0.7
    assert moved.shape == images.shape
