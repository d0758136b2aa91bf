"""Labelled images: what is read, what is refused and how it is said."""

from itertools import product
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.utils.data import TensorDataset

from fresh_python import fresh_python
from symshare.data import LabelledImages, freeze, transform


def spoiled(value):
    images = torch.zeros(6, 1, 2, 2)
    images[3, 0, 1, 0] = value
    images[5, 0, 0, 0] = value
    return images


def test_subset_and_to_keep_classes_and_order():
    data = LabelledImages(torch.rand(4, 2, 3, 5), torch.tensor([0, 1, 1, 0]), ("cat", "dog"))
    for indices in ([2, 0], torch.tensor([2, 0])):
        part = data.subset(indices).to("cpu")
        assert torch.equal(part.images, data.images[[2, 0]])
        assert part.labels.tolist() == [1, 0]
        assert part.classes == ("cat", "dog")
    assert len(data) == 4
    assert len(data.subset([])) == 0


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (np.full((2, 1, 3, 3), 51, np.uint8), 0.2),
        (np.full((2, 3, 3), 51, np.uint8), 0.2),
        (np.full((2, 1, 3, 3), 7.5), 7.5),
        (np.full((2, 3, 3), 7.5, ">f4"), 7.5),
        (np.full((2, 3, 3), 7.5, np.float16)[:, ::-1], 7.5),
        (np.full((2, 3, 3), True), 1.0),
        (torch.full((2, 1, 3, 3), 51, dtype=torch.uint8), 0.2),
        (torch.full((2, 1, 3, 3), -2.0, dtype=torch.float64), -2.0),
        ([np.full((3, 3), 7.5), np.full((3, 3), 7.5)], 7.5),
    ],
    ids=["uint8", "no channel", "float64", "big-endian", "reversed", "bool", "tensor uint8",
         "tensor float64", "list"],
)  # fmt: skip
def test_from_arrays_reads(values, expected):
    data = LabelledImages.from_arrays(values, np.array([0, 1], np.uint16))
    assert data.images.dtype == torch.float32
    assert data.labels.dtype == torch.int64
    assert data.images.shape == (2, 1, 3, 3)
    torch.testing.assert_close(data.images, torch.full_like(data.images, expected))
    assert data.classes == ("0", "1")


CLEAR = [(1, 8, 8), (3, 32, 32), (4, 9, 9), (3, 48, 64), (2, 4, 6), (1, 9, 6), (1, 3, 3), (1, 12),
         (1, 8, 8, 8), (3, 12, 9, 7), (4, 30, 64, 64)]  # fmt: skip
UNCLEAR = [(8, 8, 5), (9, 9, 3), (9, 6, 4), (48, 64, 3), (9, 9, 30), (11, 9, 30),
           (8, 8, 8), (3, 3, 3), (4, 4, 4), (8, 3, 3), (64, 4, 4), (3, 4, 4), (12, 64, 64),
           (5, 8, 8), (30, 64, 48)]  # fmt: skip


def numbered(shape):
    return np.arange(2 * np.prod(shape), dtype=np.float32).reshape(2, *shape)


@pytest.mark.parametrize("shape", CLEAR, ids=str)
def test_a_clear_layout_needs_no_name(shape):
    images = numbered(shape)
    assert torch.equal(LabelledImages.from_arrays(images, [0, 1]).images, torch.tensor(images))


@pytest.mark.parametrize("shape", UNCLEAR, ids=str)
def test_an_unclear_layout_is_asked_for(shape):
    images = numbered(shape)
    with pytest.raises(ValueError, match="layout='NCHW' or layout='NHWC' or layout='NDHW'"):
        LabelledImages.from_arrays(images, [0, 1])
    first = LabelledImages.from_arrays(images, [0, 1], layout="NCHW").images
    last = LabelledImages.from_arrays(images, [0, 1], layout="NHWC").images
    assert torch.equal(first, torch.tensor(images))
    assert torch.equal(last, torch.tensor(images.transpose(0, 3, 1, 2)))
    assert last.is_contiguous()
    slices = LabelledImages.from_arrays(images, [0, 1], layout="NDHW")
    assert torch.equal(slices.images, torch.tensor(images)[:, None])
    assert slices.space == shape


LAYOUTS = [("NL", (20,), (1, 20)), ("NCL", (3, 20), (3, 20)), ("NLC", (20, 3), (3, 20)),
           ("NHW", (6, 20), (1, 6, 20)), ("NDHW", (7, 5, 6), (1, 7, 5, 6)),
           ("NCDHW", (2, 4, 5, 6), (2, 4, 5, 6)),
           ("NDHWC", (4, 5, 6, 2), (2, 4, 5, 6))]  # fmt: skip


@pytest.mark.parametrize(("layout", "shape", "expected"), LAYOUTS, ids=lambda one: str(one))
def test_signals_and_volumes_name_their_axes(layout, shape, expected):
    values = numbered(shape)
    if layout != "NCDHW":
        with pytest.raises(ValueError, match=f"layout='{layout}'.*`layout` beside"):
            LabelledImages.from_arrays(values, [0, 1])
    images = LabelledImages.from_arrays(values, [0, 1], layout=layout).images
    back = images.movedim(1, layout.index("C")) if "C" in layout else images[:, 0]
    assert images.shape[1:] == expected
    assert torch.equal(back, torch.tensor(values))


@pytest.mark.parametrize(
    ("layout", "shape", "axis"),
    [("NCL", (3, 1), "L"), ("NCHW", (3, 1, 12), "H"), ("NHWC", (12, 1, 3), "W"),
     ("NDHW", (1, 8, 8), "D")],
)  # fmt: skip
def test_an_axis_of_length_one_is_named(layout, shape, axis):
    with pytest.raises(ValueError, match=f"got 1 along {axis} of {layout} .*drop that axis"):
        LabelledImages.from_arrays(np.zeros((2, *shape)), [0, 1], layout=layout)


@pytest.mark.parametrize(("channels", "side"), [*product((2, 3, 5, 30), (2, 3, 4, 5, 8, 28))])
def test_square_images_with_channels_last_are_never_taken_in_silence(channels, side):
    with pytest.raises(ValueError, match="layout='NHWC'"):
        LabelledImages.from_arrays(np.zeros((2, side, side, channels)), [0, 1])


def test_one_channel_may_be_last():
    assert LabelledImages.from_arrays(np.zeros((2, 8, 9, 1)), [0, 1]).images.shape == (2, 1, 8, 9)


@pytest.mark.parametrize("length", [1, 2, 4, 5, 300])
def test_rows_of_numbers_are_never_taken_for_signals_in_silence(length):
    with pytest.raises(ValueError, match="layout='NL'"):
        LabelledImages.from_arrays(np.zeros((2, length)), [0, 1])


@pytest.mark.parametrize("slices", [5, 16, 30])
def test_volumes_of_one_channel_are_never_taken_for_images_in_silence(slices):
    with pytest.raises(ValueError, match="layout='NDHW'"):
        LabelledImages.from_arrays(np.zeros((2, slices, 64, 64)), [0, 1])


@pytest.mark.parametrize(
    ("shape", "layout"),
    [((8, 8), "NCHW"), ((1, 8, 8), "NHW"), ((1, 8, 8), "CHWN"), ((8, 8), ""), ((8,), "NHW")],
)
def test_a_layout_of_other_axes_is_refused(shape, layout):
    with pytest.raises(ValueError, match=rf"layout: expected 'N.* got '{layout}'"):
        LabelledImages.from_arrays(np.zeros((2, *shape)), [0, 1], layout=layout)


def test_labels_may_stand_in_a_column_and_names_may_be_bytes():
    classes = [b"caf\xc3\xa9", 7]
    data = LabelledImages.from_arrays(np.zeros((2, 3, 3)), [[0], [1]], classes)
    assert data.labels.tolist() == [0, 1]
    assert data.classes == ("café", "7")


def test_from_arrays_does_not_share_the_callers_memory():
    values = np.zeros((2, 3, 3), np.float32)
    data = LabelledImages.from_arrays(values, [0, 1])
    values[:] = 9
    assert data.images.max() == 0


def test_large_images_are_accepted_and_fill_values_are_not():
    large = torch.full((2, 1, 4, 4), 1e12, dtype=torch.float32)
    assert len(LabelledImages(large, torch.tensor([0, 1]), ("a", "b"))) == 2
    large[1, 0, 2, 2] = 9.96921e36
    with pytest.raises(ValueError, match="a fill value in 1 of 2, first in image 1"):
        LabelledImages(large, torch.tensor([0, 1]), ("a", "b"))


@pytest.mark.parametrize(
    ("images", "labels", "classes", "message"),
    [
        (np.zeros(2), [0, 1], None, r"got 1 axes \[2\]"),
        (np.zeros((2, 1, 1, 1, 3, 3)), [0, 1], None, "got 6 axes"),
        (np.zeros((2, 3, 3), int), [0, 1], None, "floats, .* got torch.int64; divide them"),
        ("mine.npz", None, None, "images: .* got the path 'mine.npz'; read the file first"),
        (Path("mine.npz"), None, None, "images: .* got the path 'mine.npz'"),
        (TensorDataset(torch.zeros(2, 3, 3)), None, None, "a TensorDataset; .* torch.stack"),
        (None, [0, 1], None, "images: .* got None; hand over arrays"),
        (np.zeros((2, 3, 3)), None, None, "labels: .* got None; give one integer per image"),
        (np.zeros((2, 3, 3)), ["cat", "dog"], None, "labels: .* numpy.unique.*classes=classes"),
        (np.zeros((2, 3, 3)), np.array(["cat", 1], object), None, "labels: .* type object; .*uni"),
        (np.zeros((2, 0, 0)), [0, 1], None, "at least one pixel"),
        ([np.zeros((3, 3)), np.zeros((4, 4))], [0, 1], None, "a ragged sequence; resize"),
        (np.full((2, 3, 3), "x"), [0, 1], None, "array of numbers, got values of type <U1"),
        (spoiled(float("nan")), [0, 1] * 3, None, "in 2 of 6, first in image 3; remove or repair"),
        (spoiled(float("inf")), [0, 1] * 3, None, "in 2 of 6, first in image 3; remove or repair"),
        (np.zeros((2, 3, 3)), [0, 1, 1], None, "2 images and 3 labels"),
        (np.zeros((2, 3, 3)), [[0, 1]] * 2, None, r"expected integers \[N\], got torch.int64"),
        (np.zeros((2, 3, 3)), [0.0, 1.0], None, "integers .* got torch.float64"),
        (np.zeros((2, 3, 3)), [0.0, np.nan], None, "integers .* got torch.float64"),
        (np.zeros((2, 3, 3)), [True, False], None, "integers .* got torch.bool"),
        (np.zeros((2, 3, 3)), np.array(1), None, r"expected integers \[N\], got torch.int64 \[\]"),
        (np.zeros((2, 3, 3)), [0, 1], "", "at least 2 classes, got 0; name each of them"),
        (np.zeros((2, 3, 3)), [0, -1], "ab", r"labels: expected 0..1, got -1 for image 1"),
        (np.zeros((2, 3, 3)), [0, 2], "ab", r"labels: expected 0..1, got 2 for image 1; number"),
        (np.zeros((2, 3, 3)), [0, 10**9], None, "labels: 1000000000 is out of range for 2 images"),
        (np.zeros((3, 3, 3)), [1, 2, 1], None, "smallest is 1; number the classes 0, 1, 2"),
        (np.zeros((2, 3, 3)), [0, 0], None, "at least 2 classes, got 1"),
        (np.zeros((2, 3, 3)), [1, 1], "ab", "at least 2 classes, got only class 'b'"),
        (np.zeros((0, 3, 3)), np.zeros(0, int), "ab", r"2 classes, got none, \[0, 1, 3, 3\]"),
        (np.zeros((2, 3, 3), complex), [0, 1], None, "complex128; take their size, or make two"),
    ],
    ids=["2 axes", "5 axes", "int64", "path text", "path", "data set", "no images", "no labels",
         "text labels", "mixed labels", "no pixel", "unequal size", "text", "nan",
         "inf", "unequal number", "label axes", "float labels", "missing label",
         "bool labels", "one number", "no names", "negative label",
         "label too large", "stray label", "labels from 1", "one class", "one class named",
         "empty", "complex"],
)  # fmt: skip
def test_refuses(images, labels, classes, message, unchecked):
    with pytest.raises(ValueError, match=message) as caught:
        LabelledImages.from_arrays(images, labels, classes)
    assert "\n" not in str(caught.value)


def grouped(groups, **options):
    """Blank images of two classes, in these groups."""
    count = len(groups) if hasattr(groups, "__len__") else 4
    return LabelledImages.from_arrays(
        np.zeros((count, 3, 3)), np.arange(count) % 2, groups=groups, **options
    )


@pytest.mark.parametrize(
    ("groups", "expected"),
    [
        ([7, 7, 3, 7], [1, 1, 0, 1]),
        (np.array([7, 7, 3, 7], np.uint8), [1, 1, 0, 1]),
        (torch.tensor([-7, -7, 10**12, -7]), [0, 0, 1, 0]),
        (torch.tensor([2.5, 1.0, 2.5, 1.0], requires_grad=True), [1, 0, 1, 0]),
        ([[7], [7], [3], [7]], [1, 1, 0, 1]),
        ([2.5, 2.5, 1.0, 1e30], [1, 1, 0, 2]),
        ([True, False, False, True], [1, 0, 0, 1]),
        (["ann", "bob", "bob", "ann"], [0, 1, 1, 0]),
        (np.array(["ann", "bob", "", "ann"]), [1, 2, 0, 1]),
        ([b"ann", b"bob", b"bob", b"ann"], [0, 1, 1, 0]),
        ([4, 3, 2, 1], [3, 2, 1, 0]),
        ((0, 0, 0, 0), [0, 0, 0, 0]),
    ],
    ids=["list", "uint8", "tensor", "float tensor", "column", "floats", "bool", "text",
         "array of text", "bytes", "all distinct", "one group"],
)  # fmt: skip
def test_groups_of_any_name_are_numbered(groups, expected):
    data = grouped(groups)
    assert data.groups.dtype == torch.int64
    assert data.groups.tolist() == expected


def test_without_groups_there_are_none():
    assert grouped(np.zeros(4, int)).subset([0, 1]).groups is not None
    plain = LabelledImages.from_arrays(np.zeros((2, 3, 3)), [0, 1])
    assert plain.groups is None
    for data in (plain.subset([1]), plain.to("cpu"), plain.joined(plain)):
        assert data.groups is None


def test_groups_follow_their_images():
    data = grouped(["ann", "bob", "bob", "eve"])
    assert data.subset([3, 1]).groups.tolist() == [2, 1]
    assert data.subset([]).groups.tolist() == []
    assert data.to("cpu").groups.tolist() == [0, 1, 1, 2]
    assert data.subset([3]).joined(data.subset([0, 1])).groups.tolist() == [2, 0, 1]
    assert freeze(data, transform("flip"), 0).groups.tolist() == [0, 1, 1, 2]


def ungrouped(*values):
    """An array of objects."""
    array = np.empty(len(values), object)
    array[:] = values
    return array


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        ([0, 1, 1], r"groups: expected one for each of 4 images, got \[3\]; give the group"),
        (range(5), r"for each of 4 images, got \[5\]"),
        ([], r"for each of 4 images, got \[0\]"),
        ([[0, 1]] * 4, r"one number or text for each image, got int64 \[4, 2\]; give the group of"),
        ("patient", r"one number or text for each image, got <U7 \[\]"),
        (3, r"one number or text for each image, got int64 \[\]"),
        ([0, 1, [1, 2], 0], "one number or text for each image, got a ragged sequence"),
        (torch.zeros(4, dtype=torch.bfloat16), "or another type of numbers; give the group of"),
        ([0, 1, np.nan, 1], "a group for every image, got NaN or infinity; give images without"),
        ([0, 1, np.inf, 1], "a group for every image, got NaN or infinity"),
        ([0, None, 1, 1], "type object; give every image a group .*in the place of None"),
        (ungrouped("ann", "bob", "bob", "ann"), "type object; .*str.group. for group in groups"),
        ((i for i in range(4)), "got values of type object"),
        (np.array(["2020-01-01"] * 4, "datetime64[D]"), r"got datetime64\[D\] \[4\]"),
        ([1j, 1, 2, 2], "got complex128"),
    ],
    ids=["too few", "too many", "empty", "2 axes", "a name", "a number", "ragged", "bfloat16",
         "nan", "inf", "missing", "objects", "generator", "dates", "complex"],
)  # fmt: skip
def test_refuses_groups(groups, message, unchecked):
    with pytest.raises(ValueError, match=message) as caught:
        LabelledImages.from_arrays(np.zeros((4, 3, 3)), [0, 1, 0, 1], groups=groups)
    assert str(caught.value).startswith("groups: expected")
    assert "\n" not in str(caught.value)


def test_the_remedy_for_objects_works():
    groups = ungrouped("bob", "ann", "bob", "ann")
    numbers = np.unique(groups, return_inverse=True)[1]
    assert grouped(numbers).groups.tolist() == [1, 0, 1, 0]


def test_groups_are_checked_where_shapes_are_not(tmp_path):
    script = (
        "import torch\n"
        "from symshare.data import LabelledImages\n"
        "data = torch.zeros(3, 1, 2, 2), torch.tensor([0, 1, 0]), ('a', 'b')\n"
        "for groups in (torch.zeros(3), torch.zeros(2, dtype=int), torch.zeros(3, 1, dtype=int)):\n"
        "    try:\n"
        "        LabelledImages(*data, groups)\n"
        "    except ValueError as error:\n"
        "        print(error)\n"
    )
    said = fresh_python(tmp_path, "-c", script).splitlines()
    assert said == [
        "groups: expected integers, got torch.float32; number the groups 0, 1, 2, ...",
        *(
            f"groups: expected one for each of 3 images, got {got}; give the group of every image, "
            "in their order"
            for got in ("[2]", "[3, 1]")
        ),
    ]
