"""What a run sees: held-out images, noise, frozen transformations, the parts of rotated MNIST."""

import csv

import numpy as np
import pytest
import torch

from experiments import image_runs as runs
from experiments import protocol as module
from experiments.image_settings import ImageRun, ImagesConfig
from experiments.protocol import noisy, protocol
from symshare.data import TEST_SEED, LabelledImages, freeze, stream, transform
from symshare.train import loop

TESTS = {"turned": "rotate:360", "upright": "none"}


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """Images as large as those of MNIST, each with a pixel in the centre that names it."""
    path = tmp_path_factory.mktemp("images") / "numbered.npz"
    pixels = np.random.default_rng(0).random((60, 1, 27, 27)).astype(np.float32)
    pixels[:, 0, 13, 13] = np.arange(60)
    np.savez(path, images=pixels, labels=np.arange(60) % 2)
    return str(path)


def seen(source, seed=0, **settings):
    return protocol(ImagesConfig(source, "rotate:360", TESTS, **settings), None, seed)


def numbers(data):
    """Rotations leave the centre, of an odd side, where it is."""
    return data.images[:, 0, 13, 13].round().int().tolist()


def test_by_default_the_validation_part_is_held_out(source):
    parts = seen(source)
    assert parts.training is parts.splits.train
    assert parts.held_out is parts.splits.validation
    assert parts.transform.name == parts.held_out_transform.name == "rotate:360"
    assert {name: test.name for name, test in parts.tests.items()} == TESTS


def test_the_published_code_trains_on_the_validation_part_and_reads_the_test_part(source):
    sound, published = seen(source), seen(source, holdout="test")
    together = numbers(sound.splits.train) + numbers(sound.splits.validation)
    assert sorted(numbers(published.training)) == sorted(together)
    assert not set(numbers(published.training)) & set(numbers(published.held_out))
    # What is read at every evaluation is what is read at the end, turned once.
    expected = freeze(sound.splits.test, published.tests["turned"], TEST_SEED)
    assert torch.equal(published.held_out.images, expected.images)
    assert published.held_out_transform.name == "none"
    assert published.transform.name == "rotate:360"


def test_noise_is_on_test_images_alone_and_drawn_once(source):
    clean, noised = seen(source, holdout="test"), seen(source, holdout="test", noise=0.01)
    assert torch.equal(clean.training.images, noised.training.images)
    assert torch.equal(clean.splits.test.images, noised.splits.test.images)
    difference = noised.held_out.images - clean.held_out.images
    assert difference.std().item() == pytest.approx(0.01, rel=0.05)
    assert abs(difference.mean().item()) < 1e-3
    again = seen(source, seed=1, holdout="test", noise=0.01)
    assert torch.equal(again.held_out.images, noised.held_out.images)


def test_noise_keeps_the_kind_of_numbers():
    images = torch.zeros(2, 1, 3, 3, dtype=torch.float64)
    noised = noisy(transform("flip"), 0.5)
    moved = noised(images, torch.Generator().manual_seed(0))
    assert moved.dtype == torch.float64
    assert not noised.exact
    flip = transform("flip")
    assert noisy(flip, 0.0) is flip


def by_number(data):
    return dict(zip(numbers(data), data.images, strict=True))


def test_frozen_images_are_turned_once_alike_for_every_seed(source):
    one, other = seen(source, 0, frozen=True), seen(source, 1, frozen=True)
    assert one.transform.name == one.held_out_transform.name == "none"
    assert numbers(one.training) != numbers(other.training)
    raw = by_number(seen(source).splits.train) | by_number(seen(source).splits.validation)
    first = by_number(one.training) | by_number(one.held_out)
    second = by_number(other.training) | by_number(other.held_out)
    assert set(first) == set(second) == set(raw)
    for number, image in first.items():
        assert torch.equal(image, second[number])
        assert not torch.allclose(image, raw[number], atol=1e-3)
    # Test images are turned when they are read, as ever.
    assert torch.equal(one.splits.test.images, seen(source).splits.test.images)
    assert one.tests["turned"].name == "rotate:360"


def test_the_parts_of_rotated_mnist_are_the_same_for_every_seed(source, monkeypatch):
    monkeypatch.setattr(module, "TRAINING", 20)
    monkeypatch.setattr(module, "TEST", 30)
    one, other = (seen(source, seed, parts="rotated-mnist") for seed in (0, 1))
    pools = [set(numbers(p.training) + numbers(p.held_out)) for p in (one, other)]
    assert len(pools[0]) == 20
    assert pools[0] == pools[1]
    assert numbers(one.training) != numbers(other.training)
    assert numbers(one.splits.test) == numbers(other.splits.test)
    assert len(set(numbers(one.splits.test)) - pools[0]) == 30


def test_too_few_images_for_rotated_mnist_are_refused(source):
    with pytest.raises(ValueError, match=r"rotated-mnist needs 62000 images, and .* has 60; use"):
        seen(source, parts="rotated-mnist")


def test_limits_hold_in_every_protocol(source):
    for settings in ({}, {"frozen": True}, {"holdout": "test"}):
        parts = seen(source, limit=16, test_limit=5, **settings)
        assert len(parts.splits.train) + len(parts.splits.validation) == 16
        assert len(parts.splits.test) == 5
    assert len(parts.held_out) == 5


def run(source, **images):
    return ImageRun.from_dict(
        {
            "images": {"source": source, "train": "rotate:360", "test": TESTS, **images},
            "network": {"kind": "cnn", "width": 4},
            "optim": {"steps": 6, "batch_size": 8, "evaluations": 3},
        }
    )


def test_the_last_evaluation_is_the_first_test(tmp_path, source):
    result = runs.run_images(run(source, holdout="test", noise=0.01), tmp_path, None)
    assert result["val_accuracy"] == pytest.approx(result["test_accuracy"]["turned"])
    rows = list(csv.DictReader((tmp_path / "metrics.csv").read_text().splitlines()))
    assert len([row for row in rows if row["val_accuracy"]]) == 3


class Stop(Exception):
    """Raised in the middle of a run."""


def test_frozen_images_stay_the_same_in_every_epoch_and_after_a_resume(
    tmp_path, source, monkeypatch
):
    shown = []

    def watched(data, size, count, generator):
        # Every epoch has a stream of batches with a seed of its own.
        epoch = seeds.index(generator.initial_seed())
        for images, labels in batches(data, size, count, generator):
            shown.append((epoch, images.clone()))
            if fail and epoch == 2:
                raise Stop
            yield images, labels

    batches, fail = loop.batches, False
    seeds = [stream("batches", 0, epoch).initial_seed() for epoch in range(3)]
    monkeypatch.setattr(loop, "batches", watched)
    whole = runs.run_images(run(source, frozen=True), tmp_path / "whole", None)
    versions: dict[int, set[bytes]] = {}
    for _, batch in shown:
        names = numbers(
            LabelledImages(batch, torch.zeros(len(batch), dtype=torch.int64), ("a", "b"))
        )
        for number, image in zip(names, batch, strict=True):
            versions.setdefault(number, set()).add(image.numpy().tobytes())
    # 48 images are shown of the 39 that there are.
    assert {epoch for epoch, _ in shown} == {0, 1, 2}
    assert {len(found) for found in versions.values()} == {1}
    uncut = [batch for epoch, batch in shown if epoch == 2]
    shown.clear()
    fail = True
    with pytest.raises(Stop):
        runs.run_images(run(source, frozen=True), tmp_path / "cut", None)
    shown.clear()
    fail = False
    resumed = runs.run_images(run(source, frozen=True), tmp_path / "cut", None)
    assert {epoch for epoch, _ in shown} == {2}
    assert all(torch.equal(a, b) for (_, a), b in zip(shown, uncut, strict=True))
    assert resumed["test_accuracy"] == whole["test_accuracy"]
    assert resumed["val_loss"] == whole["val_loss"]
