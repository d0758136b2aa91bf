"""Moves of channels: laws of the action, kernels that follow it, and networks that keep it."""

import itertools

import pytest
import torch

from symshare import bake, groups, layers
from symshare.groups import ChannelAction, ChannelMap
from symshare.layers import GroupPool
from symshare.representations import Fixed, Sinkhorn


def swap(*sources, negative=()):
    return ChannelMap(sources, tuple(-1 if c in negative else 1 for c in range(len(sources))))


def closed(grid, generators):
    """The group that pairs of a move of space and a map of channels generate."""
    names = grid.names

    def multiply(g, h):
        return names[grid.table[names.index(g[0]), names.index(h[0])]], h[1].then(g[1])

    channels = len(generators[0][1].sources)
    found = groups.generated([("id", ChannelMap.identity(channels)), *generators], multiply)
    return ChannelAction(grid, list(found))


COLOURS = [swap(*order) for order in itertools.permutations(range(3))]
# action, a shape that it acts on, the name of its group
ACTIONS = {
    "leads swapped": (closed(groups.reversal(), [("reverse", swap(1, 0, 2))]), (7,), "C2"),
    "sign": (closed(groups.reversal(), [("id", swap(0, 1, negative=(0, 1)))]), (7,), "C2"),
    "one sign": (closed(groups.reversal(), [("reverse", swap(1, 0, negative=(0,)))]), (7,), "C4"),
    "colours": (ChannelAction(groups.flips("W"), [("id", m) for m in COLOURS]), (5, 5), "D3"),
    "turns with colours": (closed(groups.rotations(4), [("rot90", swap(1, 2, 0))]), (5, 5), "C12"),
    "turns and colours": (
        closed(groups.rotations(4), [("rot90", swap(0, 1, 2)), ("id", swap(1, 0, 2))]),
        (5, 5),
        "C2xC4",
    ),
    "cube": (closed(groups.cube(), [("x90", swap(1, 0)), ("xyz120", swap(0, 1))]), (3,) * 3, "S4"),
}


@pytest.mark.parametrize(("action", "shape", "name"), ACTIONS.values(), ids=ACTIONS)
class TestEveryAction:
    def test_it_is_a_group_of_its_name(self, action, shape, name):
        assert (action.is_group, action.name) == (True, name)
        assert action.acts_on(shape)
        assert action.has_kernel_map

    def test_products_act_one_after_the_other(self, action, shape, name):
        x = torch.randn(2, action.channels, *shape)
        for g, h in itertools.product(range(len(action)), repeat=2):
            both = action.apply(action.apply(x, h), g)
            assert torch.equal(both, action.apply(x, int(action.table[g, h])))

    def test_entries_matrices_and_movement_agree(self, action, shape, name):
        x = torch.randn(action.channels, *shape)
        sources, signs = action.entries(action.channels, shape)
        matrices = action.lift(shape)
        for g in range(len(action)):
            moved = action.apply(x, g).flatten()
            assert torch.equal(x.flatten()[sources[g]] * signs[g], moved)
            torch.testing.assert_close(matrices[g] @ x.flatten(), moved)

    def test_a_move_of_space_and_one_of_channels_do_not_see_each_other(self, action, shape, name):
        x = torch.randn(action.channels, *shape)
        for g, (move, channels) in enumerate(action.elements):
            in_space = action.grid.apply(x, action.grid.names.index(move))
            expected = [s * in_space[c] for c, s in zip(*vars(channels).values(), strict=True)]
            assert torch.equal(action.apply(x, g), torch.stack(expected))

    def test_a_group_layer_sees_the_moves_of_space(self, action, shape, name):
        kernel = (3,) * action.dims
        R, A = action.regular(kernel), action.cayley
        for g, (move, _) in enumerate(action.elements):
            B = action.grid.lift(kernel)[action.grid.names.index(move)]
            assert torch.equal(R[g], torch.kron(A[g], B))

    @pytest.mark.parametrize("transposed", ["", "Transpose"])
    def test_a_network_keeps_it(self, action, shape, name, transposed):
        torch.manual_seed(0)
        lift = getattr(layers, f"LiftConv{transposed}{action.dims}d")
        conv = getattr(layers, f"GroupConv{action.dims}d")
        fixed = Fixed(action)
        net = torch.nn.Sequential(
            lift(action.channels, 2, 3, fixed, padding=1),
            torch.nn.ReLU(),
            conv(2, 2, 3, fixed, padding=1),
        ).double()
        assert net[0].theta.shape == (2, 1, action.channels * 3**action.dims)
        x = torch.randn(2, action.channels, *shape, dtype=torch.double)
        y = net(x)
        assert y.abs().max() > 1e-3
        baked = bake(net)
        torch.testing.assert_close(baked(x), y)
        for g, (move, _) in enumerate(action.elements):
            moved = action.grid.apply(y, action.grid.names.index(move))
            expected = moved[:, :, action.table[g].argsort()]
            torch.testing.assert_close(net(action.apply(x, g)), expected, atol=1e-9, rtol=1e-9)
        pooled = torch.nn.Sequential(net, GroupPool())
        assert pooled(x).shape == (2, 2, *shape)

    def test_a_subset_keeps_its_elements(self, action, shape, name):
        some = action.subset(action.names[1:2])
        assert some.names == action.names[:2]
        assert torch.equal(some.lift(shape), action.lift(shape)[:2])


def test_plain_moves_of_space_move_all_channels_alike():
    turns = groups.rotations(4)
    x = torch.randn(3, 5, 5)
    sources, signs = turns.entries(3, (5, 5))
    for g in range(4):
        assert torch.equal(x.flatten()[sources[g]].view_as(x) * signs[g, 0], turns.apply(x, g))


def test_the_function_of_a_lifting_layer_that_mixes_channels_is_that_of_the_layer():
    action = ACTIONS["turns with colours"][0]
    layer = layers.LiftConv2d(3, 4, 3, Fixed(action))
    x = torch.randn(2, 3, 7, 7)
    y = layers.functional.lift_conv(x, layer.theta, layer.stack(), layer.bias, kernel_size=3)
    assert torch.equal(y, layer(x))


def test_free_stacks_may_act_on_channels_and_positions():
    layer = layers.LiftConv2d(3, 4, 3, Sinkhorn(2, 27))
    assert layer.theta.shape == (4, 1, 27)
    assert layers.LiftConv2d(3, 4, 3, Sinkhorn(2, 9)).theta.shape == (4, 3, 9)
    assert layer(torch.randn(2, 3, 5, 5)).shape == (2, 4, 2, 3, 3)
    with pytest.raises(ValueError, match=r"acts on D=18 positions, but a kernel of size \(3, 3\)"):
        layers.LiftConv2d(3, 4, 3, Sinkhorn(2, 18))


def test_words():
    assert swap(1, 2, 0).word() == "(0 2 1)"
    assert swap(1, 0, 3, 2, negative=(0, 3)).word() == "(0 1)(2 3)*negate0,3"
    assert swap(0, 1, negative=(0, 1)).word(("a", "b")) == "negate"
    assert ChannelMap.identity(3).is_identity
    assert ACTIONS["leads swapped"][0].names == ("id", "reverse*(0 1)")


BAD = {
    "no permutation": (lambda: ChannelMap((0, 0), (1, 1)), r"channels \[0, 1\] once"),
    "a sign": (lambda: ChannelMap((0, 1), (1, 2)), "signs are 1 or -1"),
    "sizes": (
        lambda: ChannelAction(groups.reversal(), [("id", swap(0, 1)), ("reverse", swap(0, 1, 2))]),
        "one number of channels",
    ),
    "unknown move": (
        lambda: ChannelAction(groups.reversal(), [("flip", swap(0, 1))]),
        "no move of space 'flip'",
    ),
    "no identity": (
        lambda: ChannelAction(groups.reversal(), [("reverse", swap(0, 1))]),
        "the identity must come first",
    ),
    "twice": (
        lambda: ChannelAction(groups.reversal(), [("id", swap(0, 1)), ("id", swap(0, 1))]),
        "must differ",
    ),
    "channels of a signal": (
        lambda: ACTIONS["sign"][0].apply(torch.zeros(3, 7), 1),
        r"expected \[..., 2 channels",
    ),
    "channels of entries": (lambda: ACTIONS["sign"][0].entries(3, 7), "move 2 channels, got 3"),
    "channels of a layer": (
        lambda: layers.LiftConv1d(3, 4, 3, Fixed(ACTIONS["sign"][0])),
        "move 2 channels, but the layer reads 3",
    ),
}


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(("call", "message"), BAD.values(), ids=BAD)
def test_errors_say_what_is_wrong(call, message):
    with pytest.raises(ValueError, match=message):
        call()
