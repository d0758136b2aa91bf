"""Sources of one's own: folders, tables, parquet, saved data sets, the Hub, .npy and idx files."""

import csv
import io
import os
import struct
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from symshare.data import listing, load
from symshare.names import check_source

COUNT = 30
CLASSES = ("cat", "dog", "eel")


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "symshare"


def colours(count=COUNT, seed=0, size=(6, 8)):
    """Random pictures; classes take turns."""
    pixels = np.random.default_rng(seed).integers(0, 256, (count, *size, 3), np.uint8)
    return pixels, np.arange(count) % len(CLASSES)


def greys(count=COUNT):
    return colours(count)[0][..., 0], colours(count)[1]


def folder(root, pixels, labels, ending="png", **options):
    """A folder with a folder for each class."""
    for i, (image, label) in enumerate(zip(pixels, labels, strict=True)):
        path = root / CLASSES[label] / f"{i:03d}.{ending}"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(path, **options)
    return root


def listed(root, pixels, labels, name="list.csv", columns=("path", "label"), delimiter=",", **more):
    """A table of pictures that lie beside it."""
    with (root / name).open("w", newline="") as file:
        writer = csv.writer(file, delimiter=delimiter)
        writer.writerow([*columns, *more])
        for i, (image, label) in enumerate(zip(pixels, labels, strict=True)):
            Image.fromarray(image).save(root / f"{i:03d}.png")
            writer.writerow(
                [f"{i:03d}.png", CLASSES[label], *(value[i] for value in more.values())]
            )
    return root / name


def encoded(image):
    file = io.BytesIO()
    Image.fromarray(image).save(file, "PNG")
    return file.getvalue()


def dataset(pixels, labels):
    datasets = pytest.importorskip("datasets")
    features = {"image": datasets.Image(), "label": datasets.ClassLabel(names=list(CLASSES))}
    columns = {"image": list(pixels), "label": list(labels)}
    return datasets.Dataset.from_dict(columns, datasets.Features(features))


def plain(path, images, labels, names=("image", "label")):
    """A parquet file that no Hugging Face wrote."""
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    parquet.write_table(arrow.table(dict(zip(names, (images, labels), strict=True))), path)
    return path


def arrays(root, **named):
    root.mkdir(exist_ok=True)
    for name, array in named.items():
        np.save(root / f"{name}.npy", array)
    return root


def same(parts, pixels, labels, classes=CLASSES):
    """Whether the three parts together hold these pictures, each with its label."""
    everything = parts.train.joined(parts.validation).joined(parts.test)
    assert everything.classes == classes
    expected = torch.from_numpy(pixels.astype(np.float32) / 255)
    expected = expected.movedim(-1, 1) if pixels.ndim == 4 else expected[:, None]
    assert everything.images.shape == expected.shape
    position = torch.cdist(everything.images.flatten(1), expected.flatten(1)).argmin(1)
    assert sorted(position.tolist()) == list(range(len(pixels)))
    torch.testing.assert_close(everything.images, expected[position], rtol=1e-6, atol=0)
    assert everything.labels.tolist() == labels[position].tolist()
    return True


def saved(path, data):
    data.save_to_disk(path)
    return path


def structs(pixels):
    return [{"bytes": encoded(image), "path": None} for image in pixels]


def named(labels):
    return [CLASSES[label] for label in labels]


WAYS = {
    "png": lambda root, x, y: folder(root, x, y),
    "tiff": lambda root, x, y: folder(root, x, y, "tif"),
    "bmp": lambda root, x, y: folder(root, x, y, "BMP"),
    "webp": lambda root, x, y: folder(root, x, y, "webp", lossless=True),
    "csv": listed,
    "tsv": lambda root, x, y: listed(root, x, y, "list.tsv", delimiter="\t"),
    "csv, other names": lambda root, x, y: listed(root, x, y, columns=("class", "file")[::-1]),
    "structs": lambda root, x, y: plain(root / "a.parquet", structs(x), named(y)),
    "bytes": lambda root, x, y: plain(root / "a.parquet", [*map(encoded, x)], named(y)),
    "saved": lambda root, x, y: saved(root / "saved", dataset(x, y)),
}


@pytest.mark.parametrize(
    ("way", "draw"),
    # WebP has no grey.
    [(way, draw) for way in WAYS for draw in (colours, greys) if (way, draw) != ("webp", greys)],
)
def test_every_way_to_keep_pictures_gives_the_same_arrays(tmp_path, way, draw):
    pixels, labels = draw()
    root = tmp_path / "data"
    root.mkdir()
    source = str(WAYS[way](root, pixels, labels))
    for _ in range(2):  # decoded, and from the copy
        assert same(load(source), pixels, labels)
    assert load(source, seed=1).test.labels.tolist() == load(source).test.labels.tolist()


def test_parquet_by_hugging_face_has_the_names_of_its_classes(tmp_path):
    pixels, labels = colours()
    dataset(pixels, labels).to_parquet(tmp_path / "hf.parquet")
    assert same(load("hf.parquet", root=tmp_path), pixels, labels)


def test_names_of_columns_can_be_given(tmp_path):
    pixels, labels = colours()
    names = {"image_column": "scan", "label_column": "finding"}
    source = str(listed(tmp_path, pixels, labels, columns=tuple(names.values())))
    assert same(load(source, **names), pixels, labels)
    other = str(plain(tmp_path / "a.parquet", structs(pixels), labels, tuple(names.values())))
    assert same(load(other, **names), pixels, labels, ("0", "1", "2"))


def both(pixels, labels):
    """The first part for training, the rest the official test part."""
    cut = len(labels) - 9
    return {"train": (pixels[:cut], labels[:cut]), "test": (pixels[cut:], labels[cut:])}


def in_folders(root, parts):
    for part, (pixels, labels) in parts.items():
        folder(root / part, pixels, labels)
    return root


def in_dict(root, parts):
    datasets = pytest.importorskip("datasets")
    data = {part: dataset(*content) for part, content in parts.items()}
    return saved(root, datasets.DatasetDict(data))


def in_arrays(root, parts):
    return arrays(
        root,
        **{f"{part}_images": x for part, (x, _) in parts.items()},
        **{f"{part}_labels": y for part, (_, y) in parts.items()},
        classes=np.array(CLASSES),
    )


@pytest.mark.parametrize("write", [in_folders, in_dict, in_arrays])
def test_an_official_test_part_is_kept(tmp_path, write):
    pixels, labels = colours()
    parts = both(pixels, labels)
    parts |= {"val": (parts["train"][0][:6], parts["train"][1][:6])} if write != in_dict else {}
    parts["train"] = tuple(x[6:] if "val" in parts else x for x in parts["train"])
    result = load(str(write(tmp_path / "data", parts)))
    assert same(result, pixels, labels)
    expected = parts["test"][0].transpose(0, 3, 1, 2).astype(np.float32) / 255
    found = {image.numpy().tobytes() for image in result.test.images}
    assert found == {image.tobytes() for image in expected}


def test_training_and_validation_folders_without_a_test_part_are_one_pool(tmp_path):
    pixels, labels = colours()
    folder(tmp_path / "data" / "train", pixels[:15], labels[:15])
    folder(tmp_path / "data" / "valid", pixels[15:], labels[15:])
    assert same(load(str(tmp_path / "data")), pixels, labels)


def test_numbers_order_classes_by_their_value(tmp_path):
    pixels, labels = greys()
    for i, image in enumerate(pixels):
        path = tmp_path / "data" / ("2", "10", "9")[labels[i]] / f"{i}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(path)
    assert load(str(tmp_path / "data")).train.classes == ("2", "9", "10")


def test_hidden_and_other_files_are_passed_over_and_pictures_may_lie_deeper(tmp_path):
    pixels, labels = greys()
    root = folder(tmp_path / "data", pixels, labels)
    (root / ".git").mkdir()
    (root / "cat" / ".000.png").write_bytes(b"no picture")
    (root / "cat" / "notes.txt").write_text("no picture")
    (root / "dog" / "deeper").mkdir()
    for path in (root / "dog").glob("*.png"):
        path.rename(path.parent / "deeper" / path.name)
    assert same(load(str(root)), pixels, labels)


def test_a_column_of_groups_keeps_them_whole(tmp_path):
    pixels, labels = colours(90)
    who = [f"patient {i // 6}" for i in range(90)]
    source = str(listed(tmp_path, pixels, labels, group=who, film=[*range(90)]))
    parts = load(source)
    sets = [set(part.groups.tolist()) for part in (parts.train, parts.validation, parts.test)]
    assert sum(map(len, sets)) == len(set.union(*sets)) == 15
    train = load(source, groups="film").train
    assert len(train.groups.unique()) == len(train)


def test_the_hub_is_read_by_the_name_of_a_data_set(monkeypatch):
    datasets = pytest.importorskip("datasets")
    pixels, labels = colours()

    def fake(name):
        assert name == "someone/animals"
        return {part: dataset(*content) for part, content in both(pixels, labels).items()} | {
            "extra": dataset(*colours(3, seed=5))
        }

    monkeypatch.setattr(datasets, "load_dataset", fake)
    assert same(load("someone/animals"), pixels, labels)


def test_without_the_hub_local_forms_are_offered():
    pytest.importorskip("datasets")
    with pytest.raises(
        FileNotFoundError, match=r"someone/animals.*Hub.*no file or folder .* here, give a local"
    ) as caught:
        load("someone/animals")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("given", ["", "images.npy"])
def test_npy_files_are_an_unpacked_archive(tmp_path, given):
    pixels, labels = colours()
    root = arrays(
        tmp_path / "data", images=pixels, labels=labels, classes=np.array(CLASSES),
        layout=np.array("NHWC"), patient=np.arange(COUNT) // 2,
    )  # fmt: skip
    assert same(load(str(root / given)), pixels, labels)
    np.savez(tmp_path / "a.npz", **{f.stem: np.load(f) for f in root.glob("*.npy")})
    packed = load(str(tmp_path / "a.npz"), groups="patient")
    assert load(str(root / given), groups="patient").fingerprint == packed.fingerprint


def test_signals_in_npy_files_have_a_layout(tmp_path):
    signals = np.random.default_rng(0).random((COUNT, 50, 2))
    root = arrays(tmp_path / "data", images=signals, labels=np.arange(COUNT) % 2)
    assert load(str(root), layout="NLC").train.images.shape[1:] == (2, 50)


def test_idx_files_are_read_under_any_name(tmp_path):
    pixels, labels = greys()
    for part, (x, y) in zip(("train", "t10k"), both(pixels, labels).values(), strict=True):
        for kind, array in (("images-idx3", x), ("labels-idx1", y)):
            header = struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape)
            content = header + array.astype(np.uint8).tobytes()
            (tmp_path / f"{part}-{kind}-ubyte").write_bytes(content)
    assert same(load(str(tmp_path)), pixels, labels, ("0", "1", "2"))


def test_pictures_are_turned_upright(tmp_path):
    pixels, labels = colours()
    exif = Image.Exif()
    exif[0x0112] = 6  # the camera was turned: what is shown is a quarter turn clockwise
    folder(tmp_path / "data", np.rot90(pixels, axes=(1, 2)), labels, exif=exif)
    assert same(load(str(tmp_path / "data")), pixels, labels)


def test_a_palette_becomes_colours(tmp_path):
    pixels, labels = colours()
    pixels = np.where(pixels[..., :1] < 128, pixels[:, :1, :1], pixels[:, :1, 1:2])
    for i, image in enumerate(pixels):
        path = tmp_path / "data" / CLASSES[labels[i]] / f"{i}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).convert("P", palette=Image.Palette.ADAPTIVE).save(path)
    assert same(load(str(tmp_path / "data")), pixels, labels)


@pytest.mark.parametrize("ending", ["png", "tif"])
def test_16_bits_are_kept(tmp_path, ending):
    values = np.random.default_rng(0).integers(0, 65536, (COUNT, 6, 8), np.uint16)
    root = folder(tmp_path / "data", values, np.arange(COUNT) % 3, ending)
    parts = load(str(root))
    together = parts.train.joined(parts.validation).joined(parts.test).images.double()
    expected = np.sort(values.ravel()) / 65535
    np.testing.assert_allclose(np.sort(together.numpy().ravel()), expected, rtol=1e-6)
    coloured = load(str(root), colour="rgb")
    assert torch.equal(coloured.test.images, parts.test.images.expand(-1, 3, -1, -1))


def test_floats_are_kept(tmp_path):
    values = np.random.default_rng(0).normal(size=(COUNT, 6, 8)).astype(np.float32)
    parts = load(str(folder(tmp_path / "data", values, np.arange(COUNT) % 3, "tif")))
    together = parts.train.joined(parts.validation).joined(parts.test).images
    np.testing.assert_array_equal(np.sort(together.numpy().ravel()), np.sort(values.ravel()))


def test_transparent_pictures_are_laid_on_black_where_a_colour_is_asked_for(tmp_path):
    pixels, labels = colours()
    alpha = np.random.default_rng(1).choice(np.array([0, 255], np.uint8), pixels.shape[:3])
    root = folder(tmp_path / "data", np.concatenate([pixels, alpha[..., None]], 3), labels)
    assert same(load(str(root), colour="rgb"), pixels * (alpha[..., None] > 0), labels)
    with pytest.raises(ValueError, match=r"got transparent pixels; .*--data.colour grey"):
        load(str(root))


def test_opaque_alpha_is_dropped(tmp_path):
    pixels, labels = colours()
    opaque = np.concatenate([pixels, np.full((*pixels.shape[:3], 1), 255, np.uint8)], 3)
    assert same(load(str(folder(tmp_path / "data", opaque, labels))), pixels, labels)


def test_sizes_and_channels_are_made_alike_on_request(tmp_path):
    pixels, labels = colours(size=(12, 16))
    root = folder(tmp_path / "data", pixels, labels)
    Image.fromarray(pixels[0, :, :14, 0]).save(root / "cat" / "000.png")
    options = {"size": "6x8", "colour": "grey"}
    parts = load(str(root), **options)
    together = parts.train.joined(parts.validation).joined(parts.test)
    assert together.images.shape == (COUNT, 1, 6, 8)
    # Antialiased: the mean stays, and a pixel is a mean of about four.
    everything = np.concatenate([pixels[1:].mean(3).ravel(), pixels[0, :, :14, 0].ravel()])
    assert together.images.mean().item() == pytest.approx(everything.mean() / 255, abs=0.02)
    assert together.images.std() < 0.7 * everything.std() / 255


def test_copies_notice_change(tmp_path, cache):
    pixels, labels = colours()
    root = folder(tmp_path / "data", pixels, labels)
    first = load(str(root)).fingerprint
    path = root / "cat" / "000.png"
    Image.fromarray(255 - pixels[0]).save(path)
    second = load(str(root)).fingerprint
    path.rename(root / "dog" / "000.png")
    third = load(str(root)).fingerprint
    assert len({first, second, third}) == len(list(cache.iterdir())) == 3
    assert load(str(root)).fingerprint == third
    load(str(root), size="4x4")
    assert len(list(cache.iterdir())) == 4


@pytest.mark.parametrize("write", [listed, lambda *a: as_parquet(listed(*a))])
def test_copies_of_tables_notice_a_changed_picture(tmp_path, write):
    pixels, labels = colours()
    source = str(write(tmp_path, pixels, labels))
    assert same(load(source), pixels, labels)
    pixels[4] = 255 - pixels[4]
    Image.fromarray(pixels[4]).save(tmp_path / "004.png")
    assert same(load(source), pixels, labels)


def as_parquet(path):
    """The same table of paths as a parquet file."""
    rows = list(csv.DictReader(path.read_text().splitlines()))
    columns = [[row[name] for row in rows] for name in ("path", "label")]
    return plain(path.with_suffix(".parquet"), *columns, ("path", "label"))


def test_nothing_is_decoded_twice(tmp_path, monkeypatch):
    source = str(folder(tmp_path / "data", *colours()))
    first = load(source).fingerprint

    def refuse(*_):
        raise AssertionError("decoded again")

    monkeypatch.setattr(listing, "picture", refuse)
    assert load(source).fingerprint == first


def test_a_limit_decodes_no_more_than_it_needs(tmp_path, monkeypatch):
    pixels, labels = colours(120)
    source = str(folder(tmp_path / "data", pixels, labels))
    decode, seen = listing.picture, []
    monkeypatch.setattr(listing, "picture", lambda *a: seen.append(0) or decode(*a))
    parts = load(source, limit=40)
    assert (len(parts.train) + len(parts.validation), len(parts.test)) == (40, 10)
    assert len(seen) == 51  # the first one twice: it says how large the array is
    assert torch.equal(load(source, limit=40, seed=1).test.images, parts.test.images)


def test_a_limit_that_leaves_too_few_is_to_be_raised(tmp_path):
    source = str(folder(tmp_path / "data", *colours(120)))
    message = "data with limit 5: the split needs at least 5 .*, got 2 of class .*; raise the limit"
    with pytest.raises(ValueError, match=message):
        load(source, limit=5)


def test_broken_pictures_are_counted_and_left_out_on_request(tmp_path):
    pixels, labels = colours()
    root = folder(tmp_path / "data", pixels, labels)
    (root / "cat" / "000.png").write_bytes(b"hello")
    cut = root / "dog" / "001.png"
    cut.write_bytes(cut.read_bytes()[:100])
    message = r"2 of 30 images are broken, first .*cat/000.png \(cannot identify .*skip_broken"
    with pytest.raises(ValueError, match=message) as caught:
        load(str(root))
    assert "\n" not in str(caught.value)
    for _ in range(2):
        with pytest.warns(UserWarning, match="2 of 30 images are broken and were left out"):
            parts = load(str(root), skip_broken=True)
        assert same(parts, pixels[2:], labels[2:])


def test_progress_is_told_once_decoding_takes_long(tmp_path, monkeypatch):
    source = str(folder(tmp_path / "data", *colours(150)))
    told = []
    load(source, progress=lambda *a: told.append(a))
    assert told == []
    monkeypatch.setattr(listing, "_QUIET_SECONDS", -1)
    load(source, size="4x4", progress=lambda *a: told.append(a))
    assert told == [(64, 150), (128, 150), (150, 150)]


def test_memory_is_asked_before_it_is_taken(tmp_path, monkeypatch):
    source = str(folder(tmp_path / "data", *colours()))
    monkeypatch.setattr(listing, "free_memory", lambda: 1000)
    with pytest.raises(ValueError, match=r"30 images of 6x8x3 take .* --data.size .*--data.limit"):
        load(source)


def test_free_memory_is_that_of_the_system_or_of_the_container(tmp_path, monkeypatch):
    (tmp_path / "meminfo").write_text("MemTotal: 9 kB\nMemAvailable:    4 kB\n")
    monkeypatch.setattr(listing, "_MEMORY", tmp_path / "meminfo")
    monkeypatch.setattr(listing, "_CGROUP", tmp_path / "max")
    assert listing.free_memory() == 4096
    for written, free in (("max\n", 4096), ("100\n", 100), ("9999\n", 4096)):
        (tmp_path / "max").write_text(written)
        assert listing.free_memory() == free
    (tmp_path / "meminfo").unlink()
    assert listing.free_memory() is None


def replaced(text, old, new):
    assert old in text
    return text.replace(old, new)


def table_with(old, new):
    def write(root):
        path = listed(root, *colours())
        path.write_text(replaced(path.read_text(), old, new))
        return path

    return write


def folder_with(change):
    def write(root):
        change(folder(root, *colours()))
        return root

    return write


def multipage(root):
    frames = [Image.fromarray(image) for image in colours(2)[0]]
    frames[0].save(root / "cat" / "pages.tif", save_all=True, append_images=frames[1:])


BAD = {
    "one class": (lambda root: folder(root, colours()[0], [0] * COUNT), "got only 'cat'; add imag"),
    "empty folder": (lambda root: root, "a folder without any of these; move the images"),
    "empty class": (folder_with(lambda r: (r / "fox").mkdir()), r"got none in .*fox; add some, or"),
    "few images": (lambda root: folder(root, *colours(9)), "at least 5 different images of every"),
    "class in the test part only": (
        lambda root: in_folders(root, {"train": colours(), "test": (colours(3)[0], [0, 1, 2])})
        and (root / "test" / "eel").rename(root / "test" / "fox")
        and root,
        "got class 'fox' in that alone; name it as in the other parts",
    ),
    "sizes": (
        folder_with(lambda r: Image.new("RGB", (5, 7)).save(r / "dog" / "x.png")),
        r"got .*cat/000.png of 6x8 and .*dog/x.png of 7x5; resize all with --data.size 32x32",
    ),
    "channels": (
        folder_with(lambda r: Image.new("L", (8, 6)).save(r / "dog" / "x.png")),
        r"got .*cat/000.png, in colour, and .*dog/x.png, grey; convert all with --data.colour grey",
    ),
    "depths": (
        lambda root: folder(folder(root, *greys()), np.ones((1, 6, 8), np.uint16), [2]),
        "got .*cat/000.png of 8 bits and .*eel/000.png of more; save all with",
    ),
    "pages": (folder_with(multipage), "pages.tif: expected one picture, got 2 pages or frames"),
    "missing file": (table_with("004.png", "gone.png"), r"1 of 30 .*gone.png \(.*line 6\) \(No"),
    "empty label": (table_with("004.png,dog", "004.png,"), "of column `label`, got none in line 6"),
    "empty path": (table_with("004.png,dog", ",dog"), "of column `path`, got none in line 6; fill"),
    "short row": (table_with("004.png,dog", "004.png"), "column `label`, got none in line 6; fill"),
    "no column": (table_with("path,label", "name,label"), "`file`, got name, label; name the one "),
    "no label": (table_with("path,label", "path,kind"), "`label` or `class`, got path, kind; name"),
    "no rows": (
        lambda root: (root / "a.csv").write_text("path,label\n") and root / "a.csv",
        "at least 2 classes, got no image; add",
    ),
    "nothing": (
        lambda root: (root / "a.csv").touch() or root / "a.csv",
        "`file`, got none; name the one that is meant by --data.image_column",
    ),
    "no text": (
        lambda root: (root / "a.csv").write_bytes(b"\xff\xfe\0") and root / "a.csv",
        "not a sound table of text .*; save it again, in UTF-8",
    ),
    "measurements": (
        lambda root: plain(root / "a.parquet", structs(colours()[0]), [0.5] * COUNT),
        "expected classes in column `label`, by names or whole numbers, got 0.5 in row 0; give",
    ),
    "measurements as text": (
        lambda root: plain(root / "a.parquet", structs(colours()[0]), ["1", "0.5"] * 15),
        "whole numbers, got '0.5' in row 1; give the class",
    ),
    "no class": (
        lambda root: dataset(colours()[0], [0, 1, -1] * 10).to_parquet(root / "a.parquet")
        and root / "a.parquet",
        "by names or whole numbers below 3, got -1 in row 2; give the class of each image",
    ),
    "no bytes": (
        lambda root: plain(root / "a.parquet", [3] * COUNT, named(colours()[1])),
        "30 of 30 images are broken, first .*row 0 .expected the bytes of an image file, got none",
    ),
    "cut parquet": (
        lambda root: (root / "a.parquet").write_bytes(b"PAR1") and root / "a.parquet",
        "not a sound parquet file",
    ),
    "cut folder": (
        lambda root: [p.unlink() for p in saved(root / "s", dataset(*colours())).glob("*.arrow")]
        and root / "s",
        "not a sound folder of datasets.save_to_disk .*; save it again",
    ),
    "other parts": (
        lambda root: in_dict(root / "s", {"one": colours(), "two": colours()}),
        "expected parts among train, .*, got one, two; save the part",
    ),
    "npy alone": (
        lambda root: arrays(root, images=colours()[0]) / "images.npy",
        "expected images.npy, with labels.npy or targets.npy beside it; save both",
    ),
    "cut npy": (
        lambda root: arrays(root, images=colours()[0], labels=colours()[1])
        and (root / "images.npy").write_bytes(b"\x93NUMPY\1\0")
        and root,
        "images.npy: not a sound .npy file .*; save it with numpy.save",
    ),
    "pickled npy": (
        lambda root: arrays(root, images=colours()[0], labels=np.array([0, "a"], object)),
        "expected `labels` as a plain array, got an object array",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_refuses(tmp_path, case, cache):
    write, message = BAD[case]
    (tmp_path / "data").mkdir()
    source = str(write(tmp_path / "data"))
    with warnings.catch_warnings(), pytest.raises(ValueError, match=message) as caught:
        load(source)
    assert "\n" not in str(caught.value)
    assert str(tmp_path / "data") in str(caught.value)
    assert not cache.exists()


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("folder", {"layout": "NHW"}),
        ("folder", {"groups": "patient"}),
        ("folder", {"label_column": "label"}),
        ("npy", {"size": "4x4"}),
        ("npy", {"skip_broken": True}),
        ("csv", {"layout": "NHW"}),
    ],
)
def test_options_of_other_sources_are_refused(tmp_path, kind, options):
    pixels, labels = colours()
    write = {"folder": folder, "npy": lambda r, x, y: arrays(r, images=x, labels=y), "csv": listed}
    (tmp_path / "data").mkdir()
    source = str(write[kind](tmp_path / "data", pixels, labels))
    (name,) = options
    with pytest.raises(ValueError, match=f"expected no {name}, got .*; sources of this kind"):
        load(source, **options)


@pytest.mark.parametrize("size", ["32", "32x", "1x32", "-3x4", "3 x 4", "32x32x3"])
def test_refuses_sizes(tmp_path, size):
    source = str(folder(tmp_path / "data", *colours()))
    with pytest.raises(ValueError, match=f"HEIGHTxWIDTH .* got '{size}'; write for example 32x32"):
        load(source, size=size)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("gone.csv", "no file .*gone.csv; give the path of a .csv file with columns `path` and"),
        ("gone.tsv", "no file .*gone.tsv; give"),
        ("gone.parquet", "no file .*gone.parquet; give the path of a .parquet file"),
        ("gone/images.npy", "no file .*images.npy; give the path of images.npy, with labels"),
    ],
)
def test_missing_files_are_named(source, message):
    with pytest.raises(FileNotFoundError, match=message):
        check_source(source)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_unreadable_pictures_are_named(tmp_path):
    root = folder(tmp_path / "data", *colours())
    (root / "cat" / "000.png").chmod(0)
    with pytest.raises(ValueError, match=r"1 of 30 .*cat/000.png \(Permission denied\)"):
        load(str(root))


def test_a_path_without_a_root_is_no_name_of_the_hub(tmp_path):
    with pytest.raises(ValueError, match="got 'some/where', which does not exist"):
        check_source("some/where", tmp_path)
    assert check_source("some/where").kind == "hub"
    assert not Path("some").exists()


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_columns_of_a_table_may_hold_numbers(tmp_path, form):
    pixels, _ = colours(50)
    places = np.random.default_rng(0).normal(size=(len(pixels), 2)).round(3)
    if form == "csv":
        path = tmp_path / "list.csv"
        rows = ["path,down,along", *(f"{i}.png,{a},{b}" for i, (a, b) in enumerate(places))]
        for i, image in enumerate(pixels):
            Image.fromarray(image).save(tmp_path / f"{i}.png")
        path.write_text("\n".join(rows))
    else:
        arrow = pytest.importorskip("pyarrow")
        path = tmp_path / "list.parquet"
        table = {"image": [*map(encoded, pixels)], "down": places[:, 0], "along": places[:, 1]}
        pytest.importorskip("pyarrow.parquet").write_table(arrow.table(table), path)
    parts = load(str(path), target_columns=("along", "down"))
    everything = parts.train.joined(parts.validation).joined(parts.test)
    assert everything.numbers == ("along", "down")
    images = torch.from_numpy(pixels.astype(np.float32) / 255).movedim(-1, 1).flatten(1)
    position = torch.cdist(everything.images.flatten(1), images).argmin(1)
    expected = torch.from_numpy(places[:, ::-1].copy()).float()[position]
    torch.testing.assert_close(everything.labels, expected)


@pytest.mark.parametrize(
    ("content", "options", "message"),
    [
        (
            "path,age\na.png,old\n",
            {"target_columns": ("age",)},
            "numbers in .* got 'old' in line 2",
        ),
        ("path,age\na.png,3\n", {"target_columns": ("size",)}, "a column `size`, got path, age"),
        (
            "path,label\na.png,3\n",
            {"target_columns": ("label",), "label_column": "label"},
            "a column of classes or columns of numbers, got label_column and target_columns",
        ),
        ("path,label\na.png,3\n", {"target": "numbers"}, "got .numbers.; .* by target_columns"),
    ],
)
def test_columns_that_hold_no_numbers_are_refused(tmp_path, content, options, message):
    path = tmp_path / "list.csv"
    path.write_text(content)
    with pytest.raises(ValueError, match=message) as caught:
        load(str(path), **options)
    assert "\n" not in str(caught.value)
