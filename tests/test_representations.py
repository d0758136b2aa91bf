import copy

import pytest
import torch

from symshare import groups
from symshare.representations import Fixed, Gated, Sinkhorn
from symshare.sinkhorn import marginal_error

C4 = groups.rotations(4)
D4 = groups.dihedral(4)

CASES = {
    "sinkhorn": lambda: Sinkhorn(4, 9),
    "sinkhorn-paper": lambda: Sinkhorn(4, 9, init="paper"),
    "sinkhorn-free": lambda: Sinkhorn(3, 9, anchor=False),
    "sinkhorn-group": lambda: Sinkhorn(4, 36),
    "sinkhorn-trivial": lambda: Sinkhorn(1, 9),
    "fixed": lambda: Fixed(C4).on_kernel((3, 3)),
    "fixed-group": lambda: Fixed(C4).on_group((3, 3)),
    "fixed-tensor": lambda: Fixed(D4.lift(3)),
    "fixed-partial": lambda: Fixed(D4.subset(["rot90"])).on_kernel((3, 3)),
    "fixed-ring": lambda: Fixed(groups.cyclic_shifts(6)),
    "gated": lambda: Gated(D4).on_kernel((3, 3)),
    "gated-tensor": lambda: Gated(D4.lift(3)),
}


@pytest.fixture(params=CASES, ids=list(CASES))
def representation(request):
    return CASES[request.param]()


def test_is_a_stack_of_doubly_stochastic_matrices(representation):
    R = representation()
    G, D = representation.group_size, representation.positions
    assert R.shape == (G, D, D)
    assert representation.membership == "doubly stochastic"
    assert R.min() >= 0
    assert marginal_error(R) < 1e-3
    assert representation.marginal_error.item() == pytest.approx(marginal_error(R).item())


def test_stays_doubly_stochastic_after_steps(representation):
    parameters = list(representation.parameters())
    if not parameters:
        pytest.skip("nothing to train")
    optimizer = torch.optim.SGD(parameters, lr=0.5)
    target = torch.rand_like(representation())
    for _ in range(3):
        optimizer.zero_grad()
        measure = representation.measure
        loss = (representation() - target).square().sum()
        loss = loss + (0 if measure is None else measure.sum())
        loss.backward()
        assert all(p.grad is not None and p.grad.isfinite().all() for p in parameters)
        optimizer.step()
    assert marginal_error(representation()) < 1e-2


def test_expands_base_weights_as_the_loops_do(representation):
    import oracles

    theta = torch.randn(2, 1, representation.positions)
    expected = oracles.expand(representation(), theta)
    torch.testing.assert_close(representation.expand(theta), expected)


def test_penalties_are_finite_scalars(representation):
    penalties = representation.penalties()
    assert set(penalties) == {"entropy", "norm"}
    assert all(p.ndim == 0 and p.isfinite() for p in penalties.values())


def test_state_dict_round_trip(representation):
    twin = copy.deepcopy(representation)
    with torch.no_grad():
        for p in twin.parameters():
            p.add_(1)
    twin.load_state_dict(representation.state_dict(), strict=True)
    assert torch.equal(twin(), representation())


def test_the_same_keys_in_training_and_evaluation(representation):
    keys = list(representation.state_dict())
    assert list(representation.eval().state_dict()) == keys


def test_follows_the_dtype(representation):
    assert representation.double()().dtype == torch.float64


@pytest.mark.parametrize("init", ["sharp", "paper"])
def test_the_anchored_identity_has_no_parameters_and_does_not_move(init):
    stack = Sinkhorn(4, 9, init=init)
    assert sum(p.numel() for p in stack.parameters()) == 3 * 81
    with torch.no_grad():
        stack.logits.normal_()
    assert torch.equal(stack()[0], torch.eye(9))


def test_sharp_elements_start_distinct_and_paper_ones_alike():
    sharp, paper = Sinkhorn(4, 25)(), Sinkhorn(4, 25, init="paper")()
    assert (sharp[1] - sharp[2]).abs().max() > 0.8
    assert (paper[1] - paper[2]).abs().max() < 0.1


def test_one_gate_serves_all_layers():
    shared = Gated(D4)
    lift, hidden = shared.on_kernel((3, 3)), shared.on_group((5, 5))
    with torch.no_grad():
        shared.gate.logits.fill_(2.0)
    assert torch.equal(lift.measure, hidden.measure)
    assert lift.measure[0] == 1
    assert lift.measure[1].item() == pytest.approx(torch.tensor(2.0).sigmoid().item())


def test_a_partial_set_has_zero_rows_where_a_product_leaves_it():
    R = Fixed(D4.subset(["rot90"])).on_group((1, 1))()
    # Elements (id, rot90): rot90 rot90 = rot180 is outside.
    assert R[1].tolist() == [[0.0, 0.0], [1.0, 0.0]]


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Sinkhorn(4, 9).on_kernel((5, 5)), "D=9 positions, but a kernel of size"),
        (lambda: Sinkhorn(4, 37).on_group((3, 3)), "no multiple of the 9 taps"),
        (lambda: Sinkhorn(0, 9), "at least 1, got group_size=0"),
        (lambda: Sinkhorn(4, 9, init="rand"), "'sharp', 'paper' or 'identity', got 'rand'"),
        (lambda: Fixed(C4)(), "no kernel size yet"),
        (lambda: Fixed(D4.lift(3)).on_kernel((5, 5)), "use positions=25"),
        (lambda: Fixed(C4).on_kernel((3, 5)), "rot90"),
    ],
    ids=["D", "multiple", "size", "init", "unbound", "tensor", "shape"],
)
def test_says_what_does_not_fit(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize("mass", [0.3, 0.5, 0.9])
def test_free_stacks_start_near_known_elements(mass):
    B = groups.rotations(4).lift(3)
    near = Sinkhorn.near(B, mass)
    expected = mass * B + (1 - mass) / 9
    expected[0] = torch.eye(9)
    torch.testing.assert_close(near(), expected, atol=1e-6, rtol=0)
    assert near.logits.requires_grad
    assert near.logits.shape == (3, 9, 9)
    free = Sinkhorn.near(B, mass, anchor=False, iterations=20)
    torch.testing.assert_close(free()[0], mass * B[0] + (1 - mass) / 9, atol=1e-6, rtol=0)


@pytest.mark.parametrize(
    ("stack", "options", "message"),
    [
        (torch.eye(3), {}, r"Sinkhorn.near: expected a stack of square matrices"),
        (torch.ones(2, 3, 3), {}, r"Sinkhorn.near: expected a doubly stochastic stack"),
        (-torch.eye(3)[None], {}, r"Sinkhorn.near: expected a doubly stochastic stack"),
        (torch.eye(3)[None].flip(-1), {}, r"the first matrix is not the identity, which anchor"),
        (torch.eye(3)[None], {"mass": 0.0}, r"mass must be above 0 and below 1, got 0.0"),
        (torch.eye(3)[None], {"mass": 1.0}, r"mass must be above 0 and below 1, got 1.0"),
    ],
)
def test_what_a_free_stack_cannot_start_near(stack, options, message, unchecked):
    with pytest.raises(ValueError, match=message):
        Sinkhorn.near(stack, **options)


@pytest.mark.parametrize("positions", [9, 36])
def test_stacks_that_start_near_the_identity_are_near_it_and_distinct(positions):
    R = Sinkhorn(4, positions, init="identity")()
    assert torch.equal(R[0], torch.eye(positions))
    assert (R.diagonal(dim1=-2, dim2=-1).mean(-1) > 0.8).all()
    for g in range(1, 4):
        for h in range(g):
            assert (R[g] - R[h]).abs().max() > 0.01
