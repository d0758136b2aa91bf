"""Layers under torch.compile and torch.export, without the shape checks of the test run.

The checks wrap every function of the library, and a compiler cannot look through the wrappers.
"""

import sys
from importlib import import_module

import pytest
import torch
from torch import nn

SPACE = {1: (8,), 3: (4, 4, 6)}
FREE = torch.export.Dim.DYNAMIC


@pytest.fixture(scope="module")
def symshare():
    """The library, imported a second time without the checks."""
    checks = [f for f in sys.meta_path if type(f).__module__.startswith("jaxtyping")]
    checked = {n: m for n, m in sys.modules.items() if n.partition(".")[0] == "symshare"}
    for name in checked:
        del sys.modules[name]
    for finder in checks:
        sys.meta_path.remove(finder)
    yield import_module("symshare")
    for name in [n for n in sys.modules if n.partition(".")[0] == "symshare"]:
        del sys.modules[name]
    sys.modules.update(checked)
    sys.meta_path[:0] = checks


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()


@pytest.fixture
def network(symshare):
    """Every kind of layer, for images of odd sizes."""
    rotations = symshare.groups.rotations(4)
    fixed, gated = symshare.Fixed(rotations), symshare.Gated(rotations)
    return nn.Sequential(
        symshare.LiftConv2d(2, 4, 3, fixed, padding="same", padding_mode="circular"),
        symshare.GroupBatchNorm(4),
        symshare.GroupConv2d(4, 4, 3, gated, padding=1, groups=2, padding_mode="reflect"),
        symshare.GroupBatchNorm(4, gate=gated.gate),
        nn.ReLU(),
        symshare.GroupConv2d(4, 4, 3, symshare.Sinkhorn(4, 36, iterations=3), stride=2, padding=1),
        symshare.GroupLayerNorm(gated.gate),
        symshare.GroupConvTranspose2d(4, 2, 3, fixed, stride=2, padding=1),
        symshare.GroupPool(),
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
def test_other_numbers_of_dimensions(symshare, dims, first):
    lift = symshare.Fixed(torch.randn(4, 2**dims, 2**dims))
    group = symshare.Fixed(torch.randn(4, 4 * 2**dims, 4 * 2**dims))
    model = nn.Sequential(
        getattr(symshare, f"{first}{dims}d")(2, 2, 2, lift),
        getattr(symshare, f"GroupConv{dims}d")(2, 2, 2, group),
        getattr(symshare, f"GroupConvTranspose{dims}d")(2, 2, 2, group, stride=2),
    )
    x = torch.randn(2, 2, *SPACE[dims])
    torch.testing.assert_close(compiled(model)(x), model(x), atol=1e-4, rtol=1e-4)


@pytest.mark.usefixtures("symshare")
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


def test_is_silent_about_sizes_while_tracing(symshare):
    model = symshare.LiftConv2d(2, 2, 2, symshare.Fixed(torch.eye(4).repeat(4, 1, 1)), stride=2)
    x = torch.randn(2, 2, 7, 9)
    compiled(model)(x)
    torch.export.export(model, (x,), dynamic_shapes=({0: FREE, 2: FREE, 3: FREE},))
    with pytest.warns(UserWarning, match="no multiple of the stride"):
        model(x)
