from dataclasses import replace

import pytest
import torch

from symshare import bake, groups
from symshare.models import MNIST, SMALL, GroupCNN, build_network, dictionary, plain, probe, wscnn
from symshare.representations import Fixed, Gated
from symshare.settings import NetworkConfig

C4 = Fixed(groups.rotations(4))


def mnist(channels, representations):
    return GroupCNN(MNIST, 1, 10, channels, representations, (28, 28))


@pytest.mark.parametrize(
    ("channels", "representations", "free", "learned"),
    [
        (64, lambda: plain(5), 412_170, 0),
        (32, lambda: [C4] * 5, 410_890, 0),
        (16, lambda: [C4] * 5, 103_050, 0),
        (32, lambda: wscnn(MNIST, 4), 410_890, 121_875),
        (32, lambda: [Gated(groups.rotations(4))] * 5, 410_890, None),
    ],
    ids=["cnn", "gcnn", "gcnn-103K", "wscnn", "gated"],
)
def test_parameter_counts_of_the_paper(channels, representations, free, learned):
    network = mnist(channels, representations())
    assert network.free_parameters() == free
    if learned is not None:
        assert network.representation_parameters() == learned


def test_one_gated_instance_has_one_measure():
    assert mnist(2, [Gated(groups.rotations(4))] * 5).representation_parameters() == 3


@pytest.mark.parametrize("norm", ["layer", "instance"])
@pytest.mark.parametrize("size", [(12, 12), (12, 9)])
def test_a_network_of_fixed_layers_is_invariant(norm, size):
    architecture = replace(SMALL, norm=norm)
    representations = [Fixed(groups.dihedral(4))] * SMALL.blocks
    network = GroupCNN(architecture, 2, 5, 4, representations, size)
    x = torch.randn(3, 2, *size)
    y = network(x)
    for moved in (x.rot90(1, (-2, -1)), x.flip(-1), x.transpose(-2, -1)):
        torch.testing.assert_close(network(moved), y, atol=1e-5, rtol=0)


@pytest.mark.parametrize("size", [(8, 8), (28, 28), (1, 12), (5, 17)])
def test_the_probe_takes_every_size_and_has_no_symmetry(size):
    network = probe(2, 3, size)
    x = torch.randn(4, 2, *size)
    y = network(x)
    assert y.shape == (4, 3)
    assert not torch.allclose(network(x.flip(-1)), y, atol=1e-3)
    assert not torch.allclose(network(x.roll(1, -1)), y, atol=1e-3)


@pytest.mark.parametrize("dims", [1, 2, 3])
def test_a_network_that_moves_labels_is_equivariant_and_bakes(dims):
    mirror = {1: "reverse", 2: "flipW", 3: "flipz"}[dims]
    config = NetworkConfig(kind="gcnn", group=mirror, width=8, label_map=((1, 0, 2),))
    space = (7, 8, 9)[:dims]
    network = build_network(config, (2, *space), 3)
    x = torch.randn(4, 2, *space)
    torch.testing.assert_close(network(x.flip(-1))[:, [1, 0, 2]], network(x), atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(bake(network)(x), network(x), atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("space", [(8, 8), (1,)], ids=["images", "vectors"])
def test_a_network_whose_elements_move_channels_is_invariant_and_bakes(space):
    config = NetworkConfig(
        kind="gcnn",
        group=("flipW",) if len(space) == 2 else ("id",),
        channels=((1, 0, 2),),
        signs=((1, 1, -1),),
        width=8,
    )
    network = build_network(config, (3, *space), 4)
    x = torch.randn(5, 3, *space)
    moved = x.flip(-1)[:, [1, 0, 2]] * torch.tensor([1.0, 1.0, -1.0]).view(3, *[1] * len(space))
    torch.testing.assert_close(network(moved), network(x), atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(bake(network)(x), network(x), atol=1e-5, rtol=1e-4)
    assert dictionary(config, len(space)).names[1].endswith("(0 1)*negate2")


def test_the_probe_of_vectors_reads_their_numbers():
    network, x = probe(5, 3, (1,)), torch.randn(4, 5, 1)
    assert network(x).shape == (4, 3)
    assert not torch.allclose(network(x.flip(1)), network(x), atol=1e-3)


@pytest.mark.parametrize("rows", [((1, 0),), ((1, 0, 2), (0, 1, 2)), ((1, 1, 2),)], ids=str)
def test_a_label_map_has_a_row_for_each_element(rows):
    config = NetworkConfig(kind="gcnn", group="flipW", width=8, label_map=rows)
    with pytest.raises(ValueError, match="a row of all 3 classes for each of 1 elements"):
        build_network(config, (1, 8, 8), 3)


def test_says_when_images_are_too_small():
    with pytest.raises(ValueError, match="at least 7 positions along each of 2 axes, got 6 x 9"):
        GroupCNN(SMALL, 1, 2, 2, plain(3), (6, 9))


def test_says_when_representations_are_missing():
    with pytest.raises(ValueError, match="5 blocks need as many representations, got 2"):
        GroupCNN(MNIST, 1, 2, 2, plain(2), (28, 28))


def test_a_group_that_nobody_knows_is_refused():
    with pytest.raises(ValueError, match="one of C1, C2, C4, C8, D2, D4, flipW, or .* got 'C3'"):
        dictionary(NetworkConfig(kind="gcnn", group="C3"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"width": 0}, "width must be at least 1, got 0"),
        ({"kind": "sinkhorn", "iterations": 0}, "iterations must be at least 1"),
        ({"kind": "cnn", "init": "paper"}, "init is of sinkhorn, .* nothing for kind cnn"),
        ({"kind": "gcnn", "elements": 8}, "elements is of .* leave it at 4"),
        ({"kind": "gated", "init": "identity"}, "gated cannot start at the identity"),
        ({"kind": "birkhoff", "init": "moments"}, "only sinkhorn and gated start from moments"),
        ({"kind": "gated", "init": "paper"}, "the paper has no gates"),
        ({"kind": "sinkhorn", "within": ("rot90",)}, "within is of init moments"),
        ({"kind": "gcnn", "within": ("rot90",)}, "within is of"),
        ({"kind": "cnn", "channels": ((1, 0),)}, "channels is of gcnn, gated"),
        ({"kind": "gcnn", "signs": ((1, -1),)}, "signs go with channels"),
    ],
)
def test_options_that_no_network_has_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        NetworkConfig(**options)
