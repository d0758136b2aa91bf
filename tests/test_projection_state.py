"""One R for every state of the logits: warm starts, sharing, and all that could upset them."""

import copy
import io
import pickle

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from symshare import representations, sinkhorn
from symshare.representations import Projection, Sinkhorn, shared
from symshare.sinkhorn import marginal_error, norm_penalty, project


def sharp(N=3, D=8):
    return Projection(torch.randn(N, D, D) + 6 * torch.eye(D))


def optimiser_step(projection, size=0.05):
    with torch.no_grad():
        projection.logits += size * torch.randn_like(projection.logits)


def test_all_forward_passes_of_a_step_see_the_same_matrix():
    projection = sharp()
    for _ in range(3):
        first, second = projection(), projection()
        assert torch.equal(first, second)
        optimiser_step(projection)
        assert not torch.equal(projection(), first)


def test_autocast_does_not_pass_for_a_change():
    projection = sharp()
    first = projection()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(projection(), first)


def on_accelerators(monkeypatch):
    """The path of accelerators, which looks at no value, on the CPU."""
    monkeypatch.setattr(representations.projection, "adapts", lambda _: False)
    monkeypatch.setattr(sinkhorn.projection, "adapts", lambda _: False)


PATHS = {"cpu": lambda _: None, "accelerators": on_accelerators}


@pytest.fixture(params=PATHS)
def path(request, monkeypatch):
    PATHS[request.param](monkeypatch)


def in_place(change):
    def apply(projection):
        with torch.no_grad():
            projection.logits.copy_(change(projection.logits))

    return apply


def by_optimiser(optimiser, **options):
    def apply(projection):
        projection().square().sum().backward()
        optimiser(projection.parameters(), **options).step()

    return apply


def at_one_entry(projection):
    projection.logits.data[1, 0, 3] += 1e-6


def without_a_gauge(projection):
    """As a gradient step, which no sum of rows, columns or all would notice."""
    change = torch.randn(8, 8).double()
    change = change - change.mean(0)
    projection.logits.data += change - change.mean(1, keepdim=True)


CHANGES = {
    "one entry": at_one_entry,
    "sums stay": without_a_gauge,
    "off the diagonal": in_place(lambda x: x + (1 - torch.eye(8))),
    "one column": in_place(lambda x: x + torch.eye(8)[0]),
    "the sign": in_place(torch.neg),
    "the order": in_place(lambda x: x.flip(-1)),
    "the transpose": in_place(lambda x: x.mT + 0),
    "a step": by_optimiser(torch.optim.SGD, lr=0.1),
    "a step of lists": by_optimiser(torch.optim.Adam, lr=0.1, foreach=True),
    "a fused step": by_optimiser(torch.optim.Adam, lr=0.1, fused=True),
    "assigned data": lambda p: setattr(p.logits, "data", p.logits.data.roll(1, -1)),
    "loaded": lambda p: p.load_state_dict(
        {"logits": p.logits.roll(1, -1), "potentials": p.potentials.clone()}
    ),
}


@pytest.mark.usefixtures("path")
@pytest.mark.parametrize("change", CHANGES)
def test_every_change_of_the_logits_is_noticed(change):
    projection = sharp()
    projection()
    CHANGES[change](projection)
    before = projection.potentials.clone()
    assert not torch.equal(projection._start, before)
    projection()
    assert torch.equal(projection._start, before)
    projection()
    assert torch.equal(projection._start, before)


@pytest.mark.usefixtures("path")
def test_the_start_follows_logits_that_drift():
    """As Adam moves them where a column's entries have gradients of one sign, or by noise."""
    projection = sharp(4, 25)
    drift = 0.01 * torch.randn(4, 1, 25).sign() * (1 - torch.eye(25))
    for _ in range(300):
        R = projection()
        with torch.no_grad():
            projection.logits += drift
    assert marginal_error(R) < 1e-5


def test_accumulated_gradients_are_those_of_one_batch():
    whole = Sinkhorn(4, 9)
    parts = copy.deepcopy(whole)
    targets = torch.randn(4, 4, 9, 9)
    whole().mul(targets.mean(0)).sum().backward()
    for target in targets:
        (parts().mul(target).sum() / 4).backward()
    torch.testing.assert_close(whole.logits.grad, parts.logits.grad)


def test_activation_checkpointing_recomputes_the_same():
    projection = sharp()
    seen = []

    def use(x):
        R = projection()
        seen.append(R.detach())
        return (R @ x).relu()

    x = torch.randn(8, 2)
    checkpoint(use, x, use_reentrant=False).sum().backward()
    assert len(seen) == 2
    assert torch.equal(*seen)
    expected = copy.deepcopy(projection)
    expected.logits.grad = None
    (expected() @ x).relu().sum().backward()
    assert torch.equal(expected.logits.grad, projection.logits.grad)


def test_evaluation_moves_nothing():
    projection = sharp()
    projection()
    state = {name: x.clone() for name, x in projection.named_buffers()}
    projection.eval()
    projection()
    assert all(torch.equal(x, state[name]) for name, x in projection.named_buffers())


def test_evaluation_sees_a_changed_parameter():
    projection = sharp().eval()
    before = projection()
    optimiser_step(projection)
    assert (projection() - before).abs().max() > 1e-3


def test_training_and_evaluation_agree():
    projection = sharp()
    in_training = projection()
    torch.testing.assert_close(projection.eval()(), in_training, atol=1e-6, rtol=1e-5)


def test_the_average_of_a_training_projects_to_convergence():
    projection = sharp()
    average = torch.optim.swa_utils.AveragedModel(projection)
    for _ in range(5):
        projection()
        optimiser_step(projection, 0.5)
        average.update_parameters(projection)
    average.eval()
    assert marginal_error(average()) < 1e-5
    torch.testing.assert_close(average(), project(average.module.logits).R, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
@pytest.mark.parametrize("training", [True, False])
def test_a_copy_goes_on_as_the_original(copied, training):
    projection = sharp().train(training)
    projection()
    twin = copied(projection)
    for module in (projection, twin):
        torch.manual_seed(1)
        optimiser_step(module)
    assert torch.equal(projection(), twin())


def test_a_resumed_training_goes_on_as_if_never_stopped():
    projection = sharp()
    projection()
    optimiser_step(projection)
    file = io.BytesIO()
    torch.save(projection.state_dict(), file)
    file.seek(0)
    resumed = Projection(torch.zeros(3, 8, 8))
    resumed()
    resumed.load_state_dict(torch.load(file, weights_only=True))
    assert torch.equal(projection(), resumed())


def test_keys_are_the_same_in_training_and_evaluation():
    projection = sharp()
    assert list(projection.state_dict()) == ["logits", "potentials"]
    assert list(projection.eval().state_dict()) == ["logits", "potentials"]


def test_functional_call_leaves_no_trace():
    projection = sharp()
    other = {"logits": torch.randn(3, 8, 8)}
    R = torch.func.functional_call(projection, other)
    torch.testing.assert_close(R, project(other["logits"]).R)
    assert projection._seen.isnan().all()
    batch = {"logits": torch.randn(5, 3, 8, 8)}
    stacked = torch.vmap(lambda p: torch.func.functional_call(projection, p))(batch)
    torch.testing.assert_close(stacked, project(batch["logits"]).R)


def test_the_path_of_the_matrix_does_not_depend_on_the_gauge():
    """Recentring the logits after every step changes the logits, but not R."""
    start, target = torch.randn(2, 6, 6).double(), torch.eye(6).double().roll(1, 0)

    def path(recentre):
        projection = Projection(start.clone())
        adam = torch.optim.Adam(projection.parameters(), lr=0.05)
        rows = []
        for _ in range(40):
            adam.zero_grad()
            R = projection()
            (R - target).square().sum().backward()
            adam.step()
            rows.append(R.detach())
            if recentre:
                with torch.no_grad():
                    found = project(projection.logits)
                    projection.logits.copy_(found.R.log())
        return torch.stack(rows), projection.logits.detach()

    (plain, logits), (recentred, centred) = path(False), path(True)
    torch.testing.assert_close(plain, recentred, atol=1e-9, rtol=1e-7)
    assert norm_penalty(centred) < 1e-12 < 1e-3 < norm_penalty(logits)


@pytest.mark.parametrize("init", ["sharp", "paper"])
def test_sums_stay_at_one_throughout_a_training(init):
    stack = Sinkhorn(4, 25, init=init)
    adam = torch.optim.Adam(stack.parameters(), lr=0.05)
    theta, W = torch.randn(1, 4, 25), torch.randn(1, 4, 4, 25)
    errors, losses = [], []
    for _ in range(300):
        adam.zero_grad()
        R = stack()
        loss = (torch.einsum("gde,oie->ogid", R, theta) - W).square().mean()
        loss.backward()
        adam.step()
        errors.append(marginal_error(R.detach()).item())
        losses.append(loss.item())
    assert max(errors) < 1e-4
    assert losses[-1] < 0.8 * losses[0]


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.stacks = nn.ModuleList([Sinkhorn(4, 9), Sinkhorn(4, 36), Sinkhorn(3, 36)])

    def forward(self, x):
        return sum(stack()[..., :9, :9].sum(0) @ x for stack in self.stacks)

    def penalty(self):
        return sum(stack.penalties()["entropy"] for stack in self.stacks)


def losses_and_gradients(network, x, within):
    network.zero_grad()
    with within(network):
        loss = network(x).square().sum() + network.penalty()
    loss.backward()
    return loss.detach(), [p.grad for p in network.parameters()]


class Apart:
    def __init__(self, network): ...

    def __enter__(self): ...

    def __exit__(self, *_): ...


def test_sharing_changes_nothing_but_the_number_of_projections(monkeypatch):
    network, x = Network(), torch.randn(9, 2)
    calls = []

    def counted(*args):
        calls.append(args[0].shape)
        return project(*args)

    monkeypatch.setattr("symshare.representations.projection.project", counted)
    apart = losses_and_gradients(network, x, Apart)
    assert len(calls) == 6
    calls.clear()
    together = losses_and_gradients(network, x, shared)
    assert sorted(calls) == [(3, 9, 9), (5, 36, 36)]
    torch.testing.assert_close(apart, together, atol=1e-5, rtol=1e-4)


def test_shared_projections_keep_their_warm_starts():
    network = Network()
    with shared(network):
        network(torch.randn(9, 2))
    for stack in network.stacks:
        assert not stack.projection._seen.isnan().any()
        assert stack.projection._given is None


def test_sharing_may_be_nested():
    network = Network()
    with shared(network):
        R = network.stacks[0].projection()
        with shared(network):
            assert network.stacks[0].projection() is R
        assert network.stacks[0].projection() is R


def test_sharing_ends_with_an_exception():
    network = Network()
    with pytest.raises(KeyError), shared(network):
        raise KeyError
    assert all(stack.projection._given is None for stack in network.stacks)


def test_logits_must_not_change_while_they_are_shared():
    stack = Sinkhorn(4, 9)
    with shared(stack):
        optimiser_step(stack.projection)
        with pytest.raises(RuntimeError, match="leave the block before the optimiser step"):
            stack()
    stack()


def test_other_logits_are_not_answered_with_the_shared_matrix():
    stack = Sinkhorn(4, 9)
    other = torch.randn(3, 9, 9)
    with shared(stack):
        R = torch.func.functional_call(stack, {"projection.logits": other})
    torch.testing.assert_close(R[1:], project(other).R)


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_copies_are_made_while_sharing(copied):
    network, x = Network(), torch.randn(9, 2)
    with shared(network):
        twin = copied(network)
    torch.testing.assert_close(twin(x), network(x))


def test_sharing_begun_without_gradients_does_not_withhold_them():
    stack = Sinkhorn(4, 9)
    with torch.no_grad(), shared(stack), torch.enable_grad():
        stack().square().sum().backward()
    assert stack.logits.grad is not None


def test_frozen_logits_project_to_convergence_and_leave_no_trace():
    projection = sharp()
    projection.logits.requires_grad_(False)
    before = projection.potentials.clone()
    assert marginal_error(projection()) < 1e-5
    assert torch.equal(projection.potentials, before)


def test_unrolled_sweeps_have_no_warm_start():
    projection = Projection(torch.randn(3, 8, 8), iterations=5)
    projection()
    assert projection._seen.isnan().all()
    assert not projection.potentials.any()


def test_a_poisoned_start_heals():
    projection = sharp()
    projection.potentials.fill_(torch.nan)
    assert marginal_error(projection()) < 1e-5
    assert projection.potentials.isfinite().all()


def test_the_state_of_the_first_version_is_read():
    logits = torch.randn(3, 9, 9)
    stack = Sinkhorn(4, 9)
    stack.load_state_dict({"logits": logits})
    assert torch.equal(stack.logits, logits)


def test_the_entropy_of_unrolled_sharp_matrices_has_a_gradient():
    stack = Sinkhorn(4, 9, iterations=20)
    with torch.no_grad():
        stack.logits.copy_(105 * torch.rand(3, 9, 9))
    stack.entropy().backward()
    assert stack.logits.grad.isfinite().all()


def test_compiled_it_notices_a_change_of_one_entry(unwrapped):
    projection = unwrapped.Sinkhorn(4, 9).projection
    compiled = torch.compile(projection, fullgraph=True, backend="aot_eager")
    compiled()
    assert torch.equal(compiled(), compiled())
    before = projection.potentials.clone()
    assert not torch.equal(projection._start, before)
    projection.logits.data[1, 0, 3] += 1e-6
    compiled()
    assert torch.equal(projection._start, before)
