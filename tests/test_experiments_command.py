"""The command `python -m experiments`: quick answers, and every study at its smallest."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from experiments.__main__ import main
from experiments.catalogue import select

DATA = os.environ.get("SYMSHARE_DATA")
ROOT = Path(__file__).parents[1]

CALL = """
import sys
from experiments.__main__ import main
try:
    main(sys.argv[1:])
finally:
    heavy = {"torch", "scipy", "matplotlib", "lightning", "pytorch_lightning"} & set(sys.modules)
    print("heavy:", *sorted(heavy), file=sys.stderr)
"""


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["--help"], 0, "usage: python -m experiments"),
        (["--list"], 0, "table1/rotated-cnn"),
        (["--list"], 0, "python -m experiments.studies.null  Data on which no element may"),
        ([], 2, "say what, for example all or table1; --list names everything"),
        (["tabel1"], 2, "got 'tabel1'; did you mean table1"),
        (["table1/rotated-cn"], 2, "did you mean table1/rotated-cnn"),
        (["missing.yaml"], 2, "missing.yaml"),
        (["table1", "--change", "[optim.lrr=1]"], 2, "optim.lrr"),
        (["table1", "--change", "[network.kind=cmm]"], 2, "cmm"),
        (["toy-shift", "--change", "[steps=abc]"], 2, "a setting is missing or of the wrong kind"),
        (["table1", "--budget", "huge"], 2, "huge"),
        (["table1", "--tiers", "[D]"], 2, "Got value: D"),
        (["cost", "--tiers", "[B]"], 2, "cost has no row of the tiers B"),
        (["table1", "--data.root", "/no/such/folder"], 2, "there is no folder /no/such/folder"),
    ],
)
def test_answers_come_without_torch(tmp_path, arguments, code, said):
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}
    command = [sys.executable, "-c", CALL, *arguments]
    answer = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert answer.returncode == code, answer.stderr
    assert said in answer.stdout + answer.stderr
    assert answer.stderr.splitlines()[-1] == "heavy:"


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
