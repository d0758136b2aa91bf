"""Sources: digits, MNIST and CIFAR-10 from files and from the Hub, .npz; and their errors."""

import gzip
import os
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from symshare.data import load

NAMES = {"train": "train", "test": "t10k"}
KINDS = ("images-idx3", "labels-idx1")
OBJECTS = (
    "airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck",
)  # fmt: skip
CIFAR10 = os.environ.get("SYMSHARE_CIFAR10")


def idx(array):
    header = struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape)
    return header + array.astype(np.uint8).tobytes()


def digit_like(count, seed):
    """`count` random 28x28 images; classes take turns."""
    pixels = np.random.default_rng(seed).integers(0, 256, (count, 28, 28), np.uint8)
    return pixels, np.arange(count) % 10


@pytest.fixture(params=["idx", "idx.gz"])
def mnist(request, tmp_path):
    """A folder with 80 training and 20 test images."""
    for seed, (part, count) in enumerate({"train": 80, "test": 20}.items()):
        for kind, array in zip(KINDS, digit_like(count, seed), strict=True):
            path = tmp_path / f"{NAMES[part]}-{kind}-ubyte"
            if request.param == "idx.gz":
                path.with_name(path.name + ".gz").write_bytes(gzip.compress(idx(array)))
            else:
                path.write_bytes(idx(array))
    return tmp_path


def coloured(count, seed):
    """`count` random 32x32 colour images, channels last; classes take turns."""
    pixels = np.random.default_rng(seed).integers(0, 256, (count, 32, 32, 3), np.uint8)
    return pixels, np.arange(count) % 10


def table(pixels, labels, column="img", feature="Image"):
    """A data set of encoded images; `feature` may be none of images."""
    datasets = pytest.importorskip("datasets")
    label = datasets.ClassLabel(names=list(OBJECTS))
    kinds = {"Image": datasets.Image(), "text": datasets.Value("string")}
    features = datasets.Features({column: kinds[feature], "label": label})
    return datasets.Dataset.from_dict({column: list(pixels), "label": list(labels)}, features)


@pytest.fixture
def cifar10(tmp_path):
    """A folder with 80 training and 20 test images."""
    for seed, (part, count) in enumerate({"train": 80, "test": 20}.items()):
        table(*coloured(count, seed)).to_parquet(tmp_path / f"{part}.parquet")
    return tmp_path


@pytest.fixture
def npz(tmp_path):
    """A function that saves arrays to an .npz file and returns its path."""

    def save(**arrays):
        path = tmp_path / "some.npz"
        np.savez(path, **arrays)
        return str(path)

    return save


def test_digits_are_in_the_unit_range():
    parts = load("digits")
    assert (len(parts.train), len(parts.validation), len(parts.test)) == (1168, 270, 359)
    assert parts.train.images.shape == (1168, 1, 8, 8)
    assert parts.train.images.dtype == torch.float32
    assert parts.train.images.min() == 0
    assert parts.train.images.max() == 1
    assert parts.train.classes == tuple("0123456789")
    assert parts.name == "digits"


def test_digits_test_part_is_the_same_for_every_seed():
    first, other = load("digits", seed=0), load("digits", seed=1, limit=500)
    assert torch.equal(first.test.images, other.test.images)
    assert torch.equal(first.test.labels, other.test.labels)
    assert len(other.train) + len(other.validation) == 500


def test_mnist_reads_idx_files(mnist):
    parts = load("mnist", root=mnist)
    assert (len(parts.train), len(parts.validation), len(parts.test)) == (65, 15, 20)
    pixels, labels = digit_like(20, seed=1)
    assert parts.test.images.dtype == torch.float32
    np.testing.assert_allclose(parts.test.images[:, 0].numpy(), pixels / 255, rtol=1e-6)
    assert parts.test.labels.tolist() == labels.tolist()


def test_mnist_reads_from_the_hub(monkeypatch):
    datasets = pytest.importorskip("datasets")
    features = datasets.Features(
        {
            "image": datasets.Image(),
            "label": datasets.ClassLabel(names=list("0123456789")),
        }
    )

    def fake(name):
        assert name == "ylecun/mnist"
        parts = {"train": digit_like(80, 0), "test": digit_like(20, 1)}
        return {
            part: datasets.Dataset.from_dict({"image": list(x), "label": y}, features)
            for part, (x, y) in parts.items()
        }

    monkeypatch.setattr(datasets, "load_dataset", fake)
    parts = load("mnist")
    pixels, labels = digit_like(20, seed=1)
    np.testing.assert_allclose(parts.test.images[:, 0].numpy(), pixels / 255, rtol=1e-6)
    assert parts.test.labels.tolist() == labels.tolist()


def test_mnist_without_the_hub_says_what_to_give(monkeypatch):
    datasets = pytest.importorskip("datasets")

    def offline(name):
        raise ConnectionError("Couldn't reach it\nand more")

    monkeypatch.setattr(datasets, "load_dataset", offline)
    with pytest.raises(FileNotFoundError, match=r"Couldn't reach it.*--data.root") as caught:
        load("mnist")
    assert "\n" not in str(caught.value)


def check_cifar10(parts):
    assert (len(parts.train), len(parts.validation), len(parts.test)) == (65, 15, 20)
    assert parts.name == "cifar10"
    assert parts.train.classes == OBJECTS
    pixels, labels = coloured(20, seed=1)
    assert parts.test.images.dtype == torch.float32
    expected = pixels.transpose(0, 3, 1, 2) / 255
    np.testing.assert_allclose(parts.test.images.numpy(), expected, rtol=1e-6)
    assert parts.test.labels.tolist() == labels.tolist()


def test_cifar10_reads_parquet_files(cifar10):
    check_cifar10(load("cifar10", root=cifar10))


def test_cifar10_reads_the_other_name_of_the_images(cifar10):
    table(*coloured(20, seed=1), column="image").to_parquet(cifar10 / "test.parquet")
    check_cifar10(load("cifar10", root=cifar10))


def test_cifar10_reads_from_the_hub(monkeypatch):
    datasets = pytest.importorskip("datasets")

    def fake(name):
        assert name == "uoft-cs/cifar10"
        return {"train": table(*coloured(80, 0)), "test": table(*coloured(20, 1))}

    monkeypatch.setattr(datasets, "load_dataset", fake)
    check_cifar10(load("cifar10"))


def test_cifar10_without_the_hub_says_what_to_give(monkeypatch):
    datasets = pytest.importorskip("datasets")

    def offline(name):
        raise ConnectionError("Couldn't reach it\nand more")

    monkeypatch.setattr(datasets, "load_dataset", offline)
    message = r"cifar10: .*Couldn't reach it.*train.parquet and test.parquet as --data.root"
    with pytest.raises(FileNotFoundError, match=message) as caught:
        load("cifar10")
    assert "\n" not in str(caught.value)


@pytest.mark.slow
@pytest.mark.skipif(
    CIFAR10 is None, reason="SYMSHARE_CIFAR10 names no folder with train.parquet and test.parquet"
)
def test_the_whole_of_cifar10():
    parts = load("cifar10", root=Path(CIFAR10))
    assert len(parts.train) + len(parts.validation) == 50_000
    assert parts.test.labels.bincount().tolist() == [1000] * 10
    together = torch.cat([parts.train.images, parts.validation.images])
    # The means and deviations that are commonly subtracted and divided by.
    mean, deviation = together.mean((0, 2, 3)), together.std((0, 2, 3))
    torch.testing.assert_close(mean, torch.tensor([0.4914, 0.4822, 0.4465]), atol=2e-3, rtol=0)
    torch.testing.assert_close(deviation, torch.tensor([0.2470, 0.2435, 0.2616]), atol=5e-3, rtol=0)


def test_npz_with_names_of_classes(npz):
    images = np.random.default_rng(0).random((20, 2, 4, 6))
    path = npz(images=images, labels=np.arange(20) % 2, classes=np.array(["cat", "dog"]))
    parts = load(path)
    assert parts.name == path
    assert parts.test.classes == ("cat", "dog")
    assert parts.test.images.shape == (4, 2, 4, 6)
    assert parts.test.images.dtype == torch.float32
    kept = torch.cat([parts.train.images, parts.validation.images, parts.test.images])
    assert kept.sum().item() == pytest.approx(images.sum(), rel=1e-5)


def test_npz_divides_bytes_and_takes_a_root(npz, tmp_path):
    pixels, labels = digit_like(60, 0)
    npz(images=pixels, labels=labels)
    parts = load("some.npz", root=tmp_path)
    assert parts.train.images.shape[1:] == (1, 28, 28)
    assert 0.9 < parts.train.images.max() <= 1


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (
            "digit",
            "expected one of digits, mnist, cifar10, FILE.npz, got 'digit'; did you mean digits",
        ),
        ("MNIST", "did you mean mnist"),
        ("mnits", "did you mean mnist"),
        ("cifar", "did you mean cifar10"),
        ("zzz", "got 'zzz'; use one of them"),
        ("", "use one of them"),
    ],
)
def test_refuses_unknown_sources(source, message):
    with pytest.raises(ValueError, match=message):
        load(source)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (lambda raw: raw[:-100], "expected 62736 bytes for shape .80, 28, 28., found 62636; fetch"),
        (lambda raw: raw + b"x", "expected 62736 bytes .* found 62737"),
        (lambda raw: raw[:7], "expected an idx header of 16 bytes, found 7 bytes"),
        (lambda raw: b"", "found 0 bytes"),
        (lambda raw: b"\0\0\x08\x01" + raw[4:], "magic number 0x00000803 .* found 0x00000801"),
        (lambda raw: b"<html>" + raw, "magic number 0x00000803 .* found 0x3c68746d"),
    ],
    ids=["cut", "long", "no header", "empty", "labels file", "html"],
)
def test_refuses_damaged_idx_files(tmp_path, content, message):
    for part in NAMES.values():
        pixels, labels = digit_like(80, 0)
        (tmp_path / f"{part}-images-idx3-ubyte").write_bytes(idx(pixels))
        (tmp_path / f"{part}-labels-idx1-ubyte").write_bytes(idx(labels))
    damaged = tmp_path / "train-images-idx3-ubyte"
    damaged.write_bytes(content(damaged.read_bytes()))
    with pytest.raises(ValueError, match=message) as caught:
        load("mnist", root=tmp_path)
    assert str(damaged) in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (lambda raw: raw[: len(raw) // 2], "expected 62736 bytes .* found .* after decompression"),
        (lambda raw: b"plain" + raw, "not a sound gzip file"),
        (lambda raw: raw[:9000] + bytes(9) + raw[9009:], "not a sound gzip file"),
    ],
    ids=["cut", "not gzip", "flipped bytes"],
)
def test_refuses_damaged_gzip_files(tmp_path, content, message):
    for part in NAMES.values():
        for kind, array in zip(KINDS, digit_like(80, 0), strict=True):
            (tmp_path / f"{part}-{kind}-ubyte.gz").write_bytes(gzip.compress(idx(array)))
    damaged = tmp_path / "train-images-idx3-ubyte.gz"
    damaged.write_bytes(content(damaged.read_bytes()))
    with pytest.raises(ValueError, match=message):
        load("mnist", root=tmp_path)


def test_refuses_idx_files_that_do_not_belong_together(mnist):
    for path in mnist.glob("train-labels*"):
        path.unlink()
    (mnist / "train-labels-idx1-ubyte").write_bytes(idx(np.arange(79) % 10))
    with pytest.raises(ValueError, match=r"80 images and 79 labels"):
        load("mnist", root=mnist)
    (mnist / "train-labels-idx1-ubyte").write_bytes(idx(np.arange(80) % 11))
    with pytest.raises(ValueError, match=r"labels in 0..9, got 10 for image 10"):
        load("mnist", root=mnist)


def test_missing_idx_files_are_named(mnist):
    for path in mnist.glob("*labels*"):
        path.unlink()
    message = "no train-labels-idx1-ubyte, t10k-labels-idx1-ubyte .or with .gz.: .*the four idx"
    with pytest.raises(FileNotFoundError, match=message):
        load("mnist", root=mnist)
    with pytest.raises(FileNotFoundError, match=r"no such folder: .*nowhere"):
        load("mnist", root=mnist / "nowhere")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (lambda raw: raw[: len(raw) // 2], "not a sound parquet file .*; fetch it again"),
        (lambda raw: b"", "not a sound parquet file"),
        (lambda raw: b"<html>", "not a sound parquet file"),
        (lambda raw: raw[:200] + bytes(50_000) + raw[50_200:], "not a sound parquet file|damaged"),
    ],
    ids=["cut", "empty", "html", "zeros"],
)
def test_refuses_damaged_parquet_files(cifar10, content, message):
    damaged = cifar10 / "train.parquet"
    damaged.write_bytes(content(damaged.read_bytes()))
    with pytest.raises(ValueError, match=message) as caught:
        load("cifar10", root=cifar10)
    assert str(damaged) in str(caught.value)
    assert "\n" not in str(caught.value)


def encoded(pixels, damage):
    """Cells of a data set, the last one damaged."""
    cells = list(table(pixels, np.arange(len(pixels)) % 10).with_format("arrow")["img"].to_pylist())
    cells[-1] = {"bytes": damage(cells[-1]["bytes"]), "path": None}
    return cells


def with_damage(damage):
    return lambda: table(encoded(coloured(20, 1)[0], damage), np.arange(20) % 10)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (with_damage(lambda png: png[:500]), "image 19 is damaged .*; fetch the file again"),
        (with_damage(lambda png: b"hello"), "image 19 is damaged"),
        (
            lambda: table([*coloured(19, 1)[0], None], np.arange(20) % 10),
            "expected the bytes .* for image 19, got none; save",
        ),
        (lambda: table(*digit_like(20, 1)), "shape .32, 32, 3., got .28, 28. for image 0; is it"),
        (lambda: table(coloured(20, 1)[0][:, :30], np.arange(20) % 10), "got .30, 32, 3. for"),
        (lambda: table(*coloured(20, 1), column="picture"), "`label`, got picture, label; is it"),
        (lambda: table(*coloured(20, 1)).remove_columns("label"), "and `label`, got img; is it"),
        (lambda: table(["a"] * 20, [0] * 20, feature="text"), "expected the bytes .* image 0"),
        (lambda: table(coloured(20, 1)[0], [None] * 20), "labels .* of integers"),
    ],
    ids=["cut image", "no image", "no bytes", "grey", "other size", "other column", "no labels",
         "text", "empty labels"],
)  # fmt: skip
def test_refuses_parquet_content(cifar10, content, message):
    path = cifar10 / "test.parquet"
    data = content()
    data.to_parquet(path)
    with pytest.raises(ValueError, match=message) as caught:
        load("cifar10", root=cifar10)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_missing_parquet_files_are_named(cifar10):
    (cifar10 / "test.parquet").unlink()
    message = r"cifar10: no test.parquet: .*; give the folder that holds train.parquet and test"
    with pytest.raises(FileNotFoundError, match=message):
        load("cifar10", root=cifar10)
    with pytest.raises(FileNotFoundError, match=r"cifar10: no such folder: .*nowhere"):
        load("cifar10", root=cifar10 / "nowhere")


def objects(*arrays):
    out = np.empty(len(arrays), object)
    out[:] = arrays
    return out


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"x": np.zeros(3), "y": np.zeros(3)}, "expected arrays `images` and `labels`, got x, y"),
        ({}, "got none"),
        (
            {"images": objects(np.zeros((2, 2)), np.zeros((3, 3))), "labels": np.arange(2)},
            "`images` as a plain array, got an object array .images of unequal size",
        ),
        (
            {"images": np.zeros((2, 3, 3)), "labels": np.array([0, "a"], object)},
            "`labels` as a plain array",
        ),
        (
            {"images": np.zeros((2, 3, 3)), "labels": np.array([0, 5]), "classes": np.array(["a"])},
            "at least 2 classes, got 1",
        ),
        ({"images": np.zeros((2, 3, 3)), "labels": np.array([0, -1])}, "label -1 is out of range"),
        ({"images": np.full((2, 3, 3), np.nan), "labels": np.arange(2)}, "first in image 0"),
        ({"images": np.random.rand(2, 3, 3), "labels": np.arange(2)}, "needs at least 5 different"),
        ({"images": np.zeros((2, 3, 3)), "labels": np.zeros(2, int)}, "at least 2 classes, got 1"),
    ],
    ids=["other keys", "no keys", "unequal sizes", "object labels", "few classes", "negative",
         "nan", "few images", "one class"],
)  # fmt: skip
def test_refuses_npz_content(npz, arrays, message):
    path = npz(**arrays)
    with pytest.raises(ValueError, match=message) as caught:
        load(path)
    assert path in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("damage", ["cut", "text", "npy", "flipped"])
def test_refuses_damaged_npz(npz, damage):
    path = npz(images=np.random.rand(20, 9, 9), labels=np.arange(20) % 2)
    content = Path(path).read_bytes()
    with Path(path).open("wb") as file:
        if damage == "npy":
            np.save(file, np.zeros(3))
        else:
            changed = {"cut": content[:-200], "text": b"hello",
                       "flipped": content[:900] + b"zzzz" + content[904:]}  # fmt: skip
            file.write(changed[damage])
    with pytest.raises(ValueError, match=r"save it with numpy.savez"):
        load(path)


def test_missing_npz_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no file .*gone.npz; give the path"):
        load(str(tmp_path / "gone.npz"))


def test_importing_data_pulls_in_no_heavy_package():
    script = (
        "import sys, symshare.data\n"
        "print([m for m in ('sklearn', 'datasets', 'pyarrow', 'pandas', 'matplotlib',"
        " 'lightning_fabric', 'scipy') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done.stderr
