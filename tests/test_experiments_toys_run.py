import json

import pytest
import torch
from safetensors import safe_open

from experiments.toys.problem import labels, problem, sample
from experiments.toys.running import _recovery, run_toy
from experiments.toys.setup import toy_config
from experiments.toys.training import predict, train
from symshare import Fixed, GroupLinear, Sinkhorn
from symshare.data import stream

TASKS = (
    "toy-shift",
    "toy-shift-invariant",
    "toy-shift-half",
    "toy-arrows",
    "toy-cube",
    "toy-cube-partial",
)
RESULT = {
    "task",
    "seed",
    "steps",
    "seconds",
    "test_accuracy",
    "exact",
    "exact_hits",
    "elements",
    "sharpness",
    "explained",
    "support",
    "parameters",
    "representation_parameters",
}


def small(task="toy-shift", **overrides):
    return toy_config(
        task, **{"size": 5, "canonical": 5, "steps": 250, "batch_size": 64, **overrides}
    )


def read(folder):
    with safe_open(folder / "stack.safetensors", "pt") as file:
        return {name: file.get_tensor(name) for name in file.keys()}, file.metadata()  # noqa: SIM118


@pytest.mark.parametrize(
    ("task", "elements", "seed"),
    [
        ("toy-shift", 5, 0),
        ("toy-shift-half", 3, 0),
        ("toy-shift-invariant", 5, 0),
    ],
)
def test_a_small_ring_is_recovered(tmp_path, task, elements, seed):
    known = task != "toy-shift-invariant"
    more = {} if known else {"steps": 600, "canonical": 20}
    result = run_toy(small(task, seed=seed, **more), tmp_path)
    assert result["elements"] == result["exact_hits"] == elements
    assert result["exact"] == 1.0
    assert result["test_accuracy"] > 0.995
    assert result["sharpness"] > 0.9
    assert result["explained"] > 0.95
    # By eye: each element that occurs rolls a signal, and where labels turn it is the right roll.
    R = read(tmp_path)[0]["R"][:elements].round()
    signal = torch.arange(5.0)
    rolled = [(matrix @ signal).tolist() for matrix in R]
    shifts = [signal.roll(s).tolist() for s in range(elements)]
    assert rolled == shifts if known else sorted(rolled) == sorted(shifts)


def test_logits_wait_for_the_end_of_the_warm_up():
    config = small(steps=20, warmup=1.0)
    layer = train(config, problem(config))
    torch.manual_seed(config.seed)
    assert torch.equal(layer.representation.logits, Sinkhorn(5, 5, init="paper").logits)
    assert not layer.training


@pytest.mark.parametrize("task", ["toy-shift-half", "toy-shift"])
def test_elements_without_samples_stay_where_they_started(task):
    measure = (1.0, 1.0, 1.0, 0.0, 0.0) if task == "toy-shift" else None
    config = small(task, steps=60, warmup=0.0, sharpening=0.0, measure=measure)
    layer = train(config, problem(config))
    torch.manual_seed(config.seed)
    start = Sinkhorn(5, 5, init="paper").logits
    change = (layer.representation.logits - start).flatten(1).norm(dim=1)
    # The identity is anchored, so logits begin with the second element.
    assert (change[:2] > 0.5).all()
    assert torch.equal(change[2:], torch.zeros(2))


def test_the_entropy_makes_it_sharp():
    soft, sharp = (
        _recovery(problem(config), train(config, problem(config)).stack().detach())
        for config in (small(entropy=0.0), small())
    )
    assert soft["exact"] == sharp["exact"] == 1.0
    assert sharp["sharpness"] > soft["sharpness"] + 0.02


@pytest.mark.parametrize("task", TASKS)
def test_predictions_are_the_nearest_kernels(task):
    law = problem(toy_config(task, canonical=4))
    K, D = law.truth.shape[:2]
    layer = GroupLinear(1, 4, Fixed(law.truth), bias=False)
    # Of different lengths: the largest inner product is not the nearest kernel.
    theta = torch.tensor([0.2, 0.5, 1.0, 2.0])[:, None] * law.canonical
    with torch.no_grad():
        layer.theta.copy_(theta[:, None])
    x, _, _ = sample(law, 300, stream("test", 0))
    kernels = torch.einsum("kde,ce->ckd", law.truth, theta).reshape(-1, D)
    nearest = torch.cdist(x, kernels).argmin(1)
    assert torch.equal(predict(layer, law, x), labels(law, nearest // K, nearest % K))


@pytest.mark.parametrize("task", TASKS)
def test_recovery_of_known_stacks(task):
    law = problem(toy_config(task))
    K, D = law.truth.shape[:2]
    occurring = int((law.occurs & law.exact).sum())
    perfect = _recovery(law, law.truth)
    assert perfect["exact_hits"] == perfect["elements"] == occurring
    assert perfect["explained"] == pytest.approx(1)
    blurred = _recovery(law, 0.8 * law.truth + 0.2 / D)
    assert blurred["exact"] == 1.0
    assert blurred["sharpness"] == pytest.approx(0.8 * perfect["sharpness"] + 0.2 / D, abs=1e-5)
    # |0.2 (P - J/D)|^2 over |0.8 (P - J/D)|^2.
    assert blurred["explained"] == pytest.approx(1 - 0.25**2, abs=1e-4)
    collapsed = _recovery(law, torch.eye(D).expand(K, D, D))
    assert collapsed["exact_hits"] == 1
    reordered = _recovery(law, law.truth[[0, *range(2, K), 1]])
    assert (reordered["exact"] == 1.0) == (task == "toy-shift-invariant")


@pytest.mark.parametrize("task", TASKS)
def test_support_tells_which_elements_occur_where_not_all_do(task):
    law = problem(toy_config(task))
    if law.occurs.all():
        assert _recovery(law, law.truth)["support"] is None
        return
    # A stack of the elements that occur alone, and one of all that exist.
    occurring = law.truth[law.occurs]
    stack = law.truth.clone()
    stack[~law.occurs] = law.truth[0]
    assert _recovery(law, stack)["support"]["average_precision"] == pytest.approx(1)
    assert _recovery(law, stack)["support"]["f1"] == pytest.approx(1)
    share = len(occurring) / len(law.truth)
    everything = _recovery(law, law.truth)["support"]
    assert everything["average_precision"] == pytest.approx(share)
    assert everything["total_variation"] == pytest.approx(1 - share)


def test_interpolated_elements_are_what_is_explained_where_there_are_any():
    law = problem(toy_config("toy-arrows"))
    blurred = torch.where(law.exact[:, None, None], law.truth, 0.5 * law.truth + 0.5 / 49)
    assert _recovery(law, blurred)["explained"] == pytest.approx(0, abs=1e-4)


def test_an_order_cannot_be_told_where_only_some_occur_either():
    law = problem(toy_config("toy-shift-invariant", measure=(1.0,) * 3 + (0.0,) * 9))
    stranger = torch.eye(12).flip(0)
    stack = torch.stack([law.truth[0], stranger, law.truth[2], *[stranger] * 8, law.truth[1]])
    found = _recovery(law, stack)
    assert found["exact_hits"] == found["elements"] == 3
    stack[2] = stranger
    assert _recovery(law, stack)["exact_hits"] == 2


@pytest.mark.parametrize("task", TASKS)
def test_a_short_run_leaves_its_numbers_and_its_stack(tmp_path, task):
    config = toy_config(task, steps=5, seed=4)
    result = run_toy(config, tmp_path / "deep" / "run")
    assert set(result) == RESULT
    assert json.loads(json.dumps(result, allow_nan=False)) == result
    law = problem(config)
    K, D = law.truth.shape[:2]
    C = config.canonical
    assert (result["task"], result["seed"], result["steps"]) == (task, 4, 5)
    assert result["parameters"] == C * D
    assert result["representation_parameters"] == (K - 1) * D * D

    tensors, metadata = read(tmp_path / "deep" / "run")
    assert {name: tuple(tensor.shape) for name, tensor in tensors.items()} == {
        "R": (K, D, D),
        "theta": (C, D),
        "truth": (K, D, D),
        "mu": (K,),
        "canonical": (C, D),
        "samples": (16, D),
        "sample_labels": (16, 2),
    }
    assert metadata["task"] == task
    assert tuple(json.loads(metadata["size"])) == law.size
    assert tuple(json.loads(metadata["names"])) == law.names
    for name in ("truth", "mu", "canonical"):
        assert torch.equal(tensors[name], getattr(law, name))
    for axis in (1, 2):
        assert torch.allclose(tensors["R"].sum(axis), torch.ones(K, D), atol=1e-5)
    c, g = tensors["sample_labels"].T
    clean = torch.stack([law.truth[i] @ law.canonical[j] for i, j in zip(g, c, strict=True)])
    assert (tensors["samples"] - clean).std() == pytest.approx(config.noise, rel=0.5)
    learned = _recovery(law, tensors["R"])
    assert {name: result[name] for name in learned} == learned


def test_the_seed_decides_everything_and_nothing_else_is_touched(tmp_path):
    state = torch.random.get_rng_state()
    first = run_toy(small(steps=30), tmp_path / "first")
    assert torch.equal(torch.random.get_rng_state(), state)
    torch.rand(7)
    again = run_toy(small(steps=30), tmp_path / "again")
    run_toy(small(steps=30, seed=1), tmp_path / "other")
    assert {**first, "seconds": 0} == {**again, "seconds": 0}
    stacks = {name: read(tmp_path / name)[0] for name in ("first", "again", "other")}
    for name, tensor in stacks["first"].items():
        assert torch.equal(tensor, stacks["again"][name])
        told_apart = name not in ("truth", "mu")
        assert torch.equal(tensor, stacks["other"][name]) != told_apart
