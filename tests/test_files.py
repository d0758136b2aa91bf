import json
import os
import subprocess
import sys

import pytest

from symshare.files import claimed, open_tensors, read_json, write_atomically


def test_a_failed_write_leaves_the_old_content_and_nothing_else(tmp_path, monkeypatch):
    path = tmp_path / "deep" / "file.json"
    write_atomically(path, b"old")

    def full(*_):
        raise OSError("disk full")

    monkeypatch.setattr("pathlib.Path.replace", full)
    with pytest.raises(OSError, match="disk full"):
        write_atomically(path, b"new")
    assert path.read_bytes() == b"old"
    assert os.listdir(path.parent) == ["file.json"]


def take(folder, config=None, fingerprint="f00d"):
    with claimed(folder, config or {"a": 1}, fingerprint):
        return (folder / "config.yaml").read_text()


def test_the_same_run_may_claim_its_folder_again(tmp_path):
    assert take(tmp_path / "run") == take(tmp_path / "run")


def test_a_leftover_of_an_interrupted_write_does_not_block_a_folder(tmp_path):
    (tmp_path / ".config.yaml.x1").write_text("cut")
    take(tmp_path)


HOLD = """
import sys
from pathlib import Path
from symshare.files import claimed
with claimed(Path(sys.argv[1]), {"a": 1}, "f00d"):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def other(tmp_path):
    """Another process that works in the folder `run`."""
    command = [sys.executable, "-c", HOLD, str(tmp_path / "run")]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


@pytest.mark.parametrize("config", [{"a": 1}, {"a": 2}], ids=["same run", "another run"])
def test_a_folder_in_use_is_refused_by_name_of_its_holder(tmp_path, other, config):
    message = rf"run is in use by process {other.pid} on .*; wait until it ends, or choose another"
    for _ in range(2):
        with pytest.raises(BlockingIOError, match=message):
            take(tmp_path / "run", config)
    other.communicate("")
    assert take(tmp_path / "run")


def test_a_process_that_was_killed_leaves_its_folder_to_others(tmp_path, other):
    other.kill()
    other.wait()
    assert take(tmp_path / "run")


def test_a_second_call_in_the_same_process_is_kept_out_too(tmp_path):
    with claimed(tmp_path, {"a": 1}, "f00d"), pytest.raises(BlockingIOError, match="process"):
        take(tmp_path)
    take(tmp_path)


def test_a_folder_of_something_else_is_left_as_it_was(tmp_path):
    (tmp_path / "thesis.txt").write_text("irreplaceable")
    with pytest.raises(ValueError, match="is no run of symshare"):
        take(tmp_path)
    assert os.listdir(tmp_path) == ["thesis.txt"]


def test_a_run_that_fails_gives_its_folder_back(tmp_path):
    with pytest.raises(ZeroDivisionError), claimed(tmp_path, {"a": 1}, "f00d"):
        _ = 1 / 0
    take(tmp_path)


@pytest.mark.parametrize(
    ("config", "data"), [({"a": 2}, "f00d"), ({"a": 1}, "beef")], ids=["config", "data"]
)
def test_another_run_is_refused(tmp_path, config, data):
    take(tmp_path / "run")
    with pytest.raises(ValueError, match="another configuration or of other data"):
        take(tmp_path / "run", config, data)


SETTINGS = {"seed": 0, "model": {"kind": "gcnn", "group": ["rot90"], "width": 4, "norm": None}}
KNOWN = "# data: sha256 f00d\n"


@pytest.mark.parametrize(
    "written",
    [
        json.dumps(SETTINGS),
        "# mine\nmodel: {width: 4, norm: ~, group: [rot90], kind: 'gcnn'}\nseed: 0\n",
    ],
)
def test_settings_are_compared_however_they_are_written(tmp_path, written):
    take(tmp_path, SETTINGS)
    (tmp_path / "config.yaml").write_text(KNOWN + written)
    assert take(tmp_path, SETTINGS) == KNOWN + written


OTHER = {
    "a name of 0.1": (
        "seed: 0\nmodel: {kind: gcnn, elements: [rot90], cnn_channels: 4, norm: ~}",
        "was written by symshare 0.1 or another version, whose settings have other names",
    ),
    "one more name": (
        "seed: 0\nmodel: {kind: gcnn, group: [rot90], width: 4, norm: ~, new: 1}",
        "was written by symshare 0.1 or another version",
    ),
    "another kind of run": ("source: digits\nseed: 0", "another configuration"),
    "no settings": ("", "another configuration"),
    "no mapping": ("- 1", "another configuration"),
    "no YAML": ("{", "another configuration"),
    "no text": ("\x00", "another configuration"),
}


@pytest.mark.parametrize("case", OTHER)
def test_settings_of_another_kind_are_refused_with_the_way_on(tmp_path, case):
    written, message = OTHER[case]
    path = tmp_path / "config.yaml"
    path.write_text(KNOWN + written)
    with pytest.raises(ValueError, match=rf"{message}.*config.yaml.*choose another folder with"):
        take(tmp_path, SETTINGS)
    assert path.read_text() == KNOWN + written


@pytest.mark.parametrize("content", ["", "{", "null", "[]", '{"b": 1}', "\x00\xff"])
def test_damaged_json_is_named(tmp_path, content):
    path = tmp_path / "result.json"
    path.write_text(content)
    with pytest.raises(ValueError, match=r"result.json is damaged; delete it and repeat"):
        read_json(path, "a")
    path.write_text(json.dumps({"a": 1}))
    assert read_json(path, "a") == {"a": 1}


def test_damaged_tensors_are_named(tmp_path):
    path = tmp_path / "evidence.safetensors"
    path.write_bytes(b"\x08\x00\x00")
    with pytest.raises(ValueError, match="evidence.safetensors is damaged"), open_tensors(path):
        pass
