"""The residual networks: parameters, values, exactness, training, baking, errors."""

import copy
import warnings

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from experiments.residual import CIFAR10, GroupResNet, ResidualArchitecture
from symshare import bake, export, groups, shared
from symshare.layers import GroupBatchNorm
from symshare.models import (
    free_parameters,
    matched_channels,
    plain,
    representation_parameters,
    wscnn,
)
from symshare.representations import Birkhoff, Fixed, Gated, Kronecker

C4, D4 = groups.rotations(4), groups.dihedral(4)
TINY = ResidualArchitecture(kernel_size=3)
VALID = ResidualArchitecture(lifting_padding="valid")

KINDS = {
    "cnn": lambda k: plain(5),
    "gcnn": lambda k: [Fixed(C4)] * 5,
    "wscnn": lambda k: wscnn(ResidualArchitecture(k), 4),
    "gated": lambda k: [Gated(D4)] * 5,
    "kronecker": lambda k: [Kronecker(4, k)] * 5,
    "birkhoff": lambda k: [Birkhoff(D4, group_size=4)] * 5,
}


def network(kind, channels=4, size=(8, 8), architecture=TINY, classes=10):
    representations = KINDS[kind](architecture.kernel_size)
    return GroupResNet(architecture, 3, classes, channels, representations, size)


def trained(kind, **options):
    """In eval mode, with running statistics and norm weights that are not those of the start."""
    net = network(kind, **options)
    size = options.get("size", (8, 8))
    for _ in range(2):
        net(2 * torch.randn(8, 3, *size) + 1)
    for module in net.modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm):
            nn.init.uniform_(module.weight, 0.5, 2.0)
            nn.init.normal_(module.bias)
    return net.eval()


@pytest.mark.parametrize(
    ("kind", "channels", "parts", "total", "learned"),
    [
        ("cnn", 32, (4_736, 64, 100_480, 303_424, 19_466), 428_170, 0),
        ("cnn", 64, (9_472, 128, 401_664, 1_213_056, 35_850), 1_660_170, 0),
        ("cnn", 128, (18_944, 256, 1_606_144, 4_850_944, 68_618), 6_544_906, 0),
        ("gcnn", 32, (4_736, 64, 401_536, 1_206_592, 19_466), 1_632_394, 0),
        ("wscnn", 32, (4_736, 64, 401_536, 1_206_592, 19_466), 1_632_394, 468_195),
        ("kronecker", 32, (4_736, 64, 401_536, 1_206_592, 19_466), 1_632_394, 3 * 49**2),
    ],
    ids=["cnn-32", "cnn-64", "cnn-128", "gcnn", "wscnn", "kronecker"],
)
def test_parameter_counts_of_the_paper(kind, channels, parts, total, learned):
    net = network(kind, channels, (32, 32), CIFAR10)
    assert net.free_parameters() == total
    assert net.representation_parameters() == learned
    ours = {id(p) for p in representation_parameters(net)}
    modules = (net.lifting, net.norm, *net.blocks, net.head)
    counts = [sum(p.numel() for p in m.parameters() if id(p) not in ours) for m in modules]
    assert tuple(counts) == parts


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("k", "channels", "classes"), [(3, 1, 2), (5, 4, 10)])
def test_free_parameters_without_a_network(kind, k, channels, classes):
    architecture = ResidualArchitecture(k)
    net = network(kind, channels, architecture=architecture, classes=classes)
    group_size = net.stacks()[0].group_size
    expected = free_parameters(architecture, 3, classes, channels, group_size)
    assert net.free_parameters() == expected


def test_the_paper_matched_its_widths():
    assert matched_channels(CIFAR10, 3, 10, group_size=4, parameters=1_660_170) == 32


def test_one_representation_for_each_convolution_in_order():
    net = network("wscnn")
    convolutions = [net.lifting]
    convolutions += [conv for block in net.blocks for conv in (block.conv1, block.conv2)]
    assert net.stacks() == [conv.representation for conv in convolutions]
    assert [stack.positions for stack in net.stacks()] == [9, 36, 36, 36, 36]


def convolve(f, layer):
    """A layer on maps without a group axis, by torch."""
    bias = layer.bias.repeat_interleave(layer.representation.group_size)
    return F.conv2d(f, layer.kernel(), bias, padding=layer.kernel_size[0] // 2)


def batch_norm(f, norm):
    """In eval mode, on maps [B, C*G, H, W]."""
    norm = norm.norm if isinstance(norm, GroupBatchNorm) else norm
    statistics = (norm.running_mean, norm.running_var, norm.weight, norm.bias)
    mean, variance, weight, bias = (
        x.repeat_interleave(f.shape[1] // len(x)).view(-1, 1, 1) for x in statistics
    )
    return (f - mean) / (variance + norm.eps).sqrt() * weight + bias


def instance_norm(f, channels):
    return F.group_norm(f, channels)


def reference(net, x):
    """The network in eval mode, on maps [B, C*G, H, W], step by step."""
    group_size = net.stacks()[0].group_size
    f = F.relu(batch_norm(convolve(x, net.lifting), net.norm))
    for block in net.blocks:
        channels = block.conv1.out_channels
        h = F.relu(instance_norm(convolve(f, block.conv1), channels))
        h = F.relu(instance_norm(convolve(h, block.conv2), channels))
        if isinstance(block.shortcut, nn.Conv3d):
            weight = torch.kron(block.shortcut.weight.flatten(1), torch.eye(group_size))
            bias = block.shortcut.bias.repeat_interleave(group_size)
            f = F.conv2d(f, weight[..., None, None], bias)
        f = F.relu(F.max_pool2d(batch_norm(f + h, block.norm), 2))
    pooled = f.unflatten(1, (-1, group_size)).mean((2, 3, 4))
    first, norm, _, _, last = net.head
    hidden = batch_norm((pooled @ first.weight.T)[..., None, None], norm)[..., 0, 0]
    return F.relu(hidden) @ last.weight.T + last.bias


@pytest.mark.parametrize("kind", ["cnn", "gcnn", "wscnn", "kronecker", "birkhoff"])
def test_agrees_with_a_step_by_step_computation(kind):
    net = trained(kind)
    x = torch.randn(3, 3, 8, 8)
    torch.testing.assert_close(net(x), reference(net, x), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("training", [False, True], ids=["evaluation", "training"])
def test_elements_of_measure_zero_have_no_influence(training):
    net, alone = trained("gated"), network("cnn").eval()
    nn.init.constant_(net.stacks()[0].gate.logits, -50.0)  # the identity is left
    state = net.state_dict()
    for name in alone.state_dict():
        if name.endswith("theta"):  # of a group layer, the positions of the identity come first
            state[name] = state[name][..., :9]
    alone.load_state_dict({name: state[name] for name in alone.state_dict()})
    x = torch.randn(6, 3, 8, 8)
    for each in (net, alone):
        each.train(training)
        each.head.eval()
    torch.testing.assert_close(net(x), alone(x), atol=1e-5, rtol=1e-5)


def gap(net, x, moved):
    with torch.no_grad():
        return float((net(moved) - net(x)).abs().max())


@pytest.mark.parametrize("kind", ["gcnn", "gated"])
@pytest.mark.parametrize(
    ("architecture", "size"),
    [
        (TINY, (8, 8)),
        (TINY, (12, 8)),
        (CIFAR10, (4, 4)),
        (ResidualArchitecture(3, "valid"), (10, 10)),
        (VALID, (14, 10)),
    ],
    ids=str,
)
def test_quarter_turns_are_exact_where_pools_meet_even_sides(kind, architecture, size):
    net = trained(kind, architecture=architecture, size=size)
    if kind == "gated":  # with all of the group
        nn.init.constant_(net.stacks()[0].gate.logits, 50.0)
    x = torch.randn(4, 3, *size)
    for turns in (1, 2, 3):
        assert gap(net, x, x.rot90(turns, (-2, -1))) < 1e-5
    assert gap(net, x, x.roll(1, -1)) > 1e-3


@pytest.mark.parametrize(
    ("architecture", "size", "message"),
    [
        (TINY, (10, 10), r"maps of 10 x 10, .*whose sides are a multiple of 4$"),
        (TINY, (8, 9), r"maps of 8 x 9, "),
        (VALID, (32, 32), r"26 x 26, .*a multiple of 4, plus 6$"),
    ],
    ids=["second pool", "first pool", "as published"],
)
def test_warns_where_pools_meet_odd_sides(architecture, size, message):
    with pytest.warns(UserWarning, match=message) as caught:
        net = trained("gcnn", architecture=architecture, size=size)
    assert len(caught) == 1
    x = torch.randn(4, 3, *size)
    assert gap(net, x, x.rot90(1, (-2, -1))) > 1e-3


def test_odd_sides_are_nothing_to_a_plain_network():
    x = torch.randn(2, 3, 9, 7)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert network("cnn", size=(9, 7))(x).shape == (2, 10)


@pytest.mark.parametrize(
    ("padding", "shape"), [("same", (4, 4, 32, 32)), ("valid", (4, 4, 26, 26))], ids=str
)
@pytest.mark.filterwarnings("ignore:GroupResNet. the poolings")
def test_padding_of_the_lifting_convolution(padding, shape):
    net = network("gcnn", size=(32, 32), architecture=ResidualArchitecture(7, padding))
    assert net.lifting(torch.zeros(2, 3, 32, 32)).shape[1:] == shape


@pytest.mark.parametrize("kind", KINDS)
class TestEveryKind:
    def test_trains(self, kind):
        net = network(kind, size=(8, 12))
        before = copy.deepcopy(net.state_dict())
        optimiser = torch.optim.Adam(net.parameters(), lr=1e-2)
        x, y = torch.randn(6, 3, 8, 12), torch.arange(6)
        with shared(net):
            logits = net(x)
            assert logits.shape == (6, 10)
            F.cross_entropy(logits, y).backward()
        learned = representation_parameters(net)
        for name, parameter in net.named_parameters():
            assert parameter.grad is not None, name
            assert parameter.grad.isfinite().all(), name
            # A bias that an instance norm takes away again has no gradient but rounding.
            if ".conv" not in name or "bias" not in name:
                assert parameter.grad.abs().max() > 1e-8, name
        assert bool(learned) == (kind not in ("cnn", "gcnn"))
        optimiser.step()
        moved = [name for name, p in net.named_parameters() if not torch.equal(p, before[name])]
        assert len(moved) >= len(list(net.parameters())) - 4

    def test_projects_once_for_all(self, kind):
        net = trained(kind)
        x = torch.randn(2, 3, 8, 8)
        with torch.no_grad():
            expected = net(x)
            with shared(net):
                torch.testing.assert_close(net(x), expected, atol=1e-5, rtol=1e-5)

    def test_takes_a_batch_of_one(self, kind):
        net = trained(kind)
        x = torch.randn(3, 3, 8, 8)
        torch.testing.assert_close(net(x[:1]), net(x)[:1], atol=1e-5, rtol=1e-5)

    @pytest.mark.usefixtures("unchecked")
    def test_bakes_and_folds_the_norm_of_the_lifting_convolution(self, kind):
        net = trained(kind)
        baked = bake(net)
        x = torch.randn(3, 3, 8, 8)
        assert isinstance(baked.norm, nn.Identity)
        assert not any(isinstance(m, nn.Identity) for m in (baked.blocks[0].norm, baked.head[1]))
        with torch.no_grad():
            torch.testing.assert_close(baked(x), net(x), atol=1e-5, rtol=1e-5)

    def test_a_copy_of_its_state_computes_the_same(self, kind):
        net, other = trained(kind), network(kind)
        other.load_state_dict(net.state_dict())
        x = torch.randn(2, 3, 8, 8)
        assert torch.equal(other.eval()(x), net(x))


@pytest.mark.slow
@pytest.mark.usefixtures("unchecked")
def test_an_exported_file_computes_the_same(tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    net, x = trained("gated"), torch.randn(5, 3, 8, 8)
    path = export(net, "onnx", tmp_path / "network.onnx", x[:2])
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    (y,) = session.run(None, {"input": x.numpy()})
    torch.testing.assert_close(torch.from_numpy(y), net(x), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(
    ("architecture", "representations", "size", "message"),
    [
        (TINY, lambda: plain(4), (8, 8), "5 convolutions need as many representations, got 4"),
        (TINY, lambda: plain(6), (8, 8), "got 6"),
        (TINY, lambda: [*plain(4), Fixed(C4)], (8, 8), r"as many, got \[1, 1, 1, 1, 4\]; use one"),
        (TINY, lambda: plain(5), (3, 8), "at least 4 pixels a side, got 3 x 8; use larger images$"),
        (
            VALID,
            lambda: plain(5),
            (9, 9),
            "10 pixels .* 9 x 9; use .* or",
        ),
    ],
    ids=["few", "many", "other elements", "small", "small without padding"],
)
def test_refuses(architecture, representations, size, message):
    with pytest.raises(ValueError, match=message) as caught:
        GroupResNet(architecture, 3, 10, 2, representations(), size)
    assert "\n" not in str(caught.value)


def test_refuses_a_group_in_place_of_a_representation(unchecked):
    with pytest.raises(TypeError, match="GroupResNet: expected a Representation, got GroupAction"):
        GroupResNet(TINY, 3, 10, 2, [C4] * 5, (8, 8))


def test_takes_the_smallest_images_that_it_says():
    for architecture in (TINY, CIFAR10, VALID):
        side = architecture.smallest
        net = network("cnn", architecture=architecture, size=(side, side)).eval()
        assert net(torch.randn(1, 3, side, side)).shape == (1, 10)
