"""The projection with its implicit derivative, against `bench.truth`: Newton's method in float64.

`tests/test_benchmarks.py` holds that to sweeps and finite differences.
"""

from importlib import import_module
from math import log

import pytest
import torch
from scipy.optimize import linear_sum_assignment
from torch.autograd import forward_ad

from benchmarks import truth
from symshare.sinkhorn import adaptive, entropy, marginal_error, project, projection, sinkhorn
from symshare.sinkhorn.inputs import transforming
from symshare.sinkhorn.scaling import CONVERGED, TRAINING

N = 3


def permutations(D):
    return torch.stack([torch.eye(D)[torch.randperm(D)] for _ in range(N)])


def blocks(D):
    """Two blocks that hardly know of each other: the slowest case for plain sweeps."""
    logits = torch.randn(N, D, D)
    half = D // 2
    logits[:, :half, half:] -= 8
    logits[:, half:, :half] -= 8
    return logits


LOGITS = {
    "start": lambda D: torch.rand(N, D, D),
    "normal": lambda D: 2 * torch.randn(N, D, D),
    "sharp": lambda D: torch.rand(N, D, D) + 5 * permutations(D),
    "sharper": lambda D: torch.rand(N, D, D) + 8 * permutations(D),
    "sharpest": lambda D: torch.rand(N, D, D) + 10 * permutations(D),
    "blocks": blocks,
    "triangle": lambda D: torch.rand(N, D, D) - 6 * torch.ones(D, D).tril(-1),
    "mixed": lambda D: torch.cat(
        [torch.rand(1, D, D), blocks(D)[:1], torch.rand(1, D, D) + 8 * permutations(D)[:1]]
    ),
}
DRAWS = {9: 100, 25: 30, 100: 3}
"""By D; so many that no bound is kept by luck."""


def warm_start(logits):
    """Potentials that fit logits one step of Adam away from these."""
    start = project(logits).potentials
    return logits + 0.01 * torch.randn_like(logits).sign(), start


def on_accelerators(monkeypatch):
    """The fixed schedule, which accelerators and compilers take, on the CPU."""
    monkeypatch.setattr(projection, "adapts", lambda _: False)


PATHS = {"cpu": lambda _: None, "accelerators": on_accelerators}


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("D", DRAWS)
@pytest.mark.parametrize("name", LOGITS)
def test_agrees_with_newton_in_float64(name, D, path, monkeypatch):
    logits, start = warm_start(torch.cat([LOGITS[name](D) for _ in range(DRAWS[D])]))
    PATHS[path](monkeypatch)
    logits.requires_grad_()
    cotangent = torch.randn_like(logits)
    R, _, _ = project(logits, start, TRAINING)
    (found,) = torch.autograd.grad(R, logits, cotangent)
    exact = truth.project(logits)
    gradient = truth.gradient(exact, cotangent)
    assert marginal_error(R) < 1e-5
    assert marginal_error(project(logits.detach(), None, CONVERGED).R) < 1e-5
    assert (R - exact).abs().max() < 1e-5
    wrong = (found - gradient).flatten(1).norm(dim=1) / gradient.flatten(1).norm(dim=1)
    # The sums of R are known to rounding, and moving them moves the gradient by that over the gap.
    gap = 1 - truth.second_singular_value(exact) ** 2
    assert (wrong < 3e-5 + 2 * torch.finfo(R.dtype).eps / gap).all()
    assert wrong.max() < 3e-4


def everything_found(logits, cotangent, slope):
    """R, its entropies and potentials, and the gradients of each and of both together."""
    logits = logits.detach().requires_grad_()
    found = project(logits)
    losses = [(found.R * cotangent).sum(), (found.entropy * slope).sum()]
    losses.append(sum(losses))
    gradients = [torch.autograd.grad(x, logits, retain_graph=True)[0] for x in losses]
    return *found, *gradients


@pytest.fixture
def several_threads(monkeypatch):
    """With one thread products of large stacks are NumPy's too."""
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)


@pytest.mark.usefixtures("several_threads")
@pytest.mark.parametrize("D", [9, 80])
def test_large_stacks_are_projected_alike(D, monkeypatch):
    logits = LOGITS["mixed"](D).double()
    cotangent, slope = torch.randn(N, D, D).double(), torch.randn(N).double()
    small = everything_found(logits, cotangent, slope)
    monkeypatch.setattr(adaptive, "LARGE", 1)
    torch.testing.assert_close(everything_found(logits, cotangent, slope), small)


def raise_for_one_backend():
    raise RuntimeError("you have used a mix of the legacy and new APIs to set the precision")


@pytest.mark.usefixtures("several_threads")
@pytest.mark.parametrize("get", [lambda: "medium", lambda: "high", raise_for_one_backend])
def test_a_precision_of_matrix_products_does_not_reach_large_stacks(get, monkeypatch):
    """On processors with such units torch then rounds factors to half precision."""
    monkeypatch.setattr(adaptive, "LARGE", 1)
    monkeypatch.setattr(torch, "get_float32_matmul_precision", get)
    monkeypatch.setattr(torch, "bmm", None)
    logits, cotangent = LOGITS["sharp"](80), torch.randn(N, 80, 80)
    R = project(logits.requires_grad_()).R
    R.backward(cotangent)
    assert marginal_error(R) < 1e-5


@pytest.mark.usefixtures("several_threads")
@pytest.mark.parametrize("large", [1, 2**30])
def test_a_pass_under_autocast_is_as_without(large, monkeypatch):
    monkeypatch.setattr(adaptive, "LARGE", large)
    logits, cotangent = LOGITS["sharp"](110).requires_grad_(), torch.randn(N, 110, 110)
    found = []
    for enabled in (False, True):
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=enabled):
            R = project(logits).R
            found.append((R, *torch.autograd.grad(R, logits, cotangent)))
    torch.testing.assert_close(*found)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("D", [1, 2, 4, 9, 25, 64, 100])
@pytest.mark.parametrize("gap", [12.0, 18.0, 25.0, 60.0])
def test_settled_permutations_neither_fail_nor_move(gap, D, dtype):
    torch.manual_seed(D)
    noise = 0.1 * torch.randn(N, D, D)
    logits = (gap * permutations(D) + noise).to(dtype).requires_grad_()
    R = project(logits).R
    (gradient,) = torch.autograd.grad(R, logits, torch.randn(N, D, D).to(dtype))
    assert marginal_error(R) < 1e-5
    # The slope is of the size of R's small entries.
    assert gradient.abs().max() < max(20 * D * torch.exp(torch.tensor(-gap)), 1e-6)


FAR = {
    "normal": lambda D: torch.randn(N, D, D),
    "signs": lambda D: torch.randn(N, D, D).sign(),
    "triangle": lambda D: -torch.ones(N, D, D).tril(-1),
    "a wide and a tall block": lambda D: (
        -torch.block_diag(
            torch.ones(D // 2 + 1, D // 2), torch.ones(D - D // 2 - 1, D - D // 2)
        ).repeat(N, 1, 1)
    ),
    "mostly columns": lambda D: torch.randn(N, 1, D) + 0.1 * torch.randn(N, D, D),
}


@pytest.mark.parametrize("D", [2, 9, 64, 70])
@pytest.mark.parametrize("size", [30.0, 100.0, 1e4, 1e6])
@pytest.mark.parametrize("name", FAR)
def test_logits_however_far_apart_have_a_limit(name, size, D):
    """R is the doubly stochastic matrix with the largest <R, logits> + entropy, so it is held to
    the best permutation, which has no entropy."""
    logits = (size * FAR[name](D)).requires_grad_()
    found = project(logits)
    for R in (found.R, project(logits, found.potentials).R):
        assert marginal_error(R) < 4e-5
        (gradient,) = torch.autograd.grad(R.square().sum(), logits)
        assert gradient.isfinite().all()
        for M, P, H in zip(logits.detach().double(), R.double(), found.entropy, strict=True):
            best = M[linear_sum_assignment(M, maximize=True)].sum()
            assert (P * M).sum() + H > best - 4e-6 * size * D
            assert 0 <= H < 1.01 * D * log(D)


def test_first_derivative_of_matrix_and_entropy():
    logits = torch.randn(2, 5, 5, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: project(x)[:2], logits)


@pytest.mark.parametrize("start", [None, "far"])
def test_the_result_does_not_depend_on_the_start(start):
    logits = 3 * torch.randn(4, 8, 8, dtype=torch.float64)
    start = None if start is None else 5 * torch.randn(4, 8, dtype=torch.float64)
    torch.testing.assert_close(project(logits, start).R, sinkhorn(logits, 2000))


def test_the_entropy_is_that_of_the_matrix_and_so_is_its_gradient():
    logits = (2 * torch.randn(3, 7, 7, dtype=torch.float64)).requires_grad_()
    found = project(logits)
    (gradient,) = torch.autograd.grad(found.entropy.sum(), logits)
    (expected,) = torch.autograd.grad(entropy(project(logits).R), logits)
    torch.testing.assert_close(found.entropy.sum(), entropy(found.R))
    torch.testing.assert_close(gradient, expected)


def test_gradients_leave_the_gauge_alone():
    logits = torch.randn(2, 9, 9, requires_grad=True)
    (gradient,) = torch.autograd.grad(project(logits).R.square().sum(), logits)
    assert gradient.sum(-1).abs().max() < 1e-6
    assert gradient.sum(-2).abs().max() < 1e-6


def test_potentials_are_a_start_that_leaves_nothing_to_do():
    logits = 3 * torch.randn(2, 6, 6, dtype=torch.float64)
    R, _, g = project(logits)
    scaled = (logits + g[:, None]).softmax(-1)
    torch.testing.assert_close(scaled, R)
    f = -(logits + g[:, None]).logsumexp(-1)
    torch.testing.assert_close(f.mean(-1), torch.zeros(2).double())
    torch.testing.assert_close(project(logits + 200).potentials, g - 200)


def test_one_matrix_no_matrix_one_position():
    assert project(torch.randn(6, 6)).R.shape == (6, 6)
    assert project(torch.randn(2, 3, 4, 4)).entropy.shape == (2, 3)
    empty = torch.zeros(0, 5, 5, requires_grad=True)
    project(empty).R.sum().backward()
    assert project(torch.tensor([[[3.0]]])).R.item() == 1


def test_a_second_derivative_is_refused():
    logits = torch.randn(3, 3, requires_grad=True)
    (gradient,) = torch.autograd.grad(project(logits).R.square().sum(), logits, create_graph=True)
    with pytest.raises(RuntimeError, match="no derivative itself; .* iterations=20"):
        gradient.sum().backward()


def test_a_forward_mode_derivative_is_refused():
    logits = torch.randn(3, 3)
    for transform in (lambda f: f, torch.vmap, torch.func.jacrev):
        with pytest.raises(RuntimeError, match="reverse mode only; .* iterations=20"):
            torch.func.jvp(transform(lambda x: project(x).R), (logits[None],), (logits[None],))
    with forward_ad.dual_level(), pytest.raises(RuntimeError, match="reverse mode only"):
        project(forward_ad.make_dual(logits, logits))


def test_transforms_of_torch_are_noticed():
    """By a function of torch that is not public, and may go."""
    seen = []
    torch.vmap(lambda x: seen.append(transforming()) or x)(torch.zeros(2))
    assert (transforming(), seen) == (False, [True])


def test_functional_transforms():
    def loss(x):
        return project(x).R.square().sum()

    batch = torch.randn(5, 4, 4, dtype=torch.float64)
    one_by_one = torch.stack([torch.func.grad(loss)(x) for x in batch])
    torch.testing.assert_close(torch.vmap(torch.func.grad(loss))(batch), one_by_one)
    jacobian = torch.func.jacrev(lambda x: project(x).R)(batch[0])
    expected = torch.autograd.functional.jacobian(lambda x: project(x).R, batch[0])
    torch.testing.assert_close(jacobian, expected)


@pytest.mark.slow  # tests/test_state.py compiles stacks that call it
def test_compiles_without_a_break(unwrapped):
    projected = import_module("symshare.sinkhorn").project

    def f(x):
        return projected(x)[:2]

    compiled = torch.compile(f, fullgraph=True, backend="aot_eager")
    logits = torch.randn(3, 6, 6, requires_grad=True)
    outcomes = []
    for call in (compiled, f):
        R, H = call(logits)
        (gradient,) = torch.autograd.grad(R.square().sum() + H.sum(), logits)
        outcomes.append((R, H, gradient))
    torch.testing.assert_close(*outcomes)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_projected_in_float32(dtype):
    logits = torch.randn(2, 6, 6).to(dtype).requires_grad_()
    R = project(logits).R
    R.square().sum().backward()
    assert R.dtype == torch.float32
    assert marginal_error(R) < 1e-5
    assert logits.grad.dtype == dtype


def test_under_autocast_as_without():
    logits = 10 * torch.rand(6, 6)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        inside = project(logits).R
    assert torch.equal(inside, project(logits).R)


@pytest.mark.parametrize(
    "logits",
    [
        200 * torch.rand(2, 25, 25, generator=torch.Generator().manual_seed(1)),
        torch.zeros(5, 5).index_fill(1, torch.tensor([2]), -200),
        torch.zeros(5, 5).index_fill(0, torch.tensor([0]), -1e4),
        -60 * torch.ones(6, 6).tril(-1),
    ],
    ids=["spread", "column", "row", "triangle"],
)
def test_far_apart_logits_neither_overflow_nor_underflow(logits):
    R = project(logits.requires_grad_()).R
    R.square().sum().backward()
    assert marginal_error(R) < 1e-4
    assert logits.grad.isfinite().all()


CONSTANTS = {
    "all": lambda D: torch.ones(1, 1),
    "columns": lambda D: torch.randn(1, D),
    "rows": lambda D: torch.randn(D, 1),
    "one column": lambda D: -torch.eye(D)[:1],
    "one row": lambda D: torch.eye(D)[:, :1],
    "a row and a column": lambda D: -torch.eye(D)[:1] - torch.eye(D)[:, :1],
    "rows and columns": lambda D: torch.randn(D, 1) + torch.randn(1, D),
}


@pytest.mark.parametrize("D", [9, 100])
@pytest.mark.parametrize("size", [-1000.0, -85.0, 30.0, 50.0, 80.0, 1000.0])
@pytest.mark.parametrize("name", CONSTANTS)
def test_constants_of_columns_and_rows_change_nothing_however_large(name, size, D):
    logits = (2 * torch.randn(2, D, D)).requires_grad_()
    shifted = logits + size * CONSTANTS[name](D)
    found, expected = project(shifted), project(logits)
    again = project(shifted, found.potentials)
    size = abs(size)
    for x in (found, again):
        gradients = (
            torch.autograd.grad(x.R.square().sum(), logits, retain_graph=True)[0]
            for x in (x, expected)
        )
        rounding = {"atol": 1e-6 * size, "rtol": 0}
        torch.testing.assert_close(x.R, expected.R, **rounding)
        torch.testing.assert_close(*gradients, **rounding)
        torch.testing.assert_close(x.entropy, expected.entropy, atol=1e-6 * size * D, rtol=0)


@pytest.mark.parametrize("size", [50.0, -85.0, 1000.0])
def test_potentials_hold_a_constant_of_all_logits(size, monkeypatch):
    logits = 2 * torch.randn(2, 70, 70) + size
    R, _, start = project(logits)
    monkeypatch.setattr(adaptive, "_settle", None)
    torch.testing.assert_close(project(logits, start).R, R, atol=1e-4, rtol=0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("D", [9, 65, 100])
@pytest.mark.parametrize("margin", [20.0, 25.0, 30.0, 40.0, 60.0])
@pytest.mark.parametrize("path", PATHS)
def test_saturated_permutations_have_next_to_no_gradient(path, margin, D, dtype, monkeypatch):
    PATHS[path](monkeypatch)
    permuted = torch.cat([permutations(D) for _ in range(5)])
    logits = (margin * permuted + torch.rand_like(permuted)).to(dtype).requires_grad_()
    cotangent = torch.randn_like(logits)
    start = project(logits).potentials
    for begin in (None, start, start + 0.01 * torch.randn_like(start)):
        (gradient,) = torch.autograd.grad(project(logits, begin).R, logits, cotangent)
        assert gradient.abs().max() < 1e-5


@pytest.mark.parametrize("short", [3, 50])
def test_rows_of_a_permutation_that_rounding_left_short_are_no_slopes(short):
    R = torch.eye(100).repeat(N, 1, 1)
    R.diagonal(dim1=-2, dim2=-1)[:, :short] -= 2**-24
    gradient = adaptive.adjoint(torch.randn(N, 100, 100), torch.ones(N), torch.zeros_like(R), R)
    assert gradient.abs().max() < 1e-5


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("operator", [project, sinkhorn])
@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
def test_refuses_logits_that_are_not_finite(operator, bad):
    logits = torch.zeros(2, 3, 3)
    logits[0, 1, 2] = bad
    with pytest.raises(ValueError, match="1 of 18 logits are infinite or not numbers; expected"):
        operator(logits)


def test_says_where_rounds_do_not_suffice(monkeypatch):
    monkeypatch.setattr(adaptive, "ROUNDS", 1)
    with pytest.warns(UserWarning, match="row sums are still up to .* weight decay"):
        project(3 * torch.randn(2, 6, 6))


def test_says_where_logits_leave_the_range_of_numbers():
    with pytest.raises(ValueError, match="logits from .* are too far apart to exponentiate; scale"):
        project(1.7e308 * torch.randn(2, 9, 9).double().sign())


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("shape", [(3,), (1, 3), (2, 1), (2, 4), (2, 3, 3)])
def test_refuses_a_start_of_another_shape(shape):
    message = r"logits \(2, 3, 3\) start from potentials \(2, 3\), got"
    with pytest.raises(ValueError, match=message):
        project(torch.zeros(2, 3, 3), torch.zeros(shape))
