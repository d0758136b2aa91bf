import copy

import pytest
import torch

import oracles
from symshare import groups, layers
from symshare.layers import (
    GroupBatchNorm,
    GroupConv2d,
    GroupHead,
    GroupInstanceNorm,
    GroupLayerNorm,
    GroupLinear,
    GroupPool,
    LiftConv2d,
)
from symshare.representations import Fixed, Gated, Measure, Sinkhorn

GROUPS = {
    "C2": groups.rotations(2),
    "C4": groups.rotations(4),
    "flip": groups.flips("W"),
    "D4": groups.dihedral(4),
}


@pytest.mark.parametrize("k", [3, 5])
@pytest.mark.parametrize("group", GROUPS)
def test_reproduces_e2cnn(e2cnn, group, k):
    at = e2cnn(group, k)
    O, I = at["lift_W"].shape[0], at["lift_W"].shape[2]
    representation = Fixed(GROUPS[group])
    lift = LiftConv2d(I, O, k, representation, padding=k // 2)
    conv = GroupConv2d(O, O, k, representation, padding=k // 2)
    with torch.no_grad():
        lift.theta.copy_(at["lift_W"][:, 0].flatten(2))
        lift.bias.copy_(at["lift_b"][:, 0])
        conv.theta.copy_(at["conv_W"][:, 0].flatten(2))
        conv.bias.copy_(at["conv_b"][:, 0])
    torch.testing.assert_close(lift.kernel(), at["lift_W"].flatten(0, 1), atol=1e-6, rtol=0)
    torch.testing.assert_close(
        conv.kernel(), at["conv_W"].flatten(2, 3).flatten(0, 1), atol=1e-6, rtol=0
    )
    torch.testing.assert_close(lift(at["x"]), at["lift_y"], atol=1e-5, rtol=0)
    torch.testing.assert_close(conv(lift(at["x"]).relu()), at["conv_y"], atol=1e-5, rtol=0)


@pytest.mark.parametrize("kind", ["lift", "conv"])
@pytest.mark.parametrize("regime", ["init", "sharp", "extreme"])
def test_reproduces_the_published_layers(published, regime, kind):
    at = published(regime, kind)
    O, I, D = at["weight"].shape
    representation = Sinkhorn(4, D, init="paper", iterations=20)
    layer = {"lift": LiftConv2d, "conv": GroupConv2d}[kind](I, O, 3, representation, padding=1)
    with torch.no_grad():
        representation.logits.copy_(at["logits"])
        layer.theta.copy_(at["weight"])
        layer.bias.copy_(at["bias"])
    y = layer(at["x"])
    torch.testing.assert_close(y, at["y"], atol=2e-5, rtol=1e-4)
    y.backward(at["gy"])
    scale = at["grad_logits"].abs().max()
    torch.testing.assert_close(layer.theta.grad, at["grad_weight"], atol=2e-3, rtol=1e-4)
    assert (representation.logits.grad - at["grad_logits"]).abs().max() <= 1e-3 * scale


def test_c4_is_rotated_and_rolled_kernels():
    representation = Fixed(GROUPS["C4"])
    lift, conv = LiftConv2d(2, 3, 3, representation), GroupConv2d(3, 4, 3, representation)
    f = torch.randn(2, 2, 9, 7)
    y = lift(f)
    torch.testing.assert_close(
        y, oracles.p4_lift(f, lift.theta.unflatten(-1, (3, 3)), lift.bias), atol=1e-5, rtol=0
    )
    torch.testing.assert_close(
        conv(y),
        oracles.p4_conv(y, conv.theta.unflatten(-1, (4, 3, 3)), conv.bias),
        atol=1e-5,
        rtol=0,
    )


def test_one_element_is_a_plain_convolution():
    layer = LiftConv2d(3, 5, (3, 2), Fixed(groups.rotations(1)), stride=(2, 1), padding=(1, 0))
    plain = torch.nn.Conv2d(3, 5, (3, 2), stride=(2, 1), padding=(1, 0))
    with torch.no_grad():
        plain.weight.copy_(layer.theta.unflatten(-1, (3, 2)))
        plain.bias.copy_(layer.bias)
    x = torch.randn(2, 3, 8, 7)
    torch.testing.assert_close(layer(x).squeeze(2), plain(x))


@pytest.mark.parametrize(
    ("action", "size"),
    [
        (GROUPS["C2"], (9, 6)),
        (GROUPS["flip"], (9, 6)),
        (groups.flips("H"), (5, 8)),
        (groups.flips("HW"), (7, 6)),
        (GROUPS["C4"], (8, 8)),
        (GROUPS["C4"], (9, 6)),
        (GROUPS["D4"], (7, 7)),
        (GROUPS["D4"], (6, 9)),
    ],
    ids=lambda v: "x".join(map(str, v)) if isinstance(v, tuple) else str(v.name),
)
@pytest.mark.parametrize("norm", [GroupLayerNorm, GroupInstanceNorm])
def test_networks_of_fixed_layers_are_equivariant(action, size, norm):
    representation = Fixed(action)
    lift, conv = (
        LiftConv2d(2, 3, 3, representation, padding=1),
        GroupConv2d(3, 3, 3, representation),
    )

    def f(x):
        return norm()(conv(norm()(lift(x)).relu()))

    x = torch.randn(2, 2, *size)
    y = f(x)
    for g in range(len(action)):
        moved = f(_move(action, x, g))
        expected = _move(action, y, g)[:, :, action.table[g].argsort()]
        torch.testing.assert_close(moved, expected, atol=1e-5, rtol=0)


def _move(action, x, g):
    """Element g on images of any shape, by torch's own functions."""
    moves = {
        "id": lambda x: x,
        "rot90": lambda x: x.rot90(1, (-2, -1)),
        "rot180": lambda x: x.rot90(2, (-2, -1)),
        "rot270": lambda x: x.rot90(3, (-2, -1)),
        "flipW": lambda x: x.flip(-1),
        "flipH": lambda x: x.flip(-2),
        "transpose": lambda x: x.transpose(-2, -1),
        "antitranspose": lambda x: x.rot90(2, (-2, -1)).transpose(-2, -1),
    }
    return moves[action.names[g]](x)


def test_a_free_stack_is_not_equivariant():
    lift = LiftConv2d(1, 2, 3, Sinkhorn(4, 9))
    x = torch.randn(1, 1, 7, 7)
    moved, y = lift(x.rot90(1, (-2, -1))), lift(x).rot90(1, (-2, -1)).roll(1, 2)
    assert (moved - y).abs().max() > 1e-2


def test_a_measure_on_a_subgroup_is_that_subgroups_network():
    gated = Gated(GROUPS["D4"])
    with torch.no_grad():
        gated.gate.logits.copy_(torch.tensor([1e3] * 3 + [-1e3] * 4))
    small, large = _network(Fixed(GROUPS["C4"])), _network(gated)
    with torch.no_grad():
        large[0].theta.copy_(small[0].theta)
        large[0].bias.copy_(small[0].bias)
        theta = torch.randn_like(large[1].theta)
        large[1].theta.copy_(theta)
        small[1].theta.copy_(theta.unflatten(-1, (8, 9))[:, :, :4].flatten(2))
        large[1].bias.copy_(small[1].bias)
    x = torch.randn(2, 1, 8, 8)
    torch.testing.assert_close(_run(large, x), _run(small, x), atol=1e-5, rtol=0)


def _network(representation):
    gate = representation.gate
    layers = [
        LiftConv2d(1, 3, 3, representation),
        GroupConv2d(3, 3, 3, representation),
        GroupLayerNorm(gate),
        GroupInstanceNorm(gate),
        GroupPool(gate),
    ]
    return torch.nn.ModuleList(layers)


def _run(network, x):
    lift, conv, layer_norm, instance_norm, pool = network
    return pool(instance_norm(conv(layer_norm(lift(x)).relu())).relu())


def test_linear_is_the_papers_matrix():
    layer = GroupLinear(1, 1, Fixed(groups.cyclic_shifts(4)), bias=False)
    with torch.no_grad():
        layer.theta.copy_(torch.arange(4.0).reshape(1, 1, 4))
    W = torch.tensor([[0, 1, 2, 3], [3, 0, 1, 2], [2, 3, 0, 1], [1, 2, 3, 0]])
    assert torch.equal(layer.kernel().reshape(4, 4), W.float())
    x = torch.randn(2, 1, 4)
    torch.testing.assert_close(layer(x), x @ W.float().T)


def test_linear_on_shifts_is_equivariant():
    layer = GroupLinear(2, 3, Fixed(groups.cyclic_shifts(6)))
    x = torch.randn(4, 2, 6)
    torch.testing.assert_close(layer(x.roll(2, -1)), layer(x).roll(2, -1))


I, O, G = 2, 3, 5
LAYERS = [name for name in layers.__all__ if "Conv" in name or "Linear" in name]


def layer_and_input(name):
    """A layer from I to O channels and G elements, with an input in which no two axes agree."""
    dims = int(name[-2]) if name.endswith("d") else 1
    K = () if "Lift" in name or "Linear" in name else (G,)
    D = 7 if "Linear" in name else 2**dims * (G if K else 1)
    sizes = (7,) if "Linear" in name else (6, 8, 9)[:dims]
    size = () if "Linear" in name else (2,)
    layer = getattr(layers, name)(I, O, *size, Fixed(torch.randn(G, D, D)))
    return layer, torch.randn(4, I, *K, *sizes)


@pytest.mark.parametrize("name", LAYERS)
class TestAxesOfEveryLayer:
    """[B, O, G, ...]: what norms, pooling and the next layer take for granted."""

    def test_channels_are_axis_1(self, name):
        layer, x = layer_and_input(name)
        y = layer(x)
        assert y.shape[:3] == (4, O, G)
        order = torch.tensor([2, 0, 1])
        moved = copy.deepcopy(layer)
        with torch.no_grad():
            moved.bias.copy_(layer.bias[order])
            moved.theta.copy_(layer.theta[order])
        torch.testing.assert_close(moved(x), y[:, order])

    def test_elements_are_axis_2(self, name):
        layer, x = layer_and_input(name)
        order = torch.tensor([3, 0, 4, 2, 1])
        moved = copy.deepcopy(layer)
        moved.representation = Fixed(layer.stack()[order])
        torch.testing.assert_close(moved(x), layer(x)[:, :, order])

    def test_device_and_dtype_are_those_of_torch(self, name):
        layer, x = layer_and_input(name)
        size = () if "Linear" in name else (2,)
        made = getattr(layers, name)(
            I, O, *size, layer.representation, device="meta", dtype=torch.float64
        )
        assert {t.device.type for t in (*made.parameters(), *made.buffers(), made.stack())} == {
            "meta"
        }
        assert made.theta.dtype == made.bias.dtype == torch.float64
        made.load_state_dict(layer.double().state_dict(), assign=True)
        torch.testing.assert_close(made(x.double()), layer(x.double()))

    def test_norms_and_means_fit_behind_it(self, name):
        layer, x = layer_and_input(name)
        y = layer(x)
        torch.testing.assert_close(GroupPool()(y), y.mean(2))
        for norm in (GroupLayerNorm(), GroupInstanceNorm(), GroupBatchNorm(O)):
            assert norm(y).shape == y.shape


@pytest.mark.parametrize("classes", ["corners", "directions", "left and right"])
def test_a_head_moves_classes_as_the_group_does(classes):
    """The square's symmetries on its corners, on two directions, and on left and right."""
    square = groups.dihedral(4)
    label_map = {
        # Of positions the permutation has the sources; classes go where values go.
        "corners": square.permutation(2).argsort(1),
        "directions": torch.tensor([[0, 1], [1, 0]] * 4),
        "left and right": torch.tensor([[0, 1, 2]] * 4 + [[1, 0, 2]] * 4),
    }[classes]
    K = label_map.shape[1]
    lift, hidden = LiftConv2d(1, 3, 3, Fixed(square)), GroupConv2d(3, 4, 3, Fixed(square))
    head, x = GroupHead(4, label_map), torch.randn(5, 1, 7, 7)

    def scores(x):
        return head(hidden(lift(x).relu()).relu().mean((-2, -1)))

    before = scores(x)
    assert before.shape == (5, K)
    for g in range(len(square)):
        after = scores(square.apply(x, g))[:, label_map[g]]
        torch.testing.assert_close(after, before, atol=1e-5, rtol=1e-4)


def test_a_head_computes_with_the_map_that_it_loads():
    first = GroupHead(3, torch.tensor([[0, 1, 2], [1, 0, 2]]))
    second = GroupHead(3, torch.tensor([[0, 1, 2], [1, 2, 0]]))
    first.load_state_dict(second.state_dict())
    f = torch.randn(2, 3, 2)
    torch.testing.assert_close(first(f), second(f))


def test_a_head_of_fixed_classes_is_a_mean_and_a_linear_layer():
    head, f = GroupHead(3, torch.arange(4).expand(6, -1)), torch.randn(2, 3, 6)
    torch.testing.assert_close(head(f), head.linear(GroupPool()(f)))


def test_linear_layers_and_a_mean_are_invariant():
    ring = Fixed(groups.cyclic_shifts(6))
    network = torch.nn.Sequential(GroupLinear(2, 3, ring), GroupLinear(3, 4, ring), GroupPool())
    x = torch.randn(5, 2, 6)
    assert network(x).shape == (5, 4)
    torch.testing.assert_close(network(x.roll(2, -1)), network(x))


@pytest.mark.parametrize(
    "norm", [GroupLayerNorm(), GroupInstanceNorm(), GroupLayerNorm(Measure(4))]
)
@pytest.mark.parametrize("shape", [(2, 3, 4), (2, 3, 4, 5), (2, 3, 4, 5, 6)])
def test_norms_take_any_number_of_spatial_axes(norm, shape):
    assert norm(torch.randn(shape)).shape == shape


@pytest.mark.parametrize("across", [True, False], ids=["layer", "instance"])
@pytest.mark.parametrize("shape", [(2, 3, 4), (2, 3, 4, 5, 6)])
@pytest.mark.parametrize("gated", [True, False])
def test_norms_by_explicit_weights(gated, shape, across):
    gate = Measure(4) if gated else None
    if gated:
        with torch.no_grad():
            gate.logits.copy_(torch.tensor([3.0, -1.0, 0.0]))
    weights = torch.ones(4) if gate is None else gate().detach()
    norm = (GroupLayerNorm if across else GroupInstanceNorm)(gate)
    f = 3 * torch.randn(shape) + 1
    y = norm(f)
    for b in range(shape[0]):
        for channels in [slice(None)] if across else [slice(c, c + 1) for c in range(shape[1])]:
            part = f[b, channels].movedim(1, 0).flatten(1)
            w = (weights[:, None] / weights.sum() / part.shape[1]).expand_as(part)
            mean = (w * part).sum()
            std = ((w * (part - mean) ** 2).sum() + 1e-5).sqrt()
            expected = ((f[b, channels] - mean) / std).detach()
            torch.testing.assert_close(y[b, channels].detach(), expected, atol=1e-5, rtol=1e-4)


def test_a_parameter_changed_in_evaluation_changes_the_output():
    layer = LiftConv2d(1, 2, 3, Sinkhorn(4, 9)).eval()
    x = torch.randn(1, 1, 5, 5)
    before = layer(x)
    with torch.no_grad():
        layer.representation.logits.normal_()
    assert not torch.allclose(layer(x), before)


@pytest.mark.parametrize("batch", [0, 1])
def test_small_batches(batch):
    lift = LiftConv2d(1, 2, 3, Fixed(GROUPS["C4"]))
    conv = GroupConv2d(2, 2, 3, Gated(GROUPS["C4"]))
    assert conv(lift(torch.zeros(batch, 1, 7, 7))).shape == (batch, 2, 4, 3, 3)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_layers_follow_the_dtype(dtype):
    stack = [LiftConv2d(1, 2, 3, Sinkhorn(4, 9)), GroupConv2d(2, 2, 3, Gated(GROUPS["C4"]))]
    network = torch.nn.Sequential(*stack, GroupPool(stack[1].representation.gate)).to(dtype)
    assert network(torch.randn(2, 1, 7, 7, dtype=dtype)).dtype == dtype


def test_a_measure_in_another_dtype_weighs_a_half_precision_layer():
    conv = GroupConv2d(2, 2, 3, Gated(GROUPS["C4"]), dtype=torch.bfloat16)
    assert conv(torch.randn(1, 2, 4, 5, 5, dtype=torch.bfloat16)).dtype == torch.bfloat16


def test_autocast_keeps_the_expansion_exact():
    layer = LiftConv2d(1, 2, 3, Sinkhorn(4, 9))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(layer.kernel(), layer.kernel().float())
        y = layer(torch.randn(2, 1, 6, 6))
    assert y.dtype == torch.bfloat16


def test_a_copy_keeps_sharing_its_gate():
    twin = copy.deepcopy(_network(Gated(GROUPS["D4"])))
    assert twin[0].representation.gate is twin[1].representation.gate is twin[4].gate
