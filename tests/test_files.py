import json
import os

import pytest

from symshare.files import claim, open_tensors, read_json, write_atomically


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


def test_the_same_run_may_claim_its_folder_again(tmp_path):
    claim(tmp_path / "run", {"a": 1}, "f00d")
    claim(tmp_path / "run", {"a": 1}, "f00d")


def test_a_leftover_of_an_interrupted_write_does_not_block_a_folder(tmp_path):
    (tmp_path / ".config.yaml.x1").write_text("cut")
    claim(tmp_path, {"a": 1}, "f00d")


@pytest.mark.parametrize(
    ("config", "data"), [({"a": 2}, "f00d"), ({"a": 1}, "beef")], ids=["config", "data"]
)
def test_another_run_is_refused(tmp_path, config, data):
    claim(tmp_path / "run", {"a": 1}, "f00d")
    with pytest.raises(ValueError, match="another configuration or of other data"):
        claim(tmp_path / "run", config, data)


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
