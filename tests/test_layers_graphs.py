"""Layers under torch.compile and torch.export, without the shape checks of the test run.

The checks wrap every function of the library, and a compiler cannot look through the wrappers.
"""

from importlib import import_module

import pytest
import torch
from torch import nn

SPACE = {1: (8,), 3: (4, 4, 6)}
FREE = torch.export.Dim.DYNAMIC


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()


@pytest.fixture
def network(unwrapped):
    """Every kind of layer, for images of odd sizes."""
    rotations = unwrapped.groups.rotations(4)
    fixed, gated = unwrapped.Fixed(rotations), unwrapped.Gated(rotations)
    return nn.Sequential(
        unwrapped.LiftConv2d(2, 4, 3, fixed, padding="same", padding_mode="circular"),
        unwrapped.GroupBatchNorm(4),
        unwrapped.GroupConv2d(4, 4, 3, gated, padding=1, groups=2, padding_mode="reflect"),
        unwrapped.GroupBatchNorm(4, gate=gated.gate),
        nn.ReLU(),
        unwrapped.GroupConv2d(
            4, 4, 3, unwrapped.Sinkhorn(4, 36, iterations=3), stride=2, padding=1
        ),
        unwrapped.GroupLayerNorm(gated.gate),
        unwrapped.GroupConvTranspose2d(4, 2, 3, fixed, stride=2, padding=1),
        unwrapped.GroupPool(),
    )


def compiled(model):
    return torch.compile(model, fullgraph=True, backend="aot_eager")


def test_a_network_is_one_graph(network):
    x = torch.randn(2, 2, 9, 7)
    fast = compiled(network)
    torch.testing.assert_close(fast(x), network(x))
    fast(x).sum().backward()
    assert all(p.grad is not None for p in network.parameters())
    network.eval()
    torch.testing.assert_close(fast(x), network(x))


@pytest.mark.parametrize(("dims", "first"), [(1, "LiftConvTranspose"), (3, "LiftConv")])
def test_other_numbers_of_dimensions(unwrapped, dims, first):
    lift = unwrapped.Fixed(torch.randn(4, 2**dims, 2**dims))
    group = unwrapped.Fixed(torch.randn(4, 4 * 2**dims, 4 * 2**dims))
    model = nn.Sequential(
        getattr(unwrapped, f"{first}{dims}d")(2, 2, 2, lift),
        getattr(unwrapped, f"GroupConv{dims}d")(2, 2, 2, group),
        getattr(unwrapped, f"GroupConvTranspose{dims}d")(2, 2, 2, group, stride=2),
    )
    x = torch.randn(2, 2, *SPACE[dims])
    torch.testing.assert_close(compiled(model)(x), model(x), atol=1e-4, rtol=1e-4)


@pytest.mark.usefixtures("unwrapped")
def test_functions_are_one_graph():
    functional = import_module("symshare.layers.functional")
    f, theta, R = torch.randn(2, 2, 3, 5, 6), torch.randn(4, 1, 12), torch.randn(2, 12, 12)

    def call(f, theta, R):
        return functional.group_conv(f, theta, R, kernel_size=(2, 2), groups=2, stride=2)

    torch.testing.assert_close(compiled(call)(f, theta, R), call(f, theta, R))


@pytest.mark.parametrize("strict", [False, True])
def test_exports_with_dynamic_batch_and_space(network, strict):
    network.eval()
    shapes = ({0: FREE, 2: FREE, 3: FREE},)
    program = torch.export.export(
        network, (torch.randn(2, 2, 9, 7),), dynamic_shapes=shapes, strict=strict
    )
    for shape in [(2, 2, 9, 7), (5, 2, 11, 13), (1, 2, 5, 5)]:
        x = torch.randn(shape)
        torch.testing.assert_close(program.module()(x), network(x))


def test_is_silent_about_sizes_while_tracing(unwrapped):
    model = unwrapped.LiftConv2d(2, 2, 2, unwrapped.Fixed(torch.eye(4).repeat(4, 1, 1)), stride=2)
    x = torch.randn(2, 2, 7, 9)
    compiled(model)(x)
    torch.export.export(model, (x,), dynamic_shapes=({0: FREE, 2: FREE, 3: FREE},))
    with pytest.warns(UserWarning, match="no multiple of the stride"):
        model(x)
