"""Candidates of the lattice, of the statistics and of the user."""

import itertools
import json
import math
import subprocess
import sys

import numpy as np
import pytest
import torch

from symshare import groups
from symshare.groups import CAP
from symshare.propose import Candidates, Moments, automorphisms, estimate, propose, residual
from symshare.propose.proposing import _grow, _recognise

D4 = ("id", "rot90", "rot180", "rot270", "flipW", "transpose", "flipH", "antitranspose")
C4 = {"id", "rot90", "rot180", "rot270"}
FLIPS = ("id", "x180", "y180", "z180", "invert", "flipx", "flipy", "flipz")


def templates_drawn(seed: int, side: tuple[int, ...], *, count: int = 1500) -> np.ndarray:
    """[count, *side] noisy copies, in varying contrast, of eight templates without any symmetry."""
    generator = np.random.default_rng(seed)
    templates = generator.gamma(0.6, size=(8, *side))
    contrast = generator.uniform(0.5, 1.5, (count, *[1] * len(side)))
    noise = 0.1 * generator.normal(size=(count, *side))
    return templates[generator.integers(8, size=count)] * contrast + noise


def turned(images: np.ndarray, seed: int, turns: int = 4) -> np.ndarray:
    """Each image rotated by a random multiple of 360 / turns degrees."""
    steps = np.random.default_rng(seed).integers(turns, size=len(images)) * (4 // turns)
    return np.stack([np.rot90(image, step) for image, step in zip(images, steps, strict=True)])


def rolled(images: np.ndarray, seed: int) -> np.ndarray:
    """Each image shifted cyclically along all axes."""
    axes = tuple(range(images.ndim - 1))
    shifts = np.random.default_rng(seed).integers(1000, size=(len(images), len(axes)))
    return np.stack([np.roll(image, s, axes) for image, s in zip(images, shifts, strict=True)])


def tensor(images: np.ndarray) -> torch.Tensor:
    return torch.tensor(images[:, None].copy(), dtype=torch.float32)


def admitted(candidates: Candidates) -> set[str]:
    """Names of the candidates that the statistics do not notice."""
    return {
        element.name
        for element in candidates.elements
        if element.residual is not None and element.residual <= 1
    }


def quarter_turns(side: int) -> list[tuple[int, ...]]:
    index = np.arange(side * side).reshape(side, side)
    return [tuple(np.rot90(index, k).ravel().tolist()) for k in range(4)]


def digits(seed: int, turns: int) -> np.ndarray:
    from sklearn.datasets import load_digits

    images = load_digits().images / 16
    return turned(images, seed, turns) if turns > 1 else images


class TestShape:
    @pytest.mark.parametrize(
        ("shape", "expected"),
        [
            pytest.param((6, 6), D4, id="square"),
            pytest.param((6, 4), ("id", "rot180", "flipW", "flipH"), id="oblong"),
            pytest.param((9,), ("id", "reverse"), id="signal"),
            pytest.param((3, 3, 3), groups.cube(reflections=True).names, id="cube"),
            pytest.param((2, 3, 4), FLIPS, id="box"),
        ],
    )
    def test_lattice_candidates(self, shape: tuple[int, ...], expected: tuple[str, ...]) -> None:
        candidates = propose(tensor(templates_drawn(0, shape)))
        assert candidates.names == expected
        assert {element.source for element in candidates.elements} == {"lattice"}

    @pytest.mark.parametrize(
        ("shape", "periodic", "count", "name"),
        [
            pytest.param((12,), ("L",), 24, "D12", id="ring"),
            pytest.param((6, 5), ("W",), 20, "D10", id="cylinder"),
            pytest.param((2, 5), ("H", "W"), 20, None, id="torus"),
            pytest.param((60,), ("L",), 40, "D20", id="long ring, every third shift"),
            pytest.param((3, 4, 4), ("D",), 48, None, id="stack of squares that wraps around"),
            pytest.param((2, 3, 5), ("D", "H"), 24, None, id="two axes that wrap around"),
            pytest.param((8, 8), ("W",), 32, None, id="square cylinder"),
            pytest.param((8, 8), ("H", "W"), 32, None, id="square torus, every fourth shift"),
        ],
    )
    def test_periodic_axes(
        self, shape: tuple[int, ...], periodic: tuple[str, ...], count: int, name: str | None
    ) -> None:
        candidates = propose(tensor(templates_drawn(1, shape)), periodic=periodic)
        lattice = [element for element in candidates.elements if element.source == "lattice"]
        assert len(lattice) == count
        action = candidates.action([element.name for element in lattice])
        assert action.is_group
        if name is not None:
            assert action.name == name

    @pytest.mark.parametrize(
        ("shape", "periodic", "capped"),
        [
            ((24,), ("L",), False),
            ((25,), ("L",), True),
            ((8, 8), ("W",), False),
            ((8, 8), ("H", "W"), True),
            ((7, 9), ("H", "W"), True),
            ((6, 6), (), False),
        ],
        ids=str,
    )
    def test_shifts_that_are_left_out_are_told(
        self, shape: tuple[int, ...], periodic: tuple[str, ...], capped: bool
    ) -> None:
        candidates = propose(tensor(templates_drawn(1, shape)), periodic=periodic)
        assert candidates.capped == capped

    def test_shifts_are_those_of_the_ring(self) -> None:
        candidates = propose(tensor(templates_drawn(0, (7,))), periodic=("L",))
        found = {element.name: element.permutation for element in candidates.elements}
        ring = groups.cyclic_shifts(7)
        for name, permutation in zip(ring.names, ring.permutation(7).tolist(), strict=True):
            assert found[name] == tuple(permutation)


class TestStatistics:
    """Known truths: what the second moments admit, and nothing else."""

    @pytest.mark.parametrize("side", [5, 6])
    @pytest.mark.parametrize(
        ("turns", "truth"),
        [
            pytest.param(1, {"id"}, id="upright"),
            pytest.param(2, {"id", "rot180"}, id="half"),
            pytest.param(4, C4, id="quarter"),
        ],
    )
    def test_turned_templates(self, side: int, turns: int, truth: set[str]) -> None:
        candidates = propose(tensor(turned(templates_drawn(2, (side, side)), 2, turns)))
        assert admitted(candidates) == truth
        assert candidates.names == D4

    @pytest.mark.parametrize("periodic", [(), ("L",)], ids=["undeclared", "declared"])
    @pytest.mark.parametrize("seed", range(2))
    def test_ring_has_all_shifts_and_reversals(self, seed: int, periodic: tuple[str, ...]) -> None:
        images = tensor(rolled(templates_drawn(seed, (12,)), seed))
        candidates = propose(images, periodic=periodic)
        ring = {element.name for element in candidates.elements if element.has_kernel_map}
        assert {f"shift{k}" for k in range(1, 12)} < ring
        assert len(ring - admitted(candidates)) <= 1
        assert candidates.action(ring).name == "D12"

    @pytest.mark.parametrize("side", [5, 6])
    @pytest.mark.parametrize("seed", range(3))
    def test_scrambled_quarter_turns(self, side: int, seed: int) -> None:
        scramble = np.random.default_rng(100 + seed).permutation(side * side)
        images = turned(templates_drawn(seed, (side, side)), seed)
        images = images.reshape(len(images), -1)[:, scramble].reshape(images.shape)
        candidates = propose(tensor(images))
        inverse = np.argsort(scramble)
        truth = {tuple(inverse[np.array(g)[scramble]].tolist()) for g in quarter_turns(side)}
        found = {e.permutation for e in candidates.elements if e.name in admitted(candidates)}
        assert found == truth
        assert admitted(candidates) == {"id", "perm1", "perm2", "perm3"}
        action = candidates.action(["perm1", "perm2", "perm3"])
        assert action.name == "C4"
        assert not action.has_kernel_map

    @pytest.mark.parametrize(("turns", "truth"), [(1, {"id"}), (4, C4)], ids=["upright", "quarter"])
    @pytest.mark.parametrize("sparks", [0.0, 0.003], ids=["dead", "nearly dead"])
    def test_dead_border(self, turns: int, truth: set[str], sparks: float) -> None:
        images = np.pad(turned(templates_drawn(3, (5, 5)), 3, turns), ((0, 0), (2, 2), (2, 2)))
        images += np.random.default_rng(3).random(images.shape) < sparks
        candidates = propose(tensor(images))
        assert admitted(candidates) == truth
        assert candidates.names == D4

    @pytest.mark.parametrize("side", [12, 28, 29], ids=lambda side: f"{side} pixels")
    def test_pooled(self, side: int) -> None:
        block = np.arange(side) * 6 // side
        images = turned(templates_drawn(4, (6, 6))[:, block[:, None], block], 4)
        candidates = propose(tensor(images))
        assert math.prod(candidates.grid) <= 100
        assert admitted(candidates) == C4

    def test_shifts_found_on_a_pooled_grid_extend_to_the_image(self) -> None:
        smooth = rolled(np.kron(templates_drawn(5, (6, 6)), np.ones((1, 2, 2))), 5)
        candidates = propose(tensor(smooth))
        assert candidates.grid == (6, 6)
        assert "shift0_1" not in candidates.names
        element = next(e for e in candidates.elements if e.name == "shift0_2")
        assert element.source == "statistics"
        index = np.arange(144).reshape(12, 12)
        assert element.permutation == tuple(np.roll(index, 2, 1).ravel().tolist())

    def test_what_backtracking_cannot_find_is_learned(self) -> None:
        """36 turns of two rings among 72 scrambled pixels and eight dark ones."""
        generator = torch.Generator().manual_seed(0)
        order = torch.randperm(80, generator=generator)
        rings = torch.arange(72).view(2, 36)
        turns = torch.stack([rings.roll(-step, 1).flatten() for step in range(36)])
        turns = torch.cat([turns, torch.arange(72, 80).expand(36, 8)], 1)
        turns = order.argsort()[turns[:, order]]
        x = torch.randn(8000, 12, generator=generator) @ torch.randn(12, 80, generator=generator)
        x[:, (order >= 72).nonzero()[:, 0]] = 0
        x = x.gather(1, turns[torch.randint(36, (8000,), generator=generator)])
        candidates = propose(x.view(-1, 1, 8, 10))
        learned = [e.permutation for e in candidates.elements if e.source == "moments"]
        assert sorted(learned) == sorted(map(tuple, turns[1:].tolist()))
        assert candidates.capped

    def test_quarter_turns_of_volumes(self) -> None:
        """Turned about their first axis; 6 positions a side are pooled to 3 x 3 x 3 or more."""
        images = np.kron(templates_drawn(6, (4, 4, 4)), np.ones((1, 1, 2, 2)))
        steps = np.random.default_rng(6).integers(4, size=len(images))
        images = np.stack([np.rot90(v, k, (1, 2)) for v, k in zip(images, steps, strict=True)])
        candidates = propose(tensor(images))
        assert candidates.shape == (4, 8, 8)
        assert admitted(candidates) == {"id", "x90", "x180", "x270"}

    def test_colour(self) -> None:
        one, other = turned(templates_drawn(6, (5, 5)), 6), turned(templates_drawn(7, (5, 5)), 6)
        images = torch.tensor(np.stack([one, other], 1), dtype=torch.float32)
        assert admitted(propose(images)) == C4
        mirrored = torch.stack([images[:, 0], images[:, 0].flip(-1)], 1)
        both = admitted(propose(mirrored))
        assert "flipW*(0 1)" in both
        assert {name for name in both if "*" not in name} <= C4

    @pytest.mark.parametrize(
        ("turns", "truth"), [(1, {"id"}), (2, {"id", "rot180"}), (4, C4)], ids=["1", "2", "4"]
    )
    def test_digits(self, turns: int, truth: set[str]) -> None:
        candidates = propose(tensor(digits(0, turns)))
        assert admitted(candidates) == truth
        assert candidates.names == D4
        assert not candidates.capped

    @pytest.mark.parametrize("name", D4)
    def test_lattice_maps_are_recognised_by_their_live_positions(self, name: str) -> None:
        matrix = groups.dihedral(4).maps[D4.index(name)].matrix
        live = np.ones(16, dtype=bool)
        live[[0, 3, 12]] = False
        for shift in itertools.product(range(4), repeat=2):
            truth = groups.LatticeMap(matrix, shift).permutation((4, 4)).numpy()
            known = truth.copy()
            known[[0, 3, 12]] = truth[[3, 12, 0]]
            found = _recognise(known, live, (4, 4))
            assert found is not None
            assert found.permutation((4, 4)).tolist() == truth.tolist()
            known[[5, 6]] = truth[[6, 5]]
            assert _recognise(known, live, (4, 4)) is None

    def test_noise_has_no_strangers(self) -> None:
        images = np.random.default_rng(0).normal(size=(300, 4, 4))
        candidates = propose(tensor(images))
        assert candidates.capped
        assert candidates.dropped > 0
        assert not any(name.startswith("perm") for name in candidates.names)

    def test_constant_images_admit_the_lattice_only(self) -> None:
        assert propose(torch.ones(20, 1, 4, 4)).names == D4

    def test_same_seed_same_candidates(self) -> None:
        images = tensor(turned(templates_drawn(8, (5, 5)), 8))
        assert propose(images, seed=3) == propose(images, seed=3)

    @pytest.mark.usefixtures("unchecked")
    def test_rates(self) -> None:
        """Of 12 draws each, those in which something is missed, or something false admitted."""
        missed = false = 0
        for seed in range(12):
            images = templates_drawn(seed, (4, 4))
            upright, quarter = propose(tensor(images)), propose(tensor(turned(images, seed)))
            missed += not admitted(quarter) >= C4
            false += not admitted(quarter) <= C4
            false += admitted(upright) != {"id"}
        assert missed <= 1
        assert false <= 1


class TestAutomorphisms:
    @staticmethod
    def slow_residual(moments: Moments, permutation: tuple[int, ...]) -> float:
        """The definition, with permutation matrices and one draw at a time; all positions live."""
        matrix = np.eye(len(permutation))[list(permutation)]
        mean_error, second_error = moments.errors[0][0], moments.errors[1][0, 0]
        mean_scale = matrix @ mean_error + mean_error
        second_scale = matrix @ second_error @ matrix.T + second_error

        def rows(mean: np.ndarray, second: np.ndarray) -> np.ndarray:
            z2 = (matrix @ second @ matrix.T - second) ** 2 / second_scale
            return z2.sum(1) + (matrix @ mean - mean) ** 2 / mean_scale

        draws = zip(moments.mean_draws[:, 0], moments.second_draws[:, 0, 0], strict=True)
        noise = np.array([rows(mean, second) for mean, second in draws])
        moved = noise.mean(0) > 0
        if not moved.any():
            return 0.0
        found = rows(moments.mean[0], moments.second[0, 0])
        whole = found.sum() / noise.sum(1).max()
        ratios, noise_ratios = (x[..., moved] / noise.mean(0)[moved] for x in (found, noise))
        return math.sqrt(max(whole, ratios.max() / noise_ratios.max())) / 1.1

    @pytest.mark.parametrize("offset", [0.0, 1.0], ids=["equal means", "unequal means"])
    def test_residual_against_the_definition(self, offset: float) -> None:
        generator = np.random.default_rng(0)
        images = generator.normal(size=(1000, 1, 7)) + offset * np.arange(7)
        moments = estimate(images)
        shuffles = [tuple(generator.permutation(7).tolist()) for _ in range(20)]
        for permutation in [tuple(range(7)), (1, 0, *range(2, 7)), *shuffles]:
            expected = self.slow_residual(moments, permutation)
            assert residual(moments, np.array(permutation)) == pytest.approx(expected, rel=1e-3)

    @pytest.mark.parametrize(
        ("mixing", "order"),
        [
            pytest.param(np.diag([1.0, 1, 1, 2, 3]), 6, id="three alike"),
            pytest.param(np.diag([1.0, 1, 2, 2, 3]), 4, id="two pairs"),
            pytest.param(np.diag([1.0, 2, 3, 4]), 1, id="all different"),
            pytest.param(np.eye(4), 24, id="all alike"),
            pytest.param(
                np.eye(5) + 0.8 * np.roll(np.eye(5), 1, 0) + 0.8 * np.roll(np.eye(5), -1, 0),
                10,
                id="ring",
            ),
        ],
    )
    @pytest.mark.parametrize("seed", range(2))
    def test_against_brute_force(self, mixing: np.ndarray, order: int, seed: int) -> None:
        normal = np.random.default_rng(seed).normal(size=(3000, 1, len(mixing)))
        moments = estimate(normal @ mixing, seed=seed)
        result = automorphisms(moments)
        found = {tuple(permutation.tolist()) for permutation in result.permutations}
        assert found == {
            permutation
            for permutation in itertools.permutations(range(len(mixing)))
            if self.slow_residual(moments, permutation) <= 1
        }
        assert len(found) == order

    def test_relabelled_positions_give_conjugated_maps(self) -> None:
        images = turned(templates_drawn(0, (4, 4)), 0).reshape(-1, 1, 16)
        order = np.random.default_rng(0).permutation(16)
        inverse = np.argsort(order)
        plain = automorphisms(estimate(images))
        relabelled = automorphisms(estimate(images[:, :, order]))
        expected = {tuple(inverse[p[order]].tolist()) for p in plain.permutations}
        assert {tuple(p.tolist()) for p in relabelled.permutations} == expected
        assert len(expected) == 4

    def test_order_and_units(self) -> None:
        images = turned(templates_drawn(1, (5, 5)), 1).reshape(-1, 1, 25)
        result = automorphisms(estimate(images))
        scaled = automorphisms(estimate(1000 * images))
        assert result.permutations[0].tolist() == list(range(25))
        assert result.residuals[0] == 0
        assert (np.diff(result.residuals) >= 0).all()
        np.testing.assert_allclose(scaled.residuals, result.residuals, rtol=1e-3)

    def test_cap(self) -> None:
        images = np.random.default_rng(0).normal(size=(500, 1, 5))
        result = automorphisms(estimate(images), cap=7)
        assert len(result.permutations) == 7
        assert result.capped

    def test_node_cap(self) -> None:
        images = np.random.default_rng(0).normal(size=(500, 1, 30))
        result = automorphisms(estimate(images), max_nodes=50)
        assert result.nodes <= 50
        assert result.capped

    def test_moments_are_those_of_numpy(self) -> None:
        images = np.random.default_rng(0).normal(size=(128, 2, 3)) + 5
        moments = estimate(images)
        flat = images.reshape(128, 6)
        covariance = np.cov(flat.T, bias=True).reshape(2, 3, 2, 3).transpose(0, 2, 1, 3)
        np.testing.assert_allclose(moments.mean.ravel(), flat.mean(0))
        np.testing.assert_allclose(moments.second, covariance)

    def test_bootstrap_errors_are_standard_errors(self) -> None:
        generator = np.random.default_rng(0)
        mean, second = estimate(generator.normal(size=(4000, 1, 6)), draws=400).errors
        assert mean.mean() == pytest.approx(1 / 4000, rel=0.15)
        off_diagonal = second[0, 0][~np.eye(6, dtype=bool)]
        assert off_diagonal.mean() == pytest.approx(1 / 4000, rel=0.15)
        assert np.diag(second[0, 0]).mean() == pytest.approx(2 / 4000, rel=0.15)

    def test_faint_positions_are_not_live(self) -> None:
        images = np.random.default_rng(0).normal(size=(500, 1, 6)) * [1, 2, 3, 0.1, 0.1, 0]
        result = automorphisms(estimate(images))
        assert result.live.tolist() == [True, True, True, False, False, False]
        assert result.permutations.tolist() == [[0, 1, 2, 3, 4, 5]]

    def test_one_wrong_row_shows(self) -> None:
        images = turned(templates_drawn(9, (5, 5)), 9).reshape(-1, 1, 25)
        moments = estimate(images)
        half = np.arange(25)[::-1]
        wrong = half.copy()
        wrong[[0, 7]] = half[[7, 0]]
        assert residual(moments, half) <= 1 < residual(moments, wrong)


class TestUser:
    def test_extra_candidates_come_last_and_once(self) -> None:
        swap = list(range(25))
        swap[3], swap[20] = 20, 3
        extra = groups.from_permutations([swap, quarter_turns(5)[1]], (5, 5), ["swap", "turn"])
        candidates = propose(tensor(templates_drawn(0, (5, 5))), extra=extra)
        assert candidates.names == (*D4, "swap")
        assert candidates.elements[-1].source == "user"
        assert candidates.elements[-1].residual is not None
        assert candidates.elements[-1].residual > 1

    def test_shifts_of_a_signal(self) -> None:
        extra = groups.cyclic_shifts(9)
        candidates = propose(tensor(templates_drawn(0, (9,))), extra=extra)
        assert candidates.names == ("id", "reverse", *extra.names[1:])

    def test_names_stay_distinct(self) -> None:
        swap = [1, 0, *range(2, 25)]
        extra = groups.from_permutations([swap], (5, 5), ["rot90"])
        assert propose(tensor(templates_drawn(0, (5, 5))), extra=extra).names[-1] == "user_rot90"


def rows_in_any_order(seed: int, count: int) -> np.ndarray:
    """Templates whose five rows are shuffled: the group is S5, of 120 elements."""
    generator, fixed = np.random.default_rng(seed), np.random.default_rng(4)
    templates = fixed.normal(size=(4, 5, 5))[generator.integers(0, 4, count)]
    order = np.argsort(generator.random((count, 5)), 1)
    images = np.take_along_axis(templates, order[:, :, None], 1)
    return images + 0.5 * generator.normal(size=images.shape)


def pairs_swapped(seed: int, count: int, pairs: int) -> np.ndarray:
    """Pairs of pixels, all of one variance, swapped each by its own coin: Z2^pairs."""
    generator, fixed = np.random.default_rng(seed), np.random.default_rng(4)
    templates = fixed.normal(size=(8, pairs, 2))
    templates /= templates.std((0, 2), keepdims=True)
    images = templates[generator.integers(8, size=count)]
    swapped = generator.random((count, pairs, 1)) < 0.5
    images = np.where(swapped, images[..., ::-1], images)
    return (images + 0.3 * generator.normal(size=images.shape)).reshape(count, -1)


def moved(images: np.ndarray, permutation: tuple[int, ...]) -> float:
    """Share of the variance at the pixels that a permutation moves."""
    variance = images.reshape(len(images), -1).var(0)
    elsewhere = np.array(permutation) != np.arange(len(permutation))
    return float(variance[elsewhere].sum() / variance.sum())


def dim_pixels_that_cycle(seed: int) -> np.ndarray:
    """Upright templates; three pixels are noise of one law, with a twentieth of the variance."""
    images = templates_drawn(seed, (4, 4), count=400)
    images += np.random.default_rng(seed).normal(size=images.shape)
    noise = np.random.default_rng(50 + seed).normal(size=(len(images), 3))
    images.reshape(len(images), 16)[:, [1, 6, 11]] = 0.6 * images.std(0).mean() * noise
    return images


class TestCaps:
    """Groups of more than 48 elements are found in part, and it is said."""

    @pytest.mark.parametrize(("seed", "count"), [(0, 6000), (1, 6000)])
    def test_rows_in_any_order(self, seed: int, count: int) -> None:
        images = rows_in_any_order(seed, count)
        candidates = propose(tensor(images))
        assert candidates.capped
        assert len(candidates.elements) <= CAP

    @pytest.mark.parametrize("periodic", [(), ("H", "W")], ids=["undeclared", "declared"])
    def test_torus(self, periodic: tuple[str, ...]) -> None:
        images = rolled(templates_drawn(0, (6, 6)), 0)
        candidates = propose(tensor(images), periodic=periodic)
        assert candidates.capped
        assert len(candidates.elements) <= CAP

    @pytest.mark.parametrize(("pairs", "capped"), [(4, False), (5, False), (6, True)])
    @pytest.mark.parametrize("seed", range(2))
    def test_pairs_that_are_swapped(self, seed: int, pairs: int, capped: bool) -> None:
        candidates = propose(tensor(pairs_swapped(seed, 4000, pairs)))
        found = [element for element in candidates.elements if element.source == "statistics"]
        assert candidates.capped == capped
        if not capped:
            assert len(found) == 2**pairs - 1
            assert candidates.action([element.name for element in found]).is_group


class TestWhatMovesLittle:
    """No element of the statistics moves less than a tenth of the variance."""

    @pytest.mark.parametrize(
        "images",
        [
            pytest.param(np.random.default_rng(0).normal(size=(300, 6)), id="noise"),
            pytest.param(pairs_swapped(0, 2000, 5), id="pairs"),
            pytest.param(rolled(templates_drawn(0, (12,)), 0), id="ring"),
            pytest.param(turned(dim_pixels_that_cycle(0), 0, 2), id="half turns"),
        ],
    )
    def test_moved_share(self, images: np.ndarray) -> None:
        for element in propose(tensor(images)).elements:
            in_space = element.source == "statistics" and element.channels is None
            assert not in_space or moved(images, element.permutation) >= 0.099

    def test_powers_that_move_little_drop_their_element(self) -> None:
        """Squared, a swap of two pixels that also cycles three dim ones cycles these alone."""
        images = np.random.default_rng(0).normal(size=(2000, 1, 8))
        moments = estimate(images * np.sqrt([2, 3, 3, 4, 6, 0.35, 0.35, 0.35]))
        swap, both = (0, 2, 1, 3, 4, 5, 6, 7), (0, 2, 1, 3, 4, 6, 7, 5)
        identity = tuple(range(8))
        assert residual(moments, np.array(both)) <= 1
        assert _grow({identity}, [both], moments, 1.0) == ({identity}, 1, False)
        assert _grow({identity}, [swap], moments, 1.0) == ({identity, swap}, 0, False)

    @pytest.mark.parametrize("seed", range(2))
    def test_three_dim_pixels_that_cycle_are_no_group(self, seed: int) -> None:
        images = dim_pixels_that_cycle(seed)
        cycle = np.arange(16)
        cycle[[1, 6, 11]] = cycle[[6, 11, 1]]
        assert 0.02 < moved(images, tuple(cycle)) < 0.1
        assert residual(estimate(images.reshape(-1, 1, 16)), cycle) <= 1, "it is admitted"
        for element in propose(tensor(images)).elements:
            assert element.source != "statistics" or moved(images, element.permutation) >= 0.099


@pytest.fixture(scope="module")
def candidates() -> Candidates:
    return propose(tensor(turned(templates_drawn(0, (6, 6)), 0)))


class TestCandidates:
    def test_json_round_trip(self, candidates: Candidates) -> None:
        assert Candidates.from_json(json.loads(json.dumps(candidates.to_json()))) == candidates

    @pytest.mark.parametrize(
        ("names", "group"),
        [
            (["rot90", "rot180", "rot270"], "C4"),
            (["flipW", "flipH", "rot180"], "C2xC2"),
            (["transpose"], "C2"),
            (["rot90"], None),
            ([], "C1"),
            (None, "D4"),
        ],
        ids=str,
    )
    def test_action(
        self, candidates: Candidates, names: list[str] | None, group: str | None
    ) -> None:
        action = candidates.action(names)
        assert action.name == group
        assert action.is_group == (group is not None)
        assert action.has_kernel_map

    def test_action_acts_as_torch_does(self, candidates: Candidates) -> None:
        x = torch.rand(2, 6, 6)
        action = candidates.action(["rot90"])
        assert torch.equal(action.apply(x, 1), torch.rot90(x, 1, (-2, -1)))
        kernel = torch.rand(9)
        turned_kernel = torch.rot90(kernel.view(3, 3)).flatten()
        torch.testing.assert_close(action.lift(3)[1] @ kernel, turned_kernel)

    def test_no_table_of_strangers(self, candidates: Candidates) -> None:
        with pytest.raises(ValueError, match="no candidate .'perm9'.; choose from"):
            candidates.action(["perm9"])

    def test_json_of_another_kind(self) -> None:
        with pytest.raises(ValueError, match="no entry 'shape'"):
            Candidates.from_json({})


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("images", "options", "message"),
    [
        pytest.param(torch.rand(20, 6), {}, "one to three axes of space", id="rank"),
        pytest.param(torch.rand(20, 1, 1, 6), {}, "drop axes of length 1", id="thin"),
        pytest.param(torch.rand(4, 1, 6, 6), {}, "at least 8 images, got 4", id="few"),
        pytest.param(torch.full((20, 1, 6, 6), torch.nan), {}, "NaN or inf", id="nan"),
        pytest.param(torch.rand(20, 1, 6, 6), {"periodic": ("X",)}, "axes H, W", id="axis"),
        pytest.param(torch.rand(20, 1, 6, 6), {"tolerance": 0.0}, "tolerance > 0", id="tolerance"),
        pytest.param(torch.rand(20, 1, 6, 4), {"extra": groups.rotations(4)}, "rot90", id="extra"),
    ],
)
def test_errors(images: torch.Tensor, options: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        propose(images, **options)


def test_proposing_imports_no_training_code():
    script = (
        "import sys, symshare.discovery.search\n"
        "print([m for m in sys.modules if m.startswith(('symshare.train', 'lightning_fabric'))])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout == "[]\n", done.stderr
