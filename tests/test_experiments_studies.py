"""The scripts that study the method: each from its command line to its last word, at its smallest.

What they find is in docs/studies; here no number is judged.
"""

import json
from dataclasses import replace

import pytest
import torch

from experiments.studies import benefit, kronecker, null, verdicts
from symshare.data import LabelledImages
from symshare.discovery.config import BUDGETS


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
