"""The elements that a network is given."""

import pytest

from experiments import image_runs
from experiments.finding import Finding, closed, find, once
from experiments.image_runs import elements
from experiments.image_settings import ImageRun
from symshare.data import load, transform


@pytest.mark.parametrize(
    ("names", "group"),
    [
        ([], ["id"]),
        (["flipW"], ["id", "flipW"]),
        (["rot270"], ["id", "rot90", "rot180", "rot270"]),
        (["flipW", "flipH"], ["id", "rot180", "flipW", "flipH"]),
    ],
)
def test_elements_are_closed_under_products(names, group):
    assert list(closed(names).names) == group


@pytest.fixture(scope="module")
def digits():
    return load("digits", seed=0)


def test_the_group_of_the_data_is_found(digits):
    assert find(digits, transform("half"), seed=0, steps=500).found == ("rot180",)


def run(kind, seed=0, test="none", train="none", group="found"):
    return ImageRun.from_dict(
        {
            "images": {"source": "digits", "train": train, "test": {"seen": test}},
            "network": {"kind": kind, "group": group, "width": 8},
            "seed": seed,
        }
    )


@pytest.fixture
def searches(monkeypatch):
    """Every search, with an element that holds in part."""
    calls = []

    def search(splits, transform, seed, steps):
        calls.append((transform.name, seed))
        return Finding((), ("rot180",), 12.5)

    monkeypatch.setattr(image_runs, "find", search)
    return calls


@pytest.mark.parametrize(
    ("kind", "group"),
    [("gated", ["id", "rot180"]), ("kronecker", ["id"]), ("sinkhorn-near", ["id"])],
)
def test_what_holds_in_part_is_for_gates(digits, searches, kind, group):
    action, seconds = elements(run(kind), digits, transform("none"), None)
    assert list(action.names) == group
    assert seconds == 12.5


def test_rows_with_the_same_images_share_a_search(digits, searches, tmp_path):
    def search(**options):
        chosen = transform(options.get("train", "none"))
        return elements(run(**{"kind": "gated", **options}), digits, chosen, tmp_path / "found")

    first = search()
    again = search(kind="kronecker", test="half"), search()
    assert searches == [("none", 0)]
    assert again[1][0].names == first[0].names
    assert {seconds for _, seconds in (first, *again)} == {12.5}
    search(seed=1)
    search(train="half")
    assert searches == [("none", 0), ("none", 1), ("half", 0)]
    search(kind="gcnn", group="C2", seed=2)
    search(kind="cnn", group="C4", seed=2)
    assert len(searches) == 3


def test_of_two_searches_at_a_time_the_first_counts(tmp_path):
    def second():
        return Finding(("rot90",), (), 1.0)

    def first():
        return Finding(("rot180",), (), 2.0)

    def overtaken():
        once(tmp_path, run("gated"), first)
        return second()

    assert once(tmp_path, run("gated"), overtaken) == first()
    assert once(tmp_path, run("gated"), second) == first()
