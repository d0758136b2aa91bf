import itertools
import math

import pytest
import torch
from sklearn.metrics import average_precision_score, f1_score

from experiments.scores import coverage, distinct, least_distance, support_scores
from symshare import groups


def coefficients(rows: int, count: int) -> torch.Tensor:
    return torch.distributions.Dirichlet(torch.full((count,), 0.3)).sample((rows,))


@pytest.mark.parametrize(("g", "k"), [(4, 4), (2, 5), (5, 2), (1, 3), (3, 1)])
def test_coverage_is_the_best_of_all_assignments(g, k):
    c = coefficients(g, k)
    table = c if g <= k else c.T
    short, long = table.shape
    best = max(
        sum(float(table[i, j]) for i, j in enumerate(chosen)) / short
        for chosen in itertools.permutations(range(long), short)
    )
    assert coverage(c) == pytest.approx(best)


def test_coverage_of_full_collapsed_and_uniform():
    assert coverage(torch.eye(4)[torch.randperm(4)]) == 1
    assert coverage(torch.eye(4)[[0, 0, 0, 0]]) == 0.25
    assert coverage(torch.full((4, 4), 0.25)) == 0.25
    assert coverage(torch.eye(8)[[3, 5]]) == 1


def test_distinct_counts_elements():
    assert distinct(torch.eye(5)[[4, 1, 4]]) == 2
    assert distinct(torch.eye(1)) == 1


def test_least_distance_by_loops():
    R = torch.rand(4, 5, 5).double().softmax(-1)
    pairs = itertools.combinations(R, 2)
    assert least_distance(R) == pytest.approx(
        min(float(((a - b) ** 2).sum()) / 10 for a, b in pairs)
    )


def test_least_distance_of_groups_and_collapse():
    # Shifts move every position; quarter turns leave the centre of nine.
    assert least_distance(groups.cyclic_shifts(5).lift(5)) == pytest.approx(1)
    assert least_distance(groups.rotations(4).lift(3)) == pytest.approx(8 / 9)
    assert least_distance(torch.eye(3).expand(2, 3, 3)) == 0
    assert math.isnan(least_distance(torch.eye(3)[None]))


@pytest.mark.parametrize("held", [1, 3, 6])
@pytest.mark.parametrize("decimals", [1, 6], ids=["ties", "no ties"])
def test_scores_as_scikit_learn(held, decimals):
    for _ in range(20):
        c = coefficients(4, 6).double().round(decimals=decimals)
        mu = torch.zeros(6).double()
        mu[torch.randperm(6)[:held]] = torch.rand(held).double() + 0.1
        scores = support_scores(c, mu)
        strength, truth = c.amax(0).numpy(), (mu > 0).numpy()
        assert scores.average_precision == pytest.approx(average_precision_score(truth, strength))
        assert scores.f1 == pytest.approx(f1_score(truth, strength >= 0.5))
        share = [float(v) / float(mu.sum()) for v in mu]
        gaps = [abs(float(c[:, k].sum()) / 4 - share[k]) for k in range(6)]
        assert scores.total_variation == pytest.approx(sum(gaps) / 2)


def test_scores_of_the_truth_and_of_nothing():
    truth = torch.tensor([1.0, 1.0, 0.0, 0.0])
    assert support_scores(torch.eye(4)[:2], truth) == (1, 1, 0)
    assert support_scores(torch.eye(4)[2:], truth) == (0.5, 0, 1)
    assert support_scores(torch.full((2, 4), 0.25), truth) == (0.5, 0, 0.5)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("measure", [[0.0, 0.0], [1.0, -1.0], [1.0], [1.0, 1.0, 1.0]], ids=str)
def test_measures_that_are_none(measure):
    with pytest.raises(ValueError, match="expected a measure of 2 non-negative weights"):
        support_scores(torch.eye(2), torch.tensor(measure))


@pytest.mark.parametrize("score", [coverage, distinct, lambda c: support_scores(c, torch.ones(2))])
def test_coefficients_have_to_be_numbers(score):
    with pytest.raises(ValueError, match="1 of 4 entries of coefficients are infinite or not"):
        score(torch.tensor([[math.nan, 0.0], [1.0, 0.0]]))


def test_least_distance_refuses_what_is_no_stack():
    with pytest.raises(ValueError, match="least_distance: R must be non-negative"):
        least_distance(-torch.eye(2)[None])
