import csv
import io
import json
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch
import yaml
from safetensors import safe_open

from symshare import groups
from symshare.data import LabelledImages, freeze, load, stream, transform
from symshare.models import SMALL, GroupCNN, build_network
from symshare.records import ResultRecord
from symshare.representations import Gated, Sinkhorn
from symshare.settings import NetworkConfig
from symshare.train import loop
from symshare.train.loop import Standardise, batches, optimizer_of, train
from symshare.train.objective import Penalty
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
