"""Labels that are numbers: how they are read, refused, and divided."""

import numpy as np
import pytest
import torch

from symshare.data import LabelledImages, divide, load, sample, split, strata_of

IMAGES = torch.rand(60, 1, 8, 8, generator=torch.Generator().manual_seed(0))
Y = torch.randn(60, 2, generator=torch.Generator().manual_seed(1))


def numbers(images=IMAGES, y=Y, **options):
    return LabelledImages.from_arrays(images, y, target="numbers", **options)


def test_numbers_are_kept_and_named():
    assert numbers().numbers == ("y1", "y2")
    assert numbers(y=Y[:, 0]).numbers == ("y",)
    data = numbers(y=Y.double().numpy(), numbers=["row", "column"])
    assert (data.numbers, data.classes, data.outputs) == (("row", "column"), (), 2)
    torch.testing.assert_close(data.labels, Y)
    part = data.subset([3, 1])
    assert torch.equal(part.joined(part).labels, Y[[3, 1, 3, 1]])
    assert part.numbers == data.numbers
    assert numbers(y=np.arange(60)).labels.dtype == torch.float32


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"y": Y[:, 0], "target": "classes"}, "or say that labels are numbers by target='numbers'"),
        ({"y": Y > 0, "target": "classes"}, "expected integers"),
        ({"y": (Y > 0).long(), "target": "classes"}, "several classes of one image are not read"),
        ({"target": "scores"}, "expected 'classes' or 'numbers', got 'scores'; say what"),
        ({"classes": ["a"]}, "expected no names of classes, as labels are numbers"),
        ({"y": Y[:, 0] > 0, "target": "classes", "numbers": ["a"]}, "no names of numbers"),
        ({"numbers": ["row"]}, "expected 2 different names, one of each number, got row"),
        ({"numbers": ["row", "row"]}, "expected 2 different names"),
        ({"y": Y[:50]}, "as many as images, got 60 images and 50 labels"),
        (
            {"y": Y[:, :, None]},
            r"expected numbers \[N\] or \[N, d\], got torch.float32 \[60, 2, 1\]",
        ),
        ({"y": torch.rand(60, 40)}, "at most 32 numbers of an image, got 40; .* sequences"),
        ({"y": Y.where(Y < 1, torch.nan)}, "finite numbers of at most 1e\\+12, got NaN"),
        ({"y": torch.stack([Y[:, 0], torch.ones(60)], 1)}, "one value of 'y2' for all 60 images"),
        ({"y": ["3"] * 60}, "targets: expected one array of numbers, got values of type <U1"),
    ],
)
def test_what_is_no_number_is_refused_in_one_line(unchecked, options, message):
    given = {"y": Y, "target": "numbers"} | options
    with pytest.raises(ValueError, match=message) as caught:
        LabelledImages.from_arrays(IMAGES, given.pop("y"), **given)
    assert "\n" not in str(caught.value)


def test_strata_of_one_number_are_fifths_of_it():
    index, names = strata_of(numbers(y=torch.arange(60.0).flip(0)))
    assert index.tolist() == [4] * 12 + [3] * 12 + [2] * 12 + [1] * 12 + [0] * 12
    assert names == ("y 0 to 11", "y 12 to 23", "y 24 to 35", "y 36 to 47", "y 48 to 59")


def test_strata_of_several_numbers_stay_where_these_are_turned_or_exchanged():
    turn = torch.linalg.qr(torch.randn(2, 2, generator=torch.Generator().manual_seed(2)))[0]
    for moved in (Y @ turn, Y.flip(1), -Y, 5 + Y * torch.tensor([1.0, 100.0])):
        assert torch.equal(strata_of(numbers(y=moved)).index, strata_of(numbers()).index)


def test_ties_leave_fewer_strata_and_none_is_empty():
    counts = torch.tensor([0.0] * 40 + [1.0] * 15 + [2.0] * 5)
    index, names = strata_of(numbers(y=counts))
    assert index.bincount().tolist() == [40, 20]
    assert names == ("y 0", "y 1 to 2")


def test_divisions_hold_the_strata_in_proportion():
    generator = torch.Generator().manual_seed(0)
    images, y = torch.rand(500, 1, 4, 4, generator=generator), torch.randn(500, generator=generator)
    parts = split(numbers(images, y), seed=3)
    assert [len(part) for part in (parts.train, parts.validation, parts.test)] == [325, 75, 100]
    strata = strata_of(numbers(images, y)).index
    where = {value: int(stratum) for value, stratum in zip(y.tolist(), strata, strict=True)}
    held = torch.tensor([where[value] for value in parts.test.labels[:, 0].tolist()])
    assert held.bincount().tolist() == [20] * 5
    assert len(sample(numbers(images, y), 50, 0)) == 50
    grouped = numbers(images, y, groups=torch.arange(500) // 10)
    one, other = divide(grouped, 1 / 2, 0)
    assert not set((one // 10).tolist()) & set((other // 10).tolist())
    assert 200 <= len(one) <= 300


def test_too_few_images_are_refused():
    with pytest.raises(ValueError, match="at least 40 different images for labels of 2 numbers, g"):
        split(numbers(IMAGES[:39], Y[:39]))


@pytest.mark.parametrize("form", ["npz", "npy", "labels", "parts", "both"])
def test_arrays_of_numbers_are_read_from_files(tmp_path, form):
    images, y = IMAGES.numpy(), Y.numpy()
    arrays = {"images": images, "targets": y, "numbers": np.array(["row", "column"])}
    options = {}
    if form == "labels":
        arrays["labels"] = arrays.pop("targets")
        options["target"] = "numbers"
    elif form == "parts":
        arrays = {
            "train_images": images[:50],
            "train_targets": y[:50],
            "test_images": images[50:],
            "test_targets": y[50:],
            "numbers": arrays["numbers"],
        }
    elif form == "both":
        arrays["labels"], options["target"] = np.arange(60) % 2, "numbers"
    if form == "npy":
        for name, array in arrays.items():
            np.save(tmp_path / f"{name}.npy", array)
        path = tmp_path
    else:
        path = tmp_path / "data.npz"
        np.savez(path, **arrays)
    parts = load(str(path), **options)
    assert parts.train.numbers == ("row", "column")
    known = {tuple(row) for row in y.tolist()}
    for part in (parts.train, parts.validation, parts.test):
        assert {tuple(row) for row in part.labels.tolist()} <= known
    if form == "parts":
        torch.testing.assert_close(parts.test.labels, Y[50:])


def test_files_do_not_leave_open_what_labels_are(tmp_path, unchecked):
    path = tmp_path / "data.npz"
    np.savez(path, images=IMAGES, targets=Y, labels=np.arange(60) % 2)
    with pytest.raises(ValueError, match="got both; say which are meant by --data.target classes"):
        load(str(path))
    assert load(str(path), target="classes").train.classes == ("0", "1")
    np.savez(path, images=IMAGES, labels=Y[:, 0])
    with pytest.raises(ValueError, match="--data.target numbers"):
        load(str(path))
