"""Penalties on learned stacks, and the decay of what they are learned by."""

from dataclasses import replace
from itertools import combinations

import pytest
import torch

from experiments.ablations import RowStochastic, Unconstrained
from symshare import groups
from symshare.models import SMALL, GroupCNN
from symshare.representations import (
    Birkhoff,
    Kronecker,
    Sinkhorn,
)
from symshare.train.loop import optimizer_of
from symshare.train.objective import Penalty, norm_as_printed, overlap
from symshare.train.settings import OptimConfig


def network(representations):
    return GroupCNN(SMALL, 1, 3, 4, representations, (8, 8))


def penalty(representations, **optim):
    return Penalty(network(representations), OptimConfig(**{"measure": 0.0, **optim}))()


def by_hand(stack):
    """Mean over pairs of elements, entry by entry."""
    D = stack.shape[-1]
    pairs = [
        sum(float(a) * float(b) for a, b in zip(R.flatten(), S.flatten(), strict=True)) / D
        for R, S in combinations(stack, 2)
    ]
    return sum(pairs) / len(pairs)


@pytest.mark.parametrize(
    "part",
    [
        Sinkhorn(3, 4),
        Sinkhorn(3, 4, init="paper", iterations=20),
        Sinkhorn(3, 4, anchor=False),
        RowStochastic(3, 4),
    ],
    ids=["sharp", "paper", "no anchor", "row stochastic"],
)
def test_overlap_is_the_mean_over_pairs(part):
    assert overlap(part).item() == pytest.approx(by_hand(part().detach()), rel=1e-5)


def test_overlap_of_permutations_of_averages_and_of_one_element():
    same = Sinkhorn(4, 9, anchor=False)
    with torch.no_grad():
        same.logits.copy_(50 * torch.eye(9))
        assert overlap(same).item() == pytest.approx(1)
        same.logits.zero_()
        assert overlap(same).item() == pytest.approx(1 / 9)
        for shift in range(4):
            same.logits[shift] = 50 * torch.eye(9).roll(shift, 0)
    assert overlap(same).item() == pytest.approx(0, abs=1e-6)
    assert overlap(Sinkhorn(1, 4)).item() == 0
    assert overlap(Unconstrained(3, 4)).item() == 0


def test_overlap_has_the_gradient_of_differences():
    stack = Sinkhorn(3, 4, init="paper").double()
    overlap(stack).backward()
    step = 1e-5
    for index in ((0, 0, 1), (1, 3, 2)):
        values = []
        for sign in (1, -1):
            with torch.no_grad():
                stack.logits[index] += sign * step
                values.append(overlap(stack.eval()).item())
                stack.logits[index] -= sign * step
        slope = (values[0] - values[1]) / (2 * step)
        assert stack.logits.grad[index].item() == pytest.approx(slope, rel=1e-4)


def test_descent_on_the_overlap_drives_coinciding_elements_apart():
    torch.manual_seed(0)
    stack = Sinkhorn(3, 4, anchor=False)
    with torch.no_grad():
        stack.logits.copy_(2 * torch.eye(4) + 0.01 * torch.randn(3, 4, 4))
    before = overlap(stack).item()
    optimizer = torch.optim.Adam(stack.parameters(), lr=0.1)
    for _ in range(120):
        optimizer.zero_grad()
        overlap(stack).backward()
        optimizer.step()
    assert before > 0.4
    assert overlap(stack).item() < 0.05


def test_slots_overlap_as_much_as_their_matrices():
    slots = Birkhoff(groups.rotations(4), 3, init="paper")
    (coefficients,) = slots.learned_parts()
    # The quarter turns of four corners are permutations without a common entry.
    expected = by_hand(slots.on_kernel((2, 2))().detach())
    assert overlap(coefficients).item() == pytest.approx(expected, rel=1e-5)


def test_the_objective_counts_each_stack_once():
    shared = Kronecker(4, 3)
    expected = overlap(shared.space).item()
    assert expected > 0
    found = penalty([shared] * 3, diversity=2.0)
    assert found.item() == pytest.approx(2 * expected)
    stacks = [Sinkhorn(4, 9), Sinkhorn(4, 36), Sinkhorn(4, 36)]
    found = penalty(stacks, diversity=2.0)
    assert found.item() == pytest.approx(2 * sum(overlap(s).item() for s in stacks), rel=1e-5)


def test_the_norm_as_printed_is_constant_and_that_of_the_logits_is_not():
    def gradient(norm_of):
        torch.manual_seed(0)
        stacks = [Sinkhorn(4, 9, init="paper"), *[Sinkhorn(4, 36, init="paper") for _ in "ab"]]
        found = penalty(stacks, norm=0.1, norm_of=norm_of)
        found.backward()
        return found.item(), torch.cat([s.logits.grad.flatten() for s in stacks]).abs().max()

    value, slope = gradient("R")
    assert value == pytest.approx(0.1 * 3 * 2, rel=1e-4)
    assert slope < 1e-6
    value, slope = gradient("logits")
    assert value > 1
    assert slope > 1e-3


def test_the_norm_as_printed_sees_columns_that_are_not_balanced():
    stack = RowStochastic(2, 2, anchor=False)
    with torch.no_grad():
        stack.logits.copy_(torch.tensor([[50.0, 0.0], [50.0, 0.0]]))
    # Sums of rows 1, 1 and of columns 2, 0.
    assert norm_as_printed(stack).item() == pytest.approx((1 + 1 + 4 + 0) / 2)


@pytest.mark.parametrize("decay", [0.0, 0.5])
def test_decay_reaches_the_logits_where_it_is_asked_for(decay):
    stacks = [Sinkhorn(4, 9), Sinkhorn(4, 36), Sinkhorn(4, 36)]
    model = network(stacks)
    rates = OptimConfig(lr=0.1, representation_lr=0.2, representation_decay=decay)
    before = [stack.logits.detach().clone() for stack in stacks]
    theta = model.lifting.theta.detach().clone()
    optimizer, _ = optimizer_of(model, replace(rates, schedule="constant"))
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    optimizer.step()
    for stack, logits in zip(stacks, before, strict=True):
        torch.testing.assert_close(stack.logits.detach(), (1 - 0.2 * decay) * logits)
    torch.testing.assert_close(model.lifting.theta.detach(), (1 - 0.1 * 1e-4) * theta)
