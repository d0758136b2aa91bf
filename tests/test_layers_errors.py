"""What the layers say when something does not fit, and when they warn."""

import copy
import warnings

import pytest
import torch

from symshare import groups, layers
from symshare.layers import (
    GroupBatchNorm,
    GroupConv1d,
    GroupConv2d,
    GroupConv3d,
    GroupConvTranspose2d,
    GroupHead,
    GroupInstanceNorm,
    GroupLayerNorm,
    GroupLinear,
    GroupPlaces,
    GroupPool,
    LiftConv1d,
    LiftConv2d,
    LiftConv3d,
    LiftConvTranspose2d,
    functional,
)
from symshare.representations import Fixed, Gated, Measure, Sinkhorn

C4 = Fixed(groups.rotations(4))
RING = Fixed(groups.cyclic_shifts(6))
PLAIN = Fixed(torch.eye(9)[None])


def run(layer, *shape):
    return layer(torch.zeros(shape))


def conv(f, theta, R, name="group_conv", **options):
    tensors = [torch.zeros(shape) for shape in (f, theta, R)]
    return getattr(functional, name)(*tensors, **{"kernel_size": (3, 3), **options})


ERRORS = {
    # Inputs.
    "channels": (
        lambda: run(LiftConv2d(3, 2, 3, C4), 1, 1, 8, 8),
        r"LiftConv2d: expected an input \[B, 3, H, W\], got \(1, 1, 8, 8\); use in_channels=1",
    ),
    "no batch": (
        lambda: run(LiftConv2d(3, 2, 3, C4), 3, 8, 8),
        r"LiftConv2d: expected .*, got \(3, 8, 8\); a single image needs a batch axis",
    ),
    "no batch, line": (
        lambda: run(LiftConv1d(3, 2, 3, RING), 3, 8),
        r"LiftConv1d: expected an input \[B, 3, L\], got \(3, 8\); a single image needs a batch",
    ),
    "map into lifting": (
        lambda: run(LiftConv3d(3, 2, 1, Sinkhorn(4, 1)), 1, 3, 4, 8, 8, 8),
        r"LiftConv3d: expected an input \[B, 3, D, H, W\].*group axis go to a group convolution",
    ),
    "far too many axes": (
        lambda: run(LiftConv1d(3, 2, 3, RING), 1, 3, 8, 8, 8),
        "LiftConv1d: expected .*; this layer has 1 spatial axes",
    ),
    "far too few axes": (
        lambda: run(GroupConv3d(3, 2, 1, Sinkhorn(4, 4)), 1, 3),
        "GroupConv3d: expected .*; this layer has 3 spatial axes",
    ),
    "image into group": (
        lambda: run(GroupConv2d(3, 2, 3, C4), 1, 3, 8, 8),
        r"GroupConv2d: expected a map \[B, 3, 4, H, W\] with 4 group elements, got .*; images "
        "without a group axis go to a lifting convolution",
    ),
    "elements": (
        lambda: run(GroupConv2d(3, 2, 3, C4), 1, 3, 8, 8, 8),
        "with 4 group elements, got .*; use representations of one group",
    ),
    "map channels": (
        lambda: run(GroupConvTranspose2d(3, 2, 3, C4), 1, 2, 4, 8, 8),
        "GroupConvTranspose2d: expected .*; use in_channels=2",
    ),
    "image too small": (
        lambda: run(LiftConv2d(1, 2, 5, C4), 1, 1, 4, 9),
        r"kernel of size \(5, 5\) does not fit into \(4, 9\) pixels with padding \(0, 0\); use",
    ),
    "image too small for the dilation": (
        lambda: run(LiftConv1d(1, 2, 3, RING, dilation=4), 1, 1, 8),
        r"kernel of size \(3,\) and dilation \(4,\) does not fit into \(8,\) pixels",
    ),
    "nothing left": (
        lambda: run(LiftConvTranspose2d(1, 2, 3, C4, padding=4), 1, 1, 6, 7),
        r"padding \(4, 4\) leaves nothing of \(6, 7\) pixels; .*use less padding",
    ),
    "reflect": (
        lambda: run(LiftConv2d(1, 2, 3, C4, padding=4, padding_mode="reflect"), 1, 1, 4, 9),
        r"padding \(4, 4\) is more than \(3, 8\), the most that padding_mode='reflect'",
    ),
    "circular": (
        lambda: run(LiftConv2d(1, 2, 3, C4, padding=5, padding_mode="circular"), 1, 1, 4, 9),
        r"padding \(5, 5\) is more than \(4, 9\), the most that padding_mode='circular'",
    ),
    "vectors": (
        lambda: run(GroupLinear(1, 2, Sinkhorn(4, 9)), 1, 9, 1),
        r"GroupLinear: expected an input \[B, 1, 9\] \(channels, then positions\), got \(1, 9, 1\)"
        "; move the channels to axis 1",
    ),
    "matrix for vectors": (lambda: run(GroupLinear(1, 2, Sinkhorn(4, 9)), 1, 9), r"\[B, 1, 9\]"),
    "pool axes": (lambda: run(GroupPool(), 2, 3), r"GroupPool: expected a map \[B, C, G, ...\]"),
    "layer norm axes": (lambda: run(GroupLayerNorm(), 2, 3), "GroupLayerNorm: expected a map"),
    "instance norm axes": (
        lambda: run(GroupInstanceNorm(Measure(3)), 2, 3),
        r"GroupInstanceNorm: expected a map \[B, C, G, ...\], got \(2, 3\); the group axis comes",
    ),
    "pool": (lambda: run(GroupPool(Measure(8)), 1, 2, 4), "measure over 8 elements"),
    "norm channels": (
        lambda: run(GroupBatchNorm(3), 2, 2, 4, 5),
        r"GroupBatchNorm: expected a map \[B, 3, G, ...\], got \(2, 2, 4, 5\)",
    ),
    "norm axes": (lambda: run(GroupBatchNorm(3), 2, 3), "GroupBatchNorm: expected a map"),
    "norm elements": (
        lambda: run(GroupBatchNorm(3, gate=Measure(8)), 2, 3, 4, 5),
        "measure over 8 elements, but the map has 4",
    ),
    "one value": (
        lambda: run(GroupBatchNorm(3, gate=Measure(1)), 1, 3, 1),
        "more than one value per channel",
    ),
    # Representations.
    "kernel": (lambda: LiftConv2d(1, 2, 5, Sinkhorn(4, 9)), "D=9 positions, but a kernel of size"),
    "unbound": (lambda: GroupLinear(1, 2, C4), "no positions of their own"),
    "theta": (lambda: Sinkhorn(4, 9).expand(torch.zeros(2, 1, 8)), "has 8; the last axis"),
    "exchanged": (
        lambda: LiftConv2d(1, 2, 5, Sinkhorn(25, 4)),
        r"Sinkhorn: group_size=25 is more than the 4! = 24 permutations of positions=4; are the",
    ),
    "exchanged, though there are so many": (
        lambda: LiftConv2d(1, 2, 3, Sinkhorn(9, 4)),
        r"Sinkhorn\(group_size=9, positions=4\): R acts on D=4 .* has 9; use positions=9",
    ),
    "group layer of one element": (
        lambda: GroupConv2d(8, 8, 3, Sinkhorn(4, 9)),
        r"Sinkhorn\(group_size=4, positions=9\): a group layer on maps of 4 elements.* = 4\*9 = 36",
    ),
    "gate": (lambda: GroupConv2d(1, 2, 3, Gated(torch.eye(18).repeat(4, 1, 1))), "cannot weigh"),
    "gate in linear": (
        lambda: GroupLinear(1, 2, Gated(torch.eye(4).repeat(3, 1, 1))),
        "nothing to weigh",
    ),
    # Options.
    "same with a stride": (
        lambda: LiftConv2d(1, 2, 3, C4, padding="same", stride=2),
        r"LiftConv2d: padding='same' needs stride 1, got stride \(2, 2\); give the padding as",
    ),
    "unknown padding": (
        lambda: LiftConv2d(1, 2, 3, C4, padding="full"),
        "LiftConv2d: padding must be numbers, 'same' or 'valid', got 'full'",
    ),
    "unknown mode": (
        lambda: LiftConv2d(1, 2, 3, C4, padding_mode="wrap"),
        r"LiftConv2d: padding_mode must be one of \['zeros', .*'circular'\], got 'wrap'",
    ),
    "groups": (
        lambda: GroupConv1d(4, 6, 3, RING, groups=4),
        "GroupConv1d: groups=4 does not divide in_channels=4 and out_channels=6; use a common",
    ),
    "classes twice": (
        lambda: GroupHead(3, torch.tensor([[0, 1], [0, 0]])),
        r"GroupHead: .* the identity first, got \[\[0, 1\], \[0, 0\]\]; give each row every class",
    ),
    "no identity": (lambda: GroupHead(3, torch.tensor([[1, 0], [0, 1]])), "the identity first"),
    "no matrix": (
        lambda: GroupHead(3, torch.tensor([[[-1.0]], [[1.0]]])),
        r"GroupHead: .* square matrices with the identity first, got \[\[-1.0\]\] first; put it",
    ),
    "no frames": (
        lambda: run(GroupPlaces(torch.eye(2).repeat(4, 1, 1)), 1, 3, 2, 5, 5),
        r"GroupPlaces: expected features \[B, C, 4, ...\] with 2 axes of space, got",
    ),
    "features on space": (
        lambda: run(GroupHead(3, torch.tensor([[0, 1], [1, 0]])), 1, 3, 2, 5),
        r"GroupHead: expected features \[B, 3, 2\], got \[1, 3, 2, 5\]; take the mean over space",
    ),
    "no groups": (lambda: GroupConv1d(4, 6, 3, RING, groups=0), "groups=0 does not divide"),
    "kernel size": (
        lambda: LiftConv3d(1, 2, (3, 3), C4),
        r"LiftConv3d: kernel_size must be one number or 3, each at least 1, got \(3, 3\)",
    ),
    "no kernel": (lambda: LiftConv2d(1, 2, 0, C4), "kernel_size must be .* at least 1, got 0"),
    "stride": (lambda: LiftConv2d(1, 2, 3, C4, stride=0), "stride must be .* at least 1, got 0"),
    "padding": (lambda: LiftConv2d(1, 2, 3, C4, padding=(1, -1)), r"padding must .*got \(1, -1\)"),
    "dilation": (lambda: LiftConv2d(1, 2, 3, C4, dilation=(1, 1, 1)), "dilation must be one num"),
    "transposed same": (
        lambda: LiftConvTranspose2d(1, 2, 3, C4, padding="same"),
        "LiftConvTranspose2d: a transposed convolution takes padding as numbers, got 'same'",
    ),
    "transposed mode": (
        lambda: LiftConvTranspose2d(1, 2, 3, C4, padding_mode="circular"),
        "has only padding_mode='zeros', got 'circular'",
    ),
    "output padding": (
        lambda: GroupConvTranspose2d(1, 2, 3, C4, stride=2, output_padding=2),
        r"output_padding must be smaller than stride \(2, 2\) or dilation \(1, 1\), got \(2, 2\)",
    ),
    # Functions.
    "function channels": (
        lambda: conv((1, 3, 4, 8, 8), (2, 2, 36), (4, 36, 36)),
        r"group_conv: expected a map \[B, 2, 4, H, W\]",
    ),
    "function elements": (
        lambda: conv((1, 2, 4, 8, 8), (2, 2, 35), (4, 35, 35)),
        r"group_conv: theta .* no multiple of the 9 taps .* f is \[B, I, K, \*space\], here",
    ),
    "function taps": (
        lambda: conv((1, 2, 8, 8), (2, 2, 8), (4, 8, 8), "lift_conv"),
        "lift_conv: theta .* has D=8 positions, not the 9 taps of a kernel of size",
    ),
    "function stack": (
        lambda: conv((1, 2, 8, 8), (2, 2, 9), (4, 8, 8), "lift_conv_transpose"),
        "expand: R acts on D=8 positions, but theta .* has 9",
    ),
    "function groups": (
        lambda: conv((1, 4, 4, 8, 8), (3, 2, 36), (4, 36, 36), groups=2),
        "group_conv: groups=2 does not divide",
    ),
    "function measure": (
        lambda: conv((1, 2, 4, 8, 8), (2, 2, 36), (4, 36, 36), measure=torch.ones(3)),
        r"group_conv: expected a measure on 4 input elements, got \(3,\)",
    ),
    "function axes": (
        lambda: conv((1, 2, 8), (2, 2, 9), (4, 9, 9), "lift_conv", kernel_size=(3, 3, 1, 1)),
        "lift_conv: expected a kernel of 1, 2 or 3 axes, got 4",
    ),
    "function of one number, no axes": (
        lambda: conv((1, 2), (2, 2, 9), (4, 9, 9), "lift_conv", kernel_size=3),
        r"lift_conv: expected f \[B, I, \*space\] with 1, 2 or 3 spatial axes, got \(1, 2\); resh",
    ),
    "function of one number, many axes": (
        lambda: conv((1, 2, 4, 5, 5, 5, 5), (2, 2, 36), (4, 36, 36), kernel_size=3),
        r"group_conv: expected f \[B, I, K, \*space\] with 1, 2 or 3 spatial axes, got \(1, 2, 4",
    ),
    "function of one number, no batch": (
        lambda: conv((2, 8, 8), (2, 2, 9), (4, 9, 9), "lift_conv", kernel_size=3),
        r"lift_conv: theta .*; the last axis of theta is D, and f is \[B, I, \*space\], here \(2",
    ),
    "function vectors": (
        lambda: functional.group_linear(torch.ones(1, 1, 5), torch.ones(1, 1, 6), torch.eye(6)),
        r"group_linear: expected an input \[B, 1, 6\]",
    ),
    "function matrices": (
        lambda: conv((1, 2, 8, 8), (2, 2, 9), (4, 8, 9), "lift_conv"),
        r"expand: expected a stack of square matrices \[G, D, D\], got \(4, 8, 9\)",
    ),
    "function one matrix": (
        lambda: conv((1, 2, 4, 8, 8), (2, 2, 36), (36, 36)),
        r"expand: expected a stack of square matrices \[G, D, D\], got \(36, 36\)",
    ),
    "function bias": (
        lambda: conv((1, 2, 8, 8), (2, 2, 9), (4, 9, 9), "lift_conv", bias=torch.ones(8)),
        r"lift_conv: expected a bias \[2\], got \(8,\); all G copies",
    ),
    "function bias of vectors": (
        lambda: functional.group_linear(
            torch.ones(1, 1, 6), torch.ones(2, 1, 6), torch.eye(6)[None], torch.ones(1)
        ),
        r"group_linear: expected a bias \[2\], got \(1,\)",
    ),
}


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("case", ERRORS)
def test_says_what_does_not_fit(case):
    call, message = ERRORS[case]
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("sizes", [(0, 2), (2, 0), (-1, 2)], ids=str)
@pytest.mark.parametrize("name", [n for n in layers.__all__ if "Conv" in n or "Linear" in n])
def test_refuses_layers_without_channels(name, sizes):
    kernel = () if name == "GroupLinear" else (1,)
    D = 4 if name.startswith("GroupConv") else 1
    message = (
        f"^{name}: in_channels and out_channels must be at least 1, got "
        f"in_channels={sizes[0]}, out_channels={sizes[1]}$"
    )
    with pytest.raises(ValueError, match=message):
        getattr(layers, name)(*sizes, *kernel, Sinkhorn(4, D))


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("raw", [groups.rotations(4), torch.eye(9)[None]], ids=["action", "stack"])
@pytest.mark.parametrize(
    "make",
    [
        lambda raw: LiftConv2d(1, 2, 3, raw),
        lambda raw: GroupConvTranspose2d(1, 2, 3, raw),
        lambda raw: GroupLinear(1, 2, raw),
    ],
    ids=["lift", "group", "linear"],
)
def test_a_group_has_to_be_wrapped(make, raw):
    with pytest.raises(TypeError, match=r"expected a Representation, got .*Fixed\(action\)"):
        make(raw)


@pytest.mark.parametrize("name", [n for n in layers.__all__ if "Conv" in n or "Linear" in n])
def test_a_missing_representation_is_named(name):
    kernel = () if name == "GroupLinear" else (5,)
    with pytest.raises(TypeError, match=f"^{name}: the representation is missing.*pass Fixed"):
        getattr(layers, name)(3, 8, *kernel)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    "make",
    [
        GroupPool,
        GroupLayerNorm,
        GroupInstanceNorm,
        lambda gate: GroupBatchNorm(3, gate=gate),
        lambda gate: Gated(groups.rotations(4), gate),
    ],
    ids=["pool", "layer", "instance", "batch", "gated"],
)
@pytest.mark.parametrize("wrong", [3, torch.ones(4), C4], ids=["number", "tensor", "stack"])
def test_a_gate_is_a_measure(make, wrong):
    with pytest.raises(TypeError, match=r"gate must be a Measure or None, got .*; pass repr"):
        make(wrong)


@pytest.mark.parametrize(
    ("options", "size", "remedy"),
    [
        ({"stride": 2}, (8, 9), r"\(7, 9\) or \(9, 9\)"),
        ({"stride": 2, "padding": 1}, (9, 10), r"\(9, 9\) or \(9, 11\)"),
        ({"stride": (1, 3)}, (8, 8), r"\(8, 6\) or \(8, 9\)"),
        ({"stride": 2, "dilation": 2, "padding": "valid"}, (9, 8), r"\(9, 7\) or \(9, 9\)"),
        ({"stride": 4, "padding": 1, "padding_mode": "circular"}, (7, 8), r"\(5, 5\) or \(9, 9\)"),
    ],
)
def test_warns_once_of_sizes_that_a_stride_spoils(options, size, remedy):
    lift = LiftConv2d(2, 3, 3, Fixed(groups.flips("HW")), **options)
    x = torch.randn(1, 2, *size)
    message = rf"LiftConv2d\(2, 3, kernel_size=\(3, 3\), stride=.*{remedy}, or stride 1 and a pool"
    with pytest.warns(UserWarning, match=message):
        y = lift(x)
    assert not torch.allclose(lift(x.flip(-1, -2)), y.flip(-1, -2)[:, :, [3, 2, 1, 0]], atol=1e-4)
    # Once, and the copy has said it too.
    copy.deepcopy(lift)(x)
    # The sizes that it names are right.
    for numbers in remedy.replace("\\", "").split(" or "):
        x = torch.randn(1, 2, *eval(numbers))
        again = LiftConv2d(2, 3, 3, Fixed(groups.flips("HW")), **options)
        y = again(x).flip(-1, -2)[:, :, [3, 2, 1, 0]]
        torch.testing.assert_close(again(x.flip(-1, -2)), y, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(
    ("make", "f", "message"),
    [
        (
            lambda: LiftConv2d(1, 2, 2, Fixed(groups.flips("HW")), padding="same"),
            torch.randn(1, 1, 6, 6),
            r"LiftConv2d\(.*padding='same'\): padding='same' with an even kernel .*odd kernel_size",
        ),
        (
            lambda: LiftConvTranspose2d(
                1, 2, 3, Fixed(groups.flips("HW")), stride=2, output_padding=1
            ),
            torch.randn(1, 1, 6, 6),
            r"LiftConvTranspose2d\(.*\): output_padding adds pixels on one side .*output_padding=0",
        ),
    ],
    ids=["same", "output padding"],
)
def test_warns_of_one_sided_padding(make, f, message):
    with pytest.warns(UserWarning, match=message):
        layer = make()
    y = layer(f).flip(-1, -2)[:, :, [3, 2, 1, 0]]
    assert not torch.allclose(layer(f.flip(-1, -2)), y, atol=1e-4)


def test_is_silent_where_all_is_well():
    """Warnings are errors in this test run."""
    run(LiftConv2d(1, 2, 2, C4, padding="same", dilation=2), 1, 1, 6, 6)
    run(LiftConv2d(1, 2, 3, C4, padding="same"), 1, 1, 6, 7)
    run(LiftConv2d(1, 2, 3, PLAIN, stride=2), 1, 1, 6, 6)
    run(LiftConvTranspose2d(1, 2, 3, PLAIN, stride=2, output_padding=1), 1, 1, 6, 6)
    run(LiftConvTranspose2d(1, 2, 3, C4, stride=2), 1, 1, 6, 6)
    plain = GroupConv2d(1, 2, (2, 4), Fixed(torch.eye(8)[None]), padding="same")
    run(plain, 1, 1, 1, 6, 6)


def test_an_ignored_warning_is_not_said_again():
    lift = LiftConv2d(1, 2, 3, C4, stride=2)
    with warnings.catch_warnings(action="ignore"):
        run(lift, 1, 1, 6, 6)
    run(lift, 1, 1, 8, 8)


def test_help_shows_the_arguments():
    names = [n for n in layers.__all__ if "Conv" in n]
    assert len(names) == 12
    for name in names:
        layer = getattr(layers, name)
        assert layer.__doc__
        assert "kernel_size: one length" in layer.__init__.__doc__


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda layer: layer.geometry._replace(groups=2), "are for .* groups=1, got .* and 2"),
        (lambda layer: layer.geometry._replace(kernel_size=(9, 1)), "make another layer"),
        (lambda layer: layer.geometry._replace(padding="all"), "padding must be numbers"),
    ],
)
def test_another_geometry_has_to_fit(change, message):
    layer = GroupConv2d(2, 2, 3, Fixed(groups.rotations(4)))
    with pytest.raises(ValueError, match=message):
        layer.geometry = change(layer)
    layer.geometry = layer.geometry._replace(padding=2)
    assert layer.geometry.padding == (2, 2)


def test_another_representation_has_to_fit_the_base_weights():
    layer = GroupConv2d(2, 2, 3, Fixed(groups.rotations(4)))
    with pytest.raises(ValueError, match="base weights have 36 positions, and the new stack .* 72"):
        layer.representation = Fixed(groups.dihedral(4))
    assert layer.stack.positions == 36
