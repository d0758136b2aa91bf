import pytest
import torch
from torch import nn

from symshare import groups
from symshare.layers import (
    GroupConv1d,
    GroupConv2d,
    GroupConv3d,
    GroupConvTranspose2d,
    GroupMaxPool,
    GroupPool,
    LiftConv2d,
    LiftConv3d,
    LiftConvTranspose2d,
    cosets,
    restrict,
)
from symshare.representations import Fixed, Gated, Sinkhorn

D4, C4 = groups.dihedral(4), groups.rotations(4)
CHAINS = {
    "C4 in D4": (D4, C4.names),
    "flips in D4": (D4, groups.flips("HW").names),
    "one flip in D4": (D4, ["flipW"]),
    "one diagonal in D4": (D4, D4.names[-1:]),
    "C2 in C4": (C4, ["rot180"]),
    "nothing in C4": (C4, []),
    "all of D4": (D4, D4.names),
}
OPTIONS = {"padding": 1, "stride": 2, "groups": 2}
LAYERS = {
    "lifting": lambda action: LiftConv2d(2, 4, 3, Fixed(action), **OPTIONS),
    "group": lambda action: GroupConv2d(2, 4, 3, Fixed(action), **OPTIONS),
    "same": lambda action: GroupConv2d(2, 4, 3, Fixed(action), padding="same", bias=False),
    "transposed lifting": lambda action: LiftConvTranspose2d(2, 4, 2, Fixed(action), **OPTIONS),
    "transposed": lambda action: GroupConvTranspose2d(2, 4, 2, Fixed(action), **OPTIONS),
}


def on_subgroup(f, index):
    return f[:, :, index].flatten(1, 2)


def holds(layer, action, elements, f):
    """The restricted layer computes the same, and is one of the subgroup."""
    index = cosets(action, elements)
    restricted = restrict(layer, elements)
    assert type(restricted) is type(layer)
    assert restricted.representation.action.names == action.subset(elements).names
    assert restricted.geometry == layer.geometry
    y = restricted(f if layer.lifting else on_subgroup(f, index))
    torch.testing.assert_close(y, on_subgroup(layer(f), index))


@pytest.mark.parametrize("chain", CHAINS.values(), ids=CHAINS)
@pytest.mark.parametrize("make", LAYERS.values(), ids=LAYERS)
def test_restriction_is_the_same_function(make, chain):
    action, elements = chain
    layer = make(action).double()
    group = () if layer.lifting else (len(action),)
    f = torch.randn(2, 2, *group, 7, 7, dtype=torch.float64)
    holds(layer, action, elements, f)


def test_other_numbers_of_axes():
    ring, cube = groups.ring_dihedral(6), groups.cube()
    turns = [name for name in ring.names if "flip" not in name]
    layer = GroupConv1d(2, 3, 3, Fixed(ring), padding=1, padding_mode="circular").double()
    holds(layer, ring, turns, torch.randn(1, 2, 12, 6, dtype=torch.float64))
    half = next(cube.names[g] for g in range(1, 24) if cube.table[g, g] == 0)
    holds(LiftConv3d(1, 2, 3, Fixed(cube)), cube, [half], torch.randn(1, 1, 5, 5, 5))
    holds(GroupConv3d(1, 1, 2, Fixed(cube)), cube, [half], torch.randn(1, 1, 24, 3, 3, 3))


@pytest.mark.parametrize("pool", [GroupPool, GroupMaxPool])
def test_networks_are_restricted_layer_by_layer(pool):
    network = nn.Sequential(
        LiftConv2d(1, 2, 3, Fixed(D4)), nn.ReLU(), GroupConv2d(2, 3, 3, Fixed(D4)), pool()
    )
    x = torch.randn(2, 1, 9, 9)
    smaller = nn.Sequential(
        restrict(network[0], C4.names), nn.ReLU(), restrict(network[2], C4.names), pool()
    )
    y = smaller(x).unflatten(1, (3, 2))
    y = y.mean(2) if pool is GroupPool else y.amax(2)
    torch.testing.assert_close(y, network(x))
    # It has the subgroup's symmetry whatever its weights are, and can lose the others.
    nn.init.normal_(smaller[0].theta)
    for g in range(4):
        moved = smaller(C4.apply(x, g))
        torch.testing.assert_close(moved, C4.apply(smaller(x), g), atol=1e-4, rtol=1e-4)
    assert not torch.allclose(smaller(x.flip(-1)), smaller(x).flip(-1), atol=1e-2)


def test_weights_mode_and_type_are_those_of_the_layer():
    layer = GroupConv2d(1, 1, 3, Fixed(C4)).half().eval()
    before = layer.theta.clone()
    restricted = restrict(layer, ["rot180"])
    assert restricted.theta.dtype == torch.half
    assert not restricted.training
    nn.init.zeros_(restricted.theta)
    assert torch.equal(layer.theta, before)
    assert restricted.theta.requires_grad


@pytest.mark.parametrize(("action", "elements"), list(CHAINS.values()), ids=CHAINS)
def test_cosets_are_disjoint_and_closed_under_the_subgroup(action, elements):
    index = cosets(action, elements)
    assert sorted(index.flatten().tolist()) == list(range(len(action)))
    members = index[0].tolist()
    for row in index.tolist():
        for h in members:
            assert {int(action.table[h, g]) for g in row} == set(row)


def test_refusals():
    layer = LiftConv2d(1, 1, 3, Fixed(D4))
    with pytest.raises(ValueError, match=r"GroupAction\(id, rot90\) is no group"):
        restrict(layer, ["rot90"])
    with pytest.raises(ValueError, match="no element"):
        restrict(layer, ["rot45"])
    for other in (Gated(C4), Sinkhorn(4, 9), Fixed(C4.lift(3))):
        with pytest.raises(ValueError, match=r"expected a layer with Fixed\(action\)"):
            restrict(LiftConv2d(1, 1, 3, other), ["rot180"])
