"""Sources: digits, MNIST and CIFAR-10 from files and from the Hub, .npz; and their errors."""

import gzip
import io
import os
import struct
import subprocess
import sys
import zlib
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

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


def members(content):
    """Gzip files that follow one another, which is one gzip file."""
    return b"".join(gzip.compress(part) for part in (content[:10], content[10:700], content[700:]))


STORED = {
    "idx": ("", bytes),
    "idx.gz": (".gz", gzip.compress),
    "members": (".gz", members),
    "gzip under a plain name": ("", gzip.compress),
    "plain under a gzip name": (".gz", bytes),
}


@pytest.fixture(params=STORED)
def mnist(request, tmp_path):
    """A folder with 80 training and 20 test images."""
    ending, pack = STORED[request.param]
    for seed, (part, count) in enumerate({"train": 80, "test": 20}.items()):
        for kind, array in zip(KINDS, digit_like(count, seed), strict=True):
            path = tmp_path / f"{NAMES[part]}-{kind}-ubyte{ending}"
            path.write_bytes(pack(idx(array)))
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
def mnist_and_cifar10(tmp_path):
    """A folder with files of either name, which nobody reads."""
    for part in NAMES.values():
        for kind in KINDS:
            (tmp_path / f"{part}-{kind}-ubyte").touch()
    for part in NAMES:
        (tmp_path / f"{part}.parquet").touch()
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


@pytest.mark.parametrize("colours", [False, True])
@pytest.mark.parametrize("validation", [0, 20])
def test_npz_with_parts_keeps_its_test_part(npz, colours, validation):
    shape = (9, 9, 3) if colours else (9, 9)
    sizes = {"train": 60, "val": validation, "test": 30}
    arrays = {}
    for seed, (part, size) in enumerate(sizes.items()):
        if size:
            random = np.random.default_rng(seed)
            arrays[f"{part}_images"] = random.integers(0, 256, (size, *shape), np.uint8)
            arrays[f"{part}_labels"] = np.arange(size)[:, None] % 2
    parts = load(npz(**arrays))
    assert len(parts.train) + len(parts.validation) == 60 + validation
    expected = arrays["test_images"].reshape(30, 9, 9, -1).transpose(0, 3, 1, 2) / 255
    np.testing.assert_allclose(parts.test.images.numpy(), expected, rtol=1e-6)
    assert parts.test.labels.tolist() == [0, 1] * 15
    assert parts.test.classes == parts.train.classes == ("0", "1")


def patients(kind):
    """60 random images of 12 patients, and a text for each that names its patient."""
    images = np.random.default_rng(0).random((60, 1, 8, 8))
    who = np.array([f"p{i // 5}" for i in range(60)], kind)
    return {"images": images, "labels": np.arange(60) % 2}, who


def groups_stay_whole(parts, images, who):
    """Images that share a patient share a part."""
    part_of = {}
    for name in ("train", "validation", "test"):
        part = getattr(parts, name)
        for image, group in zip(part.images, part.groups.tolist(), strict=True):
            position = int(abs(images - image.numpy()).sum((1, 2, 3)).argmin())
            part_of.setdefault(str(who[position]), set()).add((name, group))
    return len(part_of) == 12 and all(len(parts) == 1 for parts in part_of.values())


@pytest.mark.parametrize("kind", [np.str_, np.bytes_], ids=["text", "bytes"])
def test_npz_with_groups(npz, kind):
    arrays, who = patients(kind)
    path = npz(**arrays, groups=who)
    assert groups_stay_whole(load(path), arrays["images"], who)
    plain = load(npz(**arrays))
    assert plain.train.groups is None
    assert plain.fingerprint != load(npz(**arrays, groups=who)).fingerprint


def test_npz_with_groups_of_another_name(npz):
    arrays, who = patients(np.str_)
    path = npz(**arrays, groups=np.arange(60), patient=who, film=np.zeros(60, int))
    assert groups_stay_whole(load(path, groups="patient"), arrays["images"], who)
    assert len(load(path).train.groups.unique()) == len(load(path).train)
    with pytest.raises(ValueError, match=r"some.npz: expected images of every class in .* got cl"):
        load(path, groups="film")


def test_the_test_part_of_groups_is_the_same_for_every_seed(npz):
    arrays, who = patients(np.str_)
    path = npz(**arrays, groups=who)
    first, other = load(path, seed=0), load(path, seed=1)
    assert torch.equal(first.test.images, other.test.images)
    assert first.train.groups.tolist() != other.train.groups.tolist()


FOUR = {"images": np.zeros((4, 3, 3)), "labels": np.arange(4) % 2}
MEDICAL = {f"{part}_{kind}": FOUR[kind] for part in ("train", "test") for kind in FOUR}
TWENTY = {"images": np.random.default_rng(1).random((20, 3, 3)), "labels": np.arange(20) % 2}


@pytest.mark.parametrize(
    ("arrays", "groups", "message"),
    [
        (TWENTY, "patient", "expected an array 'patient' of groups, got images, labels; name one"),
        ({}, "patient", "expected an array 'patient' of groups, got none"),
        ({**TWENTY, "groups": np.arange(19)}, None, r"groups: expected one for each of 20 im.*19"),
        ({**TWENTY, "groups": np.full(20, np.nan)}, None, "groups: .* got NaN or infinity; give"),
        ({**TWENTY, "groups": np.zeros((20, 2))}, None, r"groups: .* got float64 \[20, 2\]; give"),
        ({**TWENTY, "groups": np.zeros(20)}, None, "every class in at least 5 groups, .* in 1"),
        (TWENTY, "labels", "every class in at least 5 groups, got class '0' in 1; use finer"),
        (TWENTY, "images", r"groups: expected one number or text .* got float64 \[20, 3, 3\]"),
        ({**TWENTY, "who": np.array(["a", None] * 10, object)}, "who", "`who` as a plain array"),
        ({**MEDICAL, "groups": np.arange(8)}, None, "groups go with `images` and `labels`, got "
         "train_images, .*, groups; save all images as one array"),
        ({**MEDICAL, "who": np.arange(8)}, "who", "groups go with `images` and `labels`, got"),
        (MEDICAL, "train_labels", "groups go with `images` and `labels`, got"),
        (MEDICAL, "who", "expected an array 'who' of groups, got train_images, train_labels, tes"),
    ],
    ids=["no such array", "empty file", "too few", "nan", "2 axes", "one group", "labels",
         "images", "objects", "parts", "parts and a name", "labels of parts", "parts without"],
)  # fmt: skip
def test_refuses_groups_of_npz(npz, arrays, groups, message, unchecked):
    path = npz(**arrays)
    with pytest.raises(ValueError, match=message) as caught:
        load(path, groups=groups)
    assert str(caught.value).startswith(f"{path}: ")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("source", ["digits", "mnist", "cifar10"])
def test_sources_without_groups_say_so(source, mnist_and_cifar10):
    root = None if source == "digits" else mnist_and_cifar10
    with pytest.raises(ValueError, match=f"{source}: expected no groups, got 'patient'; .* out"):
        load(source, root=root, groups="patient")


@pytest.mark.parametrize("kind", [np.str_, np.bytes_], ids=["text", "bytes"])
def test_npz_takes_text_of_either_kind(npz, kind):
    images, labels = np.random.default_rng(0).random((20, 8, 8, 5)), np.arange(20) % 2
    classes, layout = np.array(["cat", "dog"], kind), np.array("NHWC", kind)
    path = npz(images=images, labels=labels, classes=classes, layout=layout)
    parts = load(path)
    assert parts.train.classes == ("cat", "dog")
    assert parts.train.images.shape[1:] == (5, 8, 8)
    with pytest.raises(ValueError, match=r"some.npz: images: .*by an array `layout`"):
        load(npz(images=images, labels=labels))


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (
            "digit",
            "of digits, mnist, cifar10, or a folder .*got 'digit', .*; did you mean digits",
        ),
        ("MNIST", "did you mean mnist"),
        ("mnits", "did you mean mnist"),
        ("cifar", "did you mean cifar10"),
        ("zzz", "got 'zzz', which does not exist; use one of them"),
        ("", "use one of them"),
    ],
)
def test_refuses_unknown_sources(source, message):
    with pytest.raises(ValueError, match=message):
        load(source)


def test_a_path_that_exists_but_is_not_read_is_told_so(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("digits_hf").mkdir()
    Path("mnist.txt").touch()
    kinds = {
        "digits_hf": "a folder without any of these; move the images of each class",
        "mnist.txt": "a file of another kind, .*numpy.savez",
    }
    for source, kind in kinds.items():
        for root in (None, tmp_path):
            with pytest.raises(ValueError, match=f"{source}, {kind}") as caught:
                load(source, root=root)
            assert "did you mean" not in str(caught.value)


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
        (lambda raw: raw[: len(raw) // 2], "not a sound gzip file .*; fetch it again"),
        (lambda raw: raw + b"more", "not a sound gzip file"),
        (lambda raw: b"plain" + raw, "magic number 0x00000803 .* found 0x706c6169"),
        (lambda raw: raw[:9000] + bytes(9) + raw[9009:], "not a sound gzip file"),
    ],
    ids=["cut", "long", "not gzip", "flipped bytes"],
)
def test_refuses_damaged_gzip_files(tmp_path, content, message):
    for part in NAMES.values():
        for kind, array in zip(KINDS, digit_like(80, 0), strict=True):
            (tmp_path / f"{part}-{kind}-ubyte.gz").write_bytes(gzip.compress(idx(array)))
    damaged = tmp_path / "train-images-idx3-ubyte.gz"
    damaged.write_bytes(content(damaged.read_bytes()))
    with pytest.raises(ValueError, match=message):
        load("mnist", root=tmp_path)


def test_refuses_idx_files_that_do_not_belong_together(mnist, unchecked):
    for path in mnist.glob("train-labels*"):
        path.unlink()
    (mnist / "train-labels-idx1-ubyte").write_bytes(idx(np.arange(79) % 10))
    with pytest.raises(ValueError, match=r"80 images and 79 labels"):
        load("mnist", root=mnist)
    (mnist / "train-labels-idx1-ubyte").write_bytes(idx(np.arange(80) % 11))
    with pytest.raises(ValueError, match=r"labels: expected 0..9, got 10 for image 10"):
        load("mnist", root=mnist)


def test_missing_idx_files_are_named(mnist):
    for path in mnist.glob("*labels*"):
        path.unlink()
    message = (
        "no train-labels-idx1-ubyte, t10k-labels-idx1-ubyte .or with .gz.: .*holds train-images"
    )
    with pytest.raises(FileNotFoundError, match=message):
        load("mnist", root=mnist)
    with pytest.raises(FileNotFoundError, match=r"no such folder: .*nowhere"):
        load("mnist", root=mnist / "nowhere")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (lambda raw: raw[: len(raw) // 2], "not a sound parquet file .*; fetch the files"),
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


BROKEN = "1 of 100 images are broken, first .*: row 19 .*; fetch the files of cifar10 again"


def with_damage(damage):
    return lambda: table(encoded(coloured(20, 1)[0], damage), np.arange(20) % 10)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (with_damage(lambda png: png[:500]), BROKEN),
        (with_damage(lambda png: b"hello"), BROKEN),
        (
            lambda: table([*coloured(19, 1)[0], None], np.arange(20) % 10),
            "in every cell of column `img`, got none in row 19; fetch",
        ),
        (lambda: table(*digit_like(20, 1)), "row 0, in colour, and .*: row 0, grey; fetch"),
        (lambda: table(coloured(20, 1)[0][:, :30], np.arange(20) % 10), "of 32x32 and .* of 30x32"),
        (lambda: table(*coloured(20, 1), column="picture"), "`image` or .*, got picture, label"),
        (lambda: table(*coloured(20, 1)).remove_columns("label"), "`label` or `class`, got img"),
        (lambda: table(["a"] * 20, [0] * 20, feature="text"), "20 of 100 .*a .*: row 0. .No such"),
        (lambda: table(coloured(20, 1)[0], [None] * 20), "`label`, got none in row 0; fetch"),
    ],
    ids=["cut image", "no image", "no bytes", "grey", "other size", "other column", "no labels",
         "text", "empty labels"],
)  # fmt: skip
def test_refuses_parquet_content(cifar10, content, message, unchecked):
    path = cifar10 / "test.parquet"
    data = content()
    data.to_parquet(path)
    with pytest.raises(ValueError, match=message) as caught:
        load("cifar10", root=cifar10)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def as_png(pixels, mode, **options):
    """Bytes of a picture in another mode."""
    file = io.BytesIO()
    Image.fromarray(pixels).convert(mode, palette=Image.Palette.ADAPTIVE).save(
        file, "PNG", **options
    )
    return file.getvalue()


def few_colours(count):
    """Pictures of 2 colours each, which a palette holds without a loss."""
    pixels, labels = coloured(count, 1)
    where = pixels[..., :1] < 128
    return np.where(where, pixels[:, :1, :1], pixels[:, :1, 1:2]), labels


@pytest.mark.parametrize(
    ("mode", "options"), [("RGB", {}), ("P", {}), ("P", {"transparency": bytes([255] * 9)}),
                          ("RGBA", {})], ids=["RGB", "palette", "opacities", "RGBA"],
)  # fmt: skip
def test_parquet_reads_the_same_colours_in_any_encoding(cifar10, mode, options):
    pixels, labels = few_colours(20)
    cells = [{"bytes": as_png(image, mode, **options), "path": None} for image in pixels]
    assert Image.open(io.BytesIO(cells[0]["bytes"])).mode == mode
    table(cells, labels).to_parquet(cifar10 / "test.parquet")
    images = load("cifar10", root=cifar10).test.images
    np.testing.assert_allclose(images, pixels.transpose(0, 3, 1, 2) / 255, rtol=1e-6)


def sixteen(channels):
    """A PNG file of 16 bits a value."""
    rows = b"".join(b"\0" + bytes(64 * channels) for _ in range(32))
    header = struct.pack(">IIBBBBB", 32, 32, 16, {1: 0, 3: 2}[channels], 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(rows)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
        for name, data in chunks
    )


GREY = np.zeros((32, 32), np.uint8)
TRANSPARENT = "row 0: expected an opaque picture, got transparent pixels; fetch"


@pytest.mark.parametrize(
    ("png", "message"),
    [
        (as_png(GREY, "L"), "in colour, and .*: row 0, grey; fetch"),
        (as_png(GREY, "LA"), "in colour, and .*: row 0, grey; fetch"),
        (as_png(GREY, "1"), "in colour, and .*: row 0, grey; fetch"),
        (as_png(np.zeros((32, 32, 4), np.uint8), "RGBA"), TRANSPARENT),
        (as_png(GREY, "P", transparency=0), TRANSPARENT),
        (as_png(GREY, "RGB", transparency=(0, 0, 0)), TRANSPARENT),
        (sixteen(1), "in colour, and .*: row 0, grey; fetch"),
        (sixteen(3), "row 0: expected 8 bits a value, .* got 16 in mode RGB; fetch"),
    ],
    ids=["grey", "grey and opacity", "one bit", "transparent", "transparent palette",
         "transparent colour", "16 bits grey", "16 bits colour"],
)  # fmt: skip
def test_refuses_pictures_that_would_lose_something(cifar10, png, message):
    table([{"bytes": png, "path": None}] * 20, np.arange(20) % 10).to_parquet(
        cifar10 / "test.parquet"
    )
    with pytest.raises(ValueError, match=message):
        load("cifar10", root=cifar10)


@pytest.mark.parametrize(
    ("source", "hidden"),
    [("mnist", "datasets"), ("cifar10", "datasets"), ("file", "pyarrow"), ("file", "PIL")],
)
def test_what_is_not_installed_is_named_with_its_extra(cifar10, monkeypatch, source, hidden):
    root = cifar10 if source == "file" else None
    for name in [name for name in sys.modules if name.partition(".")[0] == hidden]:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setitem(sys.modules, hidden, None)
    with pytest.raises(ModuleNotFoundError, match=rf'{hidden}.*pip install "symshare\[data\]"'):
        load("cifar10" if source == "file" else source, root=root)


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
        ({"x": np.zeros(3), "y": np.zeros(3)}, "arrays `images` and `labels`, .* got x, y"),
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
            "labels: expected 0..0, got 5 for image 1; number .* and name each of them",
        ),
        (
            {"images": np.zeros((2, 3, 3)), "labels": np.arange(2),
             "test_images": np.zeros((2, 3, 3)), "test_labels": np.arange(2)},
            "expected `images` or test_images, got both; leave out",
        ),
        (
            {"train_images": np.zeros((2, 3, 3)), "train_labels": np.arange(2),
             "test_images": np.zeros((2, 3, 3)), "test_labels": np.arange(2),
             "train_groups": np.arange(2)},
            "groups go with `images` and `labels`, got .*train_groups; save all",
        ),
        (
            {"train_images": np.zeros((2, 3, 3)), "train_labels": np.arange(2)},
            "or `train_images`, .* got train_images, train_labels; save",
        ),
        (
            {"train_images": np.zeros((2, 3, 3)), "train_labels": np.arange(2),
             "test_images": np.zeros((2, 4, 4)), "test_labels": np.arange(2)},
            r"one shape in train, test, .* got .2, 3, 3. and .2., .2, 4, 4. and .2.; resize",
        ),
        (
            {"train_images": np.zeros((2, 3, 3), np.uint8), "train_labels": np.arange(2),
             "test_images": np.zeros((2, 3, 3)), "test_labels": np.arange(2)},
            "images of one type in train, test, got float64, uint8; save all as uint8 or",
        ),
        (
            {"train_images": np.zeros((2, 3, 3)), "train_labels": np.arange(3),
             "test_images": np.zeros((2, 3, 3)), "test_labels": np.arange(1)},
            "as many labels in each, .*; .* one label per image",
        ),
        ({"images": np.zeros((2, 3, 3)), "labels": np.array([0, -1])}, "labels: -1 is out of"),
        ({"images": np.full((2, 3, 3), np.nan), "labels": np.arange(2)}, "first in image 0"),
        ({"images": np.random.rand(2, 3, 3), "labels": np.arange(2)}, "needs at least 5 different"),
        ({"images": np.zeros((2, 3, 3)), "labels": np.zeros(2, int)}, "at least 2 classes, got 1"),
    ],
    ids=["other keys", "no keys", "unequal sizes", "object labels", "few names", "both",
         "groups of a part", "no test part", "unequal parts", "unlike parts",
         "labels of another part", "negative",
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
        " 'lightning_fabric', 'scipy', 'PIL') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done.stderr


def test_library_and_digits_do_without_extras():
    script = (
        "import sys\n"
        "for name in ('matplotlib', 'datasets', 'pyarrow', 'pandas', 'PIL', 'onnx'):\n"
        "    sys.modules[name] = None\n"
        "import symshare, symshare.layers, symshare.convert, symshare.propose, symshare.data\n"
        "print(len(symshare.data.load('digits').test))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout.strip() == "359", done.stderr
