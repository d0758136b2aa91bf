import csv
import io
import json
import subprocess
import sys
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
import yaml
from safetensors import safe_open

from symshare import groups
from symshare.data import LabelledImages, freeze, load, stream, transform
from symshare.models import SMALL, GroupCNN, build_network
from symshare.moments import commutant
from symshare.moments.alignment import POWER
from symshare.records import ResultRecord
from symshare.representations import Gated, Sinkhorn
from symshare.settings import NetworkConfig
from symshare.train import learning, loop
from symshare.train.loop import Early, Standardise, batches, optimizer_of, train
from symshare.train.objective import Classify, Penalty
from symshare.train.runs import fit
from symshare.train.settings import DataConfig, FitConfig, Hardware, OptimConfig

TINY = OptimConfig(steps=6, evaluations=3, batch_size=16)
SQUARE = tuple(groups.dihedral(4).names[1:])


def config(kind="cnn", **optim):
    model = NetworkConfig(kind=kind, group="D4" if kind == "gated" else "C4", width=8)
    settings = {"steps": 6, "evaluations": 3, "batch_size": 16, **optim}
    return FitConfig(DataConfig("digits", "quarter", limit=200), model, OptimConfig(**settings))


@pytest.mark.parametrize("kind", ["cnn", "gcnn", "gated", "sinkhorn"])
def test_a_run_directory(tmp_path, kind):
    result = fit(config(kind), tmp_path / "run")
    run = tmp_path / "run"
    assert ResultRecord.read(run / "result.json") == result
    assert 0 <= result.test_accuracy <= 1
    assert (result.representation_parameters > 0) == (kind in ("gated", "sinkhorn"))
    with (run / "metrics.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["step"] for row in rows] == ["2", "4", "6"]
    assert all(row["val_accuracy"] and row["train_loss"] for row in rows)
    measure = [[float(row[name]) for name in SQUARE if name in row] for row in rows]
    assert all(len(row) == (len(SQUARE) if kind == "gated" else 0) for row in measure)
    with safe_open(run / "representations.safetensors", "pt") as file:
        R = file.get_tensor("lift.R")
        names = json.loads(file.metadata()["names"])
        assert len(names) == len(R)
        assert file.get_tensor("lift.kernels").shape[1] == len(R)
        assert ("measure" in file.keys()) == (kind == "gated")  # noqa: SIM118
    assert yaml.safe_load((run / "config.yaml").read_text()) == config(kind).to_dict()


def test_stacks_are_learned_from_the_images_before_training(tmp_path, monkeypatch):
    """What the network is shown is what training shows it: moved, and standardised."""
    seen, search = [], learning.learned_network

    def watch(build, images, labels, **options):
        seen.append(images)
        network, layers = search(build, images, labels, **options)
        stacks.extend(stack().detach() for stack in network.stacks())
        return network, layers

    stacks: list[torch.Tensor] = []
    monkeypatch.setattr(learning, "learned_network", watch)
    monkeypatch.setattr("symshare.moments.network.commutant", partial(commutant, steps=150))
    model = NetworkConfig(kind="sinkhorn", init="moments", elements=4, width=8)
    optim = OptimConfig(steps=2, evaluations=1, batch_size=16, representation_lr=1e-9)
    run = FitConfig(DataConfig("digits", "flip"), model, optim)
    result = fit(run, tmp_path / "run")
    assert seen[0].mean().abs() < 0.01
    assert seen[0].std() == pytest.approx(1, abs=0.01)
    layers = json.loads((tmp_path / "run" / "learned.json").read_text())["layers"]
    assert [layer["elements"] for layer in layers] == [2, 2, 2]
    assert result.representation_parameters == 9**2 + 2 * 18**2
    assert stacks[0][1].argmax(-1).tolist() == [2, 1, 0, 5, 4, 3, 8, 7, 6]
    with safe_open(tmp_path / "run" / "representations.safetensors", "pt") as file:
        torch.testing.assert_close(file.get_tensor("lift.R"), stacks[0])


def test_stacks_may_be_chosen_within_some_elements(monkeypatch):
    """Of the symmetries of the square that the images have, the half turn alone."""
    monkeypatch.setattr("symshare.moments.network.commutant", partial(commutant, steps=150))
    data = load("digits", seed=0).train
    config = NetworkConfig(kind="sinkhorn", init="moments", elements=2, width=8)
    build = partial(build_network, image=(1, 8, 8), classes=10)
    with pytest.raises(ValueError, match=r"what lifting sees has \d elements.* has 2 slots"):
        learning.network_of(build, config, data, transform("flips"), 0)
    chosen = replace(config, within=("rot180",))
    network, found = learning.network_of(build, chosen, data, transform("flips"), 0)
    assert [layer.elements for layer in found.layers] == [2, 2, 2]
    assert network.stacks()[0]()[1].argmax(-1).tolist() == list(reversed(range(9)))
    assert found.paths["lifting.0"][-1].argmax(-1).tolist() == list(reversed(range(9)))


def test_gates_open_for_what_the_images_keep(tmp_path):
    model = NetworkConfig(kind="gated", group="D4", init="moments", width=8)
    optim = OptimConfig(steps=2, evaluations=1, batch_size=16, representation_lr=1e-9)
    fit(FitConfig(DataConfig("digits", "quarter"), model, optim), tmp_path / "run")
    with (tmp_path / "run" / "metrics.csv").open() as file:
        (row,) = csv.DictReader(file)
    turns = {"rot90": 0.9, "rot180": 0.9, "rot270": 0.9}
    measure = dict.fromkeys(SQUARE, 0.1) | turns | {"id": 1.0}
    assert {name: float(row[name]) for name in measure} == pytest.approx(measure, abs=1e-3)
    (layer,) = json.loads((tmp_path / "run" / "learned.json").read_text())["layers"]
    assert (layer["slots"], layer["elements"]) == (8, 4)
    assert layer["power"] > POWER


@pytest.mark.parametrize("kind", ["sinkhorn", "gated"])
def test_a_network_without_images_cannot_learn_its_start(kind):
    config = NetworkConfig(kind=kind, init="moments")
    with pytest.raises(ValueError, match="init moments needs images"):
        build_network(config, (1, 8, 8), 10)


@pytest.mark.parametrize("kind", ["gcnn", "gated", "sinkhorn"])
def test_equal_numbers_of_free_parameters(kind):
    reference = build_network(NetworkConfig(width=32), (1, 8, 8), 10).free_parameters()
    group = "D4" if kind == "gated" else "C4"
    network = build_network(NetworkConfig(kind=kind, group=group, width=32), (1, 8, 8), 10)
    assert abs(network.free_parameters() - reference) < 0.1 * reference


def test_the_same_seed_gives_the_same_numbers(tmp_path):
    first = fit(config("sinkhorn"), tmp_path / "a")
    second = fit(config("sinkhorn"), tmp_path / "b")
    assert first.test_loss == second.test_loss
    assert (tmp_path / "a/metrics.csv").read_text() == (tmp_path / "b/metrics.csv").read_text()


def by_hand(network, splits, law, optim, seed):
    """Losses of training and validation as a plain loop has them, and the logits of the test."""
    standardise = Standardise(splits.train.images)
    optimizer, schedule = optimizer_of(network, optim)
    held_out = freeze(splits.validation, law, seed)
    shown = torch.randperm(len(held_out), generator=torch.Generator().manual_seed(seed))
    held_out = freeze(splits.validation.subset(shown[: optim.validation_images]), law, seed)
    rows, size, count = [], optim.batch_size, optim.epoch_steps
    for epoch in range(optim.epochs):
        total = torch.zeros(())
        moves, order = (stream(what, seed, epoch) for what in ("transformations", "batches"))
        for images, labels in batches(splits.train, size, count, order):
            logits = network.train()(standardise(law(images, moves)))
            loss = torch.nn.functional.cross_entropy(logits, labels)
            optimizer.zero_grad()
            (loss + Penalty(network, optim)()).backward()
            optimizer.step()
            if schedule:
                schedule.step()
            total += size * loss.detach()
        with torch.no_grad():
            logits = network.eval()(standardise(held_out.images))
        loss = torch.nn.functional.cross_entropy(logits, held_out.labels)
        rows.append(((total / (size * count)).item(), loss.item()))
    with torch.no_grad():
        return rows, network(standardise(splits.test.images))


def test_units_of_channels_that_are_moved_keep_the_symmetry():
    """A network for elements that exchange channels is fed by exactly as symmetric numbers."""
    images = torch.randn(50, 3, 9, 9) * torch.tensor([1.0, 2.0, 3.0]).view(3, 1, 1)
    images += torch.tensor([0.5, -1.0, 2.0]).view(3, 1, 1)
    config = NetworkConfig(
        kind="gcnn", group=("flipW",), channels=((1, 0, 2),), signs=((1, 1, -1),), width=8
    )
    network = build_network(config, images.shape[1:], 4)
    action = network.channel_action
    model = torch.nn.Sequential(Standardise(images, action), network)
    moved = torch.stack([action.apply(image, 1) for image in images])
    torch.testing.assert_close(model(moved), model(images), atol=1e-5, rtol=1e-4)
    assert build_network(NetworkConfig(width=8), images.shape[1:], 4).channel_action is None


@pytest.mark.parametrize(
    ("kind", "optim"),
    [
        ("cnn", {}),
        ("cnn", {"schedule": "constant", "validation_images": 20}),
        ("gated", {"measure": 0.1, "representation_lr": 0.3}),
        ("sinkhorn", {"entropy": 0.01, "norm": 0.001, "diversity": 0.1}),
    ],
)
def test_the_losses_are_those_of_a_plain_loop(kind, optim):
    splits, law = load("digits", limit=200), transform("quarter")
    settings = config(kind, steps=8, evaluations=2, **optim)

    def network():
        torch.manual_seed(0)
        return build_network(settings.model, (1, 8, 8), 10)

    rows, logits = by_hand(network(), splits, law, settings.optim, seed=3)
    trained = train(network(), splits.train, law, settings.optim, 3, validation=splits.validation)
    # Stacks that are projected together have other roundings than each by itself.
    exact = {"rtol": 1e-4, "atol": 1e-5} if kind == "sinkhorn" else {"rtol": 0, "atol": 0}
    found = [(row["train_loss"], row["val_loss"]) for row in trained.rows]
    torch.testing.assert_close(torch.tensor(found), torch.tensor(rows), **exact)
    torch.testing.assert_close(trained.logits(splits.test.images), logits, **exact)


def noise(count, seed):
    """Images and labels that have nothing to do with one another."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(0, 2, (count,), generator=generator)
    return LabelledImages(torch.randn(count, 1, 4, 4, generator=generator), labels, ("a", "b"))


def linear(classes=2, norm=True):
    torch.manual_seed(0)
    layers = [torch.nn.Flatten(), torch.nn.BatchNorm1d(16), torch.nn.Linear(16, classes)]
    return torch.nn.Sequential(*(layers if norm else layers[::2]))


class Recorded(Classify):
    """The labels of images, and what was asked for."""

    def __init__(self):
        self.prepared, self.losses = [], []

    def prepare(self, images, labels, generator):
        draws = torch.rand(len(labels), generator=generator)
        self.prepared.append((images.clone(), labels.clone(), draws))
        return images, labels, draws

    def loss(self, model, *prepared):
        images, labels, draws = prepared
        self.losses.append((images.clone(), labels.clone(), draws))
        return super().loss(model, images, labels)


def test_an_ordinary_training_is_that_of_the_task_to_classify():
    splits, law = load("digits", limit=200), transform("quarter")
    settings, trained = config("gated"), []
    for task in (None, Classify()):
        torch.manual_seed(0)
        network = build_network(settings.model, (1, 8, 8), 10)
        trained.append(
            train(network, splits.train, law, TINY, 3, validation=splits.validation, task=task)
        )
    assert trained[0].rows == trained[1].rows
    images = splits.test.images
    assert torch.equal(trained[0].logits(images), trained[1].logits(images))


def test_a_task_sees_every_image_as_it_was_moved():
    data, held_out, task = noise(48, 0), noise(30, 1), Recorded()
    optim = OptimConfig(steps=12, evaluations=2, batch_size=16)
    law = transform("quarter")
    train(linear(), data, law, optim, 5, validation=held_out, task=task)
    # First the validation part, once; then every batch.
    (shown, labels, _), *steps = task.prepared
    order = torch.randperm(30, generator=torch.Generator().manual_seed(5))
    expected = freeze(held_out.subset(order), law, 5)
    assert torch.equal(shown, expected.images)
    assert torch.equal(labels, expected.labels)
    assert len(steps) == 12
    for epoch in range(2):
        seen = torch.cat([images for images, _, _ in steps[6 * epoch : 6 * epoch + 6]])
        # Values of an image are the same ones, wherever they are moved to.
        known = seen.flatten(1).sort()[0][:, None] == data.images.flatten(1).sort()[0]
        assert known.all(-1).sum(0).tolist() == [2] * 48
    # What is prepared reaches the loss in rows that belong together, in training and evaluation.
    asked = iter(task.losses)
    for batch in (*steps[:6], task.prepared[0], *steps[6:], task.prepared[0]):
        assert all(map(torch.equal, batch, next(asked)))
    assert next(asked, None) is None


def test_the_mean_of_weights_is_that_of_a_plain_loop():
    data, held_out, law = noise(64, 0), noise(40, 1), transform("none")
    optim = OptimConfig(steps=90, evaluations=3, batch_size=16, schedule="constant")
    early = Early(decay=0.8, patience=3)
    trained = train(linear(), data, law, optim, 2, validation=held_out, early=early)

    network, mean, losses, updates = linear(), {}, [], 0
    standardise, optimizer = Standardise(data.images), optimizer_of(network, optim)[0]
    held_out = freeze(held_out, law, 2)
    for epoch in range(3):
        for images, labels in batches(data, 16, 30, stream("batches", 2, epoch)):
            logits = network.train()(standardise(images))
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(logits, labels).backward()
            optimizer.step()
            decay = min(0.8, (updates + 1) / (updates + 10)) if updates else 0.0
            for name, weight in network.named_parameters():
                old = mean.get(name, torch.zeros_like(weight))
                mean[name] = decay * old + (1 - decay) * weight.detach()
            updates += 1
        other = linear()
        # Running means of a norm are means already, and are those of the last step.
        other.load_state_dict(network.state_dict() | mean)
        with torch.no_grad():
            logits = other.eval()(standardise(held_out.images))
        losses.append(torch.nn.functional.cross_entropy(logits, held_out.labels).item())
    assert [row["val_loss"] for row in trained.rows] == pytest.approx(losses, rel=1e-4)


@pytest.mark.parametrize("norm", [True, False], ids=["batch norm", "no buffers"])
def test_an_early_stop_returns_the_weights_of_the_smallest_validation_loss(norm):
    data, held_out, law = noise(40, 0), noise(200, 1), transform("none")
    optim = OptimConfig(steps=400, evaluations=40, batch_size=20, lr=0.05, schedule="constant")
    seen = []
    trained = train(
        linear(norm=norm), data, law, optim, 0, validation=held_out, early=Early(0.9, 3),
        progress=lambda *at: seen.append(at),
    )  # fmt: skip
    losses = [row["val_loss"] for row in trained.rows]
    best = losses.index(min(losses))
    assert len(losses) == best + 1 + 3 < 40, "noise cannot be learned for long"
    assert all(loss >= losses[best] for loss in losses[best:])
    loss = torch.nn.functional.cross_entropy(trained.logits(held_out.images), held_out.labels)
    assert loss.item() == pytest.approx(losses[best], rel=1e-5)
    assert trained.test(held_out, law)["test_loss"] == pytest.approx(losses[best], rel=1e-5)
    steps = 10 * len(losses)
    assert seen == [*((step, 400) for step in range(1, steps + 1)), (400, 400)]


def test_without_a_reason_to_stop_all_steps_are_done():
    splits = load("digits", limit=300)
    network = build_network(NetworkConfig(width=8), (1, 8, 8), 10)
    optim, seen = OptimConfig(steps=40, evaluations=4, schedule="constant"), []
    trained = train(
        network, splits.train, transform("none"), optim, 0, validation=splits.validation,
        early=Early(), progress=lambda *at: seen.append(at),
    )  # fmt: skip
    losses = [row["val_loss"] for row in trained.rows]
    assert losses == sorted(losses, reverse=True)
    assert len(losses) == 4
    assert seen == [(step, 40) for step in range(1, 41)]


@pytest.mark.parametrize(
    "options",
    [{}, {"out": "run"}, {"validation": noise(8, 1), "out": "run"}],
    ids=["no validation", "nor a folder left away", "a folder"],
)
def test_refuses_an_early_stop_that_cannot_be(tmp_path, options, no_training):
    if "out" in options:
        options = {**options, "out": tmp_path / "run"}
    message = "train: an early stop needs a validation part, and keeps no checkpoint; give valid"
    with pytest.raises(ValueError, match=message):
        train(linear(), noise(32, 0), transform("none"), TINY, 0, early=Early(), **options)
    assert list(tmp_path.iterdir()) == []


def test_steps_are_rounded_up_to_whole_evaluations(tmp_path):
    fit(config(steps=7), tmp_path / "run")
    assert (tmp_path / "run/metrics.csv").read_text().splitlines()[-1].startswith("2,9,")


def test_other_data_under_the_same_name_is_refused(tmp_path):
    def images(seed):
        generator = torch.Generator().manual_seed(seed)
        pixels = torch.rand(60, 1, 8, 8, generator=generator).numpy()
        np.savez(tmp_path / "mine.npz", images=pixels, labels=np.arange(60) % 2)

    settings = FitConfig(DataConfig(str(tmp_path / "mine.npz")), NetworkConfig(width=4), TINY)
    images(0)
    fit(settings, tmp_path / "run")
    images(1)
    with pytest.raises(ValueError, match="of other data"):
        fit(settings, tmp_path / "run")


def test_a_finished_run_is_not_run_again(tmp_path, request):
    first = fit(config(), tmp_path / "run")
    request.getfixturevalue("no_training")
    assert fit(config(), tmp_path / "run") == first
    with pytest.raises(AssertionError, match="a network was trained"):
        fit(config(), tmp_path / "another")


def flipped(content):
    state = torch.load(io.BytesIO(content), weights_only=True)
    weights = state["network"]["lifting.theta"].numpy().tobytes()
    at = content.index(weights) + 3
    return content[:at] + bytes([content[at] ^ 0x40]) + content[at + 1 :]


def foreign(content):
    file = io.BytesIO()
    torch.save({"epochs": 1}, file)
    return file.getvalue()


@pytest.mark.parametrize("damage", [flipped, foreign, lambda c: c[:-100], lambda c: b""])
def test_a_damaged_checkpoint_is_never_gone_on_from(tmp_path, damage):
    stop = after(5, KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        fit(config(), tmp_path / "run", progress=stop)
    path = tmp_path / "run/checkpoints/last.ckpt"
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(ValueError, match=r"last\.ckpt is damaged; delete it and repeat"):
        fit(config(), tmp_path / "run")


def test_a_lost_file_of_a_finished_run_is_made_again(tmp_path):
    first = fit(config("gated"), tmp_path / "run")
    lost = tmp_path / "run" / "representations.safetensors"
    content = lost.read_bytes()
    lost.unlink()
    again = fit(config("gated"), tmp_path / "run")
    assert replace(again, seconds=0.0) == replace(first, seconds=0.0)
    assert lost.read_bytes() == content


def test_a_diverged_run_is_an_error(tmp_path):
    with pytest.raises(ValueError, match=r"cnn diverged, its validation loss is nan; use a small"):
        fit(config(lr=1e30), tmp_path / "run")
    assert not (tmp_path / "run" / "result.json").exists()


def test_a_checkpoint_is_written_beside_the_old_one(tmp_path, monkeypatch):
    # Not in a folder for temporary files, which may be on another disk.
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "nowhere"))
    fit(config(), tmp_path / "run")
    assert [path.name for path in (tmp_path / "run" / "checkpoints").iterdir()] == ["last.ckpt"]


def after(steps, error):
    """Progress that ends a run in the middle of an epoch."""

    def stop(done, of):
        if done == steps:
            raise error

    return stop


@pytest.mark.parametrize("precision", ["32-true", "bf16-mixed", "64-true"])
@pytest.mark.parametrize("kind", ["gated", "sinkhorn"])
def test_an_interrupted_run_ends_with_the_same_numbers(tmp_path, kind, precision):
    hardware = Hardware(precision=precision, accelerator="cpu")
    whole = fit(config(kind), tmp_path / "whole", hardware=hardware)
    stop = after(5, KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        fit(config(kind), tmp_path / "cut", progress=stop, hardware=hardware)
    assert not (tmp_path / "cut/result.json").exists()
    again = []

    def follow(*seen):
        again.append(seen)

    resumed = fit(config(kind), tmp_path / "cut", progress=follow, hardware=hardware)
    assert again == [(5, 6), (6, 6)]
    assert resumed.test_loss == whole.test_loss
    table = (tmp_path / "cut/metrics.csv").read_text()
    assert table == (tmp_path / "whole/metrics.csv").read_text()


def test_a_checkpoint_that_cannot_be_read_is_named_with_the_way_on(tmp_path):
    with pytest.raises(RuntimeError):
        fit(config(), tmp_path / "run", progress=after(5, RuntimeError("power cut")))
    path = tmp_path / "run/checkpoints/last.ckpt"
    path.write_bytes(path.read_bytes()[:500])
    with pytest.raises(ValueError, match=r"last.ckpt is damaged; delete it and repeat"):
        fit(config(), tmp_path / "run")
    torch.save({"pytorch-lightning_version": "2.6.6", "state_dict": {}}, path)
    with pytest.raises(ValueError, match=r"last.ckpt was written by symshare 0.1.* delete it and"):
        fit(config(), tmp_path / "run")


def test_a_run_that_was_cut_after_its_last_step_is_whole(tmp_path):
    whole = fit(config(), tmp_path / "run")
    (tmp_path / "run/result.json").unlink()
    again = fit(config(), tmp_path / "run")
    assert replace(again, seconds=0.0) == replace(whole, seconds=0.0)


def test_dropout_goes_on_where_it_stopped_and_differs_by_seed(tmp_path):
    data = load("digits", limit=200).train

    def run(out, seed=0, progress=loop.unseen):
        torch.manual_seed(0)
        network = torch.nn.Sequential(
            torch.nn.Flatten(), torch.nn.Linear(64, 10), torch.nn.Dropout(0.5)
        )
        # Two calls in a row do not start from one state of torch's own stream.
        torch.manual_seed(len(list(tmp_path.iterdir())))
        state = torch.random.get_rng_state()
        law = transform("none")
        train(network, data, law, TINY, seed, out=tmp_path / out, progress=progress)
        assert torch.equal(torch.random.get_rng_state(), state)
        return network[1].weight.detach().clone()

    whole, other = run("whole"), run("other", seed=1)
    assert not torch.equal(whole, other)

    with pytest.raises(RuntimeError, match="power cut"):
        run("cut", progress=after(5, RuntimeError("power cut")))
    assert torch.equal(run("cut"), whole)


def test_refuses_a_folder_of_another_run(tmp_path):
    fit(config(), tmp_path / "run")
    with pytest.raises(ValueError, match="another configuration or of other data .*choose another"):
        fit(config(lr=1e-3), tmp_path / "run")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/thesis.txt").write_text("irreplaceable")
    with pytest.raises(ValueError, match="is no run of symshare"):
        fit(config(), tmp_path / "mine")
    assert [p.name for p in (tmp_path / "mine").iterdir()] == ["thesis.txt"]


def network(representation):
    channels = 4
    return GroupCNN(SMALL, 1, 3, channels, representation, (8, 8))


def test_representations_have_their_own_learning_rate_and_no_decay():
    optim = OptimConfig(lr=1e-2, representation_lr=3e-2, weight_decay=0.5, schedule="constant")
    shared = Gated(groups.rotations(4))
    net = network([shared] * 3)
    weights, representations = optimizer_of(net, optim)[0].param_groups
    assert (weights["lr"], weights["weight_decay"]) == (1e-2, 0.5)
    assert (representations["lr"], representations["weight_decay"]) == (3e-2, 0.0)
    assert len(representations["params"]) == 1
    assert representations["params"][0] is shared.gate.logits
    every = {id(p) for p in net.parameters()}
    assert {id(p) for g in (weights, representations) for p in g["params"]} == every


def test_penalties_count_every_stack_and_each_measure_once():
    def penalty(representations, **weights):
        optim = OptimConfig(**{"measure": 0.0, **weights})
        return torch.as_tensor(Penalty(network(representations), optim)()).item()

    shared = Gated(groups.rotations(4))
    assert penalty([shared] * 3, measure=2.0) == pytest.approx(2.0 * 1.5)
    stacks = [Sinkhorn(4, 9), Sinkhorn(4, 36), Sinkhorn(4, 36)]
    for name in ("entropy", "norm"):
        expected = sum(s.penalties()[name].item() for s in stacks)
        assert penalty(stacks, **{name: 0.5}) == pytest.approx(0.5 * expected)


def test_batches_cover_the_data_and_depend_on_epoch_and_seed():
    data = LabelledImages(torch.rand(10, 1, 2, 2), torch.arange(10) % 2, ("a", "b"))

    def images(seed, epoch):
        return torch.cat([x for x, _ in batches(data, 3, 5, stream("batches", seed, epoch))])

    assert images(0, 0).shape[0] == 15
    first = {tuple(x.flatten().tolist()) for x in images(0, 0)[:10]}
    assert len(first) == 10
    assert torch.equal(images(0, 1), images(0, 1))
    assert not torch.equal(images(0, 0), images(0, 1))
    assert not torch.equal(images(0, 0), images(1, 0))


def test_learns():
    splits = load("digits", limit=400)
    net = build_network(NetworkConfig(width=16), (1, 8, 8), 10)
    optim = OptimConfig(steps=150, evaluations=1)
    trained = train(net, splits.train, transform("none"), optim, seed=0)
    right = trained.logits(splits.test.images).argmax(-1) == splits.test.labels
    assert right.float().mean() > 0.9


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"steps": 0}, "steps must be at least 1, got 0"),
        ({"batch_size": 0}, "batch_size must be at least 1"),
        ({"lr": 0.0}, "lr must be positive"),
        ({"representation_lr": -1.0}, "representation_lr must be positive"),
    ],
    ids=lambda v: next(iter(v)) if isinstance(v, dict) else "",
)
def test_refuses_numbers_that_no_run_can_have(change, message):
    with pytest.raises(ValueError, match=message):
        OptimConfig(**change)


def test_configurations_do_not_import_torch():
    code = (
        "import sys, symshare, symshare.cli, symshare.train.settings, symshare.discovery.config;"
        "heavy = {'torch', 'lightning_fabric', 'datasets', 'matplotlib', 'sklearn'};"
        "sys.exit(str(heavy & set(sys.modules)) if heavy & set(sys.modules) else 0)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_layers_import_neither_trainer_nor_plots():
    code = (
        "import sys, symshare; symshare.LiftConv2d, symshare.Sinkhorn, symshare.groups;"
        "heavy = {'lightning_fabric', 'datasets', 'matplotlib', 'sklearn', 'scipy', 'sympy'};"
        "sys.exit(str(heavy & set(sys.modules)) if heavy & set(sys.modules) else 0)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
