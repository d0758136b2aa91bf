import dataclasses

import pytest
import torch

from symshare import groups
from symshare.data import LabelledImages, transform
from symshare.discovery.wording import sentence
from symshare.judge import Evidence, gather
from symshare.judge import decide as decide_with
from symshare.judge.evidence import image_change
from symshare.judge.statistics import holm_levels, lower_share, p_above, quantile, upper_share
from symshare.train import loop
from symshare.train.settings import OptimConfig

D4 = groups.dihedral(4)


def decide(evidence, action, residuals=None):
    """The verdict where all moved images look like the data."""
    return decide_with(evidence, action, residuals or [0.7] * (len(action) - 1))


def evidence(
    excess,
    *,
    kept=None,
    loss=0.1,
    random=3.0,
    n=400,
    classes=4,
    noise=0.2,
    change=None,
):
    """Evidence in which element i costs `excess[i]` nats and keeps `kept[i]` of every class."""
    generator = torch.Generator().manual_seed(1)
    labels = torch.arange(n) % classes
    base = torch.full((n,), loss)

    def spread(mean):
        values = noise * torch.randn(n, generator=generator)
        return base + values - values.mean() + mean

    kept = kept or [1.0 if e < 0.1 else 0.0 for e in excess]
    order = torch.arange(n) // classes
    wrong = (labels + 1 + order % (classes - 1)) % classes
    return Evidence(
        labels=labels,
        loss=base,
        prediction=labels.clone(),
        moved_loss=torch.stack([spread(e) for e in excess]),
        moved_prediction=torch.stack(
            [torch.where(order < k * n / classes, labels, wrong) for k in kept]
        ),
        random_loss=torch.stack([spread(random) for _ in range(3)]),
        chance_loss=torch.full((n,), 2.1),
        image_change=torch.tensor(change or [0.04] * len(excess)),
        classes=classes,
    )


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
def test_what_the_network_tolerates_is_no_symmetry_where_the_images_change(cost):
    costs = [cost if name == "flipW" else 2.0 for name in D4.names[1:]]
    residuals = [4.0 if name == "flipW" else 0.7 for name in D4.names[1:]]
    change = [0.3 if name == "flipW" else 0.04 for name in D4.names[1:]]
    verdict = decide(evidence(costs, change=change), D4, residuals)
    assert (verdict.word, verdict.group, verdict.found) == ("none", None, ())
    assert {j.name for j in verdict.judgements if j.status == "tolerated"} == {"flipW"}


@pytest.mark.parametrize(
    ("change", "residual"), [(0.3, 0.9), (0.05, 9.0), (0.05, None)], ids=["chance", "small", "?"]
)
def test_a_change_by_chance_or_a_small_one_does_not_matter(change, residual):
    found = evidence(excesses(D4, {"flipW"}), change=[change] * 7)
    assert decide(found, D4, [residual] * 7).group == "C2"


def test_image_change_is_one_for_scrambling_and_zero_for_symmetry():
    generator = torch.Generator().manual_seed(0)
    images = torch.rand(50, 2, 4, 4, generator=generator)
    images = torch.cat([images, images.flip(-1)])
    images[..., 0, :] += 2
    random = torch.stack([torch.randperm(16, generator=generator) for _ in range(3)])
    change = image_change(images, torch.cat([D4.permutation((4, 4)), random]), random)
    assert change[D4.names.index("flipW")] < 1e-5
    assert change[D4.names.index("flipH")] > 0.5
    assert change[-3:].mean().item() == pytest.approx(1.0)


@pytest.mark.parametrize("unit", [1e-9, 1e-3, 1e9])
def test_image_change_does_not_depend_on_the_unit(unit):
    images = torch.rand(60, 1, 4, 4, generator=torch.Generator().manual_seed(0))
    images[..., 0, :] += 2
    random = torch.stack([torch.arange(16).roll(s) for s in (3, 5, 6)])
    changes = []
    for scaled in (images, unit * images):
        torch.manual_seed(0)
        changes.append(image_change(scaled, D4.permutation((4, 4)), random))
    torch.testing.assert_close(*changes, rtol=1e-3, atol=1e-3)


def test_black_images_do_not_change():
    swap = torch.tensor([[1, 0, 3, 2]])
    assert image_change(torch.zeros(5, 1, 2, 2), swap, swap).tolist() == [0.0]


def test_image_change_reads_images_of_all_classes(monkeypatch):
    # Symmetric images first, as in a file that is in the order of classes.
    monkeypatch.setattr("symshare.judge.evidence._MOMENT_IMAGES", 200)
    images = torch.rand(400, 1, 4, 4, generator=torch.Generator().manual_seed(0))
    images[:200] = images[:200].mean()
    images[200:, ..., 0, :] += 2
    random = torch.stack([torch.arange(16).roll(s) for s in (3, 5, 6)])
    change = image_change(images, D4.permutation((4, 4)), random)
    assert change[D4.names.index("flipH")] > 0.5


def test_approximate_between_the_two_bounds():
    costs = [0.2 if name == "flipW" else 2.0 for name in D4.names[1:]]
    verdict = decide(evidence(costs), D4)
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
    "true", [{"rot90", "rot270"}, {"flipW", "flipH"}], ids=["no-products", "tie"]
)
def test_undecided_where_the_passing_make_no_single_group(true):
    verdict = decide(evidence(excesses(D4, true)), D4)
    assert (verdict.word, verdict.group, verdict.found) == ("undecided", None, ())
    assert "no single group" in sentence(verdict)


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
    ],
    ids=["at-chance", "below-chance", "blind"],
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


def test_what_the_printed_interval_decides_is_decided():
    generator = torch.Generator().manual_seed(0)
    for _ in range(50):
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


def test_the_level_holds_over_all_candidates():
    """Seven elements exactly at delta: at most 5 % of studies may call any of them symmetric."""
    generator = torch.Generator().manual_seed(0)
    base = evidence([0.0] * 7)
    delta = decide(base, D4).delta
    false = 0
    for _ in range(400):
        noise = 4 * torch.randn(7, 400, generator=generator)
        trial = dataclasses.replace(base, moved_loss=base.loss + delta + noise)
        false += any(j.status == "symmetric" for j in decide(trial, D4).judgements)
    assert 1 <= false <= 34


def test_holm_by_hand():
    assert holm_levels([0.01, 0.04, 0.03], 0.05) == pytest.approx([0.05 / 3, 0.025, 0.025])
    assert holm_levels([], 0.05) == []


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
    assert p_above(1.0, 0.0, 0.5) == 0.0
    assert p_above(0.5, 0.0, 0.5) == 1.0


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


QUICK = OptimConfig(steps=60, evaluations=1, lr=5e-3)


def test_every_image_is_questioned_once_by_a_network_that_never_saw_it(bars, monkeypatch):
    def rows(images):
        return {row.numpy().tobytes() for row in images.flatten(1)}

    known, asked = [], []
    learn, answer = loop.train, loop.Trained.logits

    def watch(network, data, *rest, **options):
        known.append(rows(data.images))
        return learn(network, data, *rest, **options)

    def listen(self, images):
        asked.append((len(known), rows(images)))
        return answer(self, images)

    monkeypatch.setattr("symshare.judge.evidence.train", watch)
    monkeypatch.setattr(loop.Trained, "logits", listen)
    found = gather(bars, transform("none"), D4.permutation((6, 6))[1:], QUICK, seed=0)
    assert found.loss.shape == (160,)
    assert torch.equal(found.labels.bincount(), bars.labels.bincount())
    assert found.moved_loss.shape == (7, 160)
    assert (found.prediction == found.labels).float().mean() > 0.9
    assert 1.3 < found.chance_loss.mean() < 1.5
    first, second = (next(images for fold, images in asked if fold == n) for n in (1, 2))
    assert not first & known[0]
    assert not second & known[1]
    assert first | second == rows(bars.images)


def test_the_same_seed_gives_the_same_evidence_and_leaves_the_callers_generator_alone(bars):
    permutations = D4.permutation((6, 6))[1:2]
    state = torch.random.get_rng_state()
    first = gather(bars, transform("quarter"), permutations, QUICK, seed=3)
    assert torch.equal(torch.random.get_rng_state(), state)
    second = gather(bars, transform("quarter"), permutations, QUICK, seed=3)
    for name, tensor in first.tensors().items():
        assert torch.equal(tensor, second.tensors()[name]), name


def test_a_fold_that_is_judged_is_not_judged_again(bars, tmp_path):
    permutations, seen = D4.permutation((6, 6))[1:], []

    def gathered(progress, out=tmp_path / "judge"):
        law = transform("quarter")
        return gather(bars, law, permutations, QUICK, 1, out=out, progress=progress)

    def stop(done, steps):
        if done == 90:
            raise KeyboardInterrupt

    whole = gathered(loop.unseen, out=None)
    with pytest.raises(KeyboardInterrupt):
        gathered(stop)
    resumed = gathered(lambda *steps: seen.append(steps))
    assert seen == [(step, 120) for step in range(61, 121)]
    for name, tensor in whole.tensors().items():
        assert torch.equal(tensor, resumed.tensors()[name]), name


def test_labels_without_meaning_give_no_verdict(bars):
    generator = torch.Generator().manual_seed(0)
    shuffled = bars.labels[torch.randperm(160, generator=generator)]
    data = LabelledImages(bars.images, shuffled, bars.classes)
    found = gather(data, transform("none"), D4.permutation((6, 6))[1:], QUICK, seed=0)
    assert decide(found, D4).word == "undecided"
