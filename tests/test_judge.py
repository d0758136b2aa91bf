import dataclasses
import math
from bisect import bisect_right

import numpy as np
import pytest
import torch
from scipy import stats

from symshare import groups
from symshare.data import Copies, LabelledImages, sample, transform
from symshare.discovery.wording import sentence
from symshare.judge import decide, gather, is_settled
from symshare.judge import evidence as judge_evidence
from symshare.judge.answers import ClassEvidence
from symshare.judge.classes import Classes
from symshare.judge.judgement import judge_candidates, measure_power
from symshare.judge.likelihood import NormalLaws
from symshare.judge.statistics import (
    Estimate,
    estimates,
    label_noise,
    lower_beyond_guessing,
    lower_share,
    quantile,
    rejected,
    told_apart,
    upper_share,
)
from symshare.judge.thresholds import KEPT
from symshare.judge.witness import NOISE, GuessBoth, Moves, Witness, permute
from symshare.names import THINGS
from symshare.records import LabelNames
from symshare.train import loop
from symshare.train.settings import OptimConfig

D4 = groups.dihedral(4)


def fixed(moves, classes):
    """Maps of the labels that leave them as they are."""
    return torch.arange(classes).repeat(moves, 1)


def unsigned(sources, classes):
    """Moves of an image that keep all signs and labels."""
    return Moves(sources, torch.ones(sources.shape), fixed(len(sources), classes))


def evidence(
    excess,
    *,
    change=None,
    kept=None,
    loss=0.1,
    random=3.0,
    random_change=0.9,
    n=400,
    classes=4,
    noise=0.2,
    clusters=None,
    moved=1.0,
    label_map=None,
    agreed=None,
):
    """Evidence in which element i costs `excess[i]` nats, changes the images by `change[i]`, which
    is 0 where it costs nothing, and keeps `kept[i]` of every class."""
    generator = torch.Generator().manual_seed(1)
    labels = torch.arange(n) % classes

    def spread(mean, noise):
        values = noise * torch.randn(n, generator=generator)
        return values - values.mean() + mean

    kept = kept or [1.0 if e < 0.1 else 0.0 for e in excess]
    change = change or [0.0 if e < 0.5 else 0.8 for e in excess]
    order = torch.arange(n) // classes
    wrong = (labels + 1 + order % (classes - 1)) % classes
    right = math.exp(-loss)
    probability = torch.full((n, classes), (1 - right) / (classes - 1))
    probability[torch.arange(n), labels] = right
    return ClassEvidence(
        labels=labels,
        clusters=torch.arange(n) if clusters is None else clusters,
        log_probability=probability.log(),
        chance_loss=torch.full((n,), 2.1),
        label_map=fixed(len(excess), classes) if label_map is None else torch.tensor(label_map),
        agreed=torch.tensor(agreed or [True] * len(excess)),
        moved_loss=torch.stack([loss + spread(e, noise) for e in excess]),
        moved_prediction=torch.stack(
            [torch.where(order < k * n / classes, labels, wrong) for k in kept]
        ),
        change=torch.stack([spread(c, noise / 4) for c in change]),
        random_loss=torch.stack([loss + spread(random, noise) for _ in range(2)]),
        random_change=torch.stack([spread(random_change, noise / 4) for _ in range(4)]),
        few_change=torch.zeros(0, n),
        few=torch.full((len(excess),), -1),
        moved_share=torch.full((len(excess),), moved),
        copies=0.0,
        unasked=0.0,
        classes=classes,
        looks=1,
        chained=False,
    )


def normal_laws(data):
    return NormalLaws.fit(data, Classes.of(data))


def words(verdict):
    return sentence(verdict, False, LabelNames(tuple("abcd")), THINGS[2])


def judged(found, action, power):
    """What is said of each candidate before they are looked at as a set."""
    inverses = [row.index(0) - 1 for row in action.table.tolist()[1:]]
    return judge_candidates(found, action.names[1:], inverses, power)


def excesses(action, true):
    return [0.0 if name in true else 2.0 for name in action.names[1:]]


@pytest.mark.parametrize(
    ("true", "group"),
    [
        ({"flipW"}, "C2"),
        ({"rot180"}, "C2"),
        ({"flipW", "flipH", "rot180"}, "C2xC2"),
        ({"rot90", "rot180", "rot270"}, "C4"),
        (set(D4.names[1:]), "D4"),
    ],
    ids=["flip", "half", "flips", "C4", "D4"],
)
def test_names_the_group_that_costs_nothing(true, group):
    verdict = decide(evidence(excesses(D4, true)), D4)
    assert (verdict.word, verdict.group, set(verdict.found)) == ("group", group, true)
    assert {j.name for j in verdict.judgements if j.status == "broken"} == set(D4.names[1:]) - true


def test_none_where_everything_costs():
    verdict = decide(evidence(excesses(D4, set())), D4)
    assert (verdict.word, verdict.group, verdict.found) == ("none", None, ())


@pytest.mark.parametrize("cost", [0.0, 0.2], ids=["symmetric", "approximate"])
def test_what_the_labels_tolerate_is_no_symmetry_where_the_images_change(cost):
    costs = [cost if name == "flipW" else 2.0 for name in D4.names[1:]]
    change = [0.3 if name == "flipW" else 0.9 for name in D4.names[1:]]
    verdict = decide(evidence(costs, change=change), D4)
    assert (verdict.word, verdict.group, verdict.found) == ("none", None, ())
    assert {j.name for j in verdict.judgements if j.status == "tolerated"} == {"flipW"}


def test_labels_that_are_not_shown_to_mind_are_broken_where_the_images_change():
    found = evidence([0.1] * 7, change=[0.9] * 7, noise=4.0)
    found = dataclasses.replace(found, change=found.change * 0 + 0.9)
    assert {j.status for j in decide(found, D4).judgements} == {"broken"}


@pytest.mark.parametrize(
    ("change", "status"),
    [(0.0, "symmetric"), (0.01, "symmetric"), (0.035, "approximate"), (0.1, "tolerated")],
)
def test_how_far_the_images_may_change(change, status):
    costs = [0.0 if name == "flipW" else 2.0 for name in D4.names[1:]]
    changes = [change if name == "flipW" else 0.9 for name in D4.names[1:]]
    found = evidence(costs, change=changes, noise=0.1, n=4000)
    assert decide(found, D4).judgements[D4.names.index("flipW") - 1].status == status


def of_one_class(row, label, value, found):
    """The same evidence with another value of one row for the images of one class."""
    new = row.clone()
    new[:, found.labels == label] = value
    return new


@pytest.mark.parametrize("size", [20, 40, 200])
def test_a_rare_class_that_breaks_is_no_mean(size):
    labels = torch.cat([torch.zeros(size, dtype=torch.int64), 1 + torch.arange(8000 - size) % 3])
    found = dataclasses.replace(evidence([0.0] * 7, n=8000), labels=labels)
    probability = torch.full((8000, 4), 0.03)
    probability[torch.arange(8000), labels] = 0.91
    found = dataclasses.replace(found, log_probability=probability.log())
    found = dataclasses.replace(found, moved_loss=of_one_class(found.moved_loss, 0, 4.0, found))
    verdict = decide(found, D4)
    assert verdict.word == "none"
    assert {j.classes_broken for j in verdict.judgements} == {(0,)}


def test_a_class_that_breaks_by_its_images_alone_makes_the_rest_tolerated():
    found = evidence([0.0] * 7, n=4000)
    found = dataclasses.replace(found, change=of_one_class(found.change, 2, 0.6, found))
    verdict = decide(found, D4)
    assert {j.status for j in verdict.judgements} == {"tolerated"}
    assert {j.classes_broken for j in verdict.judgements} == {(2,)}


def test_a_class_too_small_to_tell_is_named_and_not_claimed():
    found = evidence([0.0] * 7, n=2000, classes=4)
    labels = found.labels.clone()
    labels[(labels == 3) & (torch.arange(2000) > 16)] = 0
    probability = torch.full((2000, 4), 0.03)
    probability[torch.arange(2000), labels] = 0.91
    found = dataclasses.replace(found, labels=labels, log_probability=probability.log())
    verdict = decide(found, D4)
    assert verdict.group == "D4"
    assert {j.classes_open for j in verdict.judgements} == {(3,)}
    assert "holds for classes a, b, c; of class d it was not shown" in words(verdict)


def test_no_claim_where_classes_are_not_told_apart():
    found = evidence([0.0] * 7, n=2000)
    mixed = found.log_probability.exp()
    mixed = torch.stack([mixed[:, :2].mean(1)] * 2 + [mixed[:, 2:].mean(1)] * 2, dim=1)
    verdict = decide(dataclasses.replace(found, log_probability=mixed.log()), D4)
    assert verdict.word == "undecided"
    assert verdict.power.told_apart == ()
    assert "tells too few classes from each other" in verdict.power.reasons[0]


def test_an_element_is_judged_with_its_inverse():
    quarter = groups.rotations(4)
    found = evidence([0.0, 0.0, 0.0], n=4000, noise=0.05)
    half = torch.where(torch.arange(4000) % 2 == 0, 1.0, -1.0)
    moved = found.moved_loss.clone()
    moved[0] += 3 * half  # each alone is too noisy, their mean is not
    moved[2] -= 3 * half
    alone = dataclasses.replace(found, moved_loss=moved)
    assert decide(alone, quarter).group == "C4"
    first, _, last = decide(alone, quarter).judgements
    assert dataclasses.replace(first, name="rot270", kept_share=last.kept_share) == last


def test_an_element_is_broken_where_its_square_is():
    quarter = groups.rotations(4)
    verdict = decide(evidence([0.0, 2.0, 0.0]), quarter)
    assert {j.status for j in verdict.judgements} == {"broken"}


def test_the_group_that_is_not_excluded_is_named_beside_the_one_that_is_shown():
    quarter = groups.rotations(4)
    found = evidence([0.0, 0.0, 0.0], n=4000)
    noisy = found.moved_loss.clone()
    noisy[[0, 2]] += 8 * torch.randn(4000, generator=torch.Generator().manual_seed(2))
    verdict = decide(dataclasses.replace(found, moved_loss=noisy), quarter)
    assert (verdict.group, verdict.possible) == ("C2", "C4")
    assert "C4 is not excluded" in words(verdict)


def test_what_hardly_moves_is_in_no_group():
    assert decide(evidence([0.0] * 7, moved=0.09), D4).found == ()
    assert decide(evidence([0.0] * 7, moved=0.11), D4).group == "D4"


def test_copies_are_no_evidence():
    """Ten equal observations of each of 30 sources say what 30 do, not what 300 do."""
    clusters = torch.arange(4000) // 100
    found = evidence([0.0] * 7, n=4000, noise=0.0, classes=4)
    source = torch.randn(7, 40, generator=torch.Generator().manual_seed(0))
    source = source.repeat_interleave(100, 1)
    found = dataclasses.replace(found, moved_loss=found.loss + 2 * source)
    assert {j.status for j in decide(found, D4).judgements} != {"undecided"}
    honest = decide(dataclasses.replace(found, clusters=clusters), D4)
    assert {j.status for j in honest.judgements} == {"undecided"}
    assert (honest.samples, honest.independent) == (4000, 40)


@pytest.mark.usefixtures("unchecked")
def test_the_level_holds_for_clusters_at_exactly_the_bound():
    generator = torch.Generator().manual_seed(0)
    clusters = torch.arange(2000) // 10
    base = evidence([0.0], n=2000, noise=0.0, classes=2, clusters=clusters)
    flip, power = groups.flips("W"), measure_power(base)
    delta = decide(base, flip).delta
    false = 0
    for _ in range(300):
        source = torch.randn(1, 200, generator=generator).repeat_interleave(10, 1)
        trial = dataclasses.replace(base, moved_loss=base.loss + delta + source)
        (judgement,) = judged(trial, flip, power)
        false += judgement.status == "symmetric"
    assert 1 <= false <= 12


def test_approximate_between_the_two_bounds():
    costs = [0.2 if name == "flipW" else 2.0 for name in D4.names[1:]]
    verdict = decide(evidence(costs), D4)
    assert "these images mean the same approximately, and not exactly" in words(verdict)
    assert (verdict.word, verdict.group) == ("approximate", "C2")
    assert (verdict.found, verdict.approximate) == ((), ("flipW",))


def test_partial_where_every_class_keeps_enough():
    costs, kept = [2.0] * 7, [0.7, 0.1, 0.7, 0, 0, 0, 0]
    verdict = decide(evidence(costs, kept=kept), D4)
    assert (verdict.word, verdict.group) == ("partial", None)
    assert verdict.partial == ("rot90", "rot270")


def test_not_partial_where_one_class_is_lost():
    found = evidence([2.0] * 7, kept=[0.9] * 7)
    found.moved_prediction[:, found.labels == 2] = 0
    assert decide(found, D4).word == "none"


@pytest.mark.parametrize("classes", [2, 3])
def test_guessing_is_not_partial(classes):
    found = evidence([2.0] * 7, classes=classes)
    generator = torch.Generator().manual_seed(0)
    found.moved_prediction[:] = torch.randint(classes, (7, 400), generator=generator)
    verdict = decide(found, D4)
    assert min(j.kept_share_min for j in verdict.judgements) > 0.2
    assert verdict.word == "none"


def test_not_partial_on_the_point_estimate_alone():
    # 0.4 of 25 images a class: the lower bound is far below 0.3.
    verdict = decide(evidence([2.0] * 7, kept=[0.4] * 7, n=100), D4)
    assert verdict.word == "none"


def test_never_a_group_on_a_handful_of_images():
    assert decide(evidence([0.0] * 7, n=8, noise=0.0), D4).word == "undecided"


@pytest.mark.parametrize(
    "true", [{"flipW", "transpose"}, {"flipW", "flipH"}], ids=["no-products", "tie"]
)
def test_undecided_where_the_passing_make_no_single_group(true):
    verdict = decide(evidence(excesses(D4, true)), D4)
    assert (verdict.word, verdict.group, verdict.found) == ("undecided", None, ())
    assert "no single group" in words(verdict)


def test_keeps_the_subgroup_of_a_set_that_is_not_closed():
    # D4's quarter turns pass, and flipW without the other flips.
    verdict = decide(evidence(excesses(D4, {"rot90", "rot180", "rot270", "flipW"})), D4)
    assert (verdict.group, set(verdict.found)) == ("C4", {"rot90", "rot180", "rot270"})


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"loss": 2.1}, "does not beat chance"),
        ({"loss": 3.0}, "does not beat chance"),
        ({"random": 0.1}, "does not notice random permutations"),
        ({"random_change": 0.4}, "does not notice random permutations"),
    ],
    ids=["at-chance", "below-chance", "blind-to-labels", "blind-to-images"],
)
def test_no_verdict_without_power(change, reason):
    verdict = decide(evidence([0.0] * 7, **change), D4)
    assert (verdict.word, verdict.group, verdict.found) == ("undecided", None, ())
    assert {j.status for j in verdict.judgements} == {"undecided"}
    assert reason in verdict.power.reasons[0]


def test_undecided_with_few_images():
    verdict = decide(evidence([0.0] * 7, n=20, noise=2.0), D4)
    assert verdict.word == "undecided"
    assert {j.status for j in verdict.judgements} == {"undecided"}


@pytest.mark.usefixtures("unchecked")
def test_what_the_printed_interval_decides_is_decided():
    generator = torch.Generator().manual_seed(0)
    for _ in range(20):
        costs = (torch.rand(7, generator=generator) * 0.3).tolist()
        verdict = decide(evidence(costs, noise=0.8), D4)
        for j in verdict.judgements:
            # Holm decides at least as much as the simultaneous interval.
            if j.interval[0] > verdict.delta + 0.02:
                assert j.status == "broken" or j.interval[1] < verdict.delta_approximate + 0.02
            if j.interval[1] < verdict.delta - 0.02:
                assert j.status == "symmetric"
            if j.status == "symmetric":
                assert j.excess_loss < verdict.delta


@pytest.mark.usefixtures("unchecked")
def test_the_level_holds_over_all_candidates(monkeypatch):
    """Seven elements exactly at delta: so large a share of studies may claim any, and not less."""
    monkeypatch.setattr("symshare.judge.judgement.LEVEL", 0.2)
    generator = torch.Generator().manual_seed(0)
    base = evidence([0.0] * 7, n=3200, classes=2)
    power, delta = measure_power(base), decide(base, D4).delta
    false = 0
    for _ in range(150):
        noise = torch.randn(7, 3200, generator=generator)
        trial = dataclasses.replace(base, moved_loss=base.loss + delta + noise)
        false += any(j.status == "symmetric" for j in judged(trial, D4, power))
    assert 0.5 * 0.2 * 150 <= false <= 1.4 * 0.2 * 150


def test_holm_by_hand():
    assert rejected([0.01, 0.04, 0.03], 0.05) == [True, False, False]
    assert rejected([0.01, 0.024, 0.05], 0.05) == [True, True, True]
    assert rejected([0.02, 0.001], 0.05) == [True, True]
    assert rejected([math.nan], 0.05) == [False]
    assert rejected([], 0.05) == []


@pytest.mark.parametrize("bound", [-0.3, 0.0, 0.2])
def test_one_observation_a_cluster_is_the_t_test(bound):
    x = np.random.default_rng(0).normal(size=30)
    (estimate,) = estimates(torch.tensor(x)[None], torch.arange(30))
    expected = stats.ttest_1samp(x, bound, alternative="greater").pvalue
    assert estimate.p_above(bound) == pytest.approx(expected)
    assert estimate.p_below(bound) == pytest.approx(1 - expected)
    low, high = stats.ttest_1samp(x, 0).confidence_interval(0.9)
    assert estimate.interval(0.05) == pytest.approx((low, high))


def test_equal_clusters_are_one_observation_each():
    x = np.random.default_rng(0).normal(size=20)
    (once,) = estimates(torch.tensor(x)[None], torch.arange(20))
    (often,) = estimates(torch.tensor(x).repeat_interleave(7)[None], torch.arange(140) // 7)
    assert dataclasses.astuple(once) == pytest.approx(dataclasses.astuple(often))


def test_the_error_of_unequal_clusters_by_simulation():
    generator = np.random.default_rng(0)
    sizes = np.arange(1, 41)
    clusters = torch.tensor(np.repeat(np.arange(40), sizes))
    drawn = np.repeat(generator.normal(size=(2000, 40)), sizes, axis=1)
    found = estimates(torch.tensor(drawn), clusters)
    spread = np.std([estimate.mean for estimate in found])
    assert np.mean([estimate.error for estimate in found]) == pytest.approx(spread, rel=0.06)


def test_one_unseen_cluster_is_counted_in():
    (estimate,) = estimates(torch.zeros(1, 9), torch.arange(9), unseen=6.0)
    assert (estimate.mean, estimate.error) == (pytest.approx(0.6), 0.0)
    assert estimate.p_below(0.5) == 1.0


def test_nothing_is_shown_by_one_cluster_or_none():
    assert Estimate(1.0, 0.0, 0).p_above(0.0) == 1.0
    assert estimates(torch.zeros(2, 0), torch.arange(0)) == [Estimate(0.0, 0.0, 0)] * 2


def test_pairs_of_classes_are_told_apart_by_the_test_of_welch():
    logs = torch.tensor(np.random.default_rng(0).normal(size=(90, 3))).log_softmax(-1)
    labels = torch.arange(90) % 3
    logs[:, 0] += 0.3 * (labels == 0)
    for a in range(3):
        for b in range(3):
            if a != b:
                score = (logs[:, a] - logs[:, b]).numpy()
                first, second = score[labels == a], score[labels == b]
                z = stats.ttest_ind(first, second, equal_var=False).statistic
                level = stats.norm.sf(z)
                for factor, expected in ((1.001, True), (0.999, False)):
                    found = told_apart(logs, labels, torch.arange(90), float(level * factor))
                    assert bool(found[a, b]) == expected


def test_copies_tell_no_classes_apart_and_neither_does_one_image():
    logs = torch.tensor([[0.9, 0.1], [0.2, 0.8]]).log().repeat_interleave(30, 0)
    labels, every = torch.arange(60) // 30, torch.arange(60)
    noisy = logs + 0.01 * torch.randn(60, 2, generator=torch.Generator().manual_seed(0))
    assert told_apart(noisy, labels, every, 0.01)[0, 1]
    assert not told_apart(noisy, labels, every // 30, 0.01).any()
    assert not told_apart(noisy[29:31], labels[29:31], torch.arange(2), 0.01).any()


@pytest.mark.parametrize("level", [0.05, 0.05 / 48, 1e-9])
@pytest.mark.parametrize(("successes", "trials"), [(1, 7), (30, 100), (7999, 8000)])
def test_wilson_by_its_defining_equation(successes, trials, level):
    share, z = successes / trials, quantile(level)
    for bound, sign in ((lower_share, 1), (upper_share, -1)):
        p = bound(successes, trials, level)
        assert sign * (share - p) == pytest.approx(z * (p * (1 - p) / trials) ** 0.5)


def test_wilson_at_the_ends():
    assert (lower_share(0, 0, 0.05), upper_share(0, 0, 0.05)) == (0.0, 1.0)
    assert (lower_share(0, 9, 0.05), upper_share(9, 9, 0.05)) == (0.0, 1.0)
    assert lower_share(9, 9, 0.05) == pytest.approx(1 - upper_share(0, 9, 0.05))


def test_p_value_without_spread():
    assert Estimate(1.0, 0.0, 9).p_above(0.5) == 0.0
    assert Estimate(0.5, 0.0, 9).p_above(0.5) == 1.0


@pytest.fixture(scope="module")
def bars():
    """Four classes by where the brighter bar lies: chiral, so no flip is a symmetry."""
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(160) % 4
    images = 0.2 * torch.rand(160, 1, 6, 6, generator=generator)
    for i, label in enumerate(labels.tolist()):
        images[i, 0, 1 + label, 1:4] += 1.0
        images[i, 0, 4, 1 + label % 2] += 0.7
    return LabelledImages(images, labels, ("a", "b", "c", "d"))


QUICK = OptimConfig(steps=60, evaluations=3, batch_size=32, lr=5e-3, schedule="constant")


def settle_at(look):
    return lambda evidence: evidence.looks >= look


def test_every_image_is_questioned_by_networks_that_never_saw_it(bars, monkeypatch):
    def rows(images):
        return {row.numpy().tobytes() for row in images.flatten(1)}

    known, asked = [], []
    learn, answer = loop.train, judge_evidence._question

    def watch(network, data, *rest, validation, **options):
        known.append(rows(data.images) | rows(validation.images))
        return learn(network, data, *rest, validation=validation, **options)

    def listen(trained, data, *rest):
        asked.append(rows(data.images))
        return answer(trained, data, *rest)

    monkeypatch.setattr("symshare.judge.evidence.train", watch)
    monkeypatch.setattr("symshare.judge.evidence._question", listen)
    # Moves that make no class of another, so that no witness is trained anew.
    moves = torch.stack([torch.arange(36).roll(step) for step in range(1, 8)])
    found = gather(bars, transform("none"), moves, QUICK, seed=0)
    assert found.loss.shape == (160,)
    assert torch.equal(found.labels, bars.labels)
    assert found.moved_loss.shape == found.change.shape == (7, 160)
    assert (found.prediction == found.labels).float().mean() > 0.9
    assert 1.3 < found.chance_loss.mean() < 1.5
    assert len(known) == 6
    first, second, *others = asked
    assert (len(first), len(second)) == (20, 60)
    asked = [first | second, *others]
    assert not any(learned & questioned for learned, questioned in zip(known, asked, strict=True))
    everything = rows(bars.images)
    assert all(a | b == everything for a, b in zip(known, asked, strict=True))
    assert set.union(*asked[:2]) == set.union(*asked[2:]) == rows(bars.images)
    assert sum(map(len, asked)) == 2 * 160


@pytest.mark.parametrize(
    ("look", "trainings", "images"), [(1, 1, 20), (2, 1, 80), (3, 2, 160), (4, 6, 160)]
)
def test_it_ends_where_all_is_decided(bars, monkeypatch, look, trainings, images):
    count, learn = [], loop.train

    def watch(*rest, **options):
        count.append(1)
        return learn(*rest, **options)

    monkeypatch.setattr("symshare.judge.evidence.train", watch)
    permutations = D4.permutation((6, 6))[1:2]
    found = gather(bars, transform("none"), permutations, QUICK, 0, decided=settle_at(look))
    assert (len(count), len(found.labels), found.looks) == (trainings, images, look)


def test_the_same_seed_gives_the_same_evidence_and_leaves_the_callers_generator_alone(bars):
    permutations = D4.permutation((6, 6))[1:2]
    state = torch.random.get_rng_state()
    options = {"decided": settle_at(2)}
    first = gather(bars, transform("quarter"), permutations, QUICK, seed=3, **options)
    assert torch.equal(torch.random.get_rng_state(), state)
    second = gather(bars, transform("quarter"), permutations, QUICK, seed=3, **options)
    for name, tensor in first.tensors().items():
        assert torch.equal(tensor, second.tensors()[name]), name


def test_a_fold_that_is_judged_is_not_judged_again(bars, tmp_path):
    permutations, seen = D4.permutation((6, 6))[1:], []

    def gathered(progress, out=tmp_path / "judge"):
        law = transform("quarter")
        return gather(
            bars, law, permutations, QUICK, 1, out=out, progress=progress, decided=settle_at(3)
        )

    def stop(done, steps):
        if done == 45:
            raise KeyboardInterrupt

    whole = gathered(loop.unseen, out=None)
    with pytest.raises(KeyboardInterrupt):
        gathered(stop)
    resumed = gathered(lambda *steps: seen.append(steps))
    assert seen[0] == (31, 60)
    for name, tensor in whole.tensors().items():
        assert torch.equal(tensor, resumed.tensors()[name]), name


def test_evidence_is_read_as_it_was_written(bars, tmp_path):
    from safetensors.torch import save_file

    found = evidence([0.0, 2.0])
    save_file(found.tensors(), tmp_path / "evidence.safetensors", found.numbers())
    again = ClassEvidence.read(tmp_path / "evidence.safetensors")
    assert again.numbers() == found.numbers()
    assert all(torch.equal(value, again.tensors()[name]) for name, value in found.tensors().items())


def test_groups_are_never_on_both_sides(bars, monkeypatch):
    data = dataclasses.replace(bars, groups=torch.arange(160) // 8)
    sides, learn = [], loop.train

    def watch(network, known, *rest, **options):
        sides.append((set(known.groups.tolist()), set(options["validation"].groups.tolist())))
        return learn(network, known, *rest, **options)

    monkeypatch.setattr("symshare.judge.evidence.train", watch)
    permutations = D4.permutation((6, 6))[1:2]
    found = gather(data, transform("none"), permutations, QUICK, 0, decided=settle_at(3))
    assert len(found.clusters.unique()) == 20
    assert not any(known & slice_ for known, slice_ in sides)
    assert not sides[0][0] & sides[1][0]


def test_near_copies_are_found_without_being_told(bars):
    noise = 1e-3 * torch.rand(bars.images.shape, generator=torch.Generator().manual_seed(1))
    twice = LabelledImages(
        torch.cat([bars.images, bars.images + noise]), bars.labels.repeat(2), bars.classes
    )
    permutations = D4.permutation((6, 6))[1:2]
    found = gather(twice, transform("none"), permutations, QUICK, 0, decided=settle_at(3))
    assert (found.copies, len(found.labels), len(found.clusters.unique())) == (1.0, 320, 160)


def exchanged(count, seed, *, twin=1.0):
    """Two things, their mirror images, and a third of which a share `twin` is mirrored evenly.

    A mirror exchanges the first class with the second, and leaves the third where it is.
    """
    generator = torch.Generator().manual_seed(seed)
    fields = torch.randn(2, 6, 6, generator=torch.Generator().manual_seed(100))
    labels = torch.arange(count) % 3
    third = torch.rand(count, generator=generator) < twin / 2
    images = torch.stack([fields[0], fields[0].flip(-1), fields[1]])[labels]
    images = torch.where((third & (labels == 2))[:, None, None], images.flip(-1), images)
    images = images + 0.5 * torch.randn(images.shape, generator=generator)
    return LabelledImages(images[:, None], labels, ("left", "right", "round"))


MIRRORS = groups.flips("HW")


@pytest.mark.parametrize(("twin", "status"), [(1.0, "symmetric"), (0.0, "broken")])
def test_a_move_may_exchange_classes(twin, status):
    """Where the third class has no mirror images, exchanging the others restores nothing."""
    data, moves = exchanged(900, 0, twin=twin), MIRRORS.permutation((6, 6))[1:]
    optim = dataclasses.replace(QUICK, steps=240, evaluations=8)
    found = gather(data, transform("none"), moves, optim, 0, decided=settle_at(3))
    verdict = decide(found, MIRRORS)
    mirror, *others = verdict.judgements
    assert mirror.status == status
    assert mirror.label_map == ((1, 0, 2) if status == "symmetric" else (0, 1, 2))
    assert all(other.status == "broken" for other in others)
    if status == "symmetric":
        assert (verdict.word, verdict.found) == ("group", ("flipW",))
        assert mirror.kept_share > 0.9
        assert abs(mirror.excess_loss) < 0.05
    assert found.agreed[0]


def test_an_interrupted_call_goes_on_with_the_maps_of_the_labels(tmp_path):
    data, moves = exchanged(600, 1), MIRRORS.permutation((6, 6))[1:]
    optim = dataclasses.replace(QUICK, steps=120, evaluations=8)

    def gathered(out, decided, progress=loop.unseen):
        law = transform("none")
        return gather(data, law, moves, optim, 0, out=out, decided=decided, progress=progress)

    def cut(evidence):
        if evidence.looks == 2:
            raise KeyboardInterrupt
        return False

    with pytest.raises(KeyboardInterrupt):
        gathered(tmp_path, cut)
    steps = []
    resumed = gathered(tmp_path, settle_at(3), progress=lambda *seen: steps.append(seen))
    whole = gathered(None, settle_at(3))
    assert whole.label_map[0].tolist() == [1, 0, 2]
    for name, tensor in whole.tensors().items():
        assert torch.equal(tensor, resumed.tensors()[name]), name
    assert steps[0] == (61, 120), "the first witness is asked no more"


def test_maps_of_the_labels_belong_to_the_group():
    """A quarter turn may not map the labels so that its square maps them unlike the half turn."""
    turns, swap, cycle = groups.rotations(4), [1, 0, 2, 3], [1, 2, 3, 0]
    found = evidence([0.0] * 3, label_map=[swap, [0, 1, 2, 3], swap])
    assert decide(found, turns).found == ("rot90", "rot180", "rot270")
    twice = [2, 3, 0, 1]
    found = evidence([0.0] * 3, label_map=[cycle, twice, [3, 0, 1, 2]])
    assert decide(found, turns).group == "C4"
    found = evidence([0.0] * 3, label_map=[swap, swap, swap])
    assert decide(found, turns).found == ("rot180",)


def test_a_map_on_which_witnesses_differ_is_not_claimed():
    found = evidence([0.0], agreed=[False])
    verdict = decide(found, groups.rotations(2))
    assert verdict.judgements[0].status == "undecided"


def test_functions_are_judged_beside_permutations(bars):
    """One does nothing, one is the flip that is asked as a permutation too, one ruins images."""
    functions = {
        "still": lambda x: x.clone(),
        "mirror": lambda x: x.flip(-1),
        "noise": lambda x: torch.rand(x.shape, generator=torch.Generator().manual_seed(5)),
    }
    flip = groups.flips("W")
    options = {"functions": list(functions.values()), "decided": settle_at(3)}
    found = gather(bars, transform("none"), flip.permutation((6, 6))[1:], QUICK, 0, **options)
    assert found.moved_loss.shape == found.change.shape == (4, 160)
    verdict = decide(found, flip, tuple(functions))
    assert [j.name for j in verdict.functions] == list(functions)
    torch.testing.assert_close(found.moved_loss[1], found.loss)
    torch.testing.assert_close(found.moved_loss[2], found.moved_loss[0])
    still, mirror, noise = verdict.functions
    assert (still.excess_loss, still.moved_share, mirror.moved_share) == (0.0, 0.0, 1.0)
    assert abs(still.change) < 0.05
    assert noise.status == mirror.status == "broken"
    assert verdict.found == ()


def test_each_image_is_moved_by_its_own_move_or_function():
    still = torch.arange(4)
    sources, signs = torch.stack([still, still.roll(1), still, still.flip(0)]), torch.ones(4, 4)
    signs[3, 1] = -1
    moves = Moves(sources, signs, fixed(4, 2), {2: lambda x: -x})
    images = torch.rand(7, 1, 2, 2)
    which = torch.tensor([0, 1, 2, 2, 1, 0, 3])
    moved = moves(images, which)
    assert torch.equal(moved[[0, 5]], images[[0, 5]])
    assert torch.equal(moved[[1, 4]], images[[1, 4]].flatten(2).roll(1, -1).view(2, 1, 2, 2))
    assert torch.equal(moved[[2, 3]], -images[[2, 3]])
    assert torch.equal(moved[6].flatten(), images[6].flatten().flip(0) * signs[3])


def test_labels_without_meaning_give_no_verdict(bars):
    generator = torch.Generator().manual_seed(0)
    shuffled = bars.labels[torch.randperm(160, generator=generator)]
    data = LabelledImages(bars.images, shuffled, bars.classes)
    found = gather(data, transform("none"), D4.permutation((6, 6))[1:], QUICK, seed=0)
    assert decide(found, D4).word == "undecided"
    assert not is_settled(found, D4)


def test_the_change_is_zero_for_a_symmetry_and_bounded_by_the_total_variation():
    """Two laws on two pixels whose distance is known: (a, b) and its mirror, at random."""
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(3000) % 2
    for share, distance in ((0.5, 0.0), (0.8, 0.6), (1.0, 1.0)):
        images = torch.zeros(3000, 1, 4, 4) + 0.1 * torch.rand(3000, 1, 4, 4, generator=generator)
        images[:, :, 1 + labels, :] += 0.0
        rows = torch.where(labels == 0, 0, 3)
        images[torch.arange(3000), 0, rows] += 2
        right = torch.rand(3000, generator=generator) < share
        images[:, 0, 1:3, 0] += right[:, None] * 2.0
        images[:, 0, 1:3, 3] += ~right[:, None] * 2.0
        data = LabelledImages(images, labels, ("a", "b"))
        flip = groups.flips("W").permutation((4, 4))[1:]
        optim = dataclasses.replace(QUICK, steps=200, evaluations=4)
        found = gather(data, transform("none"), flip, optim, 0, decided=settle_at(2))
        change, error = found.change.mean().item(), found.change.std().item() / 3000**0.5
        assert change <= distance + 4 * error + 1e-6
        # A calibrated witness that is equally unsure of every image shows the square of it.
        assert change >= 0.9 * distance**2 - 4 * error


def test_the_witness_learns_moves_by_class_and_without_a_prior():
    torch.manual_seed(0)
    network = Witness(1, 3, 5, (6, 6))
    labels, moves = network(torch.rand(7, 1, 6, 6))
    assert (labels.shape, moves.shape) == ((7, 3), (7, 5, 3))
    assert torch.equal(moves[..., 0], moves[..., 1])  # nothing of its own at the start
    chosen = Classes(torch.ones(3) / 3).of_label(
        torch.arange(30.0).reshape(2, 5, 3), torch.tensor([0, 2])
    )
    assert chosen.tolist() == [[0.0, 3.0, 6.0, 9.0, 12.0], [17.0, 20.0, 23.0, 26.0, 29.0]]


def test_half_of_what_a_witness_reads_is_as_it_is_and_the_rest_is_moved():
    permutations = torch.stack([torch.randperm(18) for _ in range(4)])
    permutations[0] = torch.arange(18)
    images, seen = torch.rand(50, 2, 3, 3), []

    class Network(torch.nn.Module):
        def forward(self, x):
            seen.append(x)
            return torch.zeros(len(x), 3), torch.zeros(len(x), 4, 3)

    task = GuessBoth(unsigned(permutations, 3), Classes(torch.ones(3) / 3))
    prepared = task.prepare(images, torch.arange(50) % 3, torch.Generator().manual_seed(0))
    loss, logits = task.loss(Network().eval(), *prepared)
    as_they_are, moved = seen[0].split(50)
    assert torch.equal(as_they_are, images)
    assert prepared[3].min() == 1
    for image, move, result in zip(images, prepared[3], moved, strict=True):
        assert torch.equal(result.flatten(), image.flatten()[permutations[move]])
    # A network that knows nothing guesses by the prior: ln 3 for the label, and half of the rows
    # unmoved, the others one of three.
    assert loss.item() == pytest.approx(math.log(3) + (math.log(2) + math.log(6)) / 2)
    assert len(logits) == 50


def test_noise_is_read_in_training_only_and_in_units_of_each_image():
    seen = []

    class Network(torch.nn.Module):
        def forward(self, x):
            seen.append(x)
            return torch.zeros(len(x), 2), torch.zeros(len(x), 2, 2)

    flip = torch.stack([torch.arange(400), torch.arange(400).flip(0)])
    task = GuessBoth(unsigned(flip, 2), Classes(torch.ones(2) / 2))
    images = torch.randn(6, 1, 20, 20, generator=torch.Generator().manual_seed(1))
    images *= torch.tensor([0.0, 1.0, 1.0, 10.0, 10.0, 1e-3])[:, None, None, None]
    prepared = task.prepare(images, torch.arange(6) % 2, torch.Generator().manual_seed(0))
    task.loss(Network().eval(), *prepared)
    task.loss(Network().train(), *prepared)
    spread = (seen[1] - seen[0]).std((1, 2, 3)) / images.std((1, 2, 3)).repeat(2).clamp_min(1e-9)
    assert spread[[0, 6]].tolist() == [0.0, 0.0]
    expected = torch.full((10,), NOISE)
    torch.testing.assert_close(
        spread[[1, 2, 3, 4, 5, 7, 8, 9, 10, 11]], expected, rtol=0.15, atol=0
    )


def test_permute_moves_as_the_action_does():
    images = torch.rand(8, 3, 5, 5)
    moved = permute(images, D4.entries(3, (5, 5))[0])
    for g in range(8):
        torch.testing.assert_close(moved[g], D4.apply(images[g], g))


@pytest.mark.parametrize("redrawn", [0.0, 0.35, 0.5])
def test_noise_in_labels_is_measured_with_calibrated_networks(redrawn):
    generator = torch.Generator().manual_seed(3)
    N, K = 20_000, 4
    truth = torch.randint(K, (N,), generator=generator)
    drawn = torch.rand(N, generator=generator) < redrawn
    labels = torch.where(drawn, torch.randint(K, (N,), generator=generator), truth)
    right = 1 - redrawn + redrawn / K
    law = torch.full((K, K), redrawn / K).fill_diagonal_(right)
    share, known = label_noise(law[truth].clamp_min(1e-6).log(), labels)
    assert share == pytest.approx(1 - right, abs=0.01)
    known_at_most = math.log(K) + torch.special.xlogy(law[0], law[0]).sum().item()
    assert known == pytest.approx(known_at_most, abs=0.02)


def test_what_can_be_known_is_nothing_where_networks_know_nothing():
    generator = torch.Generator().manual_seed(4)
    labels = torch.randint(3, (5000,), generator=generator)
    logs = (0.1 * torch.randn(5000, 4, generator=generator)).log_softmax(1)
    share, known = label_noise(logs, labels)
    assert share > 0.5
    assert 0 <= known < 0.01


def test_what_is_kept_beyond_guessing_has_its_level():
    """At a true share of exactly 0.3 the bound lies above it in at most 5 % of draws, or nearly.

    The probability is summed over all numbers of alarms that are likely. The bound grows with the
    number of hits, so a bisection finds from where on it is above 0.3.
    """
    kept, guessed = stats.binom(100, 0.37), stats.binom(300, 0.1)
    above = 0.0
    for alarms in range(int(guessed.ppf(1e-5)), int(guessed.isf(1e-5)) + 1):

        def bound(hits, alarms=alarms):
            return lower_beyond_guessing(hits / 100, 100.0, alarms / 300, 300.0, 0.05)

        first = bisect_right(range(101), 0.3, key=bound)
        above += guessed.pmf(alarms) * kept.sf(first - 1)
    assert 0.045 < above < 0.055


@pytest.mark.parametrize(("kept", "settled"), [(0.0, True), (0.45, False), (0.9, True)])
def test_it_looks_on_where_an_element_may_be_partial(kept, settled):
    found = evidence([2.0] * 7, kept=[kept, *[0] * 6], n=400)
    assert decide(found, D4).word == ("partial" if kept == 0.9 else "none")
    assert is_settled(found, D4) == settled


def test_what_the_last_round_predicts_counts():
    def part(images, prediction):
        n, L = len(images), 2 + 2 * judge_evidence.RANDOM_PERMUTATIONS
        return {
            "images": images,
            "log_probability": torch.zeros(n, 2),
            "loss": torch.zeros(n, L),
            "prediction": torch.full((n, L), prediction),
            "change": torch.zeros(n, L),
            "chance_loss": torch.zeros(n),
            "maps": torch.arange(2).repeat(L, 1),
            "maps_found": torch.arange(2).repeat(L, 1),
            "agreed": torch.ones(L, dtype=torch.bool),
        }

    data = LabelledImages(torch.rand(8, 1, 2, 2), torch.arange(8) % 2, ("a", "b"))
    parts = [part(some, 0) for some in torch.arange(8).split([1, 3, 4])]
    parts += [part(quarter, 1) for quarter in torch.arange(8).split(2)]
    copies = Copies(torch.arange(8), 0.0, False)
    for told, seen, said in ((1, 1, 0), (2, 4, 0), (3, 8, 0), (7, 8, 1)):
        few = torch.tensor([-1])
        made = judge_evidence._assemble(data, parts[:told], torch.ones(1), few, copies)
        assert made.moved_prediction.tolist() == [[said] * seen]


def test_moves_of_dim_images_of_any_brightness_are_seen():
    """Two shades of light; a dim texture that has a handedness, a hundredth as strong."""
    generator = torch.Generator().manual_seed(5)
    labels = torch.arange(600) % 2
    light = (2.0 * labels - 1 + 0.3 * torch.randn(600, generator=generator))[:, None, None, None]
    texture = torch.randn(1, 1, 8, 8, generator=generator)
    images = light + 0.01 * (texture + 0.5 * torch.randn(600, 1, 8, 8, generator=generator))
    data = LabelledImages(images, labels, ("dark", "light"))
    flip = groups.flips("W").permutation((8, 8))[1:]
    optim = OptimConfig(steps=150, evaluations=3, batch_size=32, lr=5e-3, schedule="constant")
    made = gather(data, transform("none"), flip, optim, 0, decided=lambda evidence: True)
    assert made.change.mean() > 0.8


def test_nothing_is_claimed_where_a_move_of_as_few_pixels_is_not_noticed():
    found = evidence(excesses(D4, set(D4.names[1:])))
    few = torch.tensor([-1, -1, -1, 0, 1, -1, 1])
    changes = torch.stack([torch.full((400,), mean) for mean in (0.5, 0.05)])
    verdict = decide(dataclasses.replace(found, few=few, few_change=changes), D4)
    statuses = {j.name: j.status for j in verdict.judgements}
    assert {name for name, status in statuses.items() if status == "undecided"} == {
        D4.names[5],
        D4.names[7],
    }


def test_a_random_move_of_as_few_pixels_is_asked_beside_each_number():
    swap = [1, 0, *range(2, 16)]
    two = [1, 0, 3, 2, *range(4, 16)]
    moves = torch.tensor([swap, list(range(15, -1, -1)), two, swap])
    sizes, few = judge_evidence._few_numbers(moves != torch.arange(16), 16)
    assert (sizes, few.tolist()) == ([(2, 16), (4, 16)], [0, -1, 1, 0])
    for count in (2, 5):
        moved = judge_evidence.scramble(count, 16) != torch.arange(16)
        assert int(moved.sum()) == count


def test_a_move_of_few_channels_is_compared_with_moves_of_as_many_numbers():
    in_space, in_one_channel = torch.zeros(2, 3, 8, dtype=torch.bool)
    in_space[:, :2], in_one_channel[1] = True, True
    touched = torch.stack([in_space, in_one_channel]).flatten(1)
    sizes, few = judge_evidence._few_numbers(touched, 8)
    assert (sizes, few.tolist()) == ([(2, 8), (8, 24)], [0, 1])
    rows = [judge_evidence.in_entries(judge_evidence.scramble(n, of), 3, 8) for n, of in sizes]
    assert [int((row != torch.arange(24)).sum()) for row in rows] == [6, 8]


def test_one_large_cluster_counts_as_few():
    """40 % of the images come from one source: that no other one breaks is no evidence."""
    clusters = torch.where(torch.arange(400) < 160, 0, torch.arange(400))
    base = evidence(excesses(D4, set(D4.names[1:])))
    assert decide(base, D4).word == "group"
    verdict = decide(dataclasses.replace(base, clusters=clusters), D4)
    assert verdict.word == "undecided"


@pytest.mark.usefixtures("unchecked")
def test_a_partial_symmetry_is_counted_by_cluster():
    """Every class keeps a quarter of its ten groups, each wholly or not at all: that is no 0.3."""
    generator = torch.Generator().manual_seed(0)
    clusters = torch.arange(4000) // 100
    labels = clusters % 4
    base = evidence([2.0], n=4000, clusters=clusters)
    flip, power = groups.flips("W"), measure_power(base)
    false = 0
    for _ in range(100):
        kept = torch.rand(40, generator=generator)[clusters] < 0.25
        prediction = torch.where(kept, labels, (labels + 1) % 4)[None]
        trial = dataclasses.replace(base, labels=labels, moved_prediction=prediction)
        (judgement,) = judged(trial, flip, power)
        false += judgement.status == "broken" and judgement.kept_share_min_lower >= KEPT
    assert false <= 4


LAWS = {
    "faint ramp": lambda x, i: 30 * x.mean((1, 2, 3), keepdim=True) + 0.1 * x + i / 16,
    "binary half": lambda x, i: torch.where(i < 4, x.sign(), x),
    "pairs": lambda x, i: torch.where(i == 1, x.roll(4, 3), x),
}


@pytest.mark.parametrize("name", LAWS)
def test_normal_laws_see_what_moves_a_mean_a_covariance_or_a_shape(name):
    x = torch.randn(1500, 1, 8, 8, generator=torch.Generator().manual_seed(6))
    x = LAWS[name](x, torch.arange(8.0))
    labels = torch.arange(1500) % 3
    data = LabelledImages(x[:1000], labels[:1000], ("a", "b", "c"))
    laws = normal_laws(data)
    flips = torch.stack([groups.flips(axis).permutation((8, 8))[1] for axis in "WH"])
    signs = torch.ones(flips.shape)
    before, after = laws.margins(x[1000:], labels[1000:], flips, signs, fixed(2, 3))
    change = (after.sigmoid() - before.sigmoid()).mean(1)
    assert change[0] > 0.5
    assert abs(change[1]) < 0.1


def test_normal_laws_have_a_say_only_where_they_help(bars, monkeypatch):
    """Guesses by chance, however sure, change nothing; right ones do, and break a symmetry."""
    generator = torch.Generator().manual_seed(9)
    turns = groups.rotations(4).permutation((6, 6))[1:]

    def changes(margins):
        def of_moves(laws, images, labels, sources, signs, label_maps):
            return margins(len(sources), len(images))

        monkeypatch.setattr(NormalLaws, "margins", of_moves)
        law = transform("quarter")
        return gather(bars, law, turns, QUICK, 0, decided=settle_at(1)).change

    silent = changes(lambda L, B: (torch.zeros(L, B), torch.zeros(L, B)))
    by_chance = changes(lambda L, B: (torch.randn(2, L, B, generator=generator) * 3).unbind())
    assert torch.equal(by_chance, silent)
    assert abs(silent.mean()) < 0.05
    right = changes(lambda L, B: (torch.full((L, B), -1.0), torch.full((L, B), 1.0)))
    assert (right.mean(1) > 0.3).all()


@pytest.mark.parametrize("label_map", [[0, 1, 2], [1, 2, 0]], ids=["fixed", "moved"])
def test_normal_laws_are_densities_after_a_move(label_map):
    """What g made of x has the likelihood of x under the law of what g makes."""
    generator = torch.Generator().manual_seed(7)
    x = torch.randn(300, 2, 3, 4, generator=generator)
    labels, maps = torch.arange(300) % 3, torch.tensor([label_map] * 3)
    x[:, 0, 0, 0] += labels
    laws = normal_laws(LabelledImages(x, labels, ("a", "b", "c")))
    moves = torch.stack([torch.randperm(24, generator=generator) for _ in range(3)])
    signs = torch.randint(2, (3, 24), generator=generator) * 2.0 - 1
    before, after = laws.margins(x, labels, moves, signs, maps)
    for g, sign, one, other in zip(moves, signs, before, after, strict=True):
        moved = (x.flatten(1)[:, g] * sign).view_as(x)
        again, _ = laws.margins(moved, maps[0][labels], g[None], sign[None], maps[:1])
        torch.testing.assert_close(again[0], other, rtol=1e-4, atol=1e-4)
        back = (x.flatten(1) * sign)[:, g.argsort()].view_as(x)
        from_back = laws.distance(back, maps[0].argsort()[labels])
        torch.testing.assert_close(one, laws.distance(x, labels) - from_back)


def test_large_images_and_classes_that_do_not_vary_have_no_normal_laws():
    labels = torch.arange(40) % 2
    of_class = torch.rand(2, 1, 4, 4)[labels]
    for images in (torch.rand(40, 3, 20, 20), torch.ones(40, 1, 4, 4), of_class):
        assert normal_laws(LabelledImages(images, labels, ("a", "b"))) is None


@pytest.mark.parametrize("channel", [0, 1])
@pytest.mark.parametrize("unit", [1e-5, 1e5])
def test_normal_laws_do_not_depend_on_the_unit_of_a_channel(channel, unit):
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(200, 2, 3, 3, generator=generator)
    x[:, 1, 0] += 0.9 * x[:, 1, 2]
    labels, moves = torch.arange(200) % 2, torch.arange(18).view(2, 9).roll(1, 1).view(1, 18)
    scaled = x.clone()
    scaled[:, channel] *= unit
    one, other = (
        normal_laws(LabelledImages(images, labels, ("a", "b"))).margins(
            images, labels, moves, torch.ones(1, 18), fixed(1, 2)
        )
        for images in (x, scaled)
    )
    torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-3)


def test_one_pixel_of_another_size_blinds_no_normal_law():
    x = torch.randn(200, 1, 3, 3, generator=torch.Generator().manual_seed(0))
    x[:, 0, 0, 0] *= 1e7
    laws = normal_laws(LabelledImages(x, torch.arange(200) % 2, ("a", "b")))
    assert laws.spread.flatten()[1:].max() < 3


def test_too_few_independent_images_are_named_as_the_reason():
    few = evidence([0.0] * 7, clusters=torch.arange(400) // 100)
    scattered = few.chance_loss + torch.tensor([-4.0, 4.0, 0.0, 0.0])[few.clusters]
    (reason,) = decide(dataclasses.replace(few, chance_loss=scattered), D4).power.reasons
    assert "it takes 2.000 of 2.100 nats off the loss, at least -" in reason
    assert "as far as 4 independent images tell" in reason


def test_a_large_cluster_that_was_not_asked_about_leaves_all_undecided():
    """A third of the images are one picture, which the early looks may not see."""
    kept = evidence([0.0] * 7)
    assert decide(kept, D4).group == "D4"
    left_out = dataclasses.replace(kept, unasked=0.3)
    assert decide(left_out, D4).word == "undecided"
    assert not is_settled(left_out, D4)


def test_a_placeholder_in_the_place_of_many_images_is_noticed(bars):
    """What is one picture over and over is one cluster, which is asked about in the end."""
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(400) % 2
    images = torch.rand(400, 1, 6, 6, generator=generator) + labels[:, None, None, None]
    images[torch.rand(400, generator=generator) < 0.3] = 5 * bars.images[0]
    data = LabelledImages(images, labels, ("a", "b"))
    action, seen = D4, []

    def decided(found):
        seen.append(found.unasked)
        return is_settled(found, action)

    moves = action.permutation((6, 6))[1:]
    found = gather(data, transform("none"), moves, QUICK, 1, decided=decided)
    assert not {j.status for j in decide(found, action).judgements} & {"symmetric", "approximate"}
    assert max(seen) > 0.2
    assert found.unasked == 0


@pytest.mark.parametrize("n", [8, 12])
def test_a_handful_of_images_is_no_error(n):
    images = torch.rand(n, 1, 6, 6, generator=torch.Generator().manual_seed(n))
    data = LabelledImages(images, torch.arange(n) % 2, ("a", "b"))
    found = gather(data, transform("none"), D4.permutation((6, 6))[1:], QUICK, seed=0)
    assert decide(found, D4).word == "undecided"


def test_how_often_an_image_occurs_belongs_to_the_law():
    """Images occur upright four times as often as mirrored; each of both is one image."""
    generator = torch.Generator().manual_seed(8)
    labels = torch.arange(250).repeat_interleave(4) % 2
    look = torch.randn(2, 1, 6, 6, generator=generator)
    few = 2 * look[torch.arange(250) % 2] + torch.randn(250, 1, 6, 6, generator=generator)
    images = few.repeat_interleave(4, 0)
    images = torch.cat([images, few.flip(-1)])
    labels = torch.cat([labels, torch.arange(250) % 2])
    data = sample(LabelledImages(images, labels, ("a", "b")), 2000, 0)
    assert len(data) == 1250
    flip = groups.flips("W").permutation((6, 6))[1:]
    optim = OptimConfig(steps=100, evaluations=2, batch_size=32, lr=5e-3, schedule="constant")
    made = gather(data, transform("none"), flip, optim, 0, decided=lambda evidence: True)
    assert made.change.mean() > 0.2
