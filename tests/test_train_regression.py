"""Networks for labels that are numbers: what they minimise, and how their heads move."""

import pytest
import torch

from symshare import bake, groups
from symshare.data import LabelledImages, split, transform
from symshare.models import build_network
from symshare.records import ResultRecord
from symshare.settings import NetworkConfig
from symshare.train.objective import Classify
from symshare.train.regression import Regress, affine_maps, task_of
from symshare.train.runs import fit_splits
from symshare.train.settings import DataConfig, FitConfig, OptimConfig

SIZES = {1: (9,), 2: (8, 8), 3: (7, 7, 7)}


GROUPS = {
    1: groups.hyperoctahedral(1),
    2: groups.dihedral(4),
    3: groups.cube().subset(["x90", "x180", "x270"]),
}


def natural(action):
    """A vector of positions, which every element moves as it moves the axes."""
    matrices = torch.tensor([map.matrix for map in action.maps]).float()
    rows = (tuple((*row, 0.0) for row in matrix.tolist()) for matrix in matrices[1:])
    return matrices, tuple(rows)


@pytest.mark.parametrize("dims", [1, 2, 3])
def test_a_network_moves_numbers_as_its_group_does_and_bakes(dims):
    action = GROUPS[dims]
    matrices, rows = natural(action)
    config = NetworkConfig(kind="gcnn", group=action.names[1:], width=8, target_map=rows)
    network = build_network(config, (2, *SIZES[dims]), dims, target="numbers", matrices=matrices)
    x = torch.randn(3, 2, *SIZES[dims])
    y = network(x)
    assert y.abs().max() > 1e-4
    for g, matrix in enumerate(matrices):
        torch.testing.assert_close(network(action.apply(x, g)), y @ matrix.T, atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(bake(network)(x), y, atol=1e-5, rtol=1e-4)


def test_a_network_whose_numbers_stay_is_invariant():
    config = NetworkConfig(kind="gcnn", group="D4", width=8)
    network = build_network(config, (1, 8, 8), 1, target="numbers")
    x, action = torch.randn(3, 1, 8, 8), groups.dihedral(4)
    for g in range(8):
        torch.testing.assert_close(network(action.apply(x, g)), network(x), atol=1e-5, rtol=1e-4)


def test_angles_that_the_grid_does_not_have_are_refused():
    config = NetworkConfig(kind="gcnn", group="C8", width=8)
    with pytest.raises(ValueError, match="group must be of moves of the grid, got 'C8'"):
        build_network(config, (1, 8, 8), 1, target="numbers")


def test_labels_are_read_in_spreads_about_a_centre_that_no_map_moves():
    """Rows run from 0 to 11, so that a mirror makes 11 - y of y."""
    generator = torch.Generator().manual_seed(0)
    labels = torch.rand(500, 2, generator=generator) * torch.tensor([9.0, 11.0]) + 1
    maps = affine_maps(
        [
            [[0.0, 1.0, 0.0], [1.0, 0.0, 0.0]],
            [[-1.0, 0.0, 11.0], [0.0, -1.0, 11.0]],
            [[0.0, -1.0, 11.0], [-1.0, 0.0, 11.0]],
        ],
        2,
    )
    task = Regress.of(labels, maps)
    for map in maps:
        moved = map[:, :-1] @ task.centre + map[:, -1]
        torch.testing.assert_close(moved, task.centre)
    assert task.spread[0] == task.spread[1]
    torch.testing.assert_close(task.matrices(maps), maps[..., :-1])
    plain = Regress.of(labels)
    torch.testing.assert_close(plain.centre, labels.mean(0))
    torch.testing.assert_close(plain.spread, labels.std(0, correction=0))


def test_the_score_is_the_share_that_is_explained_and_errors_have_units():
    labels = torch.randn(400, 2, generator=torch.Generator().manual_seed(1)) * 5 + 3
    task = Regress.of(labels)
    _, z = task.prepare(torch.zeros(400, 1, 2, 2), labels, torch.Generator())
    assert task.score(z, z) == 1
    assert task.score(torch.zeros_like(z), z).item() == pytest.approx(0, abs=1e-5)
    off = z + torch.tensor([1.0, 0.0]) / task.spread
    assert task.errors(off, labels) == pytest.approx((1.0, 0.0), abs=1e-5)
    loss, answers = task.loss(torch.nn.Identity(), off, z)
    assert loss.item() == pytest.approx(0.5 / task.spread[0].item() ** 2, rel=1e-4)
    assert torch.equal(answers, off)


@pytest.mark.parametrize("rows", [[[[1.0]]], [[[1.0, 0.0], [0.0, 1.0]]], [[[1.0, 0.0, 0.0]]]])
def test_maps_have_a_row_for_each_number(rows):
    with pytest.raises(ValueError, match="target_map must have 1 rows of 2 numbers for each"):
        affine_maps(rows, 1)


def test_a_map_of_numbers_that_cannot_be_undone_is_refused():
    with pytest.raises(ValueError, match=r"one to one, got a matrix of rank 1 for 2 .*; give maps"):
        affine_maps([[[1.0, 2.0, 0.0], [2.0, 4.0, 0.0]]], 2)


def test_a_run_says_what_is_explained_and_how_far_it_is_off(tmp_path):
    generator = torch.Generator().manual_seed(0)
    bright = torch.rand(200, generator=generator)
    images = bright[:, None, None] * torch.ones(8, 8) + 0.05 * torch.randn(
        200, 8, 8, generator=generator
    )
    data = LabelledImages.from_arrays(images, 100 * bright, target="numbers", numbers=["percent"])
    assert isinstance(task_of(data), Regress)
    config = FitConfig(DataConfig("arrays"), NetworkConfig(width=8), OptimConfig(steps=60), 0)
    result = fit_splits(config, split(data), transform("none"), tmp_path / "run")
    assert (result.metric, len(result.test_error)) == ("explained variance", 1)
    assert result.test_accuracy > 0.9
    # The test part is not exactly as spread as the training part.
    spread = data.labels.std().item()
    assert result.test_error[0] == pytest.approx(
        spread * (1 - result.test_accuracy) ** 0.5, rel=0.2
    )
    assert ResultRecord.read(tmp_path / "run/result.json") == result


def test_classes_are_still_what_is_classified():
    data = LabelledImages(torch.rand(4, 1, 8, 8), torch.arange(4) % 2, ("a", "b"))
    assert isinstance(task_of(data), Classify)
