"""Stacks from second moments: the test of commutation, the search, and networks layer by layer."""

from functools import partial

import numpy as np
import pytest
import torch
from scipy import stats
from torch import nn
from torch.nn.functional import one_hot

import symshare
from experiments.studies.commutants import regular
from fresh_python import fresh_python
from symshare import Fixed, Gated, GroupPool, Kronecker, LiftConv2d, Sinkhorn, groups, learn_stacks
from symshare.groups import CAP, generated
from symshare.moments import (
    Moments,
    alignment,
    commutant,
    learned_network,
    network,
    of_samples,
    open_gates,
    readings,
)
from symshare.moments.alignment import POWER
from symshare.moments.readings import Readings
from symshare.moments.statistics import BLOCKS, commutation


@pytest.fixture(autouse=True)
def short(monkeypatch):
    """Half as many steps, which are enough for small kernels."""
    monkeypatch.setattr(network, "commutant", partial(commutant, steps=100))


def mixed(count, actions, seed=0):
    """Correlated numbers, each row moved by a random one of some permutations."""
    generator = torch.Generator().manual_seed(seed)
    actions = torch.as_tensor(actions)
    D = actions.shape[1]
    x = torch.randn(count, D, generator=generator) @ torch.rand(D, D, generator=generator)
    return x.gather(1, actions[torch.randint(len(actions), (count,), generator=generator)])


def scrambled(permutations, seed=0):
    """The same permutations of positions in another order."""
    order = torch.randperm(permutations.shape[1], generator=torch.Generator().manual_seed(seed))
    return order.argsort()[permutations[:, order]]


def generate(*permutations):
    """All products of permutations."""
    identity = tuple(range(len(permutations[0])))
    found = generated({identity, *permutations}, lambda g, h: tuple(h[i] for i in g))
    return torch.tensor(sorted(found))


HIDDEN = {
    "flip": groups.flips("W").permutation((3, 4)),
    "turns": groups.rotations(4).permutation((3, 3)),
    "flips": groups.dihedral(2).permutation((4, 3)),
    "square": groups.dihedral(4).permutation((3, 3)),
    "two rings": generate((1, 2, 3, 4, 0, 6, 7, 8, 9, 5), (0, 4, 3, 2, 1, 5, 9, 8, 7, 6)),
    "three alike": generate((1, 0, 2, 3, 4, 5), (0, 2, 1, 3, 4, 5)),
}


def rows(permutations):
    return sorted(map(tuple, permutations.tolist()))


@pytest.mark.parametrize("name", HIDDEN)
def test_the_group_is_found_whatever_the_order_of_positions(name):
    hidden = scrambled(HIDDEN[name], seed=len(name))
    found = commutant(of_samples(mixed(40_000, hidden)), steps=100)
    assert rows(found.sources) == rows(hidden)
    assert found.sources[0].tolist() == list(range(hidden.shape[1]))
    assert (found.ratios[0], found.p_values[0], found.capped) == (0, 1, False)
    assert 0.2 < found.ratios[1:].mean() < 3


@pytest.mark.parametrize("seed", range(8))
def test_nothing_is_found_where_nothing_commutes(seed):
    found = commutant(of_samples(mixed(20_000, [list(range(8))], seed)), seed=seed, steps=100)
    assert len(found.sources) == 1
    assert found.nearest < 1e-3


@pytest.mark.parametrize("seed", range(3))
def test_of_countless_elements_as_many_are_kept_as_the_cap_allows(seed):
    """Independent pixels of one law, 25 and 5 of another: 5! 25! permutations commute."""
    x = torch.randn(4000, 30, generator=torch.Generator().manual_seed(seed))
    x[:, :5] *= 3
    found = commutant(of_samples(x), seed=seed, steps=20)
    assert found.capped
    assert len(found.sources) == CAP
    assert (found.sources[:, :5] < 5).all()


def test_elements_that_were_named_are_kept_among_countless_others():
    """Noise that a bright spot interrupts anywhere: its patches commute with all permutations."""
    generator = torch.Generator().manual_seed(0)
    images = torch.randn(1500, 1, 8, 8, generator=generator)
    images += (torch.rand(1500, 1, 8, 8, generator=generator) < 0.05) * 3
    layer = LiftConv2d(1, 4, 3, Sinkhorn(4, 9))
    (record,) = learn_stacks(layer, images, within=groups.rotations(4))
    assert (record.elements, record.rounds) == (4, 0)
    turns = groups.rotations(4).permutation((3, 3))
    assert rows(layer.stack().argmax(-1)) == rows(turns)


@pytest.mark.parametrize("seed", range(4))
def test_too_few_samples_show_no_symmetry_rather_than_a_false_one(seed):
    """Among all permutations of 16 positions some look true where random ones hardly look false."""
    found = commutant(of_samples(mixed(2000, groups.cyclic_shifts(16).table, seed)), seed=seed)
    assert found.power < POWER
    assert len(found.sources) == 1


REGULAR = {
    "36 turns of two rings": (regular(groups.cyclic_shifts(36), 2), 30_000),
    "rotations of a cube, 4 orbits": (regular(groups.cube(), 4), 40_000),
    "dihedral group of 48, 4 orbits": (regular(groups.ring_dihedral(24), 4), 100_000),
    "48 turns of four rings": (regular(groups.cyclic_shifts(48), 4), 100_000),
}


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.slow] if actions.shape[1] > 72 else [])
        for name, (actions, _) in REGULAR.items()
    ],
)
def test_hidden_groups_of_many_elements_on_many_positions_are_found(name):
    actions, count = REGULAR[name]
    hidden = scrambled(actions)
    G, D = hidden.shape
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(count, D, generator=generator) @ torch.randn(D, D, generator=generator)
    x = x.gather(1, hidden[torch.randint(G, (count,), generator=generator)])
    assert rows(commutant(of_samples(x)).sources) == rows(hidden)


def test_samples_of_any_floating_type_and_layout_and_of_several_channels_are_read():
    x = mixed(4000, HIDDEN["turns"])
    same = [x, x.double().t().contiguous().t(), torch.stack([x, -2 * x], 1)]
    found = [commutant(of_samples(samples), steps=60) for samples in same]
    assert set(rows(found[0].sources)) >= set(rows(HIDDEN["turns"]))
    assert all(rows(one.sources) == rows(found[0].sources) for one in found)
    assert of_samples(same[-1]).blocks.shape[1:] == (2, 9, 9)
    torch.testing.assert_close(
        found[0].ratios, found[1].ratios, check_dtype=False, rtol=1e-3, atol=0
    )


def reached(known):
    """Pairs (p, q) such that one of the elements moves q to p."""
    return {pair for row in known.tolist() for pair in enumerate(row)}


def test_every_element_that_is_missing_is_asked_for_and_nothing_twice():
    known = HIDDEN["turns"]
    questions = alignment.Questions(torch.rand(2, 9, 9))
    asked = []
    while wanted := questions.next(known, 4):
        assert len({p for ((p, _),) in wanted}) == len(wanted) <= 4
        asked += [pair for (pair,) in wanted]
    assert not reached(known) & set(asked)
    assert len({frozenset(pair) for pair in asked}) == len(asked)
    either = {pair for p, q in asked for pair in ((p, q), (q, p))}
    assert either | reached(known) == {(p, q) for p in range(9) for q in range(9)}


def test_then_elements_are_asked_for_that_fix_what_the_known_ones_move():
    known = HIDDEN["turns"]
    questions = alignment.Questions(torch.rand(2, 9, 9))
    assert questions.deeper(known)
    (corner,) = questions.fixed
    asked = []
    while wanted := questions.next(known, 4):
        assert all(fixed == (corner, corner) for fixed, _ in wanted)
        asked += [pair for _, pair in wanted]
    within = {frozenset(pair) for pair in reached(known) if len({corner, *pair}) == 3}
    assert {frozenset(pair) for pair in asked} == within
    assert not questions.deeper(known)  # no turn fixes a corner


def test_what_was_asked_for_is_held_all_the_way():
    asked = []

    def watch(step, R):
        if step == 0:
            asked.append([divmod(int(r.argmax()), 9) for r in R])
        assert all(r[pair] > 0.999 for r, pair in zip(R, asked[-1], strict=True))

    commutant(of_samples(mixed(4000, HIDDEN["turns"])), steps=60, watch=watch)
    assert asked


@pytest.mark.parametrize("directions", [4, 128])
def test_readings_take_off_what_noise_adds(directions, monkeypatch):
    """Else a mixture, over which noise averages out, costs less than each true element."""
    monkeypatch.setattr(readings, "DIRECTIONS", directions)
    monkeypatch.setattr(torch.Tensor, "relu", lambda x: x)
    turns = regular(groups.rotations(4), 3)
    moments = of_samples(mixed(1000, turns), torch.arange(1000) % 3)
    read = Readings(moments, torch.Generator().manual_seed(0))
    random = torch.rand(4, 12, generator=read.generator).argsort(-1)
    R = one_hot(torch.cat([turns[1:], random]), 12).float()
    steps = torch.stack([read.energies(R) for _ in range(600)])
    error = steps.std(0) / 600**0.5
    plain = commutation(R, read.mean)
    noise = plain - steps.mean(0)
    assert (noise > 5 * error).all()
    of_blocks = (moments.blocks - moments.blocks.mean(0)) * read.units[:, None, None]
    expected = torch.stack([commutation(R, block) for block in of_blocks]).sum(0) / (16 * 15)
    assert ((noise - expected).abs() < 5 * error).all()


def test_p_values_of_a_symmetry_are_uniform():
    turns = HIDDEN["turns"]
    p = [of_samples(mixed(400, turns, seed)).test(turns[1:2])[1].item() for seed in range(300)]
    assert stats.kstest(p, "uniform").pvalue > 1e-3


def test_ratios_of_a_symmetry_are_one_on_average_and_others_grow_with_the_samples():
    turns, mirror = HIDDEN["turns"], groups.flips("W").permutation((3, 3))[1:]
    ratios = [of_samples(mixed(640, turns, seed)).test(turns[1:])[0].mean() for seed in range(60)]
    assert np.mean(ratios) == pytest.approx(1, abs=0.15)
    few, many = (of_samples(mixed(n, turns)).test(mirror)[0].item() for n in (4000, 40_000))
    assert many > 4 * few > 8


def test_a_class_may_have_what_others_lack():
    """Two classes, turned to the left and to the right: together half a turn and no more."""
    identity, left, half, right = HIDDEN["turns"].tolist()
    x = torch.cat([mixed(20_000, [identity, left]), mixed(20_000, [half, right])])
    labels = torch.arange(40_000) // 20_000
    assert len(commutant(of_samples(x), steps=100).sources) == 4
    assert len(commutant(of_samples(x, labels), steps=100).sources) == 1


def test_the_energy_is_that_of_its_definition_and_convex():
    generator = torch.Generator().manual_seed(0)
    S = torch.rand(3, 5, 5, generator=generator, dtype=torch.float64)
    R = torch.rand(2, 5, 5, generator=generator, dtype=torch.float64).requires_grad_()
    by_hand = [sum(((r @ s - s @ r) ** 2).sum() for s in S) / (2 * 3 * 25) for r in R]
    torch.testing.assert_close(commutation(R, S), torch.stack(by_hand))
    middle = commutation(R.mean(0, keepdim=True), S)
    assert middle <= commutation(R, S).mean()
    assert torch.autograd.gradcheck(lambda R: commutation(R, S), R)


def test_what_never_varies_says_nothing():
    x = mixed(2000, HIDDEN["turns"])
    blocks = torch.cat([of_samples(x).blocks, torch.ones(BLOCKS, 1, 9, 9)], dim=1)
    with_constant = Moments(blocks)
    ratios, p = with_constant.test(HIDDEN["turns"])
    expected = of_samples(x).test(HIDDEN["turns"])
    torch.testing.assert_close(ratios, expected[0])
    torch.testing.assert_close(p, expected[1])
    assert torch.isfinite(with_constant.units).all()


def walks(*shape, seed=0):
    """Random walks along every axis of space, of steps that grow differently along each."""
    x = torch.randn(shape, generator=torch.Generator().manual_seed(seed))
    for axis in range(2, len(shape)):
        steps = torch.linspace(1, 2 * axis - 2, shape[axis])
        x = (x * steps.view(-1, *[1] * (len(shape) - axis - 1))).cumsum(axis)
    x = x - x.mean()
    return x / x.std() * torch.linspace(0.5, 1.5, shape[1]).view(-1, *[1] * (len(shape) - 2))


def build(dims, slots, channels=1, **options):
    lift = getattr(symshare, f"LiftConv{dims}d")
    conv = getattr(symshare, f"GroupConv{dims}d")
    P = 3**dims
    return nn.Sequential(
        lift(channels, 4, 3, Sinkhorn(slots, P), **options),
        nn.ReLU(),
        conv(4, 4, 3, Sinkhorn(slots, slots * P), **options),
        GroupPool(),
    )


def invariance_error(model, x, moved):
    with torch.no_grad():
        a, b = (model(images).flatten(2).mean(2) for images in (x, moved))
    return ((a - b).norm() / a.norm()).item()


CASES = {
    "signals": (1, (1200, 1, 16), [(-1,)], {}),
    "colours": (2, (1200, 3, 9, 9), [(-2,)], {}),
    "both mirrors": (2, (4800, 1, 9, 9), [(-1,), (-2,), (-2, -1)], {}),
    "strides and padding": (2, (1200, 2, 9, 9), [(-1,)], {"stride": 2, "padding": 1}),
    "dilated": (2, (1200, 1, 12, 12), [(-1,)], {"dilation": 2}),
    "volumes": (3, (600, 1, 6, 6, 6), [(-1,)], {}),
}


@pytest.mark.parametrize("name", CASES)
def test_a_network_learns_the_mirrors_of_its_images(name):
    dims, shape, mirrors, options = CASES[name]
    x = walks(*shape)
    for part, mirror in zip(x.chunk(1 + len(mirrors))[1:], mirrors, strict=True):
        part.copy_(part.flip(mirror))
    torch.manual_seed(0)
    model = build(dims, 1 + len(mirrors), shape[1], **options)
    records = learn_stacks(model, x, mass=1 - 1e-6)
    assert [record.elements for record in records] == [1 + len(mirrors)] * 2
    assert all(min(record.p_values) > 1e-3 for record in records)
    for mirror in mirrors:
        assert invariance_error(model, x[:50], x[:50].flip(mirror)) < 1e-3


def test_second_moments_are_even():
    """Stationary images without any symmetry, on a torus: half a turn passes all the same."""
    noise = torch.randn(2400, 1, 8, 8, generator=torch.Generator().manual_seed(2))
    shifts = [(0, 0), (0, 1), (1, 1), (2, 1)]
    x = sum(weight * noise.roll(shift, (2, 3)) for weight, shift in enumerate(shifts, 1))
    torch.manual_seed(0)
    model = build(2, 2, padding=1, padding_mode="circular")
    learn_stacks(model, x / x.std())
    assert model[0].representation()[1].argmax(-1).tolist() == list(reversed(range(9)))


def test_spare_slots_keep_the_group():
    x = walks(1200, 1, 9, 9)
    x[600:] = x[600:].flip(-1)
    torch.manual_seed(0)
    model = build(2, 6)
    records = learn_stacks(model, x, mass=1 - 1e-6)
    assert [(record.elements, record.slots) for record in records] == [(2, 6)] * 2
    assert invariance_error(model, x[:50], x[:50].flip(-1)) < 1e-3
    stack = model[0].representation().argmax(-1)
    assert len({tuple(row) for row in stack.tolist()}) == 6


def test_where_nothing_is_found_slots_are_random():
    torch.manual_seed(0)
    model = build(2, 3)
    records = learn_stacks(model, walks(1200, 1, 9, 9))
    assert [record.elements for record in records] == [1, 1]
    assert (model[0].representation()[0] == torch.eye(9)).all()


@pytest.mark.parametrize("mirrors", [1, 2])
def test_a_network_gets_as_many_elements_as_its_images_have(mirrors):
    x = walks(1200, 1, 9, 9)
    if mirrors == 2:
        x[600:] = x[600:].flip(-1)
    sizes = []

    def build_and_count(slots):
        sizes.append(slots)
        torch.manual_seed(0)
        return build(2, slots)

    model, records = learned_network(build_and_count, x, slots=3, mass=1 - 1e-6)
    assert sizes == [3, mirrors]
    assert [m.representation.group_size for m in (model[0], model[2])] == [mirrors] * 2
    assert [record.slots for record in records] == [mirrors] * 2
    assert records[0].elements == mirrors
    if mirrors == 2:
        assert records[1].elements == 2
        assert invariance_error(model, x[:50], x[:50].flip(-1)) < 1e-3
    else:
        assert "one element" in records[1].note


def test_with_as_many_elements_as_slots_a_network_is_built_once_and_as_by_learn_stacks(monkeypatch):
    monkeypatch.setattr(network, "commutant", partial(commutant, steps=30))
    x = walks(600, 1, 9, 9)
    x[300:] = x[300:].flip(-1)
    torch.manual_seed(0)
    models = [symshare.LiftConv2d(1, 2, 3, Sinkhorn(2, 9)) for _ in range(2)]
    models[1].load_state_dict(models[0].state_dict())
    first = learn_stacks(models[0], x)
    same, second = learned_network(lambda slots: models.pop(), x, slots=2)
    assert len(models) == 1
    assert [layer.p_values for layer in first] == [layer.p_values for layer in second]
    assert all(torch.equal(v, same.state_dict()[k]) for k, v in models[0].state_dict().items())


@pytest.mark.parametrize(
    ("model", "why"),
    [
        (lambda: nn.Conv2d(1, 2, 3), "the images reach no layer of symshare"),
        (lambda: symshare.LiftConv2d(1, 2, 3, Fixed(groups.flips("W"))), "Fixed, no free stack"),
    ],
    ids=["plain", "fixed"],
)
def test_a_network_whose_first_layer_cannot_learn_is_refused(model, why):
    with pytest.raises(ValueError, match=f"the first convolution cannot be learned: .*{why}"):
        learned_network(lambda slots: model(), IMAGES, slots=2)


def test_every_module_keeps_its_mode_and_what_it_has_counted():
    """Also a batch norm that is frozen, and one that would count the images that it is shown."""
    torch.manual_seed(0)
    models = []

    def with_norms(slots):
        norms = symshare.GroupBatchNorm(4), symshare.GroupBatchNorm(4).eval()
        lift = symshare.LiftConv2d(1, 4, 3, Sinkhorn(slots, 9))
        hidden = symshare.GroupConv2d(4, 4, 3, Sinkhorn(slots, 9 * slots))
        models.append(nn.Sequential(lift, norms[0], hidden, norms[1]))
        return models[-1]

    learned_network(with_norms, walks(600, 1, 9, 9), slots=2)
    for model in models:
        assert [module.training for module in model] == [True, True, True, False]
        assert [model[i].norm.num_batches_tracked.item() for i in (1, 3)] == [0, 0]


def test_more_elements_than_slots_are_a_question_to_the_user():
    x = walks(4800, 1, 9, 9)
    for part, mirror in zip(x.chunk(4)[1:], [(-1,), (-2,), (-2, -1)], strict=True):
        part.copy_(part.flip(mirror))
    torch.manual_seed(0)
    model = build(2, 2)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    with pytest.raises(ValueError, match=r"what 0 sees has 4 elements.* 2 slots.*pass within="):
        learn_stacks(model, x)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    records = learn_stacks(model, x, within=groups.flips("H"), mass=1 - 1e-6)
    assert [record.elements for record in records] == [2, 2]
    assert invariance_error(model, x[:50], x[:50].flip(-2)) < 1e-3


@pytest.mark.parametrize(
    ("representation", "said"),
    [
        (Sinkhorn(2, 9), "no Gated representation"),
        (Gated(groups.rotations(8)), "no permutations"),
    ],
)
def test_gates_that_cannot_be_opened_are_refused(representation, said):
    images = torch.rand(64, 1, 8, 8)
    before = {name: value.clone() for name, value in representation.state_dict().items()}
    with pytest.raises(ValueError, match=said):
        open_gates(LiftConv2d(1, 4, 3, representation), images)
    after = representation.state_dict()
    assert all(torch.equal(value, after[name]) for name, value in before.items())


def test_images_that_are_no_tensor_are_refused(unchecked):
    layer = LiftConv2d(1, 4, 3, Sinkhorn(2, 9))
    with pytest.raises(TypeError, match="a tensor .* got ndarray; use torch.as_tensor"):
        learn_stacks(layer, np.zeros((64, 1, 8, 8)))


def test_labels_of_another_length_are_refused(tmp_path):
    script = (
        "import torch\n"
        "from symshare import LiftConv2d, Sinkhorn, learn_stacks\n"
        "layer, labels = LiftConv2d(1, 2, 3, Sinkhorn(2, 9)), torch.zeros(3, dtype=torch.int64)\n"
        "try:\n"
        "    learn_stacks(layer, torch.rand(64, 1, 8, 8), labels)\n"
        "except ValueError as error:\n"
        "    print(error)\n"
    )
    said = fresh_python(tmp_path, "-c", script)
    assert "expected a label for each image, got 3 labels for 64 images" in said


def test_the_same_seed_learns_the_same_and_leaves_the_callers_generator_alone(monkeypatch):
    monkeypatch.setattr(network, "commutant", partial(commutant, steps=20))
    x = walks(600, 1, 8, 8)
    states = []
    for _ in range(2):
        torch.manual_seed(1)
        model = build(2, 2).train()
        state = torch.get_rng_state()
        learn_stacks(model, x, seed=3)
        assert torch.equal(torch.get_rng_state(), state)
        assert model.training
        states.append(model.state_dict())
    assert all(torch.equal(value, states[1][name]) for name, value in states[0].items())


def test_other_layers_are_named_and_left():
    torch.manual_seed(0)
    known = Kronecker.from_action(groups.flips("W"), 3)
    stack = Sinkhorn(2, 18)
    model = nn.Sequential(
        symshare.LiftConv2d(1, 2, 3, Fixed(groups.flips("W"))),
        symshare.GroupConv2d(2, 2, 3, stack),
        symshare.GroupConv2d(2, 2, 3, stack),
        symshare.GroupConvTranspose2d(2, 2, 3, Sinkhorn(2, 18)),
        symshare.GroupConv2d(2, 2, 3, known),
    )
    x = walks(800, 1, 12, 12)
    x[400:] = x[400:].flip(-1)
    records = learn_stacks(model, x)
    assert [record.name for record in records] == ["0", "1", "2", "3", "4"]
    assert [record.elements for record in records] == [0, 2, 0, 0, 0]
    notes = [record.note for record in records]
    assert "Fixed, no free stack" in notes[0]
    assert "learned in a layer before" in notes[2]
    assert "transposed" in notes[3]
    assert "Kronecker, no free stack" in notes[4]


def test_an_interrupt_leaves_the_model_as_it_was(monkeypatch):
    calls = []

    def once(moments, **options):
        calls.append(moments)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return commutant(moments, steps=20, **options)

    monkeypatch.setattr(network, "commutant", once)
    torch.manual_seed(0)
    model = build(2, 2)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    with pytest.raises(KeyboardInterrupt):
        learn_stacks(model, walks(400, 1, 8, 8))
    assert len(calls) == 2
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


IMAGES = walks(64, 1, 8, 8)


@pytest.mark.parametrize(
    ("model", "images", "options", "said"),
    [
        (lambda: build(2, 2), IMAGES[:20], {}, "20 samples are too few.*at least 32"),
        (lambda: build(2, 2), IMAGES, {"mass": 1.0}, "mass must be above 0 and below 1, got 1.0"),
        (lambda: build(2, 2), IMAGES * torch.nan, {}, "NaN or infinite pixels"),
        (lambda: nn.Conv2d(1, 2, 3), IMAGES, {}, "no convolution with a Sinkhorn stack"),
        (lambda: build(2, 2), walks(64, 1, 2, 2), {}, r"does not fit into \(2, 2\) pixels"),
    ],
    ids=["few", "mass", "nan", "model", "small"],
)  # fmt: skip
def test_bad_input_is_refused_by_name(model, images, options, said):
    with pytest.raises(ValueError, match=said):
        learn_stacks(model(), images, **options)
