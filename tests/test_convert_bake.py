import copy
import pickle

import pytest
import torch
from torch import nn

from symshare import bake, groups
from symshare.convert import constants
from symshare.layers import (
    GroupBatchNorm,
    GroupConv1d,
    GroupConv2d,
    GroupConv3d,
    GroupConvTranspose1d,
    GroupConvTranspose2d,
    GroupConvTranspose3d,
    GroupInstanceNorm,
    GroupLayerNorm,
    GroupLinear,
    GroupPool,
    LiftConv1d,
    LiftConv2d,
    LiftConv3d,
    LiftConvTranspose1d,
    LiftConvTranspose2d,
    LiftConvTranspose3d,
)
from symshare.models import MNIST, SMALL, Architecture, GroupCNN, wscnn
from symshare.representations import Fixed, Gated, Measure, Representation, Sinkhorn

C4 = groups.rotations(4)
G = 4


def blurred(group_size, positions):
    """A stack far from permutations, which has not converged after few iterations."""
    representation = Sinkhorn(group_size, positions)
    nn.init.normal_(representation.logits, std=2.0)
    return representation


def gate(size=G):
    measure = Measure(size)
    nn.init.normal_(measure.logits)
    return measure


def gated():
    return Gated(C4, gate())


LIFT = {1: LiftConv1d, 2: LiftConv2d, 3: LiftConv3d}
CONV = {1: GroupConv1d, 2: GroupConv2d, 3: GroupConv3d}
LIFT_T = {1: LiftConvTranspose1d, 2: LiftConvTranspose2d, 3: LiftConvTranspose3d}
CONV_T = {1: GroupConvTranspose1d, 2: GroupConvTranspose2d, 3: GroupConvTranspose3d}
SPACE = {1: (9,), 2: (7, 8), 3: (5, 6, 5)}
OPTIONS = {
    "default": {},
    "grouped": {"groups": 2, "bias": False},
    "strided": {"stride": 2, "padding": 1, "dilation": 2},
}
PLAIN_OPTIONS = OPTIONS | {
    "circular": {"padding": 1, "padding_mode": "circular"},
    "reflect": {"padding": 1, "padding_mode": "reflect"},
    "replicate same": {"padding": "same", "padding_mode": "replicate"},
    "same": {"padding": "same", "dilation": 2},
    "uneven same": {"padding": "same"},
    "valid": {"padding": "valid"},
}
TRANSPOSED_OPTIONS = OPTIONS | {
    "output padding": {"stride": 3, "padding": 1, "output_padding": 1, "groups": 2},
}
CONVOLUTIONS = [
    pytest.param(dims, kinds, lifting, options, id=f"{kinds[dims].__name__}-{name}")
    for kinds, lifting, table in (
        (LIFT, True, PLAIN_OPTIONS),
        (CONV, False, PLAIN_OPTIONS),
        (LIFT_T, True, TRANSPOSED_OPTIONS),
        (CONV_T, False, TRANSPOSED_OPTIONS),
    )
    for dims in (1, 2, 3)
    for name, options in table.items()
]


def convolution(dims, kinds, lifting, options, size=2, I=2, O=4):
    taps = size**dims
    representation = blurred(G, taps if lifting else G * taps)
    return kinds[dims](I, O, size, representation, **options)


def signal(dims, lifting, I=2, batch=2):
    return torch.randn(batch, I, *(() if lifting else (G,)), *SPACE[dims])


def difference(model, baked, x):
    with torch.no_grad():
        return float((model.eval()(x) - baked(x)).abs().max())


def symshare_modules(model):
    kinds = {type(module) for module in model.modules()}
    return {kind for kind in kinds if kind.__module__.startswith("symshare.")}


def batch_norm(kind, *args, **options):
    """A batch norm that has seen data, on average of mean 1 and variance 4."""
    norm = kind(*args, **options)
    if norm.affine:
        nn.init.normal_(norm.weight)
        nn.init.normal_(norm.bias)
    norm.running_mean.normal_(1.0)
    norm.running_var.uniform_(1.0, 7.0)
    return norm


@pytest.mark.filterwarnings("ignore:.*rotations are not exact")
@pytest.mark.parametrize(("dims", "kinds", "lifting", "options"), CONVOLUTIONS)
def test_convolutions_become_plain(dims, kinds, lifting, options):
    layer = convolution(dims, kinds, lifting, options)
    baked = bake(layer)
    x = signal(dims, lifting)
    assert symshare_modules(baked) == set()
    assert baked(x).shape == layer(x).shape
    assert difference(layer, baked, x) < 1e-5


@pytest.mark.filterwarnings("ignore:.*rotations are not exact")
@pytest.mark.parametrize("affine", [True, False])
@pytest.mark.parametrize("name", ["default", "grouped"])
@pytest.mark.parametrize("dims", [1, 2, 3])
@pytest.mark.parametrize("kinds", [LIFT, CONV, LIFT_T, CONV_T])
def test_batch_norm_is_folded(kinds, dims, name, affine):
    lifting = kinds in (LIFT, LIFT_T)
    layer = convolution(dims, kinds, lifting, OPTIONS[name])
    norm = batch_norm(GroupBatchNorm, 4, affine=affine)
    model = nn.Sequential(layer, norm)
    baked = bake(model)
    assert symshare_modules(baked) == set()
    assert isinstance(baked[1], nn.Identity)
    assert difference(model, baked, signal(dims, lifting)) < 1e-5


@pytest.mark.parametrize(("dims", "kind"), [(1, nn.BatchNorm2d), (2, nn.BatchNorm3d)])
def test_batch_norm_of_torch_is_folded(dims, kind):
    model = nn.Sequential(convolution(dims, LIFT, True, {}), batch_norm(kind, 4), nn.ReLU())
    baked = bake(model)
    assert isinstance(baked[1], nn.Identity)
    assert difference(model, baked, signal(dims, True)) < 1e-5


class Residual(nn.Module):
    """Batch norms that may be folded (bn1, bn3) and ones that may not (bn2, bn4)."""

    def __init__(self):
        super().__init__()
        self.conv1 = LiftConv2d(1, 4, 3, blurred(G, 9), padding=1)
        self.bn1 = batch_norm(nn.BatchNorm3d, 4)
        self.conv2 = GroupConv2d(4, 4, 3, Fixed(C4), padding=1, bias=False)
        self.bn2 = batch_norm(nn.BatchNorm3d, 4)
        self.conv3 = GroupConv2d(4, 4, 3, blurred(G, 36), padding=1)
        self.bn3 = batch_norm(GroupBatchNorm, 4)
        self.twice = GroupConv2d(4, 4, 3, gated(), padding=1)
        self.bn4 = batch_norm(GroupBatchNorm, 4)
        self.pool = GroupPool(self.twice.representation.gate)
        self.head = nn.Linear(4, 3)

    def forward(self, x):
        x = self.bn1(self.conv1(x)).relu()
        y = self.conv2(x)
        x = self.bn3(self.conv3(self.bn2(y).relu())) + y
        x = self.bn4(self.twice(x).relu() + self.twice(x))
        return self.head(self.pool(x).mean((-2, -1)))


class Branching(Residual):
    """A forward pass that cannot be traced."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(
            GroupConv2d(4, 4, 3, Fixed(C4)), batch_norm(nn.BatchNorm3d, 4), self.bn4
        )

    def forward(self, x):
        if x.sum() > 1e9:
            return x
        return self.body(self.bn1(self.conv1(x)))


def test_user_models_with_residuals():
    model = Residual()
    baked = bake(model)
    assert type(baked) is Residual
    folded = {
        name for name in ("bn1", "bn2", "bn3", "bn4") if type(getattr(baked, name)) is nn.Identity
    }
    assert folded == {"bn1", "bn3"}
    assert symshare_modules(baked) == {constants.Affine, constants.GroupMean}
    assert difference(model, baked, torch.randn(3, 1, 8, 8)) < 1e-5


def test_only_neighbours_are_folded_where_the_pass_cannot_be_traced():
    model = Branching()
    baked = bake(model)
    assert type(baked.bn1) is nn.BatchNorm3d
    assert type(baked.body[1]) is nn.Identity
    assert difference(model, baked, torch.randn(3, 1, 8, 8)) < 1e-5


class Reused(nn.Module):
    """A convolution with two calls, only one of them normalised; a norm behind two layers."""

    def __init__(self, traceable):
        super().__init__()
        self.traceable = traceable
        self.lift1 = LiftConv2d(1, 4, 3, Fixed(C4))
        self.lift2 = LiftConv2d(1, 4, 3, Fixed(C4))
        self.conv = GroupConv2d(4, 4, 3, Fixed(C4))
        self.norm1 = batch_norm(nn.BatchNorm3d, 4)
        self.norm2 = batch_norm(nn.BatchNorm3d, 4)
        self.body1 = nn.Sequential(self.lift1, self.norm1)
        self.body2 = nn.Sequential(self.lift2, self.norm1)
        self.body3 = nn.Sequential(self.conv, self.norm2)

    def forward(self, x):
        if not self.traceable and x.sum() > 1e9:
            return x
        f = self.body1(x) + self.body2(x)
        return self.body3(f) + self.conv(f)


@pytest.mark.parametrize("traceable", [True, False])
def test_what_is_used_twice_is_not_folded(traceable):
    model = Reused(traceable)
    baked = bake(model)
    assert difference(model, baked, torch.randn(3, 1, 8, 8)) < 1e-5


@pytest.mark.parametrize(
    "norm",
    [
        nn.BatchNorm3d(4, track_running_stats=False),
        nn.InstanceNorm3d(4),
        nn.GroupNorm(2, 4),
    ],
)
def test_norms_without_fixed_statistics_stay(norm):
    model = nn.Sequential(LiftConv2d(1, 4, 3, Fixed(C4)), norm)
    baked = bake(model)
    assert type(baked[1]) is type(norm)
    assert difference(model, baked, torch.randn(3, 1, 8, 8)) < 1e-5


def test_observed_modules_are_not_folded():
    model = nn.Sequential(LiftConv2d(1, 4, 3, Fixed(C4)), batch_norm(nn.BatchNorm3d, 4))
    model[1].register_forward_hook(print)
    assert type(bake(model)[1]) is nn.BatchNorm3d


@pytest.mark.parametrize("shape", [(3, 2, G), (3, 2, G, 5), (3, 2, G, 5, 6), (2, 2, G, 3, 4, 3)])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kind", [GroupPool, GroupLayerNorm, GroupInstanceNorm, GroupBatchNorm])
def test_norms_and_means(kind, weighted, shape):
    measure = gate() if weighted else None
    layer = batch_norm(kind, 2, gate=measure) if kind is GroupBatchNorm else kind(measure)
    baked = bake(layer)
    assert {type(baked)} == symshare_modules(baked)
    assert list(baked.parameters()) == []
    assert difference(layer, baked, 3 * torch.randn(shape) + 1) < 1e-5


@pytest.mark.parametrize("bias", [True, False])
def test_linear(bias):
    layer = GroupLinear(3, 5, blurred(G, 6), bias=bias)
    baked = bake(layer)
    x = torch.randn(2, 6, 3)
    assert symshare_modules(baked) == set()
    assert baked(x).shape == (2, G, 5)
    assert difference(layer, baked, x) < 1e-5


REPRESENTATIONS = {
    "fixed": lambda architecture: [Fixed(C4)] * architecture.blocks,
    "sinkhorn": lambda architecture: wscnn(architecture, G, blurred),
    "gated": lambda architecture: [gated()] * architecture.blocks,
}


def group_cnn(kind, architecture=SMALL, channels=6):
    size = (architecture.smallest + 2,) * 2
    return GroupCNN(architecture, 1, 10, channels, REPRESENTATIONS[kind](architecture), size)


def images(architecture=SMALL, n=3):
    return torch.randn(n, 1, *(architecture.smallest + 2,) * 2)


@pytest.mark.parametrize("architecture", [SMALL, MNIST, Architecture(3, 3, "instance")])
@pytest.mark.parametrize("kind", REPRESENTATIONS)
def test_whole_networks(kind, architecture):
    model = group_cnn(kind, architecture)
    baked = bake(model)
    assert type(baked) is nn.Sequential
    assert symshare_modules(baked) <= {constants.Standardise}
    assert (symshare_modules(baked) == set()) == (kind != "gated")
    assert difference(model, baked, images(architecture)) < 1e-5


def test_whole_networks_with_batch_norm(unchecked):
    model = group_cnn("sinkhorn")
    model.norms = nn.ModuleList([batch_norm(GroupBatchNorm, 6) for _ in model.norms])
    baked = bake(model)
    assert symshare_modules(baked) == set()
    assert not any("norm" in name for name, _ in baked.named_children())
    assert difference(model, baked, images()) < 1e-5


def test_networks_with_exchanged_parts_keep_their_forward_pass():
    model = group_cnn("fixed")
    model.head = nn.Identity()
    model.norms[0] = batch_norm(nn.BatchNorm3d, 6)
    baked = bake(model)
    assert type(baked) is GroupCNN
    assert difference(model, baked, images()) < 1e-5


def test_the_model_is_untouched():
    model = Residual().train()
    before = copy.deepcopy(model.state_dict())
    random = torch.get_rng_state()
    baked = bake(model)
    assert torch.equal(torch.get_rng_state(), random)
    assert all(module.training for module in model.modules())
    assert not any(module.training for module in baked.modules())
    after = model.state_dict()
    assert before.keys() == after.keys()
    assert all(torch.equal(before[name], after[name]) for name in before)
    theirs = {x.untyped_storage().data_ptr() for x in (*model.parameters(), *model.buffers())}
    ours = [x.untyped_storage().data_ptr() for x in (*baked.parameters(), *baked.buffers())]
    assert not theirs.intersection(ours)
    model(torch.randn(3, 1, 8, 8)).sum().backward()
    assert all(p.grad is not None for p in model.parameters())


def test_training_the_copy_leaves_the_model():
    model = nn.Sequential(LiftConv2d(1, 4, 3, Fixed(C4)), nn.ReLU())
    baked = bake(model)
    before = model[0].theta.clone()
    with torch.no_grad():
        for p in baked.parameters():
            p.zero_()
    assert torch.equal(model[0].theta, before)


@pytest.mark.parametrize(
    "mode", [torch.inference_mode(), torch.autocast("cpu", dtype=torch.bfloat16)]
)
def test_modes_around_the_call_do_not_matter(mode):
    model = Residual()
    x = torch.randn(2, 1, 8, 8)
    expected = bake(model)(x)
    with mode:
        baked = bake(model)
    y = baked(x)
    assert y.requires_grad
    assert torch.equal(y, expected)


def test_compiled_networks():
    model = nn.Sequential(LiftConv2d(1, 4, 3, blurred(G, 9)), nn.ReLU())
    baked = bake(torch.compile(model, backend="eager"))
    with torch.no_grad():
        for p in baked.parameters():
            p.zero_()
    assert not baked(torch.randn(2, 1, 8, 8)).any()


def test_shared_representations_and_tied_layers():
    shared = blurred(G, 36)
    tied = GroupConv2d(4, 4, 3, shared, padding=1)
    model = nn.Sequential(
        LiftConv2d(1, 4, 3, gated()), tied, nn.ReLU(), tied, GroupConv2d(4, 2, 3, shared)
    )
    baked = bake(model)
    assert baked[1] is baked[3]
    assert difference(model, baked, torch.randn(2, 1, 9, 9)) < 1e-5


class Holding(nn.Module):
    """Holds a representation and a measure that its own code uses."""

    def __init__(self):
        super().__init__()
        self.unbound = Gated(C4, gate())
        self.stack = blurred(G, 4)
        self.gate = self.unbound.gate
        self.conv = LiftConv2d(1, 3, 2, self.stack)
        self.layers = [self.conv]

    def forward(self, x):
        f = self.layers[0](x) * self.gate()[:, None, None]
        return f * self.stack().square().sum((-2, -1))[:, None, None]


def test_representations_that_user_code_reads_become_constants():
    model = Holding()
    baked = bake(model)
    assert baked.layers[0] is baked.conv
    assert symshare_modules(baked) == {constants.Constant}
    assert not any(isinstance(module, Representation) for module in baked.modules())
    assert difference(model, baked, torch.randn(2, 1, 6, 6)) < 1e-5


@pytest.mark.parametrize(("dtype", "bound"), [(torch.float64, 1e-12), (torch.bfloat16, 0.05)])
def test_other_dtypes(dtype, bound):
    model = Residual().to(dtype)
    baked = bake(model)
    x = torch.randn(3, 1, 8, 8, dtype=dtype)
    assert {p.dtype for p in baked.parameters()} == {dtype}
    assert baked(x).dtype == dtype
    scale = float(model.eval()(x).detach().abs().max())
    assert difference(model, baked, x) < bound * max(scale, 1)


def test_half_precision_of_one_layer():
    layer = LiftConv2d(1, 4, 3, blurred(G, 9)).half()
    baked = bake(layer)
    x = torch.randn(2, 1, 5, 5).half()
    assert baked(x).dtype == torch.half
    assert difference(layer, baked, x) < 1e-2


@pytest.mark.parametrize("kind", REPRESENTATIONS)
@pytest.mark.filterwarnings("ignore:var_mean")  # of the network itself, on no samples
@pytest.mark.parametrize("n", [0, 1])
def test_small_batches(kind, n):
    for model, x in ((group_cnn(kind), images(n=n)), (Residual(), torch.randn(n, 1, 8, 8))):
        y = bake(model)(x)
        assert y.shape == model.eval()(x).shape
        torch.testing.assert_close(y, model(x), atol=1e-5, rtol=0)


@pytest.mark.parametrize("kind", REPRESENTATIONS)
def test_copies_of_the_copy(kind):
    baked = bake(group_cnn(kind))
    x = images()
    for twin in (copy.deepcopy(baked), pickle.loads(pickle.dumps(baked))):
        assert torch.equal(twin(x), baked(x))
    twin = bake(group_cnn(kind))
    twin.load_state_dict(baked.state_dict())
    assert torch.equal(twin(x), baked(x))


def test_hard_takes_the_nearest_permutations():
    model = group_cnn("sinkhorn")
    baked = bake(model, hard=True)
    lifting, hidden = baked.conv0.weight, baked.conv1.weight
    for g in range(1, G):
        for W in (lifting, hidden):
            copies = W.unflatten(0, (-1, G)).flatten(2)
            assert torch.equal(copies[:, g].sort(-1).values, copies[:, 0].sort(-1).values)


def test_hard_keeps_measures_and_sharing():
    shared = blurred(G, 36)
    layers = [GroupConv2d(2, 2, 3, shared), GroupConv2d(2, 2, 3, shared)]
    mean = torch.full((36, 36), 1 / 36)
    known = Gated(torch.stack([torch.eye(36)] + [mean] * (G - 1)), gate())
    model = nn.Sequential(LiftConv2d(1, 2, 3, Fixed(C4)), GroupConv2d(2, 2, 3, known), *layers)
    baked = bake(model, hard=True)
    torch.testing.assert_close(baked[1][1].weight, model[1].kernel())
    assert not torch.allclose(baked[2][1].weight, model[2].kernel())


def test_hard_weighs_permutations_with_the_measure():
    representation = blurred(G, 36)
    representation.gate = gate()
    layer = GroupConv2d(1, 1, 3, representation)
    (_, hard, _) = bake(layer, hard=True)
    measure = representation.gate().detach()
    first = hard.weight[0].flatten(1)
    torch.testing.assert_close(first, layer.theta[0, 0].unflatten(0, (G, 9)) * measure[:, None])


def test_hard_on_permutations_changes_nothing():
    model = group_cnn("sinkhorn")
    for representation in model.stacks():
        nn.init.zeros_(representation.logits)
        D = representation.positions
        for g in range(G - 1):
            representation.logits.data[g, torch.arange(D), torch.randperm(D)] = 60.0
    x, y = images(n=20), torch.randint(10, (20,))
    baked, report = bake(model, hard=True, data=(x, y))
    assert difference(model, baked, x) < 1e-5
    assert report.accuracy_before == report.accuracy_after
    assert report.samples == 20


def test_the_report_counts_right_answers(unchecked):
    model = group_cnn("sinkhorn").eval()
    x = images(n=300)
    y = model(x).argmax(-1)
    y[:30] = (y[:30] + 1) % 10
    hard = bake(model, hard=True)
    baked, report = bake(model, hard=True, data=(x, y))
    assert report.accuracy_before == pytest.approx(0.9)
    assert report.accuracy_after == pytest.approx(float((hard(x).argmax(-1) == y).float().mean()))
    assert torch.equal(baked(x), hard(x))
    for data in ((x, y[:-1]), (x[:0], y[:0])):
        with pytest.raises(ValueError, match="as many samples as classes"):
            bake(model, data=data)


class RowStochastic(Sinkhorn):
    membership = "row stochastic"


def test_hard_refuses_what_is_not_doubly_stochastic():
    model = LiftConv2d(1, 2, 3, RowStochastic(G, 9))
    with pytest.raises(ValueError, match="RowStochastic learns matrices that are row stochastic"):
        bake(model, hard=True)
    bake(model)


def test_refusals():
    plain = nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU())
    with pytest.raises(ValueError, match="nothing to bake: Sequential"):
        bake(plain)
    with pytest.raises(ValueError, match="baked already"):
        bake(bake(group_cnn("gated")))
    with pytest.raises(ValueError, match="normalises by the batch at hand"):
        bake(GroupBatchNorm(3, track_running_stats=False))


class Activated(LiftConv2d):
    def forward(self, x):
        return super().forward(x).relu()


class Renamed(LiftConv2d):
    pass


def test_subclasses_with_a_forward_pass_of_their_own_are_refused():
    x = torch.randn(1, 1, 5, 5)
    with pytest.raises(ValueError, match="Activated has a forward pass of its own"):
        bake(Activated(1, 2, 3, Fixed(C4)))
    layer = Renamed(1, 2, 3, Fixed(C4))
    assert difference(layer, bake(layer), x) < 1e-5
