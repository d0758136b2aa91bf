import subprocess
import sys

import pytest
import torch

from experiments.toys.problem import arrows, labels, problem, sample
from experiments.toys.setup import ToyConfig, toy_config
from symshare import groups
from symshare.data import stream

# Task: shape, elements, of which are permutations, of which occur.
TASKS = {
    "toy-shift": ((12,), 12, 12, 12),
    "toy-shift-invariant": ((12,), 12, 12, 12),
    "toy-shift-half": ((12,), 12, 12, 6),
    "toy-arrows": ((7, 7), 8, 4, 8),
    "toy-cube": ((3, 3, 3), 24, 24, 24),
    "toy-cube-partial": ((3, 3, 3), 24, 24, 16),
}


def moved(task, signal, name):
    """A signal after a permutation, by torch's own rolls and turns."""
    if task.startswith("toy-shift"):
        return signal.roll(0 if name == "id" else int(name.removeprefix("shift")))
    if task == "toy-arrows":
        return signal.rot90(0 if name == "id" else int(name.removeprefix("rot")) // 90)
    raise AssertionError(task)


def words(signal):
    """A voxel grid after all x^i y^j, y first."""
    return [signal.rot90(j, (2, 0)).rot90(i, (1, 2)) for i in range(4) for j in range(4)]


def test_the_configuration_imports_no_torch():
    code = "import sys, experiments.toys.setup; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("task", TASKS)
def test_every_task_has_its_own_sizes_and_takes_others(task):
    own = toy_config(task)
    assert (own.task, own.seed, own.shape) == (task, 0, TASKS[task][0])
    changed = toy_config(task, seed=3, canonical=2, steps=5)
    assert (changed.seed, changed.canonical, changed.steps) == (3, 2, 5)
    assert changed.size == own.size


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"seed": -1}, "seed must be at least 0"),
        ({"size": 1}, r"toy-shift: expected a size of at least 2 .* got size=1"),
        ({"size": 401}, "at most 400 positions, got size=401"),
        ({"task": "toy-cube", "size": 12}, r"got size=12; toy_config\('toy-cube'\) has"),
        ({"task": "toy-arrows", "size": 4}, "size of at least 5"),
        ({"canonical": 0}, "canonical must be at least 1, got 0"),
        ({"steps": 0}, "steps must be at least 1, got 0"),
        ({"batch_size": 0}, "batch_size must be at least 1, got 0"),
        ({"noise": 0.0}, "noise must be positive, got 0.0"),
        ({"lr": float("nan")}, "lr must be positive, got nan"),
        ({"representation_lr": -1.0}, "representation_lr must be positive"),
        ({"blur": 0.0}, "blur must be positive"),
        ({"warmup": 1.5}, "warmup is a share of the steps, got 1.5"),
        ({"sharpening": -0.5}, "sharpening is a share of the steps"),
        ({"entropy": -0.1}, "entropy must be at least 0, got -0.1"),
        ({"init": "zeros"}, "init must be 'paper' or 'sharp', got 'zeros'"),
        ({"measure": ()}, "measure must hold weights"),
        ({"measure": (1.0, -1.0)}, "weights of at least 0"),
        ({"measure": (0.0, 1.0)}, "the identity's above 0"),
    ],
)
def test_what_no_run_can_have_is_refused(unchecked, overrides, message):
    task = overrides.pop("task", "toy-shift")
    with pytest.raises(ValueError, match=message):
        toy_config(task, **overrides)


def test_an_unknown_task_is_refused(unchecked):
    for build in (toy_config, ToyConfig):
        with pytest.raises(ValueError, match=r"one of toy-shift, .*, got 'toy-mnist'"):
            build("toy-mnist")


def test_a_measure_of_another_length_is_refused():
    with pytest.raises(ValueError, match="one weight for each of its 12 elements, got 2"):
        problem(toy_config("toy-shift", measure=(1.0, 1.0)))


@pytest.mark.parametrize("task", TASKS)
def test_a_problem_is_a_stack_with_a_measure(task):
    config = toy_config(task)
    law = problem(config)
    shape, elements, permutations, occurring = TASKS[task]
    D = torch.Size(shape).numel()
    assert law.size == shape
    assert law.truth.shape == (elements, D, D)
    assert law.canonical.shape == (config.canonical, D)
    assert len(set(law.names)) == elements
    assert law.exact.sum() == permutations
    assert torch.equal(law.truth[0], torch.eye(D))
    assert (law.truth >= 0).all()
    for axis in (1, 2):
        assert torch.allclose(law.truth.sum(axis), torch.ones(elements, D), atol=1e-5)
    assert law.occurs.sum() == occurring
    assert torch.allclose(law.mu[law.occurs], torch.full((occurring,), 1 / occurring))


@pytest.mark.parametrize("task", ["toy-shift", "toy-shift-half", "toy-arrows"])
def test_permutations_move_signals_as_they_are_called(task):
    law = problem(toy_config(task))
    signal = torch.rand(law.size)
    for g in law.exact.nonzero().flatten().tolist():
        by_matrix = (law.truth[g] @ signal.flatten()).view(law.size)
        assert torch.equal(by_matrix, moved(task, signal, law.names[g]))


def test_the_partial_cube_has_the_quarter_turns_about_two_axes():
    law = problem(toy_config("toy-cube-partial"))
    signal = torch.rand(law.size)
    found = {tuple((truth @ signal.flatten()).tolist()) for truth in law.truth[law.occurs]}
    assert found == {tuple(word.flatten().tolist()) for word in words(signal)}
    assert law.names == groups.cube().names


def test_half_of_the_shifts_are_the_first_ones():
    assert problem(toy_config("toy-shift-half")).occurs.tolist() == [True] * 6 + [False] * 6


@pytest.mark.parametrize("task", TASKS)
def test_samples_are_moved_vectors_with_noise(task):
    law = problem(toy_config(task, noise=0.3))
    x, c, g = sample(law, 4000, stream("test", 0))
    assert law.occurs[g].all()
    noise = x - torch.stack([law.truth[i] @ law.canonical[j] for i, j in zip(g, c, strict=True)])
    assert abs(noise.mean()) < 0.01
    assert abs(noise.std() - 0.3) < 0.01
    # Independent over positions.
    covariance = noise.T @ noise / len(noise)
    assert (covariance - 0.09 * torch.eye(covariance.shape[0])).abs().max() < 0.015


def test_elements_and_vectors_come_as_often_as_they_should():
    weights = (3.0, 0.0, 1.0, 2.0, 0.0)
    law = problem(toy_config("toy-shift", size=5, canonical=4, measure=weights))
    n = 20_000
    _, c, g = sample(law, n, stream("test", 1))
    joint = torch.zeros(4, 5).index_put((c, g), torch.ones(n), accumulate=True) / n
    expected = torch.tensor(weights) / 6 / 4
    # Six standard errors.
    bound = 6 * (expected * (1 - expected) / n).sqrt()
    assert ((joint - expected).abs() <= bound).all()


def test_the_label_turns_with_the_data_or_stays():
    config = toy_config("toy-shift", noise=1e-4)
    law, fixed = problem(config), problem(toy_config("toy-shift-invariant", canonical=12))
    x, c, g = sample(law, 200, stream("test", 2))
    y = labels(law, c, g)
    templates = torch.stack([v.roll(s) for v in law.canonical for s in range(12)])
    for shift in range(12):
        nearest = torch.cdist(x.roll(shift, 1), templates).argmin(1)
        assert torch.equal(nearest // 12, y // 12)
        assert torch.equal(nearest % 12, (y % 12 + shift) % 12)
        assert torch.equal(labels(fixed, nearest // 12, nearest % 12), labels(fixed, c, g))


def test_draws_depend_on_the_generator_and_vectors_on_the_seed():
    law = problem(toy_config("toy-cube"))
    first, again, other = (sample(law, 8, stream(p, 0)) for p in ("test", "test", "training"))
    assert all(map(torch.equal, first, again))
    assert not torch.equal(first[0], other[0])
    assert torch.equal(law.canonical, problem(toy_config("toy-cube", steps=1)).canonical)
    assert not torch.equal(law.canonical, problem(toy_config("toy-cube", seed=1)).canonical)


@pytest.mark.parametrize("side", [5, 7, 8])
def test_arrows_point_right(side):
    for picture in arrows(45, side, stream("arrows", 0)).view(-1, side, side) > 0.5:
        rows, columns = picture.nonzero().T
        tip = columns.max()
        row = rows[columns == tip]
        assert len(row) == 1
        shaft = columns[rows == row].sort().values
        assert torch.equal(shaft, torch.arange(tip - len(shaft) + 1, tip + 1))
        assert len(shaft) >= 4
        barbs = (rows - row)[rows != row], columns[rows != row]
        assert torch.equal(barbs[0].abs(), tip - barbs[1])
        assert sorted(barbs[0].tolist()) == sorted((-barbs[0]).tolist())


def test_arrows_differ_and_leave_no_position_dark():
    pictures = arrows(40, 7, stream("arrows", 1))
    assert len((pictures > 0.5).unique(dim=0)) == 40
    assert torch.linalg.matrix_rank(arrows(49, 7, stream("arrows", 1))) == 49
