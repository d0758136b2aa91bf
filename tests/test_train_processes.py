"""Two processes against one: the same losses, one writer, and an end for all when one is lost."""

import csv
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

import trainings
from symshare.train.processes import together
from symshare.train.settings import Hardware

ROOT = str(Path(__file__).parents[1])  # for the residual network of the experiments
ENVIRONMENT = {
    **os.environ,
    "OMP_NUM_THREADS": "1",
    "GLOO_SOCKET_IFNAME": "lo",
    "PYTHONPATH": os.pathsep.join([str(Path(ROOT) / "src"), ROOT]),
}
TORCHRUN = ["torch.distributed.run", "--nproc-per-node", "2", "-m", "symshare"]
FIT = [
    "fit", "--data.limit", "200", "--data.transform", "quarter", "--model.kind", "sinkhorn",
    "--model.width", "8", "--optim.batch_size", "15", "--accelerator", "cpu",
]  # fmt: skip


def command(*words):
    return [sys.executable, "-m", *map(str, words)]


def rows(run):
    with (run / "metrics.csv").open() as file:
        return torch.tensor([[float(x) for x in row.values()] for row in csv.DictReader(file)])


def test_two_processes_learn_what_one_does(tmp_path):
    script = Path(trainings.__file__)
    done = subprocess.run([sys.executable, script, tmp_path], env=ENVIRONMENT, capture_output=True)
    assert done.returncode == 0, done.stderr.decode()
    assert not done.stderr, done.stderr.decode()
    one = trainings.trainings(Hardware(accelerator="cpu"))
    # What the first process found is known to all.
    for rank in (0, 1):
        torch.testing.assert_close(torch.load(tmp_path / f"{rank}.pt"), one, rtol=1e-5, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize(
    "launch", [["symshare"], TORCHRUN], ids=["started by the first", "torchrun"]
)
def test_fit_with_two_processes(tmp_path, launch):
    options = [*FIT, "--optim.steps", 20, "--out"]
    devices = ["--devices", 2] if launch == ["symshare"] else []
    subprocess.run(command("symshare", *options, tmp_path / "one"), env=ENVIRONMENT, check=True)
    two = command(*launch, *options, tmp_path / "two", *devices)
    printed = subprocess.run(two, env=ENVIRONMENT, check=True, capture_output=True, text=True)
    assert printed.stdout.count("test accuracy") == 1
    torch.testing.assert_close(rows(tmp_path / "two"), rows(tmp_path / "one"), rtol=1e-5, atol=1e-5)
    same = (tmp_path / "one/config.yaml").read_text()
    assert (tmp_path / "two/config.yaml").read_text() == same


@pytest.mark.slow
def test_discover_with_torchrun(tmp_path):
    options = ["discover", "digits", "--transform", "flip", "--budget", "quick"]
    options += ["--data.limit", 300, "--accelerator", "cpu", "--out"]
    subprocess.run(command("symshare", *options, tmp_path / "one"), env=ENVIRONMENT, check=True)
    subprocess.run(command(*TORCHRUN, *options, tmp_path / "two"), env=ENVIRONMENT, check=True)
    one, two = (json.loads((tmp_path / n / "verdict.json").read_text()) for n in ("one", "two"))
    assert two["found"] == one["found"]
    # Long trainings make differences of any rounding, such as that of other orders of a batch.
    for first, second in zip(one["elements"], two["elements"], strict=True):
        assert second["status"] == first["status"]
        assert second["excess_loss"] == pytest.approx(first["excess_loss"], abs=0.05, rel=0.05)
    for name in one["planned"]:
        runs = [rows(tmp_path / n / "runs" / f"{name}-seed0") for n in ("two", "one")]
        torch.testing.assert_close(runs[0][0], runs[1][0], rtol=1e-5, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("lost", ["first", "other"])
def test_a_lost_process_ends_all_and_the_same_command_goes_on(tmp_path, lost):
    options = [*FIT, "--optim.steps", 1000, "--optim.evaluations", 100, "--out", tmp_path / "run"]
    started = command("symshare", *options, "--devices", 2)
    process = subprocess.Popen(started, env=ENVIRONMENT, stderr=subprocess.DEVNULL)
    while not (tmp_path / "run/checkpoints/last.ckpt").exists():
        time.sleep(0.1)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    (other,) = (int(child) for child in children)
    os.kill(process.pid if lost == "first" else other, signal.SIGKILL)
    assert process.wait(timeout=60)
    for _ in range(600):
        if not Path(f"/proc/{other}").exists():
            break
        time.sleep(0.1)
    else:
        pytest.fail("the other process goes on")
    seen = len(rows(tmp_path / "run"))
    assert 0 < seen < 100
    subprocess.run(started, env=ENVIRONMENT, check=True)
    assert len(rows(tmp_path / "run")) == 100


@pytest.mark.slow
def test_who_is_ended_gently_says_how_to_go_on(tmp_path):
    options = [*FIT, "--optim.steps", 3000, "--out", tmp_path / "run"]
    started = command("symshare", *options)
    process = subprocess.Popen(started, env=ENVIRONMENT, stderr=subprocess.PIPE, text=True)
    while not (tmp_path / "run/checkpoints/last.ckpt").exists():
        time.sleep(0.1)
    process.terminate()
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert errors.strip() == "Interrupted. The same command goes on where this one stopped."


def test_one_process_needs_no_other():
    assert together(Hardware(), lambda: 3) == 3


def test_torchrun_says_how_many_processes_there_are(monkeypatch):
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "1")
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
    monkeypatch.setenv("GROUP_WORLD_SIZE", "3")
    assert Hardware().processes == 6


def test_refuses_hardware_that_nobody_has(monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    monkeypatch.setattr("torch.cuda.device_count", lambda: 0)
    with pytest.raises(ValueError, match="devices must be at least 1, got 0"):
        Hardware(devices=0)
    with pytest.raises(ValueError, match=r"accelerator='cuda'.* is not to be had on this machine"):
        together(Hardware(devices=2, accelerator="cuda"), lambda: 3)
