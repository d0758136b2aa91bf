"""Every study, once, at its smallest."""

import json
import os
from pathlib import Path

import pytest

from experiments.__main__ import main
from experiments.catalogue import select

DATA = os.environ.get("SYMSHARE_DATA")


@pytest.mark.slow
@pytest.mark.skipif(DATA is None, reason="SYMSHARE_DATA names no folder with mnist and cifar10")
def test_every_study_runs(tmp_path, capsys):
    command = ["all", "--budget", "smoke", "--data.root", str(DATA)]
    main([*command, "--out", str(tmp_path)])
    folder = Path(tmp_path) / "smoke"
    runs = json.loads((folder / "results.json").read_text())["runs"]
    assert {run["row"] for run in runs.values()} == {row.name for row in select("all")}
    assert "Not run" not in (folder / "results.md").read_text()
    assert len(list((folder / "figures").iterdir())) > 30
    capsys.readouterr()
    main([*command, "--out", str(tmp_path)])
    assert "begin" not in capsys.readouterr().out
