import numpy as np
import pytest
import torch

import oracles
from symshare.sinkhorn import entropy, marginal_error, norm_penalty, sinkhorn

REGIMES = ["init", "sharp", "extreme"]


@pytest.mark.parametrize("spread", [1.0, 4.0, 20.0])
@pytest.mark.parametrize("iterations", [1, 5, 20])
def test_agrees_with_loops_in_the_exponential_domain(spread, iterations):
    logits = spread * torch.rand(3, 7, 7, dtype=torch.float64)
    expected = np.stack([oracles.sinkhorn(m.numpy(), iterations) for m in logits])
    np.testing.assert_allclose(sinkhorn(logits, iterations).numpy(), expected, rtol=1e-10)


@pytest.mark.parametrize("layer", ["lift", "conv"])
@pytest.mark.parametrize("regime", REGIMES)
def test_reproduces_the_published_stack(published, regime, layer):
    at = published(regime, layer)
    learned = sinkhorn(at["logits"], iterations=20)
    torch.testing.assert_close(learned, at["R"][1:], atol=2e-5, rtol=1e-4)


@pytest.mark.parametrize("layer", ["lift", "conv"])
@pytest.mark.parametrize("regime", REGIMES)
def test_reproduces_the_published_penalties(published, regime, layer):
    at = published(regime, layer)
    torch.testing.assert_close(norm_penalty(at["logits"]), at["norm_loss"], rtol=1e-5, atol=0)
    torch.testing.assert_close(entropy(at["R"]), at["entropy_loss"], rtol=1e-5, atol=1e-4)


def test_gradient_through_the_iterations():
    logits = torch.randn(2, 4, 4, dtype=torch.float64, requires_grad=True)
    torch.autograd.gradcheck(lambda x: sinkhorn(x, 5), logits)


def test_adding_to_a_row_or_a_column_changes_nothing_when_converged():
    logits = torch.randn(5, 5, dtype=torch.float64)
    moved = logits + torch.randn(5, 1).double() + torch.randn(1, 5).double()
    torch.testing.assert_close(sinkhorn(logits, 200), sinkhorn(moved, 200))


def test_stays_in_float32_under_autocast():
    logits = 20 * torch.rand(6, 6)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        R = sinkhorn(logits)
    assert R.dtype == torch.float32
    torch.testing.assert_close(R, sinkhorn(logits))


def test_marginal_error_sees_rows_and_columns():
    R = torch.eye(4)
    R[0, 0] = 0.9
    assert marginal_error(R).item() == pytest.approx(0.1)
    assert marginal_error(R.repeat(3, 1, 1)).item() == pytest.approx(0.1)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("shape", [(3, 4), (2, 3, 5)])
def test_refuses_matrices_that_are_not_square(shape):
    with pytest.raises(ValueError, match="square matrices .* got shape"):
        sinkhorn(torch.zeros(shape))


def test_refuses_no_iterations():
    with pytest.raises(ValueError, match="at least 1, got 0; the default is 20"):
        sinkhorn(torch.zeros(3, 3), iterations=0)
