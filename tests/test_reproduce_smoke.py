"""Every study, once, at its smallest."""

import json
import os
import time
from pathlib import Path

import pytest

from symshare.cli import main
from symshare.reproduce.rows import select

DATA = os.environ.get("SYMSHARE_DATA")


@pytest.mark.slow
@pytest.mark.skipif(DATA is None, reason="SYMSHARE_DATA names no folder with mnist and cifar10")
def test_every_study_runs(tmp_path):
    command = ["reproduce", "all", "--budget", "smoke", "--data.root", str(DATA)]
    start = time.monotonic()
    main([*command, "--out", str(tmp_path)])
    assert time.monotonic() - start < 600
    folder = Path(tmp_path) / "smoke"
    runs = json.loads((folder / "results.json").read_text())["runs"]
    assert {run["row"] for run in runs.values()} == {row.name for row in select("all")}
    assert "Not run" not in (folder / "results.md").read_text()
    assert len(list((folder / "figures").iterdir())) > 30
    start = time.monotonic()
    main([*command, "--out", str(tmp_path)])
    assert time.monotonic() - start < 60
