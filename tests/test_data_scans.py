"""Volumes of NIfTI files and signals of WFDB records, where the packages are installed."""

import csv
import sys

import numpy as np
import pytest
import torch

from symshare.data import load


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def volumes(root, count=30, ending="nii.gz", affine=None, shape=(4, 5, 6)):
    """A folder with a folder of random volumes for each of two classes."""
    nibabel = pytest.importorskip("nibabel")
    values = np.random.default_rng(0).normal(size=(count, *shape)).astype(np.float32)
    for i, array in enumerate(values):
        path = root / ("ill", "well")[i % 2] / f"{i:02d}.{ending}"
        path.parent.mkdir(parents=True, exist_ok=True)
        nibabel.save(nibabel.Nifti1Image(array, np.eye(4) if affine is None else affine), path)
    return values


def records(root, count=30, seed=0):
    """A folder with a folder of random records of two channels for each of two classes."""
    wfdb = pytest.importorskip("wfdb")
    values = np.random.default_rng(seed).normal(size=(count, 50, 2))
    for i, array in enumerate(values):
        path = root / ("ill", "well")[i % 2]
        path.mkdir(parents=True, exist_ok=True)
        wfdb.wrsamp(
            f"r{i:02d}", 100, ["mV"] * 2, ["I", "II"], array, fmt=["16"] * 2, write_dir=str(path)
        )
    return values


def everything(parts):
    return parts.train.joined(parts.validation).joined(parts.test)


def in_order(images):
    """Rows of numbers, sorted by the first."""
    rows = np.asarray(images).reshape(len(images), -1)
    return rows[rows[:, 0].argsort()]


@pytest.mark.parametrize("ending", ["nii", "nii.gz"])
def test_volumes_are_read(tmp_path, ending):
    values = volumes(tmp_path / "data", ending=ending)
    for _ in range(2):  # read, and from the copy
        data = everything(load(str(tmp_path / "data")))
        assert data.images.shape == (30, 1, 6, 5, 4)
        assert data.classes == ("ill", "well")
        np.testing.assert_array_equal(in_order(data.images), in_order(values.transpose(0, 3, 2, 1)))


def test_volumes_lie_alike_however_their_axes_were_stored(tmp_path):
    values = volumes(tmp_path / "data", affine=np.diag([-1.0, 1, 1, 1]))
    data = everything(load(str(tmp_path / "data")))
    expected = values[:, ::-1].transpose(0, 3, 2, 1)
    np.testing.assert_array_equal(in_order(data.images), in_order(expected))


@pytest.mark.filterwarnings("ignore::FutureWarning:wfdb", "ignore::DeprecationWarning:wfdb")
def test_records_are_read_and_a_change_of_their_samples_is_noticed(tmp_path):
    values = records(tmp_path / "data")
    data = everything(load(str(tmp_path / "data")))
    assert data.images.shape == (30, 2, 50)
    expected = in_order(values.transpose(0, 2, 1))
    np.testing.assert_allclose(in_order(data.images), expected, atol=1e-3)
    header = (tmp_path / "data" / "ill" / "r00.hea").stat()
    samples = tmp_path / "data" / "ill" / "r00.dat"
    samples.write_bytes(samples.read_bytes()[::-1])
    assert (tmp_path / "data" / "ill" / "r00.hea").stat() == header
    assert not torch.equal(everything(load(str(tmp_path / "data"))).images, data.images)


def test_tables_name_volumes(tmp_path):
    volumes(tmp_path / "data")
    with (tmp_path / "list.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["file", "class"])
        for path in sorted((tmp_path / "data").rglob("*.nii.gz")):
            writer.writerow([path.relative_to(tmp_path), path.parent.name])
    listed, found = load(str(tmp_path / "list.csv")), load(str(tmp_path / "data"))
    assert listed.fingerprint == found.fingerprint


def cut(root):
    path = root / "ill" / "00.nii.gz"
    path.write_bytes(path.read_bytes()[:60])


BAD = {
    "size": (lambda root: None, {"size": "4x4"}, "no size and no colour for volumes and signals"),
    "cut": (cut, {}, "1 of 30 images are broken, first .*00.nii.gz .*skip_broken"),
    "shapes": (
        lambda root: volumes(root, 1, shape=(4, 5, 7)),
        {},
        "got .*00.nii.gz of 7x5x4 and .*02.nii.gz of 6x5x4; resample or cut them alike",
    ),
    "film": (
        lambda root: volumes(root, 1, shape=(4, 5, 6, 2)),
        {},
        r"00.nii.gz: expected one volume of 3 axes, got \[4, 5, 6, 2\]; save a file for each",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_refuses(tmp_path, case):
    change, options, message = BAD[case]
    volumes(tmp_path / "data")
    change(tmp_path / "data")
    with pytest.raises(ValueError, match=message) as caught:
        load(str(tmp_path / "data"), **options)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("hidden", "ending"), [("nibabel", "nii"), ("wfdb", "hea")])
def test_what_is_not_installed_is_named_with_its_extra(tmp_path, monkeypatch, hidden, ending):
    monkeypatch.setitem(sys.modules, hidden, None)
    for i in range(10):
        path = tmp_path / "data" / ("ill", "well")[i % 2] / f"{i}.{ending}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    message = rf'{hidden} is needed .*pip install "symshare\[scans\]"'
    with pytest.raises(ModuleNotFoundError, match=message):
        load(str(tmp_path / "data"))
