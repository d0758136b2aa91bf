"""Decoded copies of data files."""

import os

import numpy as np
import pytest

from symshare.data.reading import cached


class Decoder:
    def __init__(self, value=1):
        self.value = value
        self.calls = 0

    def __call__(self):
        self.calls += 1
        return {"images": np.full((2, 3), self.value, np.uint8), "kept": np.arange(2)}


@pytest.fixture
def source(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    path = tmp_path / "train.parquet"
    path.write_bytes(b"one")
    return path


def copies(source):
    return list((source.parent / "cache" / "symshare").glob("*.safetensors"))


def test_decodes_once(source):
    decode = Decoder()
    first, second = cached([str(source)], decode), cached([str(source)], decode)
    assert decode.calls == 1
    assert first.keys() == second.keys()
    for name in first:
        np.testing.assert_array_equal(first[name], second[name])
        assert first[name].dtype == second[name].dtype


def touch(path):
    stat = path.stat()
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns + 1))


CHANGES = {
    "size": lambda one, other: other.write_bytes(b"another"),
    "time": lambda one, other: touch(other),
    "name": lambda one, other: other.rename(other.with_name("renamed")),
    "order": lambda one, other: None,
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_changed_file_is_decoded_anew(source, change):
    other = source.with_name("other")
    other.write_bytes(b"two")
    files = [str(source), str(other)]
    cached(files, Decoder(1))
    CHANGES[change](source, other)
    files = files[::-1] if change == "order" else files
    assert cached(files, Decoder(2))["images"].max() == 2


def test_other_options_are_decoded_anew(source):
    assert cached([str(source)], Decoder(1), "32x32")["images"].max() == 1
    assert cached([str(source)], Decoder(2), "64x64")["images"].max() == 2
    assert cached([str(source)], Decoder(3), "32x32")["images"].max() == 1


@pytest.mark.parametrize("content", [b"", b"no tensors", b"\x10" + bytes(7) + b"{}"])
def test_a_damaged_copy_is_made_anew(source, content):
    cached([str(source)], Decoder())
    (copy,) = copies(source)
    copy.write_bytes(content)
    decode = Decoder(3)
    assert cached([str(source)], decode)["images"].max() == 3
    assert cached([str(source)], decode)["images"].max() == 3
    assert decode.calls == 1


def test_works_where_nothing_can_be_written(source, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(source / "a file is no folder"))
    decode = Decoder()
    assert (
        cached([str(source)], decode)["images"].max()
        == cached([str(source)], decode)["images"].max()
        == 1
    )
    assert decode.calls == 2
