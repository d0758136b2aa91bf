import math

import pytest
import torch
from scipy.optimize import linear_sum_assignment

from symshare import groups

SQUARE = groups.dihedral(4)


@pytest.fixture(autouse=True)
def float64():
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def positions(k):
    axis = torch.arange(k) - (k - 1) / 2
    return torch.cartesian_prod(axis, axis)


def turn(degrees):
    angle = math.radians(degrees)
    return torch.tensor([[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]])


@pytest.mark.parametrize("n", [*range(3, 17)])
@pytest.mark.parametrize("k", [1, 2, 3, 4, 6, 9])
def test_every_size_is_balanced(n, k):
    B = groups.rotations(n).lift(k)
    ones = torch.ones(n, k * k)
    assert B.min() >= 0
    torch.testing.assert_close(B.sum(-1), ones, atol=1e-11, rtol=0)
    torch.testing.assert_close(B.sum(-2), ones, atol=1e-11, rtol=0)


@pytest.mark.parametrize("k", [2, 3, 5, 8])
@pytest.mark.parametrize("n", [3, 6, 8, 12])
def test_lattice_elements_are_exact(n, k):
    action = groups.dihedral(n)
    B = action.lift(k)
    exact = [name for name in action.names if name in SQUARE.names]
    expected = {3: 2, 6: 4, 8: 8, 12: 8}
    assert len(exact) == expected[n]
    for name in exact:
        known = SQUARE.lift(k)[SQUARE.names.index(name)]
        assert torch.equal(B[action.names.index(name)], known)


@pytest.mark.parametrize("k", [3, 4, 7])
def test_products_with_lattice_elements_are_exact(k):
    action = groups.dihedral(12)
    B, table = action.lift(k), action.table
    exact = [g for g, name in enumerate(action.names) if name in SQUARE.names]
    for g in exact:
        torch.testing.assert_close(B[g] @ B, B[table[g]], atol=1e-12, rtol=0)
        torch.testing.assert_close(B @ B[g], B[table[:, g]], atol=1e-12, rtol=0)


@pytest.mark.parametrize(("k", "error"), [(3, 0.33), (5, 0.44), (7, 0.65)])
def test_documented_error_of_the_homomorphism(k, error):
    action = groups.rotations(8)
    B = action.lift(k)
    products = torch.einsum("gij,hjk->ghik", B, B)
    assert round(float((products - B[action.table]).abs().max()), 2) == error


@pytest.mark.parametrize("n", [5, 6, 8])
def test_products_are_nearest_to_the_right_element(n):
    action = groups.dihedral(n)
    B = action.lift(7)
    for g in range(len(action)):
        distance = torch.cdist((B[g] @ B).flatten(1), B.flatten(1))
        assert torch.equal(distance.argmin(1), action.table[g])


@pytest.mark.parametrize("k", [2, 3, 5, 6])
@pytest.mark.parametrize("n", [5, 8, 12])
def test_optimality(n, k):
    # B is nearest to K iff no permutation S is on its far side: <B - K, S - B> >= 0 for all S.
    action, p = groups.rotations(n), positions(k)
    for g, B in enumerate(action.lift(k)):
        K = 1 - torch.cdist(p, p @ turn(360 * g / n).T) ** 2
        slope = B - K
        rows, columns = linear_sum_assignment(slope.numpy())
        assert slope[rows, columns].sum() >= (slope * B).sum() - 1e-9


@pytest.mark.parametrize("k", [5, 7, 9])
@pytest.mark.parametrize("n", [3, 8, 12])
def test_smooth_kernels_turn(n, k):
    action, p = groups.dihedral(n), positions(k)

    def bump(at):
        return torch.exp(-((at - torch.tensor([-0.2, 0.2]) * k) ** 2).sum(1) / (k / 2) ** 2)

    inside = p.norm(dim=1) <= (k - 1) / 2
    flip = torch.diag(torch.tensor([1.0, -1.0]))
    for g, B in enumerate(action.lift(k)):
        matrix = turn(360 * g / n) @ (torch.eye(2) if g < n else flip)
        truth = bump(p @ matrix)
        assert ((B @ bump(p) - truth)[inside].norm() / truth[inside].norm()) < 0.12


def test_weights_stay_close():
    p = positions(7)
    for degrees, B in zip(range(0, 360, 30), groups.rotations(12).lift(7), strict=True):
        distance = torch.cdist(p, p @ turn(degrees).T)
        assert (B > 0).sum(1).max() <= 5
        assert distance[B > 0].max() < 2


def test_names():
    assert groups.rotations(7).names[1:4] == ("rot51.43", "rot102.86", "rot154.29")
    assert groups.rotations(16).names[1:5] == ("rot22.5", "rot45", "rot67.5", "rot90")
    assert groups.dihedral(8).names[8:] == (
        "flipW",
        "flipW_rot45",
        "transpose",
        "flipW_rot135",
        "flipH",
        "flipW_rot225",
        "antitranspose",
        "flipW_rot315",
    )


def test_open_set():
    action = groups.rotations(8).subset(["rot45", "rot315"])
    assert action.table.tolist() == [[0, 1, 2], [1, -1, 0], [2, 0, -1]]
    assert (action.is_group, action.name) == (False, None)
    assert action.cayley[1, 2].tolist() == [0, 0, 0]


def test_acts_on_squares_of_every_size():
    action = groups.rotations(8)
    assert action.domain is None
    assert action.has_kernel_map
    assert action.acts_on((6, 6))
    assert not action.acts_on((6, 5))


@pytest.mark.parametrize("n", [1, 2, 4])
def test_lattice_rotations_stay_permutations(n):
    assert isinstance(groups.rotations(n), groups.GroupAction)
    assert isinstance(groups.rotations(n + 4), groups.InterpolatedAction)


@pytest.mark.parametrize(
    ("n", "generators", "name", "order"),
    [
        (8, ["rot45"], "C8", 8),
        (16, ["rot45"], "C8", 8),
        (6, ["rot120"], "C3", 3),
        (6, ["rot60", "flipW"], "D6", 12),
        (12, ["flipW", "flipW_rot60"], "D6", 12),
    ],
)
def test_closure(n, generators, name, order):
    part = groups.dihedral(n).subset(generators)
    closed = groups.closure(part)
    assert (closed.name, len(closed), closed.is_group) == (name, order, True)
    assert closed.names[: len(part)] == part.names


def test_closure_is_capped():
    with pytest.raises(ValueError, match="closure: .* generates more than 48 elements"):
        groups.closure(groups.rotations(60).subset(["rot6"]))
    assert len(groups.closure(groups.rotations(60).subset(["rot6"]), cap=60)) == 60


@pytest.mark.parametrize("n", [0, -4])
def test_refuses_no_rotations(n):
    with pytest.raises(ValueError, match=f"InterpolatedAction: n must be at least 1, got {n}"):
        groups.InterpolatedAction(n, [(0, False)])
