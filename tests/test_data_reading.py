"""Decoded copies of data files."""

import numpy as np
import pytest

from symshare.data.reading import cached


class Decoder:
    def __init__(self, value=1):
        self.value = value
        self.calls = 0

    def __call__(self):
        self.calls += 1
        return np.full((2, 3), self.value, np.uint8), np.arange(2)


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
    first, second = cached(source, decode), cached(source, decode)
    assert decode.calls == 1
    for a, b in zip(first, second, strict=True):
        np.testing.assert_array_equal(a, b)
        assert a.dtype == b.dtype


def test_a_changed_file_is_decoded_anew(source):
    cached(source, Decoder(1))
    source.write_bytes(b"another")
    assert cached(source, Decoder(2))[0].max() == 2


@pytest.mark.parametrize("content", [b"", b"no tensors", b"\x10" + bytes(7) + b"{}"])
def test_a_damaged_copy_is_made_anew(source, content):
    cached(source, Decoder())
    (copy,) = copies(source)
    copy.write_bytes(content)
    decode = Decoder(3)
    assert cached(source, decode)[0].max() == 3
    assert cached(source, decode)[0].max() == 3
    assert decode.calls == 1


def test_works_where_nothing_can_be_written(source, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(source / "a file is no folder"))
    decode = Decoder()
    assert cached(source, decode)[0].max() == cached(source, decode)[0].max() == 1
    assert decode.calls == 2
