import copy

import pytest
import torch
from torch import nn

from symshare import groups
from symshare.layers import GroupBatchNorm, GroupConv2d, LiftConv2d
from symshare.representations import Gated, Measure

SHAPES = [(4, 3, 5), (4, 3, 5, 6), (2, 3, 5, 6, 2), (2, 3, 5, 2, 3, 4)]


def measure(*weights):
    """A gate with the given weights, the first of which is 1."""
    gate = Measure(len(weights))
    with torch.no_grad():
        gate.logits.copy_(torch.logit(torch.tensor(weights[1:])))
    return gate


def randomise(norm):
    with torch.no_grad():
        for tensor in (norm.weight, norm.bias):
            tensor.uniform_(0.5, 2)


@pytest.mark.parametrize("momentum", [0.1, 0.7, None])
@pytest.mark.parametrize("gated", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
def test_equal_weights_make_torchs_batch_norm(shape, gated, momentum):
    gate = measure(1.0, 1.0, 1.0, 1.0, 1.0) if gated else None
    ours, theirs = (
        GroupBatchNorm(3, momentum=momentum, gate=gate),
        nn.BatchNorm1d(3, momentum=momentum),
    )
    randomise(ours)
    theirs.load_state_dict(ours.state_dict(), strict=not gated)
    for _ in range(3):
        f = 3 * torch.randn(shape) + 1
        expected = theirs(f.flatten(2)).view(shape)
        torch.testing.assert_close(ours(f), expected, atol=1e-5, rtol=1e-5)
    for name, buffer in theirs.named_buffers():
        torch.testing.assert_close(ours.get_buffer(name), buffer)
    ours.eval(), theirs.eval()
    f = torch.randn(shape)
    torch.testing.assert_close(ours(f), theirs(f.flatten(2)).view(shape), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("shape", SHAPES)
def test_weights_by_explicit_sums(shape):
    weights = torch.tensor([1.0, 0.8, 0.1, 0.5, 0.3])
    norm = GroupBatchNorm(3, momentum=1.0, gate=measure(*weights.tolist()))
    randomise(norm)
    f = 3 * torch.randn(shape) + 1
    y = norm(f)
    for c in range(3):
        part = f[:, c].movedim(1, 0).flatten(1)
        w = (weights[:, None] / weights.sum() / part.shape[1]).expand_as(part)
        mean = (w * part).sum()
        variance = (w * (part - mean) ** 2).sum()
        expected = (f[:, c] - mean) / (variance + 1e-5).sqrt() * norm.weight[c] + norm.bias[c]
        torch.testing.assert_close(y[:, c], expected, atol=1e-5, rtol=1e-4)
        torch.testing.assert_close(norm.running_mean[c], mean)
        torch.testing.assert_close(norm.running_var[c], variance / (1 - (w**2).sum()))


def test_a_measure_on_a_subgroup_is_that_subgroups_norm():
    gate = Measure(4)
    with torch.no_grad():
        gate.logits.copy_(torch.tensor([1e3, -1e3, -1e3]))
    large, small = GroupBatchNorm(3, gate=gate), GroupBatchNorm(3)
    f = torch.randn(2, 3, 4, 5, 6)
    torch.testing.assert_close(large(f)[:, :, :2], small(f[:, :, :2]), atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(large.running_var, small.running_var)
    torch.testing.assert_close(large.running_mean, small.running_mean)


def test_the_measure_gets_a_gradient_and_the_statistics_do_not():
    norm = GroupBatchNorm(3, gate=Measure(4))
    norm(torch.randn(2, 3, 4, 5)).pow(3).sum().backward()
    assert (norm.gate.logits.grad != 0).all()
    assert not norm.running_mean.requires_grad
    assert not norm.running_var.requires_grad


@pytest.mark.parametrize("gated", [False, True])
def test_gradients(gated):
    norm = GroupBatchNorm(2, gate=Measure(3) if gated else None).double()
    f = torch.randn(2, 2, 3, 2, 2, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(norm, f)


@pytest.mark.parametrize("gated", [False, True])
def test_options_are_those_of_torch(gated):
    gate = Measure(4) if gated else None
    f = torch.randn(2, 3, 4, 5)
    untracked = GroupBatchNorm(3, track_running_stats=False, gate=gate)
    assert untracked.running_mean is None
    torch.testing.assert_close(untracked.eval()(f), copy.deepcopy(untracked).train()(f))
    bare = GroupBatchNorm(3, affine=False, eps=10.0, gate=gate)
    assert bare.weight is None
    torch.testing.assert_close(
        bare(f), untracked(f) * untracked_ratio(f, gate), rtol=1e-4, atol=1e-5
    )
    assert isinstance(bare, nn.modules.batchnorm._BatchNorm)
    names = {n for n, _ in nn.BatchNorm2d(3).named_buffers()}
    assert {n for n, _ in GroupBatchNorm(3, gate=gate).named_buffers()} == names


def untracked_ratio(f, gate):
    """By how much a larger eps shrinks the output."""
    weights = torch.full((4,), 0.25) if gate is None else gate().detach() / gate().sum().detach()
    w = weights[:, None] / f.shape[0] / f.shape[3]
    mean = (f * w).sum((0, 2, 3), keepdim=True)
    variance = ((f - mean).square() * w).sum((0, 2, 3), keepdim=True)
    return ((variance + 1e-5) / (variance + 10.0)).sqrt()


@pytest.mark.parametrize("gated", [False, True])
@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_dtypes(gated, dtype):
    norm = GroupBatchNorm(3, gate=Measure(4) if gated else None).to(dtype)
    f = torch.randn(2, 3, 4, 5, 5, dtype=dtype)
    assert norm(f).dtype == dtype
    assert norm.eval()(f).dtype == dtype


def test_autocast_keeps_the_statistics_exact():
    norm = GroupBatchNorm(3, gate=Measure(4))
    twin, f = copy.deepcopy(norm), torch.randn(2, 3, 4, 5) + 100
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = norm(f)
    assert torch.equal(y, twin(f))
    assert torch.equal(norm.running_var, twin.running_var)


def test_half_precision_inputs_do_not_overflow():
    norm = GroupBatchNorm(1, gate=Measure(4))
    y = norm(1e4 * torch.randn(2, 1, 4, 64).half())
    assert y.isfinite().all()
    assert y.dtype == torch.float16


def test_evaluation_depends_on_one_sample_only():
    gated = Gated(groups.rotations(4))
    network = nn.Sequential(
        LiftConv2d(1, 3, 3, gated),
        GroupBatchNorm(3, gate=gated.gate),
        GroupConv2d(3, 3, 3, gated),
        GroupBatchNorm(3, gate=gated.gate),
    )
    x = torch.randn(4, 1, 7, 7)
    network(x)
    network.eval()
    torch.testing.assert_close(network(x)[:1], network(x[:1]))
    assert network(x[:0]).shape == (0, 3, 4, 3, 3)


def test_one_sample_without_space_and_one_element():
    gate = Measure(4)
    with torch.no_grad():
        gate.logits.fill_(-1e3)
    norm = GroupBatchNorm(3, gate=gate)
    y = norm(torch.randn(1, 3, 4))
    assert y.isfinite().all()
    assert norm.running_var.isfinite().all()
