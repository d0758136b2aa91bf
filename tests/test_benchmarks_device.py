"""The script for an accelerator, on tiny sizes and without the packages it does not need."""

import json
import os
import re
import runpy
import subprocess
import sys
import tomllib
from dataclasses import replace
from importlib.metadata import packages_distributions
from itertools import chain
from pathlib import Path

import pytest

from experiments.catalogue import select
from experiments.jobs import settings

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
# No development installation has what reads scans.
EXTRAS = [names for extra, names in PROJECT["optional-dependencies"].items() if extra != "scans"]
REQUIRED = chain(PROJECT["dependencies"], *EXTRAS)
# filelock comes with torch.
NEEDLESS = {re.match(r"[\w-]+", name)[0] for name in REQUIRED}
NEEDLESS -= {"torch", "numpy", "scipy", "filelock"}
MODULES = {m: {name.lower() for name in by} for m, by in packages_distributions().items()}
ABSENT = ["beartype", *(module for module, by in MODULES.items() if by & NEEDLESS)]
WITHOUT = f"""
import importlib.metadata, runpy, sys
for name in {ABSENT!r}:
    sys.modules[name] = None  # importing it then fails
def version(name):
    raise importlib.metadata.PackageNotFoundError(name)
importlib.metadata.version = version
sys.argv = ["device.py", "--smoke", "--device", "cpu"]
runpy.run_path({str(ROOT / "benchmarks" / "device.py")!r}, run_name="__main__")
"""


def test_every_needless_package_is_known_by_its_modules():
    assert {"PIL", "sklearn", "threadpoolctl", "yaml"} <= set(ABSENT)
    assert set.union(*MODULES.values()) >= NEEDLESS


@pytest.fixture(scope="module")
def lines():
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT], capture_output=True, text=True, env=environment
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.parametrize("option", ["--data=/nowhere", "--rows=rotated-cnn", "--steps=5"])
def test_options_of_a_part_that_is_not_run_are_refused(option):
    done = subprocess.run(
        [sys.executable, ROOT / "benchmarks" / "device.py", option], capture_output=True, text=True
    )
    assert done.returncode == 2
    assert "is of table1; add --parts table1" in done.stderr


def test_all_parts_run(lines):
    *rows, summary = lines
    parts = ["sinkhorn", "step", "layer", "synchronisation", "compiled", "table1"]
    assert list(dict.fromkeys(row["bench"] for row in rows)) == parts
    assert list(summary) == ["summary", *parts, "seconds"]
    assert not [row for row in rows if "error" in row]


def test_the_compiled_step_is_compared(lines):
    *rows, summary = lines
    inside, before = (r for r in rows if r["measures"].startswith("training step, compiled, ratio"))
    assert inside["contender"] == "weight sharing / plain CNN"
    assert summary["compiled"] == {
        "train_ratio": inside["median"],
        "train_ratio_together": before["median"],
    }


def test_every_row_of_table_1_is_trained_and_tested(lines):
    *rows, summary = lines
    found = [row for row in rows if row["bench"] == "table1"]
    tested = {r["contender"]: r["median"] for r in found if r["measures"] == "test accuracy"}
    assert tested == summary["table1"]
    assert {name.removeprefix("rotated-") for name in tested} == {
        *("cnn", "gcnn-16", "gcnn-32", "wscnn-norm", "sinkhorn", "gated", "kronecker"),
    }
    assert all(0 <= value <= 1 for value in tested.values())
    learned = {r["contender"] for r in found if r.get("representation_parameters")}
    assert len(learned) == 4
    (compiled,) = (r["contender"] for r in found if r.get("compiled"))
    assert compiled == "rotated-cnn"


def test_rows_of_table_1_are_trained_as_they_are_in_the_study():
    device = runpy.run_path(str(ROOT / "benchmarks" / "device.py"))
    for name, (network, optim) in device["TABLE1"].items():
        (row,) = select(f"table1/{name}")
        expected = {"width": 64, **network}
        if name == "rotated-kronecker":
            expected["group"] = "found"
        ours, theirs = (
            settings(replace(row, config={**row.config, "network": chosen}), "paper", 0).network
            for chosen in (expected, row.config["network"])
        )
        assert ours == theirs
        assert row.config.get("optim", {}) == optim
        assert row.config["images"]["train"] == device["LAW"]


def test_waiting_is_only_checked_where_there_is_something_to_wait_for(lines):
    assert lines[-1]["synchronisation"] == {"waits": None}
