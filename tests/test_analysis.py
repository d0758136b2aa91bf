import itertools
import math
from inspect import signature

import pytest
import torch

from experiments import scores
from symshare import analysis, groups
from symshare.analysis import (
    equivariance_error,
    match,
    nearest_permutation,
    normalized_entropy,
    vertex_gap,
)


def random_doubly_stochastic(*shape: int) -> torch.Tensor:
    r = torch.rand(*shape, dtype=torch.float64) ** 4 + 1e-6
    for _ in range(500):
        r = r / r.sum(-1, keepdim=True)
        r = r / r.sum(-2, keepdim=True)
    return r


def test_nearest_permutation_is_the_best_of_all():
    for r in random_doubly_stochastic(5, 4, 4):
        every = list(itertools.permutations(range(4)))
        mass = [sum(float(r[p, q]) for p, q in enumerate(perm)) for perm in every]
        assert tuple(nearest_permutation(r).tolist()) == every[mass.index(max(mass))]


@pytest.mark.parametrize("batch", [(), (3,), (2, 3)], ids=str)
def test_permutations_are_their_own_nearest(batch):
    source = torch.rand(*batch, 6).argsort(-1)
    R = torch.eye(6)[source]
    assert torch.equal(nearest_permutation(R), source)
    assert torch.equal(vertex_gap(R), torch.zeros(batch))
    assert torch.equal(normalized_entropy(R), torch.zeros(batch))


def test_entropy_and_gap_by_loops():
    R = random_doubly_stochastic(3, 5, 5)
    for r, entropy, gap in zip(R, normalized_entropy(R), vertex_gap(R), strict=True):
        rows = [-sum(float(v) * math.log(float(v)) for v in row) for row in r]
        assert float(entropy) == pytest.approx(sum(rows) / 5 / math.log(5))
        mass = sum(float(r[p, q]) for p, q in enumerate(nearest_permutation(r)))
        assert float(gap) == pytest.approx(1 - mass / 5)


@pytest.mark.parametrize("d", [1, 2, 25])
def test_uniform_matrix(d):
    R = torch.full((d, d), 1 / d)
    assert float(normalized_entropy(R)) == pytest.approx(float(d > 1))
    assert float(vertex_gap(R)) == pytest.approx(1 - 1 / d)


def test_gradients_reach_entropy():
    R = random_doubly_stochastic(3, 3).requires_grad_()
    normalized_entropy(R).backward()
    assert torch.isfinite(R.grad).all()


def test_entropy_refuses_free_matrices():
    with pytest.raises(ValueError, match=r"normalized_entropy: R must be non-negative, got -0\.5"):
        normalized_entropy(torch.tensor([[1.5, -0.5], [-0.5, 1.5]]))


SHAPELESS = {
    "no matrix": torch.zeros(0, 4, 4),
    "no position": torch.zeros(2, 0, 0),
    "a vector": torch.zeros(3),
    "oblong": torch.zeros(2, 3, 4),
}


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("x", SHAPELESS.values(), ids=SHAPELESS)
@pytest.mark.parametrize(
    "name",
    [
        "associativity_defect",
        "birkhoff_decomposition",
        "cayley_table",
        "group_table",
        "latin_square_defect",
        "least_distance",
        "match",
        "nearest_permutation",
        "normalized_entropy",
        "simplex_fit",
        "stack_metrics",
        "vertex_gap",
    ],
)
def test_says_that_it_is_no_stack(name, x):
    function = getattr(analysis, name, None) or getattr(scores, name)
    needed = [p for p in signature(function).parameters.values() if p.default is p.empty]
    with pytest.raises(ValueError, match=r"expected|must be|got"):
        function(*[x] * len(needed))


def test_nearest_refuses_nan():
    with pytest.raises(ValueError, match="nearest_permutation: .* not finite"):
        nearest_permutation(torch.full((2, 2), math.nan))


@pytest.mark.parametrize("softness", [0.0, 0.5, 0.9])
def test_match_finds_a_shuffled_group(softness):
    known = groups.dihedral(4).lift(3)
    order = torch.randperm(8)
    found = match((1 - softness) * known[order] + softness / 9, known)
    assert torch.equal(found.index, order)
    assert torch.equal(found.mismatch, torch.zeros(8))


def test_match_shows_collapse_and_surplus():
    known = groups.cyclic_shifts(4).lift(4)
    collapsed = match(known[[1, 1]], known)
    assert sorted(collapsed.mismatch.tolist()) == [0.0, 1.0]
    surplus = match(known, known[:3])
    assert surplus.index.tolist() == [0, 1, 2, -1]
    assert surplus.mismatch.tolist() == [0.0, 0.0, 0.0, 1.0]


def test_match_counts_differing_rows():
    swapped = torch.eye(4)[[1, 0, 2, 3]]
    assert match(swapped[None], torch.eye(4)[None]).mismatch.tolist() == [0.5]


def lifting(action):
    """A lifting convolution with kernels moved one by one."""
    kernel = torch.randn(3, 2, 3, 3)
    kernels = [action.apply(kernel, g) for g in range(len(action))]

    def layer(x):
        return torch.stack([torch.conv2d(x, k, padding=1) for k in kernels], 2)

    return layer


ACTIONS = {
    "C4": (groups.rotations(4), (8, 8)),
    "D4": (groups.dihedral(4), (7, 7)),
    "flips": (groups.flips("HW"), (6, 9)),
    "open set": (groups.dihedral(4).subset(["rot90", "transpose"]), (6, 6)),
}


@pytest.mark.parametrize(("action", "shape"), ACTIONS.values(), ids=ACTIONS)
class TestEquivarianceError:
    def test_identity_passes(self, action, shape):
        images = torch.randn(3, 2, *shape)
        error = equivariance_error(
            lambda x: x[:, :, None].expand(-1, -1, len(action), -1, -1), action, images, "regular"
        )
        assert torch.equal(error, torch.zeros(len(action)))

    def test_lifting_convolution_passes(self, action, shape):
        images, lift = torch.randn(3, 2, *shape), lifting(action)
        assert equivariance_error(lift, action, images, "regular").max() < 1e-5
        pooled = equivariance_error(lambda x: lift(x).mean((3, 4)), action, images, "regular")
        assert pooled.max() < 1e-5

    def test_wrong_group_order_fails(self, action, shape):
        images, lift = torch.randn(3, 2, *shape), lifting(action)
        swapped = [1, 0, *range(2, len(action))]
        error = equivariance_error(lambda x: lift(x)[:, :, swapped], action, images, "regular")
        assert error[1:].max() > 0.1

    def test_random_dense_map_fails(self, action, shape):
        dense = torch.randn(2 * shape[0] * shape[1], 10)
        error = equivariance_error(
            lambda x: x.flatten(1) @ dense, action, torch.randn(3, 2, *shape)
        )
        assert error[0] == 0
        assert error[1:].min() > 0.1

    def test_invariant_network_passes(self, action, shape):
        head = torch.randn(2, 10)
        images = torch.randn(3, 2, *shape)
        error = equivariance_error(lambda x: x.square().mean((-2, -1)) @ head, action, images)
        assert error.max() < 1e-5


def test_equivariance_on_a_ring():
    action = groups.cyclic_shifts(8)
    signals = torch.randn(4, 2, 8)
    weights = torch.einsum("gde,oie->ogid", action.lift(8), torch.randn(3, 2, 8))

    def layer(x):
        return torch.einsum("bid,ogid->bog", x, weights)

    assert equivariance_error(layer, action, signals, "regular").max() < 1e-5
    assert equivariance_error(lambda x: layer(x).flip(2), action, signals, "regular").max() > 0.1


def test_equivariance_error_messages():
    action, images = groups.rotations(4), torch.randn(2, 1, 6, 6)
    with pytest.raises(ValueError, match="f is zero on all images"):
        equivariance_error(torch.zeros_like, action, images)
    with pytest.raises(
        ValueError, match=r"expected \[B, C, G=4, \*space\] from f, got \(2, 1, 6, 6\)"
    ):
        equivariance_error(lambda x: x, action, images, "regular")
