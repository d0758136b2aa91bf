"""The contract of every kind of representation, and what is particular to each."""

import copy
import io
import itertools
import math
import pickle
import subprocess
import sys

import pytest
import torch

from experiments.ablations import RowStochastic, Unconstrained
from fresh_python import fresh_python
from symshare import GroupConv2d, LiftConv2d, groups
from symshare.representations import (
    Birkhoff,
    Fixed,
    Gated,
    Kronecker,
    Measure,
    Sinkhorn,
    Stack,
    shared,
)
from symshare.representations import projection as projection_module
from symshare.representations.kronecker import Transport
from symshare.representations.starts import random_permutations
from symshare.sinkhorn import entropy, marginal_error
from symshare.train.objective import Penalty
from symshare.train.settings import OptimConfig

C4 = groups.rotations(4)
D4 = groups.dihedral(4)
OPEN = D4.subset(["rot90"])
K3 = (3, 3)


def matrix(*rows):
    return torch.tensor(rows, device="cpu")


CASES = {
    "sinkhorn": lambda: Sinkhorn(4, 9),
    "sinkhorn-paper": lambda: Sinkhorn(4, 9, init="paper"),
    "sinkhorn-free": lambda: Sinkhorn(3, 9, anchor=False),
    "sinkhorn-trivial": lambda: Sinkhorn(1, 9),
    "fixed": lambda: Fixed(C4).on_kernel(K3),
    "fixed-stack": lambda: Fixed(D4.lift(3)).on_kernel(K3),
    "fixed-group": lambda: Fixed(C4).on_group(K3),
    "fixed-open": lambda: Fixed(OPEN).on_kernel(K3),
    "fixed-open-group": lambda: Fixed(OPEN).on_group(K3),
    "fixed-ring-open-group": lambda: Fixed(groups.cyclic_shifts(6).subset(["shift1"])).on_group(
        (6,)
    ),
    "fixed-interpolated": lambda: Fixed(groups.rotations(8)).on_group(K3),
    "fixed-any": lambda: Fixed(matrix([[0.0, -1.0], [3.0, 0.5]])).on_domain(),
    "fixed-nonnegative": lambda: Fixed(matrix([[0.0, 1.0], [3.0, 0.5]])).on_domain(),
    "fixed-rows": lambda: Fixed(matrix([[0.0, 1.0], [0.0, 1.0]])).on_domain(),
    "gated": lambda: Gated(D4).on_kernel(K3),
    "gated-open-group": lambda: Gated(OPEN).on_group(K3),
    "gated-any": lambda: Gated(
        matrix([[1.0, 0.0], [0.0, 1.0]], [[-1.0, 0.0], [0.0, 3.0]])
    ).on_domain(),
    "gated-group": lambda: Gated(D4).on_group(K3),
    "birkhoff": lambda: Birkhoff(D4).on_kernel(K3),
    "birkhoff-slots": lambda: Birkhoff(D4, 3).on_kernel(K3),
    "birkhoff-paper": lambda: Birkhoff(D4, 4, init="paper", anchor=False).on_kernel(K3),
    "birkhoff-stack": lambda: Birkhoff(C4.regular(3)).on_group(K3),
    "birkhoff-ring": lambda: Birkhoff(groups.cyclic_shifts(6), 3).on_domain(),
    "birkhoff-trivial": lambda: Birkhoff(C4, 1).on_kernel(K3),
    "birkhoff-group": lambda: Birkhoff(D4, 3).on_group(K3),
    "birkhoff-partial": lambda: Birkhoff(OPEN).on_group(K3),
    "kronecker": lambda: Kronecker(4, 3).on_kernel(K3),
    "kronecker-group": lambda: Kronecker(4, 3).on_group(K3),
    "kronecker-free": lambda: Kronecker(3, 3, anchor=False).on_group(K3),
    "kronecker-learned": lambda: Kronecker(4, 3, elements="learned").on_group(K3),
    "kronecker-held": lambda: Kronecker.from_action(C4, 3).on_group(K3),
    "kronecker-open": lambda: Kronecker.from_action(OPEN, 3).on_group(K3),
    "kronecker-open-lift": lambda: Kronecker.from_action(OPEN, 3).on_kernel(K3),
    "kronecker-candidates": lambda: Kronecker.from_action(D4, 3, learn=True).on_group(K3),
    "kronecker-trivial": lambda: Kronecker(1, 3).on_group(K3),
    "row-stochastic": lambda: RowStochastic(4, 9),
    "row-stochastic-paper": lambda: RowStochastic(3, 9, anchor=False, init="paper"),
    "row-stochastic-group": lambda: RowStochastic(4, 36).on_group(K3),
    "unconstrained": lambda: Unconstrained(4, 9),
    "unconstrained-paper": lambda: Unconstrained(4, 36, init="paper").on_group(K3),
}


@pytest.fixture(params=CASES, ids=list(CASES))
def representation(request):
    return CASES[request.param]()


SETS = {
    "free": lambda R, tolerance: R.isfinite().all(),
    "nonnegative": lambda R, tolerance: R.isfinite().all() and R.min() >= 0,
    "row stochastic": lambda R, tolerance: R.min() >= 0 and (R.sum(-1) - 1).abs().max() < tolerance,
    "doubly stochastic": lambda R, tolerance: R.min() >= 0 and marginal_error(R) < tolerance,
}
"""What each membership says, the largest set first."""


def assert_member(representation, tolerance):
    R = representation().detach()
    assert SETS[representation.membership](R, tolerance)
    if not representation.learned_parts():
        smallest = [name for name, contains in SETS.items() if contains(R, tolerance)][-1]
        assert representation.membership == smallest


def train(representation, steps):
    """Adam on everything that layers use: expanded weights, the measure and the penalties."""
    parameters = [p for p in representation.parameters() if p.numel()]
    optimizer = torch.optim.Adam(parameters, lr=0.1)
    theta = torch.randn(2, 3, representation.positions)
    target = torch.randn_like(representation.expand(theta))
    for _ in range(steps):
        optimizer.zero_grad()
        loss = (representation.expand(theta) - target).square().sum()
        if representation.measure is not None:
            loss = loss + representation.measure.sum()
        penalties = representation.penalties()
        (loss + 0.01 * penalties["entropy"] + 0.1 * penalties["norm"]).backward()
        optimizer.step()
    return parameters


def test_shape_and_membership(representation):
    R = representation()
    G, D = representation.group_size, representation.positions
    assert R.shape == (G, D, D)
    assert_member(representation, 1e-4)


def test_stays_a_member_while_it_learns(representation):
    if not any(p.numel() for p in representation.parameters()):
        pytest.skip("nothing to train")
    before = copy.deepcopy(representation.state_dict())
    parameters = train(representation, 5)
    assert all(p.grad.isfinite().all() and p.grad.abs().max() > 0 for p in parameters)
    after = representation.state_dict()
    assert all(not torch.equal(after[key], before[key]) for key in before if before[key].numel())
    assert_member(representation, 1e-3)


def test_expands_as_the_stack_says(representation):
    theta = torch.randn(2, 3, representation.positions)
    expected = torch.einsum("gde,oie->ogid", representation(), theta)
    torch.testing.assert_close(representation.expand(theta), expected, rtol=1e-5, atol=1e-5)


def test_keeps_the_precision_of_base_weights(representation):
    theta, other = torch.randn(2, 2, 3, representation.positions, dtype=torch.float64)
    together = representation.expand(theta + other)
    assert together.dtype == torch.float64
    apart = representation.expand(theta) + representation.expand(other)
    torch.testing.assert_close(together, apart, rtol=0, atol=1e-12)


def test_expands_in_float32_under_autocast(representation):
    theta = torch.randn(2, 1, representation.positions)
    expected = representation.expand(theta)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        torch.testing.assert_close(representation.expand(theta), expected)
        assert representation().dtype == torch.float32


def test_penalties_and_marginal_error_are_finite_scalars(representation):
    penalties = representation.penalties()
    assert set(penalties) == {"entropy", "norm"}
    for value in (*penalties.values(), representation.marginal_error):
        assert value.ndim == 0
        assert value.isfinite()
    expected = marginal_error(representation())
    torch.testing.assert_close(representation.marginal_error, expected, rtol=1e-4, atol=1e-5)


def test_says_its_sizes(representation):
    G, D = representation.group_size, representation.positions
    assert f"group_size={G}, positions={D}" in repr(representation)


def test_state_moves_whole(representation):
    keys = list(representation.state_dict())
    assert list(representation.eval().state_dict()) == keys
    twin = copy.deepcopy(representation)
    with torch.no_grad():
        for p in twin.parameters():
            p.add_(torch.randn_like(p))
    twin.load_state_dict(representation.state_dict(), strict=True)
    torch.testing.assert_close(twin(), representation())
    pickled = pickle.loads(pickle.dumps(representation))
    assert torch.equal(pickled(), representation())
    file = io.BytesIO()
    torch.save(representation.state_dict(), file)
    file.seek(0)
    assert list(torch.load(file, weights_only=True)) == keys


def test_follows_the_dtype(representation):
    theta = torch.randn(2, 1, representation.positions)
    expected = representation.expand(theta)
    twice = copy.deepcopy(representation).double()
    assert twice().dtype == torch.float64
    assert twice.expand(theta.double()).dtype == torch.float64
    halved = copy.deepcopy(representation).half().expand(theta.half())
    assert halved.dtype == torch.float16
    torch.testing.assert_close(halved.float(), expected, rtol=0.02, atol=0.02)


def test_moves_to_another_device(representation):
    keys = list(representation.state_dict())
    representation.to("meta")
    tensors = [*representation.parameters(), *representation.buffers()]
    assert all(tensor.device.type == "meta" for tensor in tensors)
    assert list(representation.state_dict()) == keys


@pytest.mark.parametrize("case", CASES)
def test_starts_on_the_meta_device(case):
    expected = CASES[case]()
    with torch.device("meta"):
        made = CASES[case]()
    made.to_empty(device="cpu").load_state_dict(expected.state_dict(), strict=True)
    torch.testing.assert_close(made.eval()(), expected.eval()(), rtol=1e-4, atol=1e-5)


SHARED = {
    "fixed": lambda: Fixed(C4),
    "gated": lambda: Gated(C4),
    "birkhoff": lambda: Birkhoff(C4),
    "birkhoff-slots": lambda: Birkhoff(D4, 4),
    "kronecker": lambda: Kronecker(4, 3),
    "kronecker-learned": lambda: Kronecker(4, 3, elements="learned"),
    "kronecker-held": lambda: Kronecker.from_action(C4, 3),
    "kronecker-held-table": lambda: Kronecker(4, 3, elements=C4.cayley),
}


@pytest.mark.parametrize("make", SHARED.values(), ids=list(SHARED))
def test_one_instance_serves_a_network(make):
    instance = make()
    net = torch.nn.Sequential(
        LiftConv2d(2, 3, 3, instance),
        GroupConv2d(3, 3, 3, instance),
        GroupConv2d(3, 3, 3, instance),
    )
    twin = copy.deepcopy(net)
    count = sum(p.numel() for p in instance.parameters())
    weights = 3 * (2 * 9 + 3 * 36 * 2 + 3)
    assert sum(p.numel() for p in net.parameters()) == weights + count
    assert sum(p.numel() for p in twin.parameters()) == weights + count
    with torch.no_grad():
        for p in instance.parameters():
            p.add_(torch.randn_like(p))
    twin.load_state_dict(net.state_dict(), strict=True)
    x = torch.randn(2, 2, 7, 7)
    y = net(x)
    torch.testing.assert_close(twin(x), y)
    assert y.shape == (2, 3, 4, 1, 1)
    y.square().sum().backward()
    assert all(p.grad.abs().max() > 0 for p in instance.parameters())


@pytest.mark.parametrize(
    "make",
    [
        lambda **options: Sinkhorn(4, 9, **options),
        lambda **options: RowStochastic(4, 9, **options),
        lambda **options: Unconstrained(4, 9, **options),
        lambda **options: Gated(C4, **options),
        lambda **options: Birkhoff(C4, **options),
        lambda **options: Kronecker(4, 3, **options),
        lambda **options: Kronecker.from_action(C4, 3, **options),
        lambda **options: Measure(4, **options),
    ],
)
def test_device_and_dtype_are_those_of_torch(make):
    torch.manual_seed(0)
    expected = make().double().state_dict()
    torch.manual_seed(0)
    made = make(dtype=torch.float64)
    assert all(torch.equal(made.state_dict()[key], expected[key]) for key in expected)
    made = make(device="meta", dtype=torch.float16)
    tensors = [*made.parameters(), *made.buffers()]
    assert {(t.device.type, t.dtype) for t in tensors} == {("meta", torch.float16)}


RECIPES = SHARED | {
    "fixed-open": lambda: Fixed(OPEN),
    "fixed-interpolated": lambda: Fixed(groups.rotations(8)),
    "gated-open": lambda: Gated(OPEN),
    "birkhoff-open": lambda: Birkhoff(OPEN),
    "kronecker-open": lambda: Kronecker.from_action(OPEN, 3),
}


@pytest.mark.parametrize("make", RECIPES.values(), ids=list(RECIPES))
def test_a_recipe_knows_what_it_learns_and_no_matrices(make):
    instance = make()
    assert not isinstance(instance, Stack)
    assert f"group_size={instance.group_size}" in repr(instance)
    for stack in (instance.on_kernel(K3), instance.on_group(K3)):
        assert isinstance(stack, Stack)
        assert (stack.group_size, stack.gate) == (instance.group_size, instance.gate)
        assert set(stack.parameters()) <= set(instance.parameters())
        assert set(stack.learned_parts()) <= set(instance.learned_parts())
    # Group layers use all that is learned.
    assert set(stack.parameters()) == set(instance.parameters())
    assert set(stack.learned_parts()) == set(instance.learned_parts())
    penalties = instance.penalties()
    for name, value in penalties.items():
        assert value.ndim == 0
        assert value.isfinite()
        assert value == sum(getattr(part, name)() for part in instance.learned_parts())
    learned = [p for name, p in instance.named_parameters() if not name.startswith("gate")]
    if learned:
        assert all(g.abs().max() > 0 for g in torch.autograd.grad(penalties["entropy"], learned))
    else:
        assert penalties["entropy"] == 0


def objective(modules, weights):
    """What training adds to the loss, and the size of its gradient."""
    net = torch.nn.ModuleList(modules)
    optim = OptimConfig(**{"measure": 0.0, **weights})
    total = Penalty(net, optim)()
    if not (isinstance(total, torch.Tensor) and total.requires_grad):
        return float(total), 0.0
    gradient = torch.autograd.grad(total, list(net.parameters()), allow_unused=True)
    return total.item(), sum(g.abs().sum().item() for g in gradient if g is not None)


@pytest.mark.parametrize("weight", ["entropy", "norm", "measure"])
@pytest.mark.parametrize(
    "make",
    [*RECIPES.values(), lambda: Sinkhorn(4, 9), lambda: RowStochastic(4, 9)],
    ids=[*RECIPES, "sinkhorn", "row-stochastic"],
)
def test_what_is_learned_counts_once_however_many_layers_use_it(make, weight):
    instance = make()
    with torch.no_grad():
        for p in instance.parameters():
            p.add_(0.1 * torch.randn_like(p))
    if weight == "measure":
        expected = 0.0 if instance.gate is None else instance.measure[1:].sum().item()
    else:
        parts = instance.learned_parts()
        expected = sum(getattr(part, weight)().item() for part in parts)
    lift = LiftConv2d(1, 2, 3, instance)
    if not isinstance(instance, Stack):
        hidden = [GroupConv2d(2, 2, 3, instance) for _ in range(3)]
    else:
        hidden = [LiftConv2d(1, 2, 3, instance) for _ in range(3)]
    networks = [hidden[:1], [lift, *hidden], [*hidden, lift], [instance, lift, *hidden]]
    first, *others = (objective(network, {weight: 0.5}) for network in networks)
    assert first[0] == pytest.approx(0.5 * expected, rel=1e-5)
    assert all(other == pytest.approx(first, rel=1e-4) for other in others)


def settle(slots, elements):
    """Put slot g wholly on the given element."""
    logits = slots.coefficients.logits
    with torch.no_grad():
        logits.fill_(-1e4)
        logits[torch.arange(len(logits)), torch.tensor(elements[-len(logits) :])] = 0.0


def test_settled_slots_are_the_known_group():
    slots = Birkhoff(D4, 4)
    settle(slots, [0, 1, 2, 3])
    assert torch.equal(slots.on_kernel(K3)(), C4.lift(3))
    assert torch.equal(slots.on_group(K3)(), C4.regular(3))
    assert slots.on_group(K3).marginal_error == 0


def test_settled_slots_of_another_order_stay_equivariant():
    slots = Birkhoff(D4, 4)
    settle(slots, [0, 3, 2, 1])
    net = torch.nn.Sequential(LiftConv2d(1, 3, 3, slots), GroupConv2d(3, 2, 3, slots))
    x = torch.randn(2, 1, 7, 7)
    turned = net(x.rot90(1, (-2, -1)))
    expected = net(x).rot90(1, (-2, -1))[:, :, [1, 2, 3, 0]]
    torch.testing.assert_close(turned, expected)


def test_slots_that_settled_together_stay_equivariant():
    slots = Birkhoff(D4, 4)
    settle(slots, [0, 0, 4, 4])
    net = torch.nn.Sequential(LiftConv2d(1, 3, 3, slots), GroupConv2d(3, 2, 3, slots))
    x = torch.randn(2, 1, 7, 7)
    expected = net(x).flip(-1)[:, :, [2, 3, 0, 1]]
    torch.testing.assert_close(net(x.flip(-1)), expected)


def test_nothing_flows_where_a_product_leaves_the_chosen_set():
    slots = Birkhoff(D4, 2)
    settle(slots, [0, 1])
    assert torch.equal(slots.on_group(K3)(), Fixed(OPEN).on_group(K3)())
    dictionary = Birkhoff(OPEN)
    settle(dictionary, [0, 1])
    assert torch.equal(dictionary.on_group(K3)(), Fixed(OPEN).on_group(K3)())


def test_entropy_of_slots_vanishes_where_they_settle():
    slots = Birkhoff(D4, 4)
    assert slots.on_group(K3).penalties()["entropy"] > 1
    settle(slots, [0, 3, 2, 1])
    assert slots.on_group(K3).penalties()["entropy"] == 0


def test_slots_of_a_group_layer_act_as_the_formula_says():
    slots = Birkhoff(D4, 3, init="paper")
    c, A, B = slots.coefficients(), D4.cayley, D4.lift(3)
    expected = [sum(c[g, n] * torch.kron(c @ A[n] @ c.T, B[n]) for n in range(8)) for g in range(3)]
    torch.testing.assert_close(slots.on_group(K3)(), torch.stack(expected))


def test_kronecker_is_the_product():
    view = Kronecker(4, 3, elements="learned").on_group(K3)
    A, B = (factor.R for factor in view.factors())
    expected = torch.stack([torch.kron(a, b) for a, b in zip(A, B, strict=True)])
    torch.testing.assert_close(view(), expected)


ACTIONS = {
    "C4": (C4, K3),
    "D4": (D4, (5, 5)),
    "flips": (groups.flips("HW"), (3, 5)),
    "ring": (groups.cyclic_shifts(7), (7,)),
    "cube": (groups.cube(), (3, 3, 3)),
}


@pytest.mark.parametrize(("action", "size"), ACTIONS.values(), ids=list(ACTIONS))
def test_transport_finds_the_cayley_table(action, size):
    A = Transport(0.05, anchor=False)(action.lift(size)).R
    torch.testing.assert_close(A, action.cayley, rtol=0, atol=1e-5)


def test_transport_is_blurred_while_its_space_is():
    A = Transport(0.05, anchor=False)(torch.full((4, 9, 9), 1 / 9)).R
    torch.testing.assert_close(A, torch.full((4, 4, 4), 0.25))


def test_held_kronecker_is_the_known_group():
    theta = torch.randn(2, 3, 36)
    held, known = Kronecker.from_action(C4, 3), Fixed(C4)
    assert torch.equal(held.on_kernel(K3)(), known.on_kernel(K3)())
    assert torch.equal(held.on_group(K3)(), known.on_group(K3)())
    assert torch.equal(held.on_group(K3).expand(theta), known.on_group(K3).expand(theta))


def test_kronecker_near_candidates_starts_with_their_table():
    view = Kronecker.from_action(D4, 5, learn=True).on_group((5, 5))
    A, B = (factor.R for factor in view.factors())
    assert torch.equal(A.argmax(-1), D4.cayley.argmax(-1))
    assert torch.equal(B.argmax(-1), D4.lift(5).argmax(-1))


def test_kronecker_entropy_is_that_of_the_product():
    view = Kronecker(4, 3, elements="learned").on_group(K3)
    torch.testing.assert_close(view.penalties()["entropy"], entropy(view()), rtol=1e-4, atol=1e-3)


def test_a_large_product_is_formed_only_when_asked():
    view = Kronecker.from_action(groups.cube(), 5).on_group((5, 5, 5))
    with pytest.raises(ValueError, match=r"R \[24, 3000, 3000\] would need 824 MB"):
        view()
    assert view.marginal_error == 0
    assert view.penalties()["entropy"] == 0


def test_sharing_projects_the_spatial_action_once(monkeypatch):
    kronecker = Kronecker(4, 3)
    net = torch.nn.Sequential(LiftConv2d(1, 2, 3, kronecker), GroupConv2d(2, 2, 3, kronecker))
    x = torch.randn(1, 1, 7, 7)
    project, calls = projection_module.project, []

    def counted(*arguments):
        calls.append(arguments)
        return project(*arguments)

    monkeypatch.setattr(projection_module, "project", counted)
    expected = net(x)
    assert len(calls) == 2
    with shared(net):
        y = net(x)
        y.sum().backward()
    assert len(calls) == 3
    torch.testing.assert_close(y, expected)
    assert all(p.grad.abs().max() > 0 for p in kronecker.parameters())


MEMORY = """
import resource, torch
from symshare import GroupConv{d}d, Kronecker, LiftConv{d}d
torch.manual_seed(0)
torch.set_num_threads(1)
shared = Kronecker(24, {size})
net = torch.nn.Sequential(LiftConv{d}d(1, 8, {size}, shared), GroupConv{d}d(8, 8, {size}, shared))
optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
x, target = torch.randn({shape}), torch.randn(8)
for _ in range({steps}):
    optimizer.zero_grad()
    y = net(x).flatten(3).mean((0, 2, 3))
    loss = (y - target).square().mean()
    loss.backward()
    optimizer.step()
    print(loss.item())
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20)
"""


@pytest.mark.parametrize(
    ("d", "size", "shape"),
    [(2, (7, 7), (2, 1, 14, 14)), (3, (5, 5, 5), (1, 1, 9, 9, 9))],
    ids=["plane", "space"],
)
def test_large_groups_and_kernels_fit_and_learn(d, size, shape):
    """G = 24 with k = 7 and 5: R would have 133 and 864 MB, and as much for each gradient."""
    code = MEMORY.format(d=d, size=size, shape=shape, steps=3)
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    *losses, gigabytes = map(float, run.stdout.split())
    assert losses[-1] < losses[0]
    assert gigabytes < 4


def test_softmax_rows_can_copy_one_weight_everywhere():
    stack = RowStochastic(2, 4)
    with torch.no_grad():
        stack.logits.zero_()[..., 0] = 1e4
    assert stack.expand(torch.arange(1.0, 5).reshape(1, 1, 4))[0, 1, 0].tolist() == [1.0] * 4
    assert stack.marginal_error == 3


@pytest.mark.parametrize("kind", [RowStochastic, Unconstrained])
def test_ablations_start_as_sinkhorn_does(kind):
    torch.manual_seed(1)
    sharp = kind(3, 9)()
    assert (sharp[1] - sharp[2]).abs().max() > 0.8
    assert torch.allclose(sharp.amax(-1)[1:], torch.tensor(0.9 + 0.1 / 9))
    paper = kind(3, 9, init="paper")()
    assert (paper[1] - paper[2]).abs().max() < 0.2
    assert torch.equal(paper[0], torch.eye(9))


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Sinkhorn(4, 9).on_kernel((5, 5)), "D=9 positions, but a kernel of size"),
        (
            lambda: Sinkhorn(4, 37).on_group((3, 3)),
            r"positions = group_size \* taps = 4\*9 = 36, but R acts on D=37",
        ),
        (lambda: Sinkhorn(0, 9), "at least 1, got group_size=0"),
        (lambda: Sinkhorn(4, 9, init="rand"), "'sharp', 'paper' or 'identity', got 'rand'"),
        (lambda: Fixed(C4).on_domain(), "no positions of their own"),
        (lambda: Fixed(D4.lift(3)).on_kernel((5, 5)), "use positions=25"),
        (lambda: Fixed(C4).on_kernel((3, 5)), "rot90"),
        (lambda: Birkhoff(D4).on_domain(), "no positions of their own"),
        (lambda: Birkhoff(D4, 0), "group_size must be at least 1, got 0"),
        (lambda: Birkhoff(C4.lift(3)[1:]), "Birkhoff: the first matrix is not the identity"),
        (lambda: Gated(C4.lift(3)[1:]), "Gated: the first matrix is not the identity"),
        (lambda: Fixed(torch.eye(4)[:0, None]), r"Fixed: expected a stack of square matrices"),
        (lambda: Gated(torch.ones(0, 3, 3)), r"Gated: expected a stack of square matrices"),
        (lambda: Gated(D4, Measure(4)), "a measure on 4 elements, but the dictionary has 8"),
        (lambda: Measure(0), "Measure: group_size must be at least 1, got 0"),
        (lambda: Birkhoff(D4, init="rand"), "'sharp' or 'paper', got 'rand'"),
        (lambda: Birkhoff(torch.full((2, 4, 4), 0.25)), "matrix 0 of the dictionary is no"),
        (lambda: Birkhoff(torch.eye(4)), r"expected a stack of square matrices \[G, D, D\]"),
        (lambda: Birkhoff(D4.lift(3)).on_kernel((5, 5)), "use positions=25"),
        (lambda: Birkhoff(D4.lift(3)).on_group((2, 2)), "= 8\\*4 = 32, but R acts on D=9"),
        (lambda: Birkhoff(D4).on_kernel(K3).expand(torch.ones(1, 1, 8)), "acts on D=9 positions"),
        (lambda: Kronecker(4, 3).on_domain(), "one stack for lifting and another for group layers"),
        (lambda: Kronecker(0, 3), "at least 1, got group_size=0"),
        (lambda: Kronecker(4, 3).on_kernel((5, 5)), r"kernels of size \(3, 3\), but the layer"),
        (lambda: Kronecker(4, 3).on_group((5, 5)), "make another Kronecker for this size"),
        (lambda: Kronecker(4, 3).on_group(K3).on_group((5, 5)), "but R acts on D=36 positions"),
        (lambda: Kronecker(4, 3).on_group(K3).on_kernel(K3), "KroneckerProduct.*use positions=9"),
        (lambda: Kronecker(4, 3).on_kernel(K3).on_group(K3), "KroneckerSpace.*use positions=36"),
        (lambda: Kronecker(4, 3, elements="free"), "'transport', 'learned' or a stack, got 'free'"),
        (lambda: Kronecker(4, 3, elements=C4.lift(3)), r"elements must be a stack \[4, 4, 4\]"),
        (lambda: Kronecker(4, 3, space=C4.lift(5)), r"space must be a stack \[4, 9, 9\]"),
        (lambda: Kronecker(2, 3, elements=-5 * torch.ones(2, 2, 2)), "down to -5 and sums off"),
        (lambda: Kronecker(4, 3, elements=C4.cayley / 2), "elements must be doubly stochastic up"),
        (lambda: Kronecker(4, 3, elements=C4.cayley * torch.nan), "down to nan"),
        (lambda: Kronecker(4, 3, elements=C4.cayley.flip(0)), "put it first in elements"),
        (lambda: Kronecker(4, 3, learn_space=False), "pass space="),
        (lambda: Kronecker(4, 3, space=C4.lift(3).flip(0)), "is not the identity"),
        (lambda: Kronecker(4, 3, space=2 * C4.lift(3)), "sums off by 1; project it first"),
        (lambda: Kronecker(4, 1), "tells no elements apart"),
        (lambda: Kronecker(4, 3, temperature=0.0), "temperature must be positive"),
        (lambda: Kronecker(4, 3).on_group(K3).expand(torch.ones(1, 1, 9)), "acts on D=36"),
        (
            lambda: RowStochastic(4, 9).on_kernel((5, 5)),
            r"RowStochastic\(group_size=4, positions=9\): R acts on D=9",
        ),
        (lambda: RowStochastic(0, 9), "RowStochastic: group_size and positions"),
        (lambda: Unconstrained(4, 9, init="rand"), "Unconstrained: init must be"),
    ],
)
def test_says_what_does_not_fit(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_random_permutations_are_permutations():
    stack = random_permutations(5, 7)
    assert marginal_error(stack) == 0
    assert set(stack.unique().tolist()) == {0.0, 1.0}


@pytest.mark.parametrize(
    ("count", "positions"), [(1, 2), (3, 3), (5, 3), (3, 4), (22, 4), (23, 5), (3, 9), (23, 392)]
)
def test_random_permutations_are_distinct_and_none_is_the_identity(count, positions):
    for _ in range(2 if positions > 9 else 100):
        stack = random_permutations(count, positions)
        assert len({tuple(row) for row in stack.argmax(-1).tolist()}) == count
        assert not (stack == torch.eye(positions)).all((-2, -1)).any()


@pytest.mark.parametrize(("count", "positions"), [(0, 9), (4, 1), (2, 2), (6, 3), (15, 3)])
def test_where_permutations_run_out_all_come_before_any_repeats(count, positions):
    stack = random_permutations(count, positions)
    assert stack.shape == (count, positions, positions)
    distinct = {tuple(row) for row in stack.argmax(-1).tolist()}
    assert len(distinct) == min(count, math.factorial(positions))


def test_random_permutations_are_uniform():
    """Each of the 23 in one of 4 places: 400 draws of 3 of them, by a chi-square test."""
    counts = torch.zeros(24)
    rows = [row for _ in range(400) for row in random_permutations(3, 4).argmax(-1)]
    for row in rows:
        counts[list(itertools.permutations(range(4))).index(tuple(row.tolist()))] += 1
    expected = 1200 / 23
    assert counts[0] == 0
    assert ((counts[1:] - expected).square() / expected).sum() < 48.3  # 0.999 at 22 degrees


@pytest.mark.parametrize(
    "make",
    [
        lambda: Sinkhorn(4, 3),
        lambda: RowStochastic(6, 3),
        lambda: Unconstrained(4, 3),
        lambda: Kronecker(2, (1, 2)).on_kernel((1, 2)),
        lambda: Kronecker(5, (3,)).on_kernel((3,)),
    ],
    ids=["sinkhorn", "row-stochastic", "unconstrained", "kronecker-2", "kronecker-3"],
)
def test_elements_start_distinct(make):
    for _ in range(50):
        stack = make()
        assert len({tuple(row) for row in stack().argmax(-1).tolist()}) == stack.group_size


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


def test_a_layer_tells_its_representation():
    assert "group_size=4, positions=25" in repr(LiftConv2d(1, 2, 5, Sinkhorn(4, 25)))
    assert "iterations=20" in repr(Sinkhorn(4, 9, anchor=False, iterations=20))
    assert "anchor=False" in repr(Sinkhorn(4, 9, anchor=False))
    assert "id, rot90, rot180, rot270" in repr(Fixed(C4))
    assert "temperature=0.05" in repr(GroupConv2d(2, 2, 3, Kronecker(4, 3)))


@pytest.mark.parametrize("wrong", ["'C4'", "[[1.0]]", "numpy.eye(4)[None]"])
@pytest.mark.parametrize("recipe", ["Fixed", "Gated"])
def test_what_is_no_action_is_refused_by_name(recipe, wrong, tmp_path):
    # In a Python of its own: here the annotations are checked before the code is reached.
    program = f"""
import numpy, symshare
try:
    symshare.{recipe}({wrong})
except TypeError as error:
    print(error)
"""
    said = fresh_python(tmp_path, "-c", program)
    assert said.startswith(f"{recipe}: expected an action or matrices")
    assert "symshare.groups.rotations(4)" in said
