"""The judge of labels that are numbers: what is exact, what is bounded, what is adopted."""

import dataclasses
import math

import numpy as np
import pytest
import torch
from scipy.stats import multivariate_normal

from symshare import groups
from symshare.data import LabelledImages, transform
from symshare.discovery.wording import sentence
from symshare.judge import decide, gather
from symshare.judge.answers import Evidence, NumberEvidence, composed
from symshare.judge.judgement import measure_power
from symshare.judge.likelihood import NormalLaws
from symshare.judge.numbers import CalibratedNumbers, Numbers
from symshare.judge.thresholds import FAR, FLOOR, LEAST_SPREAD
from symshare.judge.witness import GuessBoth, Moves, Witness, permute
from symshare.names import THINGS
from symshare.records import LabelNames
from symshare.train.settings import OptimConfig

D4 = groups.dihedral(4)
NATURAL = torch.tensor([map.matrix for map in D4.maps]).float()
OFFSET = torch.tensor([3.0, -2.0])


def data_of(labels, images=None):
    images = torch.zeros(len(labels), 1, 2, 2) if images is None else images
    names = tuple(f"y{i}" for i in range(labels.shape[1]))
    return LabelledImages(images, labels, (), numbers=names)


def drawn(n=600, d=2, seed=0):
    return torch.randn(n, d, generator=torch.Generator().manual_seed(seed))


MIXED = drawn() @ torch.tensor([[2.0, 1.0], [0.0, 50.0]]) + OFFSET


def answered(z, spread, seed=1):
    """What a witness says that is off by so many spreads: means, and logarithms of variances."""
    noise = spread * torch.randn(z.shape, generator=torch.Generator().manual_seed(seed))
    return torch.stack([z + noise, torch.zeros_like(z)], dim=1)


def about(matrix, centre):
    """The map that does a matrix about a centre."""
    return torch.cat([matrix, (centre - matrix @ centre)[:, None]], dim=1)


def test_labels_are_whitened_and_an_outlier_counts_as_no_further():
    target = Numbers.of(data_of(MIXED))
    z = target.prepared(MIXED)
    torch.testing.assert_close(z.T @ z / len(z), torch.eye(2), atol=0.01, rtol=0)
    torch.testing.assert_close(
        target.mean + z[:9] @ target.colour.T, MIXED[:9], rtol=1e-4, atol=1e-3
    )
    far = target.prepared(OFFSET + 1e9 * torch.ones(1, 2))
    assert far.norm().item() == pytest.approx(FAR * 2**0.5)


def test_numbers_that_follow_from_others_are_known_once():
    both = torch.cat([MIXED, MIXED.sum(1, keepdim=True)], dim=1)
    target = Numbers.of(data_of(both))
    assert target.count == 2
    z = target.prepared(both)
    torch.testing.assert_close(target.mean + z @ target.colour.T, both, rtol=1e-3, atol=1e-2)


def test_a_number_that_happens_not_to_vary_in_a_part_is_not_known():
    target = Numbers.of(data_of(torch.cat([MIXED, torch.full((600, 1), 7.0)], dim=1)))
    assert target.count == 2
    assert target.prepared(torch.tensor([[3.0, -2.0, 1e6]])).isfinite().all()


def test_maps_compose_and_have_inverses():
    target, maps = Numbers.of(data_of(MIXED)), torch.stack([about(m, OFFSET) for m in NATURAL])
    for g, row in enumerate(D4.table.tolist()):
        for h, gh in enumerate(row):
            torch.testing.assert_close(composed(maps[g], maps[h]), maps[gh])
    moved = target.moved(maps, MIXED[:5])
    each = target.moved_each(maps[:5], MIXED[:5])
    torch.testing.assert_close(each, moved[range(5), range(5)])
    back = target.moved(target.inverse(maps), moved[3])
    torch.testing.assert_close(back[3], MIXED[:5], rtol=1e-4, atol=1e-3)
    assert target.same(maps, maps).all()
    assert target.same(maps, target.fixed(8)).tolist() == [True, *[False] * 7]


def test_the_loss_is_that_of_a_normal_law_that_is_floored_with_the_law_of_all_labels():
    target = Numbers.of(data_of(MIXED))
    covariance = torch.tensor([[0.3, 0.1], [0.1, 0.2]])
    said = CalibratedNumbers(target, 0.9, torch.tensor([0.1, -0.2]), covariance)
    z = target.prepared(MIXED).numpy()
    answers = answered(target.prepared(MIXED), 0.5)
    means = 0.9 * answers[:, 0].numpy() + np.array([0.1, -0.2])
    p = multivariate_normal(np.zeros(2), covariance.numpy()).pdf(z - means)
    m = multivariate_normal(np.zeros(2), np.eye(2)).pdf(z)
    expected = -np.log((1 - FLOOR) * p / m + FLOOR)
    torch.testing.assert_close(
        said.losses(answers, MIXED), torch.from_numpy(expected).float(), rtol=1e-4, atol=1e-4
    )


def test_the_excess_of_a_symmetry_is_zero_whatever_is_answered():
    """Images in pairs, each of which a move makes of the other, with its label."""
    turn = about(NATURAL[1] @ NATURAL[1], OFFSET)
    target = Numbers.of(data_of(MIXED))
    labels = torch.cat([MIXED, target.moved(turn[None], MIXED)[0]])
    answers = torch.randn(len(labels), 2, 2, generator=torch.Generator().manual_seed(3))
    said = CalibratedNumbers(target, 1.3, torch.ones(2), 0.1 * torch.eye(2))
    after = answers.roll(len(MIXED), 0)
    moved = target.moved(turn[None], labels)[0]
    excess = said.losses(after, moved) - said.losses(answers, labels)
    assert abs(excess.mean()) < 1e-5
    assert excess.abs().max() > 0.1


def test_no_single_image_decides():
    """An outlier that is foretold exactly, and one that is missed by far."""
    labels = drawn(300, 1)
    labels[0] = 1e6
    target = Numbers.of(data_of(labels[1:]))
    said = target.calibrated(answered(target.prepared(labels), 0.0)[None], data_of(labels))
    exact = said.losses(answered(target.prepared(labels), 0.0), labels)
    assert -exact.max() > 2
    assert -exact.min() < -math.log(LEAST_SPREAD) + FAR**2 / 2
    missed = said.losses(answered(target.prepared(-labels), 0.0), labels)
    assert missed.max() <= -math.log(FLOOR) + 1e-5


def test_labels_without_noise_do_not_let_the_gain_grow_without_bound():
    labels = drawn(300, 1)
    target = Numbers.of(data_of(labels))
    for spread in (0.0, 1e-6, 1e-3):
        answers = answered(target.prepared(labels), spread)
        said = target.calibrated(answers[None], data_of(labels))
        gain = -said.losses(answers, labels).mean().item()
        # Half a nat is what the law of all labels loses.
        assert gain == pytest.approx(0.5 - math.log(LEAST_SPREAD), abs=0.02)


@pytest.mark.parametrize(
    ("truth", "labels", "exact"),
    [
        (about(NATURAL[1], torch.zeros(2)), drawn(), True),
        (about(-torch.eye(2), torch.zeros(2)), drawn(), True),
        (about(torch.diag(torch.tensor([1.0, -1.0])), torch.zeros(2)), drawn(), True),
        (about(NATURAL[1], torch.tensor([5.5, 5.5])), drawn() + 5.5, False),
        (
            about(torch.tensor([[0.0, -0.1], [10.0, 0.0]]), torch.zeros(2)),
            drawn() * torch.tensor([1.0, 10.0]),
            False,
        ),
        (about(torch.tensor([[0.6, -0.8], [0.8, 0.6]]), torch.zeros(2)), drawn(), False),
    ],
    ids=["turn", "sign of both", "sign of one", "about a corner", "units", "any turn"],
)
@pytest.mark.parametrize("spread", [0.1, 0.7])
def test_finds_what_a_move_makes_of_numbers(truth, labels, exact, spread):
    data, target = data_of(labels), Numbers.of(data_of(labels))
    before = answered(target.prepared(labels), spread)
    after = answered(target.prepared(target.moved(truth[None], labels)[0]), spread, seed=2)
    # What is said is as sure as it can be: the mean of the labels that are as likely.
    before[:, 0] /= 1 + spread**2
    after[:, 0] /= 1 + spread**2
    said = target.calibrated(before[None], data)
    found = said.map_of(before, after, data, torch.arange(len(labels)))
    if exact:
        assert torch.equal(found, truth)
    else:
        assert target.same(found[None], truth[None]).all()
    stays = said.map_of(before, before, data, torch.arange(len(labels)))
    assert torch.equal(stays, target.fixed(1)[0])


def test_no_map_is_made_up_for_a_move_that_breaks_the_labels():
    labels = drawn()
    data, target = data_of(labels), Numbers.of(data_of(labels))
    before = answered(target.prepared(labels), 0.2)
    said = target.calibrated(before[None], data)
    # A half of the images turns, the others do not; and nothing at all is left.
    half = answered(target.prepared(torch.cat([-labels[:300], labels[300:]])), 0.2)
    nothing = answered(torch.zeros(600, 2), 0.5)
    for after in (half, nothing):
        found = said.map_of(before, after, data, torch.arange(600))
        assert torch.equal(found, target.fixed(1)[0])


def test_a_number_that_nobody_knows_is_not_moved():
    labels = drawn(400)
    data, target = data_of(labels), Numbers.of(data_of(labels))
    known = target.prepared(labels) * torch.tensor([1.0, 0.0])
    for seed in range(10):
        before = answered(known, 0.05, seed)
        said = target.calibrated(before[None], data)
        after = answered(-known, 0.05, seed + 50)
        found = said.map_of(before, after, data, torch.arange(400))
        torch.testing.assert_close(found[:, :2], torch.diag(torch.tensor([-1.0, 1.0])))


def test_guesses_of_moves_are_linear_in_the_numbers():
    witness = Witness(1, 2, 5, (8, 8), numbers=True)
    torch.nn.init.normal_(witness.move_of_class.weight)
    labels, guesses = witness(torch.randn(3, 1, 8, 8))
    assert labels.shape == (3, 2, 2)
    assert guesses.shape == (3, 5, 3)
    target, y = Numbers.of(data_of(MIXED)), drawn(3)
    by_hand = guesses[..., 0] + guesses[..., 1] * y[:, :1] + guesses[..., 2] * y[:, 1:]
    torch.testing.assert_close(target.of_label(guesses, y), by_hand)


def test_the_task_of_a_witness_moves_labels_with_images():
    labels = torch.arange(12.0).view(6, 2)
    target = Numbers.of(data_of(labels))
    maps = torch.stack([about(torch.eye(2), OFFSET), about(NATURAL[1], OFFSET)])
    flip, signs = groups.flips("W").entries(1, (4, 4))
    task = GuessBoth(Moves(flip, signs, maps), target)
    _, known, becomes, moves, _ = task.prepare(
        torch.rand(6, 1, 4, 4), labels, torch.Generator().manual_seed(0)
    )
    torch.testing.assert_close(known, target.prepared(labels))
    assert moves.tolist() == [1] * 6
    torch.testing.assert_close(becomes, target.prepared(target.moved(maps[1:], labels)[0]))


@pytest.mark.parametrize("mapped", [False, True], ids=["fixed", "moved"])
def test_normal_laws_are_densities_after_a_move(mapped):
    """What g made of x has the likelihood of x under the law of what g makes."""
    generator = torch.Generator().manual_seed(7)
    x, labels = torch.randn(300, 2, 3, 4, generator=generator), drawn(300)
    x[:, 0, 0] += labels[:, :1]
    target = Numbers.of(data_of(labels, x))
    maps = torch.stack([about(NATURAL[1], torch.zeros(2)) if mapped else target.fixed(1)[0]] * 3)
    laws = NormalLaws.fit(data_of(labels, x), target)
    moves = torch.stack([torch.randperm(24, generator=generator) for _ in range(3)])
    before, after = laws.margins(x, labels, moves, torch.ones(moves.shape), maps)
    for g, one, other in zip(moves, before, after, strict=True):
        moved = permute(x, g[None].expand(300, -1))
        signs = torch.ones(1, len(g))
        again, _ = laws.margins(moved, target.moved(maps[:1], labels)[0], g[None], signs, maps[:1])
        torch.testing.assert_close(again[0], other, rtol=1e-3, atol=1e-3)
        back = permute(x, g.argsort()[None].expand(300, -1))
        came = target.moved(target.inverse(maps[:1]), labels)[0]
        torch.testing.assert_close(one, laws.distance(x, labels) - laws.distance(back, came))


def evidence(excess, *, maps=None, gain=2.0, n=600, d=2, noise=0.2, spread=0.3, unknown=()):
    """Evidence in which element i costs `excess[i]` nats, and changes the images where it does."""
    generator = torch.Generator().manual_seed(1)
    labels = drawn(n, d)

    def rows(means, noise):
        values = noise * torch.randn(len(means), n, generator=generator)
        return values - values.mean(1, keepdim=True) + torch.tensor(means)[:, None]

    M = len(excess)
    answer = labels + spread * drawn(n, d, seed=9)
    answer[:, list(unknown)] = drawn(n, d, seed=8)[:, list(unknown)] * 0.01
    loss = rows([-gain], noise)[0]
    change = [0.0 if e < 0.5 else 0.8 for e in excess]
    explained = [0.95 if e < 0.1 else 0.0 for e in excess]
    return NumberEvidence(
        labels=labels,
        answer=answer,
        said_loss=loss,
        target_map=torch.eye(d, d + 1).repeat(M, 1, 1) if maps is None else maps,
        square=1 - rows([0.95, *explained], 0.05),
        stratum=torch.arange(n) % 5,
        clusters=torch.arange(n),
        chance_loss=torch.zeros(n),
        agreed=torch.ones(M, dtype=torch.bool),
        moved_loss=loss + rows(excess, noise),
        change=rows(change, noise / 4),
        random_loss=loss + rows([5.0] * 2, noise),
        random_change=rows([0.9] * 4, noise / 4),
        few_change=torch.zeros(0, n),
        few=torch.full((M,), -1),
        moved_share=torch.ones(M),
        copies=0.0,
        unasked=0.0,
        looks=1,
        chained=False,
    )


def turned():
    """The natural maps of all elements but the identity."""
    return torch.cat([NATURAL[1:], torch.zeros(7, 2, 1)], dim=2)


@pytest.mark.parametrize("maps", [None, turned()], ids=["stay", "turn"])
def test_names_the_group_with_what_it_does_to_numbers(maps):
    verdict = decide(evidence([0.0] * 7, maps=maps), D4)
    assert (verdict.word, verdict.group) == ("group", "D4")
    kept = {j.kept_share for j in verdict.judgements}
    assert all(share == pytest.approx(0.95, abs=1e-3) for share in kept)
    names = LabelNames((), ("row", "column"), tuple("abcde"))
    said = sentence(verdict, False, names, THINGS[2])
    assert ("with row and column moved alike" in said) == (maps is not None)


def test_moves_whose_maps_do_not_multiply_are_no_group():
    maps = turned()
    maps[1] = torch.tensor([[1.0, 0.0, 0.0], [0.0, -1.0, 0.0]])
    verdict = decide(evidence([0.0] * 7, maps=maps), D4)
    assert "rot90" not in verdict.found
    nearly = turned() + 0.01
    assert decide(evidence([0.0] * 7, maps=nearly), D4).group == "D4"


def test_a_stratum_that_breaks_is_no_mean():
    found = evidence([0.0] * 7, n=2000)
    moved = found.moved_loss.clone()
    # A tenth of all, half of a fifth: 0.15 nats in the mean of 2.0.
    some = (found.stratum == 4) & (torch.arange(2000) % 10 == 4)
    moved[:, some] += 3.0
    verdict = decide(dataclasses.replace(found, moved_loss=moved), D4)
    assert {j.status for j in verdict.judgements} == {"broken"}
    assert {j.classes_broken for j in verdict.judgements} == {(4,)}


def test_a_broken_element_that_still_explains_much_everywhere_is_partial():
    found = evidence([2.0] * 7)
    square = found.square.clone()
    square[1] = 0.5
    verdict = decide(dataclasses.replace(found, square=square), D4)
    assert (verdict.word, verdict.partial) == ("partial", ("rot90",))
    square[1, found.stratum == 2] = 1.2
    assert decide(dataclasses.replace(found, square=square), D4).word == "none"


@pytest.mark.parametrize(("gain", "passed"), [(0.04, False), (0.07, True)])
def test_a_tenth_of_the_variance_has_to_be_known(gain, passed):
    """R^2 = 0.1 is a gain of 0.053 nats."""
    found = evidence([0.0] * 7, gain=gain, n=20_000, noise=0.05)
    power = measure_power(found)
    assert power.passed == passed
    assert (power.label_entropy, power.chance_loss, power.chance_accuracy) == (None, 0.0, 0.0)
    if not passed:
        assert "0.053 are needed" in power.reasons[0]


def test_numbers_of_which_nothing_is_known_are_named_and_most_have_to_be_known():
    one = decide(evidence([0.0] * 7, unknown=(1,)), D4)
    assert (one.group, one.power.told_apart) == ("D4", (0,))
    none = measure_power(evidence([0.0] * 7, unknown=(0, 1)))
    assert not none.passed
    assert "knows too few of the numbers" in none.reasons[0]


def test_evidence_is_read_as_it_was_written(tmp_path):
    from safetensors.torch import save_file

    found = evidence([0.0] * 7, maps=turned())
    save_file(found.tensors(), tmp_path / "e.safetensors", found.numbers())
    again = Evidence.read(tmp_path / "e.safetensors")
    assert isinstance(again, NumberEvidence)
    assert decide(again, D4) == decide(found, D4)


def blobs(count, size=10, seed=0):
    """A blob at a random place, and the place relative to the centre."""
    generator = torch.Generator().manual_seed(seed)
    half = (size - 1) / 2
    place = (torch.rand(count, 2, generator=generator) * 2 - 1) * (half - 1.5)
    axis = torch.arange(size) - half
    apart = [axis - place[:, i, None] for i in (0, 1)]
    distance = apart[0][:, :, None].square() + apart[1][:, None, :].square()
    noise = 0.1 * torch.randn(count, size, size, generator=generator)
    return (-distance / 3).exp() + noise, place


NOTHING = set(D4.names[1:])
CASES = {
    "place": (lambda place: place, NOTHING, NATURAL),
    "distance": (lambda place: place.norm(dim=1, keepdim=True), NOTHING, None),
    "column": (lambda place: place[:, 1:], {"rot180", "flipW", "flipH"}, None),
}


@pytest.mark.parametrize("case", CASES)
def test_derived_truths_are_found(case, unchecked):
    """Place turns with every element; its distance stays; a column has three moves of eight."""
    of_place, truth, natural = CASES[case]
    images, place = blobs(900)
    data = data_of(of_place(place), images[:, None])
    permutations = D4.permutation((10, 10))[1:]
    optim = OptimConfig(steps=400, evaluations=8, batch_size=32, lr=5e-3, schedule="constant")
    verdict = decide(gather(data, transform("none"), permutations, optim, 0), D4)
    assert (verdict.word, set(verdict.found)) == ("group", truth)
    made = {j.name: torch.tensor(j.target_map) for j in verdict.judgements}
    if natural is not None:
        for name, matrix in zip(D4.names[1:], natural[1:], strict=True):
            torch.testing.assert_close(made[name][:, :2], matrix)
    if case == "column":
        signs = {name: made[name][0, 0].item() for name in truth}
        assert signs == {"rot180": -1.0, "flipW": -1.0, "flipH": 1.0}


def test_labels_that_are_noise_decide_nothing(unchecked):
    images, _ = blobs(500)
    data = data_of(drawn(500, 1), images[:, None])
    optim = OptimConfig(steps=100, evaluations=4, batch_size=32, lr=5e-3, schedule="constant")
    found = gather(data, transform("none"), D4.permutation((10, 10))[1:], optim, 0)
    verdict = decide(found, D4)
    assert (verdict.word, verdict.power.passed) == ("undecided", False)
