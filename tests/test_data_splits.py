"""Splits: three disjoint, stratified parts; the test part fixed; copies kept together."""

import pytest
import torch

from symshare.data import LabelledImages, split

PARTS = ("train", "validation", "test")


def numbered(*sizes, first=0):
    """Images whose first pixel is their own number, `sizes[c]` of class c, in shuffled order."""
    labels = torch.repeat_interleave(torch.arange(len(sizes)), torch.tensor(sizes))
    labels = labels[torch.randperm(len(labels), generator=torch.Generator().manual_seed(9))]
    images = torch.zeros(len(labels), 1, 2, 2, dtype=torch.float32)
    images[:, 0, 0, 0] = first + torch.arange(len(labels))
    return LabelledImages(images, labels, tuple("abcdefghij"[: len(sizes)]))


def numbers(part):
    return part.images[:, 0, 0, 0].long().tolist()


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("sizes", [(100, 100), (5, 5, 5), (300, 20, 7), (61, 59)], ids=str)
def test_parts_are_disjoint_and_cover(sizes, seed):
    pool = numbered(*sizes)
    parts = split(pool, seed=seed)
    drawn = [number for name in PARTS for number in numbers(getattr(parts, name))]
    assert sorted(drawn) == list(range(len(pool)))
    for name in PARTS:
        part = getattr(parts, name)
        assert torch.equal(part.labels, pool.labels[numbers(part)]), "labels follow their images"
        assert part.classes == pool.classes
        assert set(part.labels.tolist()) == set(range(len(sizes))), "every part has every class"


def test_parts_are_stratified():
    parts = split(numbered(400, 200, 100))
    for name, share in zip(PARTS, (0.65, 0.15, 0.20), strict=True):
        counts = getattr(parts, name).labels.bincount().double()
        expected = share * torch.tensor([400.0, 200.0, 100.0])
        assert (counts - expected).abs().max() <= 1, name


def test_seed_moves_train_and_validation_but_not_test():
    pool = numbered(50, 50)
    first, same, other = (split(pool, seed=seed) for seed in (0, 0, 1))
    for name in PARTS:
        assert numbers(getattr(first, name)) == numbers(getattr(same, name))
    assert numbers(first.test) == numbers(other.test)
    assert numbers(first.train) != numbers(other.train)
    assert numbers(first.validation) != numbers(other.validation)


def test_limit_caps_train_and_validation_by_class():
    pool = numbered(300, 100)
    parts = split(pool, limit=80)
    assert len(parts.train) + len(parts.validation) == 80
    assert (parts.train.labels.bincount() + parts.validation.labels.bincount()).tolist() == [60, 20]
    assert numbers(parts.test) == numbers(split(pool).test)
    assert not set(numbers(parts.train)) & set(numbers(parts.validation))


def test_limit_is_met_exactly_where_classes_do_not_divide_it():
    parts = split(numbered(61, 59, 33), limit=50)
    assert len(parts.train) + len(parts.validation) == 50


@pytest.mark.parametrize("limit", [320, 10**6])
def test_limit_beyond_the_pool_changes_nothing(limit):
    pool = numbered(300, 100)
    assert numbers(split(pool, limit=limit).train) == numbers(split(pool).train)


def test_official_test_part_is_kept():
    official = numbered(3, 3)
    parts = split(numbered(40, 40), official, name="somewhere", limit=40)
    assert parts.test is official
    assert (len(parts.train), len(parts.validation)) == (32, 8)
    assert parts.name == "somewhere"


@pytest.mark.parametrize("seed", range(3))
def test_copies_of_an_image_stay_in_one_part(seed):
    pool = numbered(40, 40)
    copies = torch.arange(80).repeat(3)
    parts = split(pool.subset(copies), seed=seed)
    drawn = [set(numbers(getattr(parts, name))) for name in PARTS]
    assert sum(map(len, drawn)) == len(set.union(*drawn)) == 80
    assert sum(len(getattr(parts, name)) for name in PARTS) == 240


def test_copies_of_test_images_are_left_out_of_the_pool():
    parts = split(numbered(40, 40), test=numbered(10, 10))
    drawn = numbers(parts.train) + numbers(parts.validation)
    assert sorted(drawn) == list(range(20, 80))


@pytest.mark.parametrize(
    ("sizes", "options", "message"),
    [
        ((50, 4), {}, "data: .* at least 5 different images of every class, got 4 of class 'b'"),
        ((50, 0, 50), {}, "got 0 of class 'b'; add images or leave the class out"),
        ((50, 50), {"limit": 7}, "data with limit 7: .* at least 4 .*, got 3 .*; raise the limit"),
        ((50, 50), {"limit": 0}, "limit of at least 1, got 0"),
        ((50, 3), {"test": True}, "at least 4 different images of every class, got 3"),
    ],
    ids=["small class", "empty class", "small limit", "limit 0", "official test"],
)
def test_refuses_too_few_images(sizes, options, message):
    pool = numbered(*sizes)
    if "test" in options:
        options = {"test": numbered(*sizes, first=1000)}
    with pytest.raises(ValueError, match=message) as caught:
        split(pool, **options)
    assert "\n" not in str(caught.value)


def test_copies_do_not_count_as_different_images():
    with pytest.raises(ValueError, match="at least 5 different images of every class, got 2"):
        split(numbered(2, 2).subset(torch.arange(4).repeat(10)))
