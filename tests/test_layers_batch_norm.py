import copy

import pytest
import torch
from torch import nn

import processes
from symshare import groups
from symshare.layers import GroupBatchNorm, GroupConv2d, GroupPool, LiftConv2d
from symshare.layers.batch_norm import synchronise
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
        for tensor in norm.norm.parameters():
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
    theirs.load_state_dict(ours.norm.state_dict())
    for _ in range(3):
        f = 3 * torch.randn(shape) + 1
        expected = theirs(f.flatten(2)).view(shape)
        torch.testing.assert_close(ours(f), expected, atol=1e-5, rtol=1e-5)
    for name, buffer in theirs.named_buffers():
        torch.testing.assert_close(ours.norm.get_buffer(name), buffer)
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
        weight, bias = norm.norm.weight[c], norm.norm.bias[c]
        expected = (f[:, c] - mean) / (variance + 1e-5).sqrt() * weight + bias
        torch.testing.assert_close(y[:, c], expected, atol=1e-5, rtol=1e-4)
        torch.testing.assert_close(norm.norm.running_mean[c], mean)
        torch.testing.assert_close(norm.norm.running_var[c], variance / (1 - (w**2).sum()))


def test_a_measure_on_a_subgroup_is_that_subgroups_norm():
    gate = Measure(4)
    with torch.no_grad():
        gate.logits.copy_(torch.tensor([1e3, -1e3, -1e3]))
    large, small = GroupBatchNorm(3, gate=gate), GroupBatchNorm(3)
    f = torch.randn(2, 3, 4, 5, 6)
    torch.testing.assert_close(large(f)[:, :, :2], small(f[:, :, :2]), atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(large.norm.running_var, small.norm.running_var)
    torch.testing.assert_close(large.norm.running_mean, small.norm.running_mean)


def test_the_measure_gets_a_gradient_and_the_statistics_do_not():
    norm = GroupBatchNorm(3, gate=Measure(4))
    norm(torch.randn(2, 3, 4, 5)).pow(3).sum().backward()
    assert (norm.gate.logits.grad != 0).all()
    assert not norm.norm.running_mean.requires_grad
    assert not norm.norm.running_var.requires_grad


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
    assert untracked.norm.running_mean is None
    torch.testing.assert_close(untracked.eval()(f), copy.deepcopy(untracked).train()(f))
    bare = GroupBatchNorm(3, affine=False, eps=10.0, gate=gate)
    assert bare.norm.weight is None
    torch.testing.assert_close(
        bare(f), untracked(f) * untracked_ratio(f, gate), rtol=1e-4, atol=1e-5
    )


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
    assert torch.equal(norm.norm.running_var, twin.norm.running_var)


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
    assert norm.norm.running_var.isfinite().all()


def normalising():
    """All kinds of batch norms, after layers that need their gradients."""
    gated = Gated(groups.rotations(4))
    norms = GroupBatchNorm(3, gate=gated.gate), GroupBatchNorm(3)
    for norm in norms:
        randomise(norm)
    return nn.Sequential(
        LiftConv2d(1, 3, 3, gated),
        norms[0],
        nn.ReLU(),
        GroupConv2d(3, 3, 1, gated),
        norms[1],
        GroupPool(gated.gate),
        nn.BatchNorm2d(3, momentum=None),
        nn.Conv2d(3, 2, 3),
    )


@pytest.mark.parametrize("sizes", [(2, 3), (5, 0)])
def test_processes_compute_what_one_does_with_all_samples(tmp_path, sizes):
    network = normalising().double()
    x = 2 * torch.randn(sum(sizes), 1, 7, 7, dtype=torch.float64) + 1
    results = processes.step(synchronise(copy.deepcopy(network)), list(x.split(sizes)), tmp_path)
    y = network(x)
    processes.weighted(y).backward()
    gradients = {name: p.grad for name, p in network.named_parameters()}
    torch.testing.assert_close(torch.cat([result["y"] for result in results]), y)
    for result in results:
        torch.testing.assert_close(result["gradients"], gradients)
        torch.testing.assert_close(result["buffers"], dict(network.named_buffers()))


@pytest.mark.parametrize("convert", [synchronise, nn.SyncBatchNorm.convert_sync_batchnorm])
def test_conversion_keeps_the_function_and_the_names(convert):
    network = normalising()
    converted = convert(copy.deepcopy(network))
    assert {type(m) for m in converted.modules()} & {nn.BatchNorm1d, nn.BatchNorm2d} == set()
    assert converted.state_dict().keys() == network.state_dict().keys()
    for mode in (True, False):
        x = torch.randn(4, 1, 7, 7)
        torch.testing.assert_close(converted.train(mode)(x), network.train(mode)(x))
    torch.testing.assert_close(converted.state_dict(), network.state_dict())


def test_torch_finds_the_norm_to_update_its_statistics():
    network = normalising()
    x = [torch.randn(4, 1, 7, 7) for _ in range(3)]
    torch.optim.swa_utils.update_bn(x, network)
    norm = network[1].norm
    assert norm.num_batches_tracked == len(x)
    assert norm.momentum == 0.1
    cumulative = GroupBatchNorm(3, momentum=None, gate=network[1].gate)
    for batch in x:
        cumulative(network[0](batch))
    torch.testing.assert_close(norm.running_mean, cumulative.norm.running_mean)


def test_states_of_version_0_1_are_read():
    network = normalising()
    old = network.state_dict()
    for i in "14":
        for name in [name for name in old if name.startswith(f"{i}.norm.")]:
            old[name.replace("norm.", "")] = old.pop(name)
        old._metadata[i] = old._metadata.pop(f"{i}.norm")
    fresh = normalising()
    fresh.load_state_dict(old)
    torch.testing.assert_close(fresh.state_dict(), network.state_dict())
    assert "1.weight" in old
