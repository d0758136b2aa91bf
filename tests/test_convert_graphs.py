"""Baked networks in torch's tools for graphs, the older ones too.

The library is imported without shape checks, which wrap every function: tools cannot look through.
"""

from importlib import import_module

import pytest
import torch
from torch import nn

SPACE = {1: (9,), 2: (7, 9), 3: (5, 7, 5)}
G = 4

CONVOLUTIONS = {
    f"{kind}{transposed}{dims}d {' '.join(map(str, options.values()))}": (
        kind + transposed,
        dims,
        options,
    )
    for kind in ("LiftConv", "GroupConv")
    for dims in (1, 2, 3)
    for transposed, options in (
        ("", {}),
        ("", {"padding": "same", "dilation": 2}),
        ("", {"padding": 1, "stride": 2, "groups": 2, "padding_mode": "circular"}),
        ("Transpose", {"stride": 2, "padding": 1, "groups": 2}),
    )
}
ACROSS = [
    (name, weighted)
    for name in ("GroupPool", "GroupMaxPool", "GroupLayerNorm", "GroupInstanceNorm")
    for weighted in (False, True)
    if (name, weighted) != ("GroupMaxPool", True)
] + [("GroupBatchNorm", False), ("GroupBatchNorm", True), ("SyncBatchNorm", False)]
POOLS = {
    "SpatialMaxPool": {"stride": 2, "padding": 1, "dilation": 2},
    "SpatialAvgPool": {"stride": 2, "padding": 1},
}


def check(unwrapped, layer, x):
    """The baked layer, traced and scripted, for the batch of the example and for another."""
    layer.eval()
    baked = unwrapped.bake(layer)
    traced = torch.fx.symbolic_trace(baked)
    scripted = torch.jit.script(baked)
    compiled = torch.compile(baked, backend="eager", fullgraph=True)
    exported = torch.export.export(baked, (x,)).module()
    with torch.no_grad():
        y = layer(x)
        torch.testing.assert_close(baked(x), y, atol=1e-5, rtol=1e-5)
        for tool in (traced, scripted, compiled, exported):
            assert torch.equal(tool(x), baked(x))
        for tool in (traced, scripted):
            torch.testing.assert_close(tool(x[:1]), y[:1], atol=1e-5, rtol=1e-5)


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()


@pytest.mark.filterwarnings("ignore:.*rotations are not exact")
@pytest.mark.parametrize("case", CONVOLUTIONS.values(), ids=CONVOLUTIONS)
def test_convolutions(unwrapped, case):
    name, dims, options = case
    size = 4 if dims == 1 else 2  # even, and enough taps for G permutations
    taps = size**dims
    lifting = name.startswith("Lift")
    representation = unwrapped.Sinkhorn(G, taps if lifting else G * taps)
    layer = getattr(unwrapped, f"{name}{dims}d")(2, 4, size, representation, **options)
    check(unwrapped, layer, torch.randn(3, 2, *(() if lifting else (G,)), *SPACE[dims]))


def measure(unwrapped):
    gate = unwrapped.Measure(G)
    nn.init.normal_(gate.logits)
    return gate


@pytest.mark.parametrize("space", [(), *SPACE.values()])
@pytest.mark.parametrize(("name", "weighted"), ACROSS)
def test_norms_and_pools_over_the_group(unwrapped, name, weighted, space):
    options = {"gate": measure(unwrapped)} if weighted else {}
    if name == "SyncBatchNorm":
        norm = layer = unwrapped.layers.synchronise(nn.BatchNorm1d(2))
    elif name == "GroupBatchNorm":
        layer = unwrapped.GroupBatchNorm(2, **options)
        norm = layer.norm
    else:
        norm, layer = None, getattr(unwrapped, name)(**options)
    if norm is not None:
        norm.running_mean.normal_(1.0)
        norm.running_var.uniform_(1.0, 7.0)
    check(unwrapped, layer, 3 * torch.randn(3, 2, G, *space) + 1)


@pytest.mark.filterwarnings("ignore:.*rotations are not exact")
@pytest.mark.parametrize("dims", SPACE)
@pytest.mark.parametrize("name", POOLS)
def test_pools_over_space(unwrapped, name, dims):
    layer = getattr(unwrapped, name)((2,) * dims, **POOLS[name])
    check(unwrapped, layer, torch.randn(3, 2, G, *SPACE[dims]))


def test_head(unwrapped):
    corners = torch.stack([torch.arange(G).roll(g) for g in range(G)])
    check(unwrapped, unwrapped.GroupHead(3, corners), torch.randn(2, 3, G))


def test_linear(unwrapped):
    check(unwrapped, unwrapped.GroupLinear(3, 5, unwrapped.Sinkhorn(G, 6)), torch.randn(2, 3, 6))


@pytest.mark.parametrize("learned", [False, True])
def test_networks(unwrapped, learned):
    rotations = unwrapped.groups.rotations(4)
    shared = (unwrapped.Gated if learned else unwrapped.Fixed)(rotations)
    layers = [
        unwrapped.LiftConv2d(1, 4, 3, shared),
        unwrapped.GroupBatchNorm(4, gate=shared.gate),
        nn.ReLU(),
        unwrapped.SpatialMaxPool((2, 2)),
        unwrapped.GroupConv2d(4, 4, 3, shared),
        unwrapped.GroupLayerNorm(shared.gate),
        unwrapped.GroupPool(shared.gate),
        nn.AdaptiveAvgPool2d(1),
    ]
    check(unwrapped, nn.Sequential(*layers), torch.randn(2, 1, 10, 10))


def test_every_kind_of_layer_is_in_a_table(unwrapped):
    names = (
        {name for name, _ in ACROSS} | POOLS.keys() | {"GroupHead", "GroupLinear", "Convolution"}
    )
    assert {kind.__name__ for kind in import_module("symshare.convert.plain").LAYERS} == names
