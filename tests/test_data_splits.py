"""Splits: three disjoint, stratified parts; the test part fixed; copies and groups kept whole."""

from dataclasses import replace
from itertools import combinations

import pytest
import torch

from symshare.data import LabelledImages, Splits, divide, joined, sample, split

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


@pytest.mark.parametrize("seed", range(4))
def test_an_image_that_stands_in_for_many_is_known_when_judging(seed):
    images = torch.rand(300, 1, 4, 4, generator=torch.Generator().manual_seed(seed))
    images[seed::4] = images[seed]
    pool = LabelledImages(images, torch.arange(300) % 3, ("a", "b", "c"))
    parts = split(pool, seed=seed)
    assert (parts.train.images == images[seed]).flatten(1).all(1).sum() == 75


def test_images_that_are_all_the_same_are_refused_by_that():
    images, labels = torch.full((20, 1, 4, 4), 0.5), torch.arange(20) % 2
    with pytest.raises(ValueError, match="data: all 20 images are the same; look at how"):
        split(LabelledImages(images, labels, ("a", "b")))


def test_a_gap_in_the_labels_is_named():
    images = torch.rand(40, 1, 4, 4)
    with pytest.raises(ValueError, match="got 0 of class 'b'; .*2, ... without a gap"):
        split(LabelledImages(images, torch.arange(40) % 2 * 2, ("a", "b", "c")))


def test_images_that_are_all_copies_are_divided_as_ever():
    images = torch.rand(20, 1, 4, 4, generator=torch.Generator().manual_seed(0)).repeat(9, 1, 1, 1)
    parts = split(LabelledImages(images, torch.arange(180) % 2, ("a", "b")))
    assert (len(parts.train), len(parts.validation), len(parts.test)) == (117, 27, 36)


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


def in_groups(sizes, classes=2, mixed=True, seed=0):
    """Numbered images in groups of these sizes, in shuffled order.

    Classes take turns over the images, or over the groups where these are not mixed.
    """
    groups = torch.repeat_interleave(torch.arange(len(sizes)), torch.tensor(sizes))
    labels = (torch.arange(len(groups)) if mixed else groups) % classes
    order = torch.randperm(len(groups), generator=torch.Generator().manual_seed(seed))
    images = torch.zeros(len(groups), 1, 2, 2)
    images[:, 0, 0, 0] = torch.arange(len(groups))
    return LabelledImages(
        images, labels[order], tuple("abcdefghij"[:classes]), 3 * groups[order] - 5
    )


GROUPED = {
    "of both classes": in_groups([10] * 20),
    "of one class each": in_groups([10] * 24, classes=3, mixed=False),
    "unequal": in_groups([*range(3, 33)]),
    "unequal, of one class each": in_groups([*range(3, 33)], mixed=False),
    "pairs": in_groups([2] * 80, classes=4),
    "seven patients": in_groups([12] * 7),
    "all distinct": in_groups([1] * 120, classes=3),
}


def divisions(data, seed):
    """Whatever divides data, as parts that share nothing."""
    parts = split(data, seed=seed)
    yield parts.train, parts.validation, parts.test
    for share in (1 / 2, 1 / 3, 1 / 5):
        for each_class in (True, False):
            positions = divide(data, share, seed, each_class=each_class)
            yield tuple(data.subset(part) for part in positions)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", GROUPED)
def test_groups_stay_whole_and_every_image_is_in_one_part(name, seed):
    data = GROUPED[name]
    for parts in divisions(data, seed):
        assert sorted(n for part in parts for n in numbers(part)) == list(range(len(data)))
        groups = [set(part.groups.tolist()) for part in parts]
        assert all(one.isdisjoint(other) for one, other in combinations(groups, 2))
        for part in parts:
            assert torch.equal(part.labels, data.labels[numbers(part)])
            assert torch.equal(part.groups, data.groups[numbers(part)])


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", GROUPED)
def test_classes_of_groups_are_roughly_in_proportion(name, seed):
    data = GROUPED[name]
    whole = data.labels.bincount().double()
    largest = data.groups.unique(return_counts=True)[1].max()
    parts = split(data, seed=seed)
    for part, share in ((parts.test, 1 / 5), (parts.validation, 4 / 25), (parts.train, 16 / 25)):
        missing = (part.labels.bincount(minlength=len(whole)) - share * whole).abs()
        assert missing.max() <= 1.5 * largest, "at most a group or so too many or too few"
        assert part.labels.bincount().all()
    for share in (1 / 2, 1 / 5):
        drawn, _ = divide(data, share, seed)
        assert (data.labels[drawn].bincount() - share * whole).abs().max() <= 1.5 * largest


def test_distinct_groups_divide_as_none_do():
    data = in_groups([1] * 300, classes=3)
    plain = split(replace(data, groups=None))
    parts = split(data)
    for name in ("train", "validation", "test"):
        expected = getattr(plain, name).labels.bincount()
        found = getattr(parts, name).labels.bincount()
        # A fifth of the rest instead of 18.75 %.
        assert (found - expected).abs().max() <= 3


def test_the_seed_moves_groups_but_not_those_of_the_test_part():
    for name in ("of both classes", "unequal", "unequal, of one class each"):
        data = GROUPED[name]
        first, same, other = (split(data, seed=seed) for seed in (0, 0, 1))
        for part in PARTS:
            assert numbers(getattr(first, part)) == numbers(getattr(same, part))
        assert numbers(first.test) == numbers(other.test)
        halves = {tuple(divide(data, 1 / 2, seed)[0].tolist()) for seed in range(8)}
        validation = {tuple(numbers(split(data, seed=seed).validation)) for seed in range(8)}
        assert min(len(halves), len(validation)) > 1


@pytest.mark.parametrize("mixed", [True, False])
def test_the_largest_group_is_drawn_by_chance(mixed):
    """scikit-learn deals it to its first part wherever groups are of one class each."""
    data = in_groups([60, *[4] * 30], mixed=mixed)
    times = sum((data.groups[divide(data, 1 / 5, seed)[0]] == -5).any() for seed in range(40))
    # Of a binomial of 40 draws at 1/5, outside by a chance of 1 in 1000.
    assert 1 <= times <= 17


def test_copies_in_two_groups_join_them():
    data = in_groups([4] * 30)
    images = data.images.clone()
    members = [(data.groups == 3 * g - 5).nonzero().flatten() for g in range(30)]
    # A chain: each of ten groups holds a copy of an image of the next.
    for g in range(10):
        images[members[g][0]] = images[members[g + 1][1]]
    data = replace(data, images=images)
    chain = {3 * g - 5 for g in range(11)}
    for seed in range(4):
        for parts in divisions(data, seed):
            inside = [chain & set(part.groups.tolist()) for part in parts]
            assert sorted(map(len, inside))[-1] == len(chain)


def test_copies_in_groups_that_are_all_joined_leave_nothing_to_divide():
    data = in_groups([4] * 10)
    images = data.images.clone()
    for g in range(10):
        images[(data.groups == 3 * g - 5).nonzero()[0]] = 0.5
    with pytest.raises(ValueError, match="class 'a' in 1; use finer groups"):
        divide(replace(data, images=images), 1 / 2, 0)


def test_joined_is_what_follows_every_chain():
    generator = torch.Generator().manual_seed(0)
    for size in (1, 2, 15, 40):
        first, second = (torch.randint(-9, 9 * size, (size,), generator=generator) for _ in "ab")
        linked = (first[:, None] == first) | (second[:, None] == second)
        for _ in range(size.bit_length()):
            linked = (linked.double() @ linked.double()) > 0
        found = joined(first, second)
        assert torch.equal(found[:, None] == found, linked)


def test_joined_takes_any_numbers():
    far = joined(torch.tensor([10**15, -3, 10**15]), torch.tensor([-1, -(10**15), 7]))
    assert (far[:, None] == far).tolist() == [[1, 0, 1], [0, 1, 0], [1, 0, 1]]


def test_a_limit_is_met_with_groups():
    data = GROUPED["of both classes"]
    parts = split(data, limit=90)
    assert len(parts.train) + len(parts.validation) == 90
    assert set(parts.train.groups.tolist()).isdisjoint(parts.validation.groups.tolist())
    assert numbers(parts.test) == numbers(split(data).test)


def test_a_sample_keeps_the_groups_of_its_images():
    data = GROUPED["of both classes"]
    some = sample(data, 50, seed=0)
    assert torch.equal(some.groups, data.groups[numbers(some)])
    assert some.labels.bincount().tolist() == [25, 25]


def test_groups_of_official_test_images_are_left_out_of_the_pool():
    data = in_groups([5] * 40)
    test = data.subset((data.groups >= 3 * 34 - 5).nonzero().flatten())
    # One test image has a copy in group 0, which has a copy in group 1.
    images, members = (
        data.images.clone(),
        [(data.groups == 3 * g - 5).nonzero()[:, 0] for g in (0, 1)],
    )
    images[members[0][0]] = test.images[0]
    images[members[0][1]] = images[members[1][0]]
    data = replace(data, images=images)
    left = {3 * g - 5 for g in range(2, 34)}
    parts = split(data, test)
    assert parts.test is test
    assert set(parts.train.groups.tolist()) | set(parts.validation.groups.tolist()) == left
    # Numbers of groups say nothing where the test part has none: copies alone do.
    parts = split(
        data.subset((data.groups < 3 * 34 - 5).nonzero()[:, 0]), replace(test, groups=None)
    )
    assert set(parts.train.groups.tolist()) | set(parts.validation.groups.tolist()) == left


def test_the_fingerprint_tells_groups_apart():
    part = in_groups([3] * 4)
    other = replace(part, groups=part.groups.roll(1))
    none = replace(part, groups=None)
    prints = [Splits(one, part, part, "data").fingerprint for one in (part, part, other, none)]
    assert prints[0] == prints[1]
    assert len(set(prints)) == 3


def few_groups(a, b, size=10):
    """Groups of class a and groups of class b."""
    data = in_groups([size] * (a + b))
    return replace(data, labels=((data.groups + 5) // 3 >= a).long())


@pytest.mark.parametrize(
    ("data", "options", "message"),
    [
        (in_groups([100]), {}, "data: expected images of every class in at least 5 groups, got "
         "class 'a' in 1; use finer groups, add some, or leave the class out"),
        (few_groups(20, 1), {"name": "mine"}, "mine: .* in at least 5 groups, got class 'b' in 1"),
        (few_groups(1, 20), {}, "data: .* in at least 5 groups, got class 'a' in 1"),
        (few_groups(20, 4), {}, "data: .* in at least 5 groups, got class 'b' in 4"),
        (few_groups(20, 5), {}, "data without its test part: .* 5 groups, got class 'b' in 4"),
        (few_groups(10, 10), {"limit": 8}, "data without its test part with limit 8: .* 5 groups"),
        (few_groups(20, 3, size=1), {}, "at least 5 different images of every class, got 3"),
        (replace(in_groups([4] * 20), classes=("a", "b", "c")), {}, "got 0 of class 'c'; add im"),
    ],
    ids=["one group", "a class in one", "another class in one", "four groups", "five groups",
         "small limit", "few images", "empty class"],
)  # fmt: skip
def test_refuses_too_few_groups(data, options, message):
    with pytest.raises(ValueError, match=message) as caught:
        split(data, **options)
    assert "\n" not in str(caught.value)


def test_divide_refuses_what_leaves_a_class_on_one_side():
    with pytest.raises(ValueError, match="a division of the data: .* in at least 2 groups, got"):
        divide(few_groups(3, 1), 1 / 2, 0)
    drawn, others = divide(few_groups(3, 1), 1 / 2, 0, each_class=False)
    assert len(drawn) == len(others) == 20


@pytest.mark.parametrize("groups", [2, 3, 4])
def test_fewer_groups_than_parts_are_divided_where_no_class_has_to_be_on_both_sides(groups):
    data = in_groups([10] * groups)
    drawn, others = divide(data, 1 / 5, 0, each_class=False)
    assert len(drawn) == 10
    assert len(others) == 10 * (groups - 1)


@pytest.mark.parametrize(
    "data", [in_groups([20]), in_groups([1] * 4, classes=4)], ids=["one group", "classes of one"]
)
def test_one_group_is_never_divided(data):
    with pytest.raises(ValueError, match="a division of the data: expected at least 2 groups, .*"):
        divide(data, 1 / 5, 0, each_class=False)


def test_divide_without_groups_keeps_copies_together_and_classes_in_proportion():
    data = numbered(60, 30).subset(torch.arange(90).repeat(2))
    for share in (1 / 2, 1 / 3, 1 / 5):
        drawn, others = (data.subset(part) for part in divide(data, share, 1))
        assert set(numbers(drawn)).isdisjoint(numbers(others))
        assert len(drawn) + len(others) == 180
        assert drawn.labels.bincount().tolist() == [round(120 * share), round(60 * share)]
