import itertools
import math

import pytest
import torch

from experiments.scores import birkhoff_decomposition
from symshare import groups
from symshare.analysis import nearest_permutation


def soft(positions: int, sharpness: float = 2.0) -> torch.Tensor:
    r = (sharpness * torch.randn(positions, positions, dtype=torch.float64)).exp()
    for _ in range(3000):
        r = r / r.sum(-1, keepdim=True)
        r = r / r.sum(-2, keepdim=True)
    return r


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
@pytest.mark.parametrize("d", [1, 2, 3, 7, 16])
def test_parts_make_the_matrix(d, dtype):
    R = soft(d).to(dtype)
    parts = birkhoff_decomposition(R)
    assert float(parts.coefficients.sum()) == pytest.approx(1, abs=1e-8)
    assert torch.allclose(parts.matrix(), R.double(), atol=1e-6)
    assert 1 <= len(parts.coefficients) <= (d - 1) ** 2 + 1
    assert parts.coefficients.min() > 0
    assert (parts.coefficients.diff() <= 1e-12).all()
    assert torch.equal(
        parts.permutations.sort(-1).values, torch.arange(d).expand_as(parts.permutations)
    )


def test_the_first_part_is_the_heaviest_there_is():
    for _ in range(10):
        R = soft(4)
        every = itertools.permutations(range(4))
        heaviest = max(min(float(R[p, q]) for p, q in enumerate(perm)) for perm in every)
        parts = birkhoff_decomposition(R, terms=1)
        assert float(parts.coefficients[0]) == pytest.approx(heaviest)
        assert len(parts.coefficients) == 1


@pytest.mark.parametrize("terms", [0, 1, 3])
def test_few_terms_are_the_first_of_all(terms):
    R = soft(6)
    every, few = birkhoff_decomposition(R), birkhoff_decomposition(R, terms=terms)
    assert torch.equal(few.coefficients, every.coefficients[:terms])
    assert torch.equal(few.permutations, every.permutations[:terms])


def test_mixtures_without_overlap_are_told_apart():
    c = torch.tensor([0.5, 0.3, 0.15, 0.05])
    shifts = groups.cyclic_shifts(4)
    parts = birkhoff_decomposition(torch.einsum("k,kde->de", c, shifts.lift(4)))
    assert torch.allclose(parts.coefficients, c.double(), atol=1e-6)
    assert torch.equal(parts.permutations, shifts.permutation(4))


def test_a_permutation_is_its_own_only_part():
    R = torch.eye(9)[torch.randperm(9)]
    parts = birkhoff_decomposition(R)
    assert parts.coefficients.tolist() == [1.0]
    assert torch.equal(parts.permutations[0], nearest_permutation(R))


def test_uniform_matrix_needs_as_many_as_positions():
    parts = birkhoff_decomposition(torch.full((5, 5), 0.2))
    assert parts.coefficients.tolist() == pytest.approx([0.2] * 5)


def test_small_marginal_errors_are_repaired():
    R = soft(8) * (1 + 1e-5 * torch.randn(8, 8))
    error = max(float((R.sum(0) - 1).abs().max()), float((R.sum(1) - 1).abs().max()))
    parts = birkhoff_decomposition(R)
    assert float(parts.coefficients.sum()) == pytest.approx(1, abs=1e-8)
    assert float((parts.matrix() - R).abs().max()) <= 2 * error


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("R", "message"),
    [
        (torch.full((2, 2), 0.6), r"must sum to 1 within 0\.001, the error is 0\.2; project R"),
        (torch.tensor([[1.5, -0.5], [-0.5, 1.5]]), r"R must be non-negative, got -0\.5"),
        (torch.full((2, 2), math.nan), "4 of 4 entries of R are infinite or not numbers"),
        (torch.full((2, 3), 0.5), "square matrix"),
    ],
)
def test_messages(R, message):
    with pytest.raises(ValueError, match=f"birkhoff_decomposition: .*{message}"):
        birkhoff_decomposition(R)


def test_refuses_a_tolerance_that_rounding_exceeds():
    with pytest.raises(ValueError, match="tolerance must be at least 1e-12, which rounding leaves"):
        birkhoff_decomposition(torch.eye(3), tolerance=1e-16)
