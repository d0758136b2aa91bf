"""Exact groups in one, two and three dimensions: moving the input moves the output."""

import pytest
import torch

from symshare import groups, layers
from symshare.groups import GroupAction, LatticeMap
from symshare.layers import GroupBatchNorm, GroupInstanceNorm, GroupLayerNorm, GroupPool
from symshare.representations import Fixed

Z90 = LatticeMap(((1, 0, 0), (0, 0, -1), (0, 1, 0)), (0, 0, 0))
X90 = LatticeMap(((0, -1, 0), (1, 0, 0), (0, 0, 1)), (0, 0, 0))
MIRROR = LatticeMap(((-1, 0, 0), (0, 1, 0), (0, 0, 1)), (0, 0, 0))
IDENTITY = LatticeMap(((1, 0, 0), (0, 1, 0), (0, 0, 1)), (0, 0, 0))


def generated(**maps):
    return groups.closure(GroupAction(["id", *maps], [IDENTITY, *maps.values()]))


REVERSE = GroupAction(["id", "reverse"], [LatticeMap(((s,),), (0,)) for s in (1, -1)])
CENTRED = {
    "reverse": (REVERSE, (9,)),
    "reverse, even": (REVERSE, (8,)),
    "C2": (groups.rotations(2), (9, 7)),
    "C4": (groups.rotations(4), (9, 9)),
    "C4, even": (groups.rotations(4), (8, 8)),
    "C4, not square": (groups.rotations(4), (8, 6)),
    "D4": (groups.dihedral(4), (7, 7)),
    "D4, not square": (groups.dihedral(4), (7, 9)),
    "flipW": (groups.flips("W"), (6, 8)),
    "flipH": (groups.flips("H"), (9, 7)),
    "flipHW": (groups.flips("HW"), (7, 9)),
    "C4 about an axis": (generated(z90=Z90), (5, 7, 7)),
    "C4 and a mirror": (generated(z90=Z90, mirror=MIRROR), (5, 5, 7)),
    "cube": (generated(z90=Z90, x90=X90), (5, 5, 5)),
}
OPTIONS = {
    "padding": {"kernel_size": 3, "padding": 1},
    "same": {"kernel_size": 3, "padding": "same", "padding_mode": "replicate"},
    "even": {"kernel_size": 2},
    "even, padded": {"kernel_size": 2, "padding": 1},
    "dilation": {"kernel_size": 2, "dilation": 2, "padding": 1},
    "reflect": {"kernel_size": 3, "padding": 2, "padding_mode": "reflect"},
    "circular": {"kernel_size": 2, "padding": 2, "padding_mode": "circular"},
    "groups": {"kernel_size": 2, "groups": 2},
}
TRANSPOSED = {
    "one": {"kernel_size": 3},
    "stride": {"kernel_size": 2, "stride": 2},
    "wide stride": {"kernel_size": 2, "stride": 3, "padding": 1},
    "padding": {"kernel_size": 3, "stride": 2, "padding": 1},
    "dilation": {"kernel_size": 2, "stride": 2, "dilation": 3},
    "groups": {"kernel_size": 2, "groups": 2},
}


def move(m, x):
    """The lattice map on the last axes of x, by torch's own permute, flip and roll."""
    dims = len(m.shift)
    lead = x.ndim - dims
    sources = [[abs(n) for n in row].index(1) for row in m.matrix]
    y = x.permute(*range(lead), *(lead + j for j in sources))
    y = y.flip([lead + i for i, row in enumerate(m.matrix) if sum(row) < 0])
    return y.roll(m.shift, tuple(range(lead, x.ndim)))


def assert_equivariant(action, network, x, pooled=False):
    y = network(x)
    assert y.abs().max() > 1e-3
    for g in range(len(action)):
        moved = network(move(action.maps[g], x))
        expected = move(action.maps[g], y)
        if not pooled:
            expected = expected[:, :, action.table[g].argsort()]
        torch.testing.assert_close(moved, expected, atol=1e-9, rtol=1e-9)


def layer(kind, dims, action, options, channels=2):
    make = getattr(layers, f"{kind}{dims}d")
    options = dict(options)
    size = options.pop("kernel_size")
    return make(channels, channels, size, Fixed(action), **options).double()


def image(size):
    return torch.randn(2, 2, *size, dtype=torch.float64)


@pytest.mark.parametrize("option", OPTIONS)
@pytest.mark.parametrize("group", CENTRED)
def test_two_layers_are_equivariant(group, option):
    action, size = CENTRED[group]
    dims, options = len(size), OPTIONS[option]
    network = torch.nn.Sequential(
        layer("LiftConv", dims, action, options),
        torch.nn.ReLU(),
        layer("GroupConv", dims, action, options),
    )
    assert_equivariant(action, network, image(size))


@pytest.mark.parametrize("group", CENTRED)
def test_strides_are_exact_where_the_size_fits(group):
    action, size = CENTRED[group]
    dims = len(size)
    odd = {"kernel_size": 3, "stride": 2, "padding": 1}
    even = {"kernel_size": 2, "stride": 2}
    lift = layer("LiftConv", dims, action, odd if size[0] % 2 else even)
    assert_equivariant(action, lift, image(size))
    conv = layer("GroupConv", dims, action, odd if size[0] % 2 else even)
    y = torch.nn.functional.interpolate(lift(image(size)).flatten(1, 2), size)
    assert_equivariant_maps(action, conv, y.unflatten(1, (2, len(action))))


def assert_equivariant_maps(action, network, f):
    y = network(f)
    for g in range(len(action)):
        back = action.table[g].argsort()
        moved = network(move(action.maps[g], f)[:, :, back])
        expected = move(action.maps[g], y)[:, :, back]
        torch.testing.assert_close(moved, expected, atol=1e-9, rtol=1e-9)


@pytest.mark.parametrize("option", TRANSPOSED)
@pytest.mark.parametrize("group", CENTRED)
def test_transposed_layers_are_equivariant(group, option):
    action, size = CENTRED[group]
    size = tuple(n - 2 for n in size)
    dims, options = len(size), TRANSPOSED[option]
    lift = layer("LiftConvTranspose", dims, action, options)
    assert_equivariant(action, lift, image(size))
    conv = layer("GroupConvTranspose", dims, action, options)
    f = torch.randn(1, 2, len(action), *size, dtype=torch.float64)
    assert_equivariant_maps(action, conv, f)


@pytest.mark.parametrize(
    ("action", "size"),
    [
        (groups.flips("W"), (3, 2)),
        (groups.flips("HW"), (2, 3)),
        (groups.rotations(2), (1, 3)),
        (generated(z90=Z90), (1, 2, 2)),
    ],
)
def test_kernels_need_not_be_square(action, size):
    dims = len(size)
    options = {"kernel_size": size, "dilation": tuple(range(1, dims + 1)) if dims == 2 else 1}
    network = torch.nn.Sequential(
        layer("LiftConv", dims, action, options), layer("GroupConv", dims, action, options)
    )
    assert_equivariant(action, network, image({2: (7, 9), 3: (3, 6, 6)}[dims]))


@pytest.mark.parametrize("n", [6, 7])
@pytest.mark.parametrize("make", [groups.cyclic_shifts, groups.ring_dihedral])
@pytest.mark.parametrize("options", [{}, {"dilation": 2}, {"groups": 2}])
def test_rings_are_equivariant_with_circular_padding(make, n, options):
    action = make(n)
    options = {"kernel_size": 3, "padding": "same", "padding_mode": "circular", **options}
    network = torch.nn.Sequential(
        layer("LiftConv", 1, action, options),
        torch.nn.ReLU(),
        layer("GroupConv", 1, action, options),
    )
    assert_equivariant(action, network, image((n,)))


@pytest.mark.parametrize("norm", [GroupBatchNorm, GroupInstanceNorm, GroupLayerNorm])
@pytest.mark.parametrize("group", ["reverse", "C4, not square", "D4", "cube"])
def test_an_hourglass_is_equivariant(group, norm):
    action, size = CENTRED[group]
    dims = len(size)

    def normalise():
        return (norm(2) if norm is GroupBatchNorm else norm()).double()

    down = {"kernel_size": 2 + size[0] % 2, "stride": 2, "padding": size[0] % 2}
    network = torch.nn.Sequential(
        layer("LiftConv", dims, action, {"kernel_size": 3, "padding": 1}),
        normalise(),
        torch.nn.ReLU(),
        layer("GroupConv", dims, action, down),
        normalise(),
        torch.nn.ReLU(),
        layer("GroupConvTranspose", dims, action, down),
        normalise(),
    )
    x = image(size)
    assert_equivariant(action, network, x)
    assert network(x).shape[3:] == size
    assert_equivariant(action, torch.nn.Sequential(network, GroupPool()), x, pooled=True)


def test_a_transposed_layer_is_the_adjoint_of_a_plain_one():
    """With theta over inverse elements, since K and G change places."""
    action = groups.dihedral(4)
    plain = layer("GroupConv", 2, action, {"kernel_size": 3, "stride": 2, "bias": False})
    back = layer("GroupConvTranspose", 2, action, {"kernel_size": 3, "stride": 2, "bias": False})
    inverse = (action.table == 0).int().argmax(1)
    with torch.no_grad():
        theta = plain.theta.unflatten(-1, (8, 3, 3)).transpose(0, 1)
        # theta'(a, t) = theta(a^-1, a^-1 t)
        moved = [move(action.maps[a], theta[:, :, inverse[a]]) for a in range(8)]
        back.theta.copy_(torch.stack(moved, 2).flatten(2))
    f = torch.randn(1, 2, 8, 9, 9, dtype=torch.float64)
    y = torch.randn(1, 2, 8, 4, 4, dtype=torch.float64)
    torch.testing.assert_close((plain(f) * y).sum(), (f * back(y)).sum())
