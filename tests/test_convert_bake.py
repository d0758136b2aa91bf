import copy
import pickle

import pytest
import torch
from scipy.optimize import linear_sum_assignment
from torch import Tensor, nn
from torch.nn.utils import parametrize, prune

from experiments.ablations import RowStochastic, Unconstrained
from symshare import bake, export, groups
from symshare.convert import constants, load_tensors
from symshare.convert.baking import is_plain
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
    functional,
)
from symshare.models import MNIST, SMALL, Architecture, GroupCNN, wscnn
from symshare.representations import (
    Birkhoff,
    Fixed,
    Gated,
    Kronecker,
    Measure,
    Representation,
    Sinkhorn,
)

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


def convolution(dims, kinds, lifting, options, I=2, O=4):
    size = 4 if dims == 1 else 2  # even, and enough taps for G permutations
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
    layer = kind(*args, **options)
    norm = layer.norm if kind is GroupBatchNorm else layer
    if norm.affine:
        nn.init.normal_(norm.weight)
        nn.init.normal_(norm.bias)
    norm.running_mean.normal_(1.0)
    norm.running_var.uniform_(1.0, 7.0)
    return layer


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


def test_user_models_with_residuals():
    model = Residual()
    baked = bake(model)
    assert type(baked) is Residual
    folded = {
        name for name in ("bn1", "bn2", "bn3", "bn4") if type(getattr(baked, name)) is nn.Identity
    }
    assert folded == {"bn1", "bn3"}
    assert symshare_modules(baked) == {constants.FixedBatchNorm, constants.GroupMean}
    assert difference(model, baked, torch.randn(3, 1, 8, 8)) < 1e-5


class Silent(nn.Module):
    """A convolution and a batch norm, with a forward pass to be added."""

    def __init__(self):
        super().__init__()
        self.conv = LiftConv2d(1, 4, 3, Fixed(C4))
        self.bn = batch_norm(nn.BatchNorm3d, 4)
        self.kept = {"features": []}
        self.register_buffer("calls", torch.zeros(()))


class Optional(Silent):
    def forward(self, x, raw=None):
        f = self.conv(x)
        if raw is not None:
            f = self.bn(f)
        return f


class Keyword(Silent):
    def forward(self, x, *, raw=False):
        f = self.conv(x)
        return f if raw is False else self.bn(f)


class MaybeNone(Silent):
    def forward(self, x, mask: Tensor | None):
        f = self.conv(x)
        return f if mask is None else self.bn(f)


class Variadic(Silent):
    def forward(self, x, **options):
        f = self.conv(x)
        return f if options.get("raw") is None else self.bn(f)


class ByValue(Silent):
    def forward(self, x):
        f = self.conv(x)
        return f if x.sum() > 1e9 else self.bn(f)


class Counting(Silent):
    """Normalises every second time."""

    def forward(self, x):
        self.calls.add_(1)
        f = self.conv(x)
        return self.bn(f) if self.calls % 2 == 1 else f


class Keeping(Silent):
    """Keeps what the batch norm reads, where later code finds it."""

    def forward(self, x):
        f = self.conv(x)
        self.kept["features"].append(f)
        return self.bn(f)


class Storing(Silent):
    def forward(self, x):
        self.f = self.conv(x)
        return self.bn(self.f)


class Tapping(Silent):
    """Takes a sequence apart."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(self.conv, self.bn)
        del self.conv, self.bn

    def forward(self, x, taps=(0,)):
        values = []
        for i, layer in enumerate(self.body):
            x = layer(x)
            if i in taps:
                values.append(x)
        return torch.stack([x, *values])


class Reading(Silent):
    """Uses the parameters of the norm by itself."""

    def forward(self, x):
        return self.bn(self.conv(x)) * self.bn.weight.mean()


class Replaced(Silent):
    """An instance with a forward pass that is not its class's."""

    def __init__(self):
        super().__init__()
        self.forward = self.raw

    def forward(self, x):
        return self.bn(self.conv(x))

    def raw(self, x):
        return self.conv(x)


SILENT = {
    Optional: [{}, {"raw": True}],
    Keyword: [{}, {"raw": True}],
    MaybeNone: [{"mask": None}, {"mask": torch.ones(1)}],
    Variadic: [{}, {"raw": True}],
    ByValue: [{}],
    Counting: [{}, {}],
    Keeping: [{}],
    Storing: [{}],
    Tapping: [{}, {"taps": (1,)}],
    Reading: [{}],
    Replaced: [{}],
}


@pytest.mark.parametrize("kind", SILENT)
def test_what_a_trace_does_not_see_is_not_folded(kind):
    model = kind().eval()
    x = torch.randn(3, 1, 6, 6)
    baked = bake(model)
    assert model.kept == {"features": []}
    for options in SILENT[kind]:
        with torch.no_grad():
            torch.testing.assert_close(baked(x, **options), model(x, **options))
    if kind is Keeping:
        torch.testing.assert_close(baked.kept["features"], model.kept["features"])
    if kind is Storing:
        torch.testing.assert_close(baked.f, model.f)


class Block(nn.Module):
    """Called with one argument, whatever else it could take."""

    def __init__(self):
        super().__init__()
        self.conv = GroupConv2d(4, 4, 3, Fixed(C4))
        self.bn = batch_norm(nn.BatchNorm3d, 4)

    def forward(self, f, raw=None):
        f = self.conv(f)
        return f if raw is not None else self.bn(f)


def test_options_of_inner_modules_are_seen():
    model = nn.Sequential(LiftConv2d(1, 4, 3, Fixed(C4)), Block())
    baked = bake(model)
    assert type(baked[1].bn) is nn.Identity
    assert difference(model, baked, torch.randn(3, 1, 8, 8)) < 1e-5


def test_neighbours_in_sequences_are_folded_where_the_pass_cannot_be_traced():
    inner = nn.Sequential(GroupConv2d(4, 4, 3, Fixed(C4)), batch_norm(nn.BatchNorm3d, 4))
    model = nn.Sequential(
        LiftConv2d(1, 4, 3, Fixed(C4)), batch_norm(nn.BatchNorm3d, 4), inner, Judging()
    )
    compiled = bake(torch.compile(model, backend="eager"))
    for baked in (bake(model), compiled._orig_mod):
        assert type(baked[1]) is type(baked[2][1]) is nn.Identity
        assert difference(model, baked, torch.randn(3, 1, 8, 8)) < 1e-5


class Judging(nn.Module):
    def forward(self, f):
        return f if f.sum() > -1e9 else -f


@pytest.mark.parametrize("register", ["register_forward_hook", "register_forward_pre_hook"])
def test_hooks_see_what_they_saw(register):
    model = nn.Sequential(
        nn.Sequential(LiftConv2d(1, 4, 3, Fixed(C4))), nn.Sequential(batch_norm(nn.BatchNorm3d, 4))
    ).eval()
    seen = []
    getattr(model[register == "register_forward_pre_hook"], register)(
        lambda module, inputs, *output: seen.append((*inputs, *output)[-1])
    )
    baked = bake(model)
    assert seen == []  # no trace ran into the hook
    x = torch.randn(3, 1, 8, 8)
    with torch.no_grad():
        torch.testing.assert_close(baked(x), model(x))
    assert len(seen) == 2
    torch.testing.assert_close(seen[0], seen[1])


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
    x = torch.randn(2, 3, 6)
    assert symshare_modules(baked) == set()
    assert baked(x).shape == (2, 5, G)
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
    assert symshare_modules(baked) <= {constants.Normalise}
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
    assert symshare_modules(baked) == {constants.Frozen}
    assert not any(isinstance(module, Representation) for module in baked.modules())
    assert difference(model, baked, torch.randn(2, 1, 6, 6)) < 1e-5


def test_what_user_code_reads_is_saved(tmp_path):
    model, fresh = Holding(), Holding()
    export(model, "safetensors", tmp_path / "net.safetensors")
    baked = bake(fresh)
    baked.load_state_dict(load_tensors(tmp_path / "net.safetensors"))
    assert difference(model, baked, torch.randn(2, 1, 6, 6)) < 1e-5


def test_functions_on_a_representation_are_baked_too():
    class Pure(nn.Module):
        def __init__(self):
            super().__init__()
            self.stack = blurred(G, 9)
            self.theta = nn.Parameter(torch.randn(2, 1, 9))

        def forward(self, x):
            return functional.lift_conv(x, self.theta, self.stack(), kernel_size=3)

    model = Pure()
    baked = bake(model)
    assert is_plain(baked)
    assert not is_plain(model)
    assert difference(model, baked, torch.randn(2, 1, 6, 6)) < 1e-5


@pytest.mark.parametrize("register", ["register_forward_hook", "register_forward_pre_hook"])
def test_hooks_on_replaced_layers_are_refused(register):
    model = nn.Sequential(LiftConv2d(1, 4, 3, Fixed(C4)))
    handle = getattr(model[0], register)(lambda *seen: None)
    with pytest.raises(ValueError, match=r"LiftConv2d has forward hooks.*remove them first"):
        bake(model)
    handle.remove()
    bake(model)


def multiplied(module, inputs, output):
    return 2 * output


CHANGED = {
    "hook on the network": lambda net: net.register_forward_hook(multiplied),
    "hook on the head": lambda net: net.head.register_forward_hook(multiplied),
    "another forward": lambda net: setattr(net, "forward", lambda x: x.flatten(1)),
    "a dropout": lambda net: setattr(net, "lifting", nn.Sequential(net.lifting, nn.Dropout())),
    "a subclass": lambda net: setattr(net.pool, "__class__", type("Own", (GroupPool,), {})),
}


@pytest.mark.parametrize("change", CHANGED.values(), ids=CHANGED)
def test_a_changed_network_computes_what_it_computed(change):
    model = group_cnn("gated")
    change(model)
    assert difference(model, bake(model), images()) < 1e-5


def masked_twice(layer, name):
    prune.l1_unstructured(layer, name, 0.3)
    prune.random_unstructured(layer, name, 0.3)


REWEIGHTINGS = {
    "pruned": lambda layer, name: prune.l1_unstructured(layer, name, 0.5),
    "pruned twice": masked_twice,
    "older weight norm": nn.utils.weight_norm,
    "older spectral norm": nn.utils.spectral_norm,
    "weight norm": nn.utils.parametrizations.weight_norm,
    "spectral norm": nn.utils.parametrizations.spectral_norm,
}


@pytest.mark.filterwarnings("ignore:.*torch.nn.utils.weight_norm.* is deprecated:FutureWarning")
@pytest.mark.parametrize("reweight", REWEIGHTINGS.values(), ids=REWEIGHTINGS)
def test_weights_that_torch_computes_before_each_pass(reweight):
    model = Residual()
    stack = blurred(G, 36)
    tied = GroupConv2d(4, 4, 3, stack, padding=1)
    model.conv2 = nn.Sequential(tied, nn.BatchNorm3d(4), GroupConv2d(4, 4, 3, stack, padding=1))
    model.plain = nn.Conv2d(1, 1, 3, padding=1)
    for layer in (model.conv1, tied, model.twice):
        reweight(layer, "theta")
    reweight(model.plain, "weight")
    reweight(stack.projection, "logits")
    prune.l1_unstructured(model.bn3.norm, "weight", 0.5)
    x = torch.randn(3, 1, 8, 8)
    run = lambda net: net(net.plain(x))  # noqa: E731
    run(model).sum().backward()
    baked = bake(model)
    with torch.no_grad():
        model.eval()
        torch.testing.assert_close(run(baked), run(model), atol=1e-5, rtol=1e-5)
    assert all(p.requires_grad for p in baked.parameters())


def test_results_that_a_module_keeps_are_copied_by_value():
    model = Storing()
    model(torch.randn(3, 1, 6, 6)).sum().backward()
    baked = bake(model)
    assert torch.equal(baked.f, model.f)
    assert baked.f.is_leaf


def test_parametrised_weights_bake_and_parametrised_logits_do_not_snap():
    model = nn.Sequential(LiftConv2d(1, 4, 3, blurred(G, 9)))
    nn.utils.parametrizations.weight_norm(model[0], "theta")
    assert difference(model, bake(model, hard=True), torch.randn(2, 1, 6, 6)) > 1e-3
    projection = model[0].representation.projection
    parametrize.register_parametrization(projection, "logits", nn.Identity())
    assert difference(model, bake(model), torch.randn(2, 1, 6, 6)) < 1e-5
    with pytest.raises(ValueError, match="cannot move the parametrised logits"):
        bake(model, hard=True)


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


def nearest(R):
    """The permutation matrices that scipy finds nearest to a stack."""
    stack = torch.zeros_like(R)
    for r, permutation in zip(R.detach(), stack, strict=True):
        permutation[linear_sum_assignment(r.double().numpy(), maximize=True)] = 1
    return stack


@pytest.mark.parametrize("options", [{}, {"iterations": 3}, {"init": "paper"}, {"anchor": False}])
def test_hard_takes_the_nearest_permutations(options):
    def make(group_size, positions):
        representation = Sinkhorn(group_size, positions, **options)
        return representation if "init" in options else disturbed(representation)

    model = GroupCNN(SMALL, 1, 10, 3, wscnn(SMALL, G, make), (9, 9)).eval()
    baked = bake(model, hard=True)
    for i, layer in enumerate((model.lifting, *model.hidden)):
        expected = torch.einsum("gde,oie->ogid", nearest(layer.stack()), layer.theta)
        got = getattr(baked, f"conv{i}").weight.unflatten(0, (-1, G))
        torch.testing.assert_close(got.reshape(3, G, -1), expected.flatten(2), atol=0, rtol=0)


def disturbed(representation):
    """With logits far from those of its start, and a warm start that is none."""
    with torch.no_grad():
        for p in representation.parameters():
            p += 3 * torch.randn_like(p)
        for name, buffer in representation.named_buffers():
            if name.endswith("potentials"):
                buffer.normal_(std=20.0)
    return representation


@pytest.mark.parametrize("elements", ["transport", "learned", C4.cayley])
def test_hard_moves_both_actions_of_kronecker(elements):
    shared = disturbed(Kronecker(G, 3, elements=elements))
    layers = [GroupConv2d(2, 2, 3, shared), GroupConv2d(2, 2, 3, shared)]
    model = nn.Sequential(LiftConv2d(1, 2, 3, shared), *layers).eval()
    baked = bake(model, hard=True)
    B = nearest(shared.on_kernel((3, 3))())
    held = Kronecker(G, 3, space=B, learn_space=False, elements=elements)
    A, _ = held.on_group((3, 3)).factors()
    if elements == "learned":
        A = A._replace(R=nearest(shared.on_group((3, 3)).factors()[0].R))
    lifted = torch.einsum("gpq,oiq->ogip", B, model[0].theta)
    torch.testing.assert_close(baked[0][0].weight.flatten(), lifted.flatten())
    for i in (1, 2):
        theta = model[i].theta.unflatten(-1, (G, -1))
        moved = torch.einsum("ghk,gpq,oikq->ogihp", A.R, B, theta)
        torch.testing.assert_close(baked[i][1].weight.flatten(), moved.flatten())


def test_hard_at_the_size_of_the_cube():
    cube = groups.cube(reflections=True)
    learned = Kronecker.from_action(cube, 3, learn=True)
    layer = GroupConv3d(1, 1, 3, learned)
    with pytest.raises(ValueError, match="would need"):
        layer.stack()
    known = GroupConv3d(1, 1, 3, Kronecker.from_action(cube, 3))
    known.load_state_dict({"theta": layer.theta, "bias": layer.bias})
    assert not torch.allclose(bake(layer)[1].weight, known.kernel(), atol=1e-3)
    torch.testing.assert_close(bake(layer, hard=True)[1].weight, known.kernel())


def test_hard_settles_the_slots_of_birkhoff():
    slots = Birkhoff(groups.dihedral(4), group_size=G, anchor=False)
    chosen = torch.tensor([1, 3, 0, 2])  # the rotations, in another order
    logits = torch.rand(G, 8)
    logits[torch.arange(G), chosen] += 1.0
    slots.coefficients.logits.data = logits
    model = nn.Sequential(LiftConv2d(1, 2, 3, slots), GroupConv2d(2, 2, 3, slots)).eval()
    baked = bake(model, hard=True)
    B = C4.lift((3, 3))[chosen]
    R = C4.regular((3, 3)).unflatten(-1, (G, 9)).unflatten(1, (G, 9))
    R = R[chosen][:, chosen][:, :, :, chosen].flatten(3).flatten(1, 2)
    for matrices, layer, convolution in ((B, model[0], baked[0][0]), (R, model[1], baked[1][1])):
        expected = torch.einsum("gde,oie->ogid", matrices, layer.theta)
        torch.testing.assert_close(convolution.weight.flatten(), expected.flatten())


def test_hard_on_stacks_of_the_identity_alone():
    model = LiftConv2d(1, 2, 3, Sinkhorn(1, 9))
    torch.testing.assert_close(bake(model, hard=True)[0].weight, model.theta.view(2, 1, 3, 3))


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.half])
def test_hard_in_other_dtypes(dtype):
    model = LiftConv2d(1, 2, 3, blurred(G, 9)).to(dtype).eval()
    expected = torch.einsum("gde,oie->ogid", nearest(model.stack()).to(dtype), model.theta)
    assert torch.equal(bake(model, hard=True)[0].weight.flatten(), expected.flatten())


def test_hard_keeps_measures_and_sharing():
    shared = blurred(G, 36)
    layers = [GroupConv2d(2, 2, 3, shared), GroupConv2d(2, 2, 3, shared)]
    mean = torch.full((36, 36), 1 / 36)
    known = Gated(torch.stack([torch.eye(36)] + [mean] * (G - 1)), gate())
    model = nn.Sequential(LiftConv2d(1, 2, 3, Fixed(C4)), GroupConv2d(2, 2, 3, known), *layers)
    before = copy.deepcopy(model.state_dict())
    baked = bake(model, hard=True)
    torch.testing.assert_close(baked[1][1].weight, model[1].kernel())
    for i in (2, 3):
        expected = torch.einsum("gde,oie->ogid", nearest(shared.eval()()), model[i].theta)
        torch.testing.assert_close(baked[i][1].weight.flatten(), expected.flatten())
    assert all(torch.equal(x, before[name]) for name, x in model.state_dict().items())


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


class Scaled(Sinkhorn):
    """Doubly stochastic, but not by its projection alone."""

    def __init__(self, group_size, positions):
        super().__init__(group_size, positions)
        self.share = nn.Parameter(torch.tensor(0.5))

    def forward(self):
        R = super().forward()
        return self.share * R + (1 - self.share) / R.shape[-1]


@pytest.mark.parametrize(
    ("kind", "what"),
    [
        (RowStochastic, "the logits of RowStochastic: its matrices are row stochastic"),
        (Unconstrained, "the matrices of Unconstrained: its matrices are free"),
        (Scaled, "the share of Scaled: its matrices are doubly stochastic"),
    ],
)
def test_hard_refuses_what_learns_in_another_way(kind, what):
    model = LiftConv2d(1, 2, 3, kind(G, 9))
    with pytest.raises(ValueError, match=what):
        bake(model, hard=True)
    bake(model)


@pytest.mark.parametrize("wrong", [{}, [nn.ReLU()], nn.ReLU, "net.pt"])
def test_what_is_no_module_is_refused(wrong, unchecked, tmp_path):
    for call in (bake, lambda model: export(model, "safetensors", tmp_path / "net")):
        with pytest.raises(
            TypeError, match=r"expected a torch.nn.Module, got (dict|list|type|str)"
        ):
            call(wrong)


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
    patched = LiftConv2d(1, 2, 3, Fixed(C4))
    patched.forward = torch.relu
    with pytest.raises(ValueError, match="LiftConv2d has a forward pass of its own"):
        bake(patched)
    layer = Renamed(1, 2, 3, Fixed(C4))
    assert difference(layer, bake(layer), x) < 1e-5
