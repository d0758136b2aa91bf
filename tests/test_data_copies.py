"""Near copies: against a search of all pairs, and laws of units and order."""

import numpy as np
import pytest
import torch

from symshare.data import LabelledImages, near_copies
from symshare.data.copies import LARGEST, NEAR


def drawn(*shape, seed=0):
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed))


def of_two_classes(images):
    return LabelledImages(images, torch.arange(len(images)) % 2, ("a", "b"))


def shaken(images, copies, spread, seed=1):
    """Each image several times, one after another, with noise."""
    many = images.repeat_interleave(copies, 0)
    noise = torch.randn(many.shape, generator=torch.Generator().manual_seed(seed))
    return many + spread * noise


def members(cluster):
    """Clusters as sets of positions, whatever their numbers."""
    return {frozenset((cluster == c).nonzero().flatten().tolist()) for c in cluster.unique()}


def all_pairs(images, scale):
    """Clusters and share by comparing every pair at full size and following every chain."""
    flat = images.double().flatten(1)
    near = (flat[:, None] - flat).norm(dim=-1) <= NEAR * scale
    reached = near
    for _ in range(len(images).bit_length()):
        reached = (reached.double() @ reached.double()) > 0
    clusters = {frozenset(row.nonzero().flatten().tolist()) for row in reached}
    return clusters, (near.sum(1) > 1).double().mean().item()


def scale_of(data):
    """Median distance of two images of one class, over all such pairs."""
    flat = data.images.double().flatten(1)
    distance = (flat[:, None] - flat).norm(dim=-1)
    same = (data.labels[:, None] == data.labels).triu(1)
    return distance[same].median().item()


def two_bursts(count, seed=0):
    """Two still scenes of `count` frames, near copies of each other; and others."""
    scene, others = drawn(1, 1, 8, 8, seed=seed), drawn(20 * count, 1, 8, 8, seed=seed + 1)
    step = 0.5 * NEAR * 3.2 / 8
    return torch.cat([shaken(scene, count, 1e-4), shaken(scene + step, count, 1e-4), others])


def either_side(images):
    """Each image and, in turn, a copy within the bound or one beyond it."""
    step = torch.tensor([0.5, 1.5]).repeat(len(images) // 2) * NEAR * 3.2 / 8
    return torch.stack([images, images + step[:, None, None, None]], 1).flatten(0, 1)


SETS = {
    "no copies": drawn(60, 1, 8, 8),
    "pairs": shaken(drawn(30, 1, 8, 8), 2, 0.001),
    "some pairs": torch.cat([shaken(drawn(10, 1, 8, 8), 2, 0.01), drawn(40, 1, 8, 8, seed=5)]),
    "twelve of each": shaken(drawn(20, 1, 8, 8), 12, 0.005),
    "identical": drawn(15, 1, 8, 8).repeat(4, 1, 1, 1)[:40],
    "bursts of six": two_bursts(6),
    "bursts of nine": two_bursts(9),
    "colour": shaken(drawn(25, 3, 8, 8), 2, 0.01),
    "large": shaken(drawn(20, 1, 28, 28), 3, 0.01),
    "uneven cells": shaken(drawn(20, 1, 13, 11), 3, 0.01),
    "oblong": shaken(drawn(20, 3, 9, 30), 3, 0.01),
    "row": shaken(drawn(20, 1, 1, 20), 3, 0.01),
    "far from zero": 1000 + shaken(drawn(20, 1, 8, 8), 2, 0.002),
    "either side of the bound": either_side(drawn(40, 1, 8, 8)),
}


@pytest.mark.parametrize("name", SETS)
def test_clusters_are_those_of_all_pairs(name):
    data = of_two_classes(SETS[name])
    clusters, share = all_pairs(data.images, scale_of(data))
    found = near_copies(data)
    assert not found.chained
    assert members(found.cluster) == clusters
    assert found.share == pytest.approx(share)


def drifting(frames, step):
    """A film whose frames all differ, each by `step` of the typical distance from the next."""
    start, end = drawn(2, 1, 8, 8)
    length = (end - start).norm()
    unit = (end - start) / length
    return start + unit * torch.arange(frames)[:, None, None, None] * step


def test_a_film_that_drifts_is_one_cluster_among_other_images():
    film, others = drifting(20, 0.1), drawn(280, 1, 8, 8, seed=3)
    data = of_two_classes(torch.cat([film, others]))
    found = near_copies(data)
    assert 0.1 < NEAR * scale_of(data) < (film[0] - film[2]).norm()
    assert not found.chained
    assert members(found.cluster) == {
        frozenset(range(20)),
        *(frozenset([i]) for i in range(20, 300)),
    }
    assert found.share == pytest.approx(20 / 300)


def test_chains_through_most_images_are_no_copies():
    data = of_two_classes(drifting(200, 0.05))
    found = near_copies(data)
    assert found.chained
    assert found.cluster.tolist() == list(range(200))
    assert found.share == 1


@pytest.mark.parametrize(("size", "chained"), [(10, False), (11, True)])
def test_the_largest_cluster_is_a_share_of_the_images(size, chained):
    assert LARGEST == 0.1
    same = shaken(drawn(1, 1, 8, 8), size, 0.001)
    data = of_two_classes(torch.cat([same, drawn(100 - size, 1, 8, 8, seed=2)]))
    found = near_copies(data)
    assert found.chained == chained
    assert found.share == pytest.approx(size / 100)
    assert len(found.cluster.unique()) == (100 if chained else 100 - size + 1)


@pytest.mark.parametrize("name", ["some pairs", "bursts of nine", "colour", "uneven cells"])
def test_the_order_of_the_images_does_not_matter(name):
    data = of_two_classes(SETS[name])
    order = torch.randperm(len(data), generator=torch.Generator().manual_seed(4))
    plain, shuffled = near_copies(data), near_copies(data.subset(order))
    back = shuffled.cluster[order.argsort()]
    assert members(back) == members(plain.cluster)
    assert shuffled.share == plain.share


@pytest.mark.parametrize("unit", [1e-6, 1e-3, 255.0, 1e6])
def test_the_unit_of_the_pixels_does_not_matter(unit):
    images = SETS["some pairs"]
    plain, other = near_copies(of_two_classes(images)), near_copies(of_two_classes(unit * images))
    assert members(other.cluster) == members(plain.cluster)
    assert other.share == plain.share


@pytest.mark.parametrize("offset", [-1.0, 10.0, 1000.0])
def test_the_zero_of_the_pixels_does_not_matter(offset):
    images = SETS["some pairs"]
    plain, other = near_copies(of_two_classes(images)), near_copies(of_two_classes(images + offset))
    assert members(other.cluster) == members(plain.cluster)
    assert other.share == plain.share


def test_bytes_that_differ_by_one_grey_level_are_copies():
    pixels = np.random.default_rng(0).integers(1, 255, (40, 8, 8), np.uint8)
    many = np.concatenate([pixels, pixels + 1])
    found = near_copies(LabelledImages.from_arrays(many, np.arange(80) % 2))
    assert members(found.cluster) == {frozenset([i, i + 40]) for i in range(40)}


@pytest.mark.parametrize(
    "data",
    [
        of_two_classes(torch.ones(10, 1, 4, 4)),
        of_two_classes(torch.arange(2.0)[None, :, None, None].expand(10, 2, 4, 4)),
        of_two_classes(drawn(1, 1, 4, 4)),
        of_two_classes(drawn(0, 1, 4, 4)),
        LabelledImages(torch.ones(3, 1, 4, 4), torch.arange(3), ("a", "b", "c")),
        LabelledImages(drawn(3, 1, 4, 4), torch.arange(3), ("a", "b", "c")),
        of_two_classes(drawn(2, 1, 1, 1)),
    ],
    ids=[
        "constant",
        "constant channels",
        "one image",
        "none",
        "constant classes of one",
        "classes of one",
        "pixels",
    ],
)
def test_where_no_typical_distance_is_known_every_image_is_alone(data):
    found = near_copies(data)
    assert found.cluster.tolist() == list(range(len(data)))
    assert (found.share, found.chained) == (0.0, False)


def test_labels_set_the_scale_only():
    """A copy under another label is found as well: it would be on both sides of a test."""
    images = shaken(drawn(30, 1, 8, 8), 2, 0.001)
    apart = of_two_classes(images)
    together = LabelledImages(images, torch.arange(60) // 2 % 2, ("a", "b"))
    assert members(near_copies(apart).cluster) == members(near_copies(together).cluster)
    assert near_copies(apart).share == 1
