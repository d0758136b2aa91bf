"""Every option of the convolutions, against one of torch's convolutions for each element."""

import copy
import inspect
import math
import pickle

import pytest
import torch

import oracles
from symshare import layers
from symshare.layers import functional
from symshare.representations import Fixed, Gated

G, K = 3, 2
SPACE = {1: (9,), 2: (8, 9), 3: (5, 6, 7)}
KERNEL = {1: (3,), 2: (3, 2), 3: (2, 3, 1)}


def each(dims, *numbers):
    return tuple(numbers[axis % len(numbers)] for axis in range(dims))


# Options of a case, for a number of axes.
PLAIN = {
    "default": lambda dims: {},
    "int kernel": lambda dims: {"kernel_size": 2},
    "one tap": lambda dims: {"kernel_size": 1},
    "stride": lambda dims: {"stride": 2},
    "strides": lambda dims: {"stride": each(dims, 2, 1, 3)},
    "padding": lambda dims: {"padding": 2},
    "paddings": lambda dims: {"padding": each(dims, 0, 1, 2)},
    "valid": lambda dims: {"padding": "valid", "stride": 2},
    "same": lambda dims: {"padding": "same", "kernel_size": 3},
    "same, even": lambda dims: {"padding": "same", "kernel_size": each(dims, 2, 3, 4)},
    "same, dilated": lambda dims: {"padding": "same", "kernel_size": 3, "dilation": 2},
    "dilation": lambda dims: {"dilation": 2},
    "dilations": lambda dims: {"dilation": each(dims, 3, 2, 1)},
    "reflect": lambda dims: {"padding": 1, "padding_mode": "reflect"},
    "reflect, same": lambda dims: {
        "padding": "same",
        "padding_mode": "reflect",
        "kernel_size": each(dims, 3, 4, 2),
    },
    "replicate": lambda dims: {"padding": each(dims, 2, 1, 3), "padding_mode": "replicate"},
    "circular": lambda dims: {"padding": 1, "padding_mode": "circular", "stride": 2},
    "circular, all around": lambda dims: {"padding": SPACE[dims], "padding_mode": "circular"},
    "circular, valid": lambda dims: {"padding": "valid", "padding_mode": "circular"},
    "groups": lambda dims: {"groups": 2},
    "depthwise": lambda dims: {"groups": 4, "bias": False},
    "no bias": lambda dims: {"bias": False},
    "all": lambda dims: {
        "stride": each(dims, 2, 1, 1),
        "padding": each(dims, 2, 1, 1),
        "dilation": each(dims, 1, 2, 2),
        "groups": 2,
        "padding_mode": "circular",
    },
}
TRANSPOSED = {
    "default": lambda dims: {},
    "int kernel": lambda dims: {"kernel_size": 2},
    "stride": lambda dims: {"stride": 2},
    "strides": lambda dims: {"stride": each(dims, 2, 1, 3)},
    "padding": lambda dims: {"padding": each(dims, 1, 0, 1), "stride": 2},
    "output padding": lambda dims: {"stride": each(dims, 2, 3, 2), "output_padding": 1},
    "output paddings": lambda dims: {"stride": 3, "output_padding": each(dims, 2, 0, 1)},
    "dilation": lambda dims: {"dilation": each(dims, 2, 1, 3)},
    "groups": lambda dims: {"groups": 2},
    "depthwise": lambda dims: {"groups": 4, "bias": False},
    "all": lambda dims: {
        "stride": 2,
        "padding": each(dims, 0, 1, 1),
        "output_padding": each(dims, 1, 0, 1),
        "dilation": each(dims, 1, 2, 1),
        "groups": 2,
    },
}
CASES = [(False, name) for name in PLAIN] + [(True, name) for name in TRANSPOSED]


def build(kind, dims, transposed, options):
    """A layer with a random stack, and an input; G elements out, K in, which need not be one."""
    options = {"kernel_size": KERNEL[dims], **options}
    size = options.pop("kernel_size")
    taps = size**dims if isinstance(size, int) else math.prod(size)
    D = taps if kind == "Lift" else K * taps
    make = getattr(layers, f"{kind}Conv{'Transpose' if transposed else ''}{dims}d")
    layer = make(4, 8, size, Fixed(torch.randn(G, D, D)), **options)
    f = torch.randn(2, 4, *(() if kind == "Lift" else (K,)), *SPACE[dims])
    return layer, f


def options_of(layer):
    names = ["stride", "padding", "dilation", "groups", "padding_mode"]
    names += ["output_padding"] if layer.transposed else []
    return {name: getattr(layer, name) for name in names}


@pytest.mark.filterwarnings("ignore:.*are not exact", "ignore:.*Using padding='same'")
@pytest.mark.parametrize(("transposed", "case"), CASES)
@pytest.mark.parametrize("dims", [1, 2, 3])
@pytest.mark.parametrize("kind", ["Lift", "Group"])
def test_options_are_those_of_torch(kind, dims, transposed, case):
    options = (TRANSPOSED if transposed else PLAIN)[case](dims)
    layer, f = build(kind, dims, transposed, options)
    R, theta = layer.stack(), layer.theta.detach()
    expected = oracles.convolution(
        f.unsqueeze(2) if kind == "Lift" else f,
        theta,
        R,
        layer.bias,
        layer.kernel_size,
        transposed=transposed,
        **options_of(layer),
    )
    y = layer(f)
    torch.testing.assert_close(y.detach(), expected, atol=1e-4, rtol=1e-4)

    # The pure function is the same.
    name = f"{kind.lower()}_conv{'_transpose' if transposed else ''}"
    options = {k: v for k, v in options.items() if k not in ("bias", "kernel_size")}
    pure = getattr(functional, name)(
        f, theta, R, layer.bias, kernel_size=layer.kernel_size, **options
    )
    assert torch.equal(pure, y)

    # The kernel is what torch takes, and the group index the fastest channel index.
    convolve = getattr(torch.nn.functional, f"conv{'_transpose' if transposed else ''}{dims}d")
    weight = layer.kernel()
    if layer.padding_mode == "zeros":
        options = {k: v for k, v in options.items() if k != "padding_mode"}
        flat = convolve(f if kind == "Lift" else f.flatten(1, 2), weight, **options)
        flat = flat.unflatten(1, (8, G))
        bias = 0 if layer.bias is None else layer.bias[:, None, *(None,) * dims]
        torch.testing.assert_close(flat + bias, y, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("dims", [1, 2, 3])
@pytest.mark.parametrize("groups", [1, 2])
def test_the_measure_weighs_the_input_elements(dims, transposed, groups):
    taps = 2**dims
    identity = torch.eye(3 * taps)[None]
    gated = Gated(torch.cat([identity, torch.randn(2, 3 * taps, 3 * taps)]))
    with torch.no_grad():
        gated.gate.logits.copy_(torch.tensor([2.0, -1.0]))
    make = getattr(layers, f"GroupConv{'Transpose' if transposed else ''}{dims}d")
    layer = make(2, 4, 2, gated, groups=groups)
    f = torch.randn(2, 2, 3, *SPACE[dims])
    expected = oracles.convolution(
        f,
        layer.theta.detach(),
        layer.stack(),
        layer.bias,
        layer.kernel_size,
        measure=gated.measure.detach(),
        groups=groups,
        transposed=transposed,
    )
    torch.testing.assert_close(layer(f).detach(), expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("dims", [1, 2, 3])
def test_arguments_and_defaults_are_those_of_torch(dims, transposed):
    twin = "Transpose" if transposed else ""
    theirs = inspect.signature(getattr(torch.nn, f"Conv{twin}{dims}d").__init__).parameters
    for kind in ("Lift", "Group"):
        ours = inspect.signature(getattr(layers, f"{kind}Conv{twin}{dims}d")).parameters
        assert list(ours)[:4] == ["in_channels", "out_channels", "kernel_size", "representation"]
        options = {name: p.default for name, p in ours.items() if p.kind is p.KEYWORD_ONLY}
        if not transposed:
            assert options.pop("output_padding") == 0
        skipped = {"self", "in_channels", "out_channels", "kernel_size"}
        assert options == {n: p.default for n, p in theirs.items() if n not in skipped}


@pytest.mark.parametrize("dims", [1, 2, 3])
def test_only_transposed_layers_pad_their_output(dims):
    kind = getattr(layers, f"LiftConv{dims}d")
    with pytest.raises(ValueError, match="output_padding=.* is an option of transposed"):
        kind(1, 1, 3, Fixed(torch.eye(3**dims)[None]), stride=2, output_padding=1)


def test_attributes_are_those_of_torch():
    options = {"stride": 2, "padding": 1, "dilation": (1, 2), "groups": 2}
    stack = Fixed(torch.eye(6)[None])
    for ours, theirs in [
        (
            layers.LiftConv2d(4, 8, (3, 2), stack, **options, padding_mode="circular"),
            torch.nn.Conv2d(4, 8, (3, 2), **options, padding_mode="circular"),
        ),
        (
            layers.GroupConvTranspose2d(4, 8, (3, 2), stack, **options, output_padding=1),
            torch.nn.ConvTranspose2d(4, 8, (3, 2), **options, output_padding=1),
        ),
    ]:
        for name in [
            *("in_channels", "out_channels", "kernel_size", "stride", "padding", "padding_mode"),
            *("dilation", "groups", "output_padding", "transposed"),
        ]:
            assert getattr(ours, name) == getattr(theirs, name), name
        assert ours.kernel().shape == theirs.weight.shape
        assert ours.bias.shape == theirs.bias.shape


@pytest.mark.parametrize("dims", [1, 2, 3])
@pytest.mark.parametrize("transposed", [False, True])
def test_options_may_be_changed_later(dims, transposed):
    layer, f = build("Group", dims, transposed, {"padding": 0})
    other, _ = build("Group", dims, transposed, {"padding": 1})
    other.load_state_dict(layer.state_dict())
    other.representation = layer.representation
    layer.geometry = layer.geometry._replace(padding=(1,) * dims)
    assert torch.equal(layer(f), other(f))


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("dims", [1, 2, 3])
@pytest.mark.parametrize("kind", ["Lift", "Group"])
@pytest.mark.parametrize("batch", [0, 1])
def test_small_batches(kind, dims, transposed, batch):
    modes = ["zeros"] if transposed else ["zeros", "reflect", "replicate", "circular"]
    for mode in modes:
        layer, f = build(kind, dims, transposed, {"padding": 1, "padding_mode": mode})
        y = layer(f[:batch])
        torch.testing.assert_close(y, layer(f)[:batch], atol=1e-5, rtol=1e-5)
        y.sum().backward()
        assert layer.theta.grad.shape == layer.theta.shape


@pytest.mark.parametrize("kind", ["Lift", "Group"])
def test_copies_and_pickles(kind):
    layer, f = build(kind, 2, False, {"groups": 2})
    for twin in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        assert torch.equal(twin(f), layer(f))


def test_the_start_does_not_depend_on_dilation_and_has_the_scale_of_torch():
    R = Fixed(torch.eye(9).repeat(4, 1, 1))
    layer = layers.LiftConv2d(16, 64, 3, R, dilation=3, groups=4)
    plain = torch.nn.Conv2d(16, 64, 3, dilation=3, groups=4)
    assert layer.theta.numel() == plain.weight.numel()
    for ours, theirs in [(layer.theta, plain.weight), (layer.bias, plain.bias)]:
        torch.testing.assert_close(ours.std(), theirs.std(), atol=0, rtol=0.2)


def test_a_layer_is_printed_with_its_options():
    R = Fixed(torch.eye(9)[None])
    layer = layers.LiftConv2d(
        4, 8, 3, R, stride=2, padding=1, dilation=2, groups=2, bias=False, padding_mode="reflect"
    )
    assert layer.extra_repr() == (
        "4, 8, kernel_size=(3, 3), stride=(2, 2), padding=(1, 1), dilation=(2, 2), groups=2, "
        "padding_mode='reflect', bias=False"
    )
