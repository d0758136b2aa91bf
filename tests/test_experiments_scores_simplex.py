import itertools
import math

import numpy as np
import pytest
import torch
from scipy.optimize import minimize

from experiments.scores import distinct_elements, simplex_fit
from symshare import groups


def permutations(count: int, positions: int) -> torch.Tensor:
    """Different random permutation matrices."""
    rows = torch.rand(10 * count, positions).argsort(-1).unique(dim=0)
    return torch.eye(positions)[rows[torch.randperm(len(rows))[:count]]]


def weights(rows: int, count: int) -> torch.Tensor:
    drawn = torch.distributions.Dirichlet(torch.full((count,), 0.3)).sample((rows,))
    return drawn.double()


def soft(count: int, positions: int) -> torch.Tensor:
    r = torch.rand(count, positions, positions, dtype=torch.float64) ** 4 + 1e-6
    for _ in range(300):
        r = r / r.sum(-1, keepdim=True)
        r = r / r.sum(-2, keepdim=True)
    return r


SETS = {
    "C4": groups.rotations(4).lift(3),
    "interpolated C8": groups.rotations(8).lift(5),
    "C6 on itself": groups.cyclic_shifts(6).lift(6),
    "cube": groups.cube().lift(3),
    "random": torch.eye(9)[torch.from_numpy(np.random.default_rng(1).random((7, 9)).argsort(1))],
    "one element": torch.eye(4)[None],
}

# Sets whose elements depend on each other, and the rank by representation theory: the sum of the
# squared dimensions of the irreducible representations that they hold.
DEPENDENT = {
    "D4 on four pixels": (groups.dihedral(4).lift(2), 1 + 1 + 4),
    "S4 on four points": (torch.eye(4)[torch.tensor([*itertools.permutations(range(4))])], 1 + 9),
}


@pytest.mark.parametrize("known", SETS.values(), ids=SETS)
class TestIndependentElements:
    def test_mixtures_give_their_coefficients(self, known):
        c = weights(5, len(known))
        fit = simplex_fit(torch.einsum("gk,kde->gde", c, known.double()), known)
        assert torch.allclose(fit.coefficients, c, atol=1e-6)
        assert torch.allclose(fit.concentration, c.amax(1), atol=1e-6)
        assert torch.allclose(fit.explained, torch.ones(5).double(), atol=1e-6)
        assert fit.unique
        assert fit.rank == len(known)

    def test_elements_are_vertices(self, known):
        fit = simplex_fit(known, known)
        assert torch.allclose(fit.coefficients, torch.eye(len(known)).double(), atol=1e-6)

    def test_others_as_a_general_solver(self, known):
        K, D = len(known), known.shape[-1]
        R = 0.5 * soft(2, D) + 0.5 * torch.einsum("gk,kde->gde", weights(2, K), known.double())
        fit = simplex_fit(R, known)
        P = known.double().flatten(1).numpy()
        for r, c in zip(R.flatten(1).numpy(), fit.coefficients.numpy(), strict=True):
            solved = minimize(
                lambda x, r=r: ((x @ P - r) ** 2).sum(),
                np.full(K, 1 / K),
                jac=lambda x, r=r: 2 * P @ (x @ P - r),
                bounds=[(0, 1)] * K,
                constraints={"type": "eq", "fun": lambda x: x.sum() - 1, "jac": np.ones_like},
                method="SLSQP",
                options={"ftol": 1e-15, "maxiter": 1000},
            )
            assert c == pytest.approx(solved.x, abs=1e-5)
            assert ((c @ P - r) ** 2).sum() <= solved.fun + 1e-9


@pytest.mark.parametrize(("known", "rank"), DEPENDENT.values(), ids=DEPENDENT)
class TestDependentElements:
    def test_rank(self, known, rank):
        fit = simplex_fit(known, known)
        assert fit.rank == rank
        assert not fit.unique

    def test_permutations_are_vertices_all_the_same(self, known, rank):
        fit = simplex_fit(known, known)
        assert torch.allclose(fit.coefficients, torch.eye(len(known)).double(), atol=1e-5)

    def test_fit_is_optimal(self, known, rank):
        R, P = soft(6, 4), known.double()
        fit = simplex_fit(R, known)
        assert fit.coefficients.min() >= 0
        assert torch.allclose(fit.coefficients.sum(1), torch.ones(6).double())
        # The nearest point of a convex set: nothing in the set lies beyond it, as seen from R.
        beyond = torch.einsum("gde,gkde->gk", R - fit.fitted, P - fit.fitted[:, None])
        assert beyond.max() < 1e-8

    def test_equal_fits_share_evenly(self, known, rank):
        fit = simplex_fit(torch.full((1, 4, 4), 0.25), known)
        even = torch.full((1, len(known)), 1 / len(known)).double()
        assert torch.allclose(fit.coefficients, even, atol=1e-5)


def test_words_share_the_weight_of_their_element():
    _, elements = groups.cube_words()
    known = groups.cube().lift(3)
    c = weights(3, 24)
    R = torch.einsum("gk,kde->gde", c, known.double())
    fit = simplex_fit(R, known[elements])
    assert not fit.unique
    assert fit.rank == 24
    copies = torch.bincount(elements)
    assert torch.allclose(fit.coefficients, (c / copies)[:, elements], atol=1e-6)
    assert torch.allclose(fit.concentration, c.amax(1), atol=1e-6)


def test_distinct_elements_keep_their_order():
    known = permutations(3, 6)
    first, copy_of = distinct_elements(known[[2, 0, 2, 1, 0]])
    assert first.tolist() == [0, 1, 3]
    assert copy_of.tolist() == [0, 1, 0, 2, 1]


def test_rounding_makes_copies_and_one_swap_does_not():
    known = torch.eye(49).expand(3, 49, 49).clone()
    known[1] *= 1 + 1e-6
    known[2, [0, 1]] = known[2, [1, 0]]
    assert distinct_elements(known)[1].tolist() == [0, 0, 1]


def test_many_elements():
    known, c = permutations(64, 49), weights(4, 64)
    fit = simplex_fit(torch.einsum("gk,kde->gde", c, known.double()), known)
    assert torch.allclose(fit.coefficients, c, atol=1e-6)


def test_explained_share_by_its_formula():
    R, known = soft(3, 5), permutations(4, 5)
    fit = simplex_fit(R, known)
    for g in range(3):
        fitted = sum(float(c) * p for c, p in zip(fit.coefficients[g], known.double(), strict=True))
        missed, total = ((R[g] - fitted) ** 2).sum(), ((R[g] - 0.2) ** 2).sum()
        assert float(fit.explained[g]) == pytest.approx(1 - float(missed / total))
        assert torch.allclose(fit.fitted[g], fitted)


@pytest.mark.parametrize("d", [1, 4])
def test_uniform_matrix_explains_nothing(d):
    """A regular action has it as its mean, so the fit is exact and means nothing."""
    known = groups.cyclic_shifts(d).lift(d)
    fit = simplex_fit(torch.full((2, d, d), 1 / d), known)
    assert fit.explained.isnan().all()
    assert fit.uniform == 2
    assert torch.allclose(fit.coefficients, torch.full((2, d), 1 / d).double())


def test_one_element_is_all_there_is():
    fit = simplex_fit(torch.eye(3)[[1, 2, 0]][None], torch.eye(3)[None])
    assert fit.coefficients.tolist() == [[1.0]]
    assert float(fit.explained) == pytest.approx(1 - 6 / 2)
    assert fit.unique


def test_learned_stacks_come_with_gradients():
    R = soft(2, 4).requires_grad_()
    assert not simplex_fit(R, torch.eye(4)[None]).coefficients.requires_grad


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("R", "known", "message"),
    [
        (-torch.eye(2)[None], torch.eye(2)[None], r"simplex_fit: R must be non-negative, got -1"),
        (torch.full((1, 2, 2), math.nan), torch.eye(2)[None], r"4 of 4 entries of R are infinite"),
        (torch.eye(2)[None], torch.full((1, 2, 2), math.inf), r"4 of 4 entries of permutations"),
        (torch.eye(2)[None], torch.eye(3)[None], r"R acts on 2 positions, the known elements on 3"),
        (torch.eye(2), torch.eye(2)[None], r"expected R as a stack \[G, D, D\] .* got shape \(2"),
        (torch.eye(2)[None], torch.zeros(0, 2, 2), r"of at least one square matrix"),
        (torch.ones(1, 2, 3), torch.eye(2)[None], r"square matrix, got shape \(1, 2, 3\)"),
    ],
)
def test_messages(R, known, message):
    with pytest.raises(ValueError, match=message):
        simplex_fit(R, known)
