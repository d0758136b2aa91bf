"""Families keep to their laws, and the sizes that are called safe are those that are derived."""

import math
from dataclasses import replace

import pytest
import torch

from experiments.studies.ranges import CASES
from symshare.data import rotate, transform
from symshare.discovery.judging import witness_optim
from symshare.names import RANGES, check_ranges
from symshare.ranges import Family, examine, families_of
from symshare.ranges.curves import REFINEMENTS, _examined, questions_of
from symshare.records import ExaminedSize, Range, Ranges

SHAPES = {1: (2, 40), 2: (1, 20, 24), 3: (1, 10, 12, 14)}


def families(d):
    return families_of(samples(d))


def samples(d):
    """Smooth samples in [0, 1] that are dark at the rim."""
    generator = torch.Generator().manual_seed(0)
    grids = torch.meshgrid(*[torch.linspace(-1, 1, n) for n in SHAPES[d][1:]], indexing="ij")
    images = torch.zeros(3, *SHAPES[d])
    for _ in range(8):
        middle = torch.rand(3, d, generator=generator) - 0.5
        far = sum((g - middle[:, i].view(-1, *[1] * d)) ** 2 for i, g in enumerate(grids))
        images += torch.exp(-far / 0.06)[:, None]
    return images / images.max()


NAMES = [(d, name) for d, names in RANGES.items() for name in names]


def drawn():
    return torch.Generator().manual_seed(0)


def act(family, x, size):
    return family.act(x, torch.full((len(x),), size), drawn())


@pytest.mark.parametrize(("d", "name"), NAMES)
def test_size_zero_moves_nothing(d, name):
    x, family = samples(d), families(d)[name]
    torch.testing.assert_close(act(family, x, 0.0), x, atol=1e-5, rtol=0)
    zero = torch.zeros(len(x))
    torch.testing.assert_close(family.moved(x, zero, drawn()), x, atol=1e-5, rtol=0)
    torch.testing.assert_close(family.baseline(x, zero, drawn()), x, atol=1e-5, rtol=0)


@pytest.mark.parametrize(("d", "name"), NAMES)
def test_each_image_gets_a_move_of_its_own_size(d, name):
    x, family = samples(d), families(d)[name]
    if name == "noise":
        pytest.skip("noise is drawn for a whole batch")
    sizes = torch.tensor([0.0, family.sizes()[0], family.sizes()[-1]])
    moved = family.act(x, sizes, drawn())
    for i in range(3):
        torch.testing.assert_close(moved[i : i + 1], act(family, x[i : i + 1], float(sizes[i])))
    assert not torch.allclose(moved[1:], x[1:], atol=1e-3)


GROUPS = [(d, n) for d, n in NAMES if n in ("gain", "offset", "warp") or n.startswith("shift")]


@pytest.mark.parametrize(("d", "name"), GROUPS)
def test_sizes_add_up(d, name):
    """One move after another is the move of both sizes together."""
    x, family = samples(d), families(d)[name]
    one, two = (2.0, 3.0) if family.whole else (0.1, 0.2)
    together = act(family, act(family, x, one), two)
    torch.testing.assert_close(together, act(family, x, one + two), atol=0.02, rtol=0)
    back = act(family, act(family, x, one), -one)
    inside = (..., *[slice(3, -3)] * d)
    torch.testing.assert_close(back[inside], x[inside], atol=0.02, rtol=0)


def test_turns_are_those_of_the_data():
    x = samples(2)
    turned = act(families(2)["turn"], x, 30.0)
    inside = (..., slice(6, -6), slice(6, -6))
    torch.testing.assert_close(turned[inside], rotate(x, 30.0)[inside], atol=0.05, rtol=0)


@pytest.mark.parametrize(
    ("name", "axes"), [("turnx", (3, 4)), ("turny", (2, 4)), ("turnz", (2, 3))]
)
def test_quarter_turns_of_volumes(name, axes):
    x = torch.rand(2, 1, 8, 8, 8, generator=drawn())
    turned = act(families_of(x)[name], x, 90.0)
    torch.testing.assert_close(turned, torch.rot90(x, 1, axes), atol=1e-4, rtol=0)


def test_a_shift_moves_what_stands_in_the_middle():
    x = torch.zeros(1, 1, 9, 9)
    x[0, 0, 4, 4] = 1
    known = families_of(x - 1)
    assert act(known["shiftW"], x, 2.0)[0, 0, 4, 6] == 1
    assert act(known["shiftH"], x, 2.0)[0, 0, 6, 4] == 1
    assert act(known["shiftH"], x + 1, 2.0).min() == 1, "the edge repeats"


def test_upright_lines_lean_to_the_right():
    x = torch.zeros(1, 1, 17, 17)
    x[..., 8] = 1
    leaning = act(families_of(x - 1)["shear"], x, 0.5)[0, 0]
    assert leaning[0].argmax() == 12
    assert leaning[16].argmax() == 4


def test_a_larger_scale_magnifies():
    x = torch.zeros(1, 1, 17, 17)
    x[..., 6:11, 6:11] = 1
    doubled = act(families_of(x - 1)["scale"], x, 1.0)
    assert doubled.sum() == pytest.approx(4 * 25, rel=0.02)


def test_pictures_stay_between_zero_and_one_and_other_values_do_not():
    x = torch.rand(4, 1, 8, 8, generator=drawn())
    for values, inside in ((x, True), (3 * x - 1, False)):
        known = families_of(values)
        for name in ("brightness", "contrast", "noise"):
            moved = act(known[name], values, 2.0)
            assert bool((moved >= 0).all() and (moved <= 1).all()) == inside


@pytest.mark.parametrize("name", ["shiftW", "scale"])
def test_the_baseline_loses_at_the_border_what_the_move_loses(name):
    """Whatever happens to pixels that the move throws out, the baseline does not know of it."""
    generator = torch.Generator().manual_seed(0)
    x, family = (
        torch.randn(4, 1, 24, 24, generator=generator),
        families_of(torch.randn(2, 1, 24, 24)),
    )
    family, size = family[name], 6.0 if name == "shiftW" else 1.0
    other = x.clone()
    lost = (
        slice(None),
        slice(None),
        slice(None),
        slice(18, 24) if name == "shiftW" else slice(0, 4),
    )
    other[lost] = torch.randn(other[lost].shape, generator=generator)
    sizes = torch.full((4,), size)
    for made in (family.moved, family.baseline):
        torch.testing.assert_close(made(x, sizes, drawn()), made(other, sizes, drawn()))


def test_moved_images_and_baselines_are_interpolated_alike():
    """White noise, whose spread tells how much it was smoothed."""
    x = torch.randn(50, 1, 24, 24, generator=drawn())
    inside = (..., slice(8, 16), slice(8, 16))
    for size in (3.0, 17.0, 90.0, 131.0):
        family, sizes = families_of(x)["turn"], torch.full((50,), size)
        spreads = [
            made(x, sizes, drawn())[inside].std() for made in (family.moved, family.baseline)
        ]
        assert spreads[0] == pytest.approx(spreads[1].item(), rel=0.05)


def said(size, safe, safe_approximate, broken, unnoticed=None):
    return ExaminedSize(
        size, 0.0, (0.0, 0.0), 0.0, None, None, unnoticed, safe, safe_approximate, broken, ()
    )


def asked(family, safe, looser):
    """The range of a family whose moves are safe up to two sizes, and the sizes asked."""
    seen = []

    def answer(size):
        seen.append(size)
        unnoticed = abs(size) < 0.2 * looser if size in family.law_sizes() else None
        own = abs(size)
        return said(size, own < safe, own < looser, own > 1.5 * safe, unnoticed)

    return _examined(family, answer), seen


@pytest.mark.parametrize("safe", [0.3, 3.7, 14.0, 60.0, 179.0])
def test_an_end_is_found_to_a_known_resolution_and_never_beyond_what_was_shown(safe):
    family = families(2)["turn"]
    found, seen = asked(family, safe, 2 * safe)
    for reach, end in ((found.safe, safe), (found.safe_approximate, 2 * safe)):
        assert -reach.low == reach.high <= end
        if reach.beyond_high is None:
            assert reach.high == 180.0 < end
        else:
            assert end <= reach.beyond_high
            gap = reach.beyond_high - reach.high
            assert gap <= max(reach.high / 2, family.sizes()[0]) / 2**REFINEMENTS
    assert len(seen) == len(set(seen)) <= questions_of(family)
    assert [s.size for s in found.sizes] == sorted(seen)


def test_a_family_that_is_safe_everywhere_reaches_the_edge():
    found, seen = asked(families(2)["turn"], math.inf, math.inf)
    assert (found.safe.low, found.safe.high) == (-180.0, 180.0)
    assert (found.safe.beyond_low, found.safe.beyond_high) == (None, None)
    assert len(seen) == 22


def test_nothing_is_asked_far_beyond_what_was_shown_to_break():
    _, seen = asked(families(2)["turn"], 5.0, 10.0)
    assert max(seen) < 20


def test_whole_sizes_end_between_neighbours():
    found, _ = asked(families(2)["shiftW"], 2.5, 5.5)
    assert (found.safe.high, found.safe.beyond_high) == (2.0, 3.0)
    assert (found.safe_approximate.high, found.safe_approximate.beyond_high) == (5.0, 6.0)


def test_sizes_without_a_sign_have_no_lower_end():
    found, seen = asked(families(2)["noise"], 0.4, 0.8)
    assert min(seen) > 0
    assert (found.safe.low, found.safe.beyond_low) == (0.0, None)


@pytest.mark.parametrize(
    ("names", "match"),
    [
        (["trun"], "did you mean turn"),
        (["gain"], "some of turn, scale"),
        (["all", "turn"], "'all'"),
    ],
)
def test_unknown_families_are_refused(names, match):
    with pytest.raises(ValueError, match=match):
        check_ranges(names, 2)


def test_the_derived_ends_are_those_of_the_law():
    """Beside a plain simulation of the Bayes rule."""
    case = CASES["bars"]
    generator = torch.Generator().manual_seed(0)
    number = case.spread * torch.randn(200_000, generator=generator, dtype=torch.float64)

    def loss(size):
        away = number[:, None] + size - case.apart * torch.arange(4) + 360
        away = (away + 90) % 180 - 90
        near = torch.stack([away - 180, away, away + 180]) / case.spread
        posterior = (-(near**2) / 2).exp().sum(0)
        right = posterior[:, 0] / posterior.sum(1)
        return -(0.99 * right + 0.01 / 4).log().mean()

    known = math.log(4) - loss(0.0)
    for share in (0.05, 0.2):
        lost = loss(case.safe(share)) - loss(0.0)
        assert float(lost / known) == pytest.approx(share, abs=0.01)


OPTIM = witness_optim(300)


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """Bars whose class is their angle: turns break it at a derived size; and the files left."""
    out = tmp_path_factory.mktemp("ranges")
    data = CASES["bars"].data(0, 1200)
    return examine(data, transform("none"), ["turn"], OPTIM, 0, out=out), out, data


def test_turns_of_bars_are_safe_up_to_the_derived_angle(found):
    """Within 20 % or 2 degrees at the looser bound, and never clearly beyond."""
    (turn,) = found[0].families
    derived = CASES["bars"].safe(0.2)
    for end in (-turn.safe_approximate.low, turn.safe_approximate.high):
        assert abs(end - derived) <= max(0.2 * derived, 2.0) + 1.0  # 1200 images only
    assert turn.safe.high <= CASES["bars"].safe(0.05) + 1.0
    assert turn.safe.low <= 0 <= turn.safe.high < turn.safe_approximate.high
    edge = max(turn.sizes, key=lambda s: s.size)
    assert edge.broken
    assert edge.interval[0] <= edge.excess_loss <= edge.interval[1]


def test_a_record_of_ranges_is_read_back(found, tmp_path):
    found[0].write(tmp_path / "ranges.json")
    assert Ranges.read(tmp_path / "ranges.json") == found[0]


def test_an_interrupted_examination_goes_on_without_training(found, no_training):
    ranges, out, data = found
    again = examine(data, transform("none"), ["turn"], OPTIM, 0, out=out)
    assert replace(again, seconds=ranges.seconds) == ranges
    (out / "turn.json").unlink()
    again = examine(data, transform("none"), ["turn"], OPTIM, 0, out=out)
    assert replace(again, seconds=ranges.seconds) == ranges
    assert Range.read(out / "turn.json") == ranges.families[0]


def test_networks_that_know_nothing_decide_nothing():
    data = CASES["rings"].data(0, 300)
    generator = torch.Generator().manual_seed(0)
    data = replace(data, labels=data.labels[torch.randperm(300, generator=generator)])
    ranges = examine(data, transform("none"), ["turn"], witness_optim(50), 0)
    assert ranges.families == ()
    assert "does not beat chance" in ranges.reasons[0]


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_safe_sizes_are_those_that_are_derived(name):
    case = CASES[name]
    ranges = examine(
        case.data(7, 4000), transform("none"), list(case.moves), witness_optim(1000), 7
    )
    for family in ranges.families:
        derived = case.safe(0.2) if case.moves[family.family] else family.limit
        for end in (-family.safe_approximate.low, family.safe_approximate.high):
            assert end <= 1.2 * derived
            assert end >= min(0.7 * derived, derived - 2 * (family.unit != "times"))


def test_a_family_is_made_of_plain_values():
    family = Family("still", "pixels", 4.0, lambda x, *_: x)
    assert family.sizes()[-1] == 4.0
    assert family.between(1.0, 2.0) == 1.5
