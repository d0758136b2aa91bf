"""Random transformations: their group statistics, their exact cores, their seeds, their errors."""

import math
import pickle

import pytest
import torch

from symshare.data import rotate, scale, transform

EXACT = ("none", "flip", "flips", "half", "quarter", "d4")
INTERPOLATING = ("rotate:90", "rotate:360", "scale:0.5-1", "scale:0.8-1.25")


def rot90(image, turns):
    return torch.rot90(image, turns, (-2, -1))


ORBITS = {
    "none": [lambda x: x],
    "flip": [lambda x: x, lambda x: x.flip(-1)],
    "flips": [lambda x: x, lambda x: x.flip(-1), lambda x: x.flip(-2), lambda x: rot90(x, 2)],
    "half": [lambda x: x, lambda x: rot90(x, 2)],
    "quarter": [lambda x, k=k: rot90(x, k) for k in range(4)],
    "d4": [lambda x, k=k, f=f: rot90(x.flip(f), k) for k in range(4) for f in ((), (-1,))],
}


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("spec", ORBITS)
def test_exact_transform_draws_uniformly_from_its_group(spec):
    images = torch.rand(4000, 1, 3, 3)
    turned = transform(spec)(images, generator())
    matches = torch.stack(
        [(element(images) == turned).flatten(1).all(1) for element in ORBITS[spec]]
    )
    assert matches.sum(0).eq(1).all(), "every output is one element of its own input"
    share = 1 / len(ORBITS[spec])
    five_sigma = 5 * math.sqrt(share * (1 - share) / len(images))
    assert (matches.double().mean(1) - share).abs().max() <= five_sigma


def test_rotate_draws_angles_uniformly_counter_clockwise():
    images = torch.zeros(2000, 1, 21, 21)
    images[:, :, 10, 18] = 1  # due east
    turned = transform("rotate:90")(images, generator())
    rows, columns = torch.meshgrid(torch.arange(21.0), torch.arange(21.0), indexing="ij")
    mass = turned.sum((1, 2, 3))
    north = -((rows - 10) * turned[:, 0]).sum((1, 2)) / mass
    east = ((columns - 10) * turned[:, 0]).sum((1, 2)) / mass
    angles = torch.atan2(north, east).rad2deg()
    assert angles.min() > -2
    assert angles.max() < 92
    assert abs(angles.mean() - 45) < 5 * 26 / math.sqrt(2000)
    assert abs(angles.std() - 90 / math.sqrt(12)) < 1.5


def test_scale_draws_factors_uniformly():
    images = torch.ones(2000, 1, 24, 24)
    share = transform("scale:0.5-0.9")(images, generator()).mean((1, 2, 3)).sqrt()
    assert share.min() > 0.48
    assert share.max() < 0.92
    assert abs(share.mean() - 0.7) < 0.02


@pytest.mark.parametrize("shape", [(1, 8, 8), (3, 7, 7), (1, 28, 28)], ids=str)
@pytest.mark.parametrize("turns", [0, 1, 2, 3, 4])
def test_rotate_by_quarter_turns_equals_rot90(shape, turns):
    images = torch.rand(4, *shape, dtype=torch.float32)
    torch.testing.assert_close(
        rotate(images, 90.0 * turns), rot90(images, turns), atol=1e-5, rtol=0
    )


def test_rotate_by_half_a_turn_of_other_shapes():
    images = torch.rand(2, 1, 9, 6, dtype=torch.float32)
    torch.testing.assert_close(rotate(images, 180.0), rot90(images, 2), atol=1e-5, rtol=0)


def test_rotate_keeps_shapes_of_images_that_are_not_square():
    images = torch.zeros(1, 1, 9, 21)
    images[0, 0, 4, 13] = 1  # three pixels to the east
    turned = rotate(images, 90.0)
    assert turned[0, 0, 1, 10] == pytest.approx(1, abs=1e-5), "three pixels to the north"


def test_rotate_turns_each_image_by_its_own_angle():
    images = torch.rand(3, 1, 5, 5)
    angles = torch.tensor([0.0, 90.0, 33.0])
    expected = torch.cat([rotate(images[i : i + 1], float(angles[i])) for i in range(3)])
    torch.testing.assert_close(rotate(images, angles), expected)


def bilinear(image, row, column):
    """Sample a plane at one point by explicit sums; zero outside."""
    total = 0.0
    for r in (math.floor(row), math.floor(row) + 1):
        for c in (math.floor(column), math.floor(column) + 1):
            if 0 <= r < image.shape[0] and 0 <= c < image.shape[1]:
                total += (1 - abs(row - r)) * (1 - abs(column - c)) * float(image[r, c])
    return total


@pytest.mark.parametrize(
    ("function", "amount", "inverse"),
    [
        (rotate, 30.0, lambda x, y: (x * math.cos(math.pi / 6) - y * 0.5,
                                     x * 0.5 + y * math.cos(math.pi / 6))),
        (scale, 0.7, lambda x, y: (x / 0.7, y / 0.7)),
        (scale, 1.6, lambda x, y: (x / 1.6, y / 1.6)),
    ],
    ids=["rotate-30", "scale-0.7", "scale-1.6"],
)  # fmt: skip
def test_sampling_agrees_with_explicit_sums(function, amount, inverse):
    image = torch.rand(5, 8, dtype=torch.float64)
    expected = torch.empty_like(image)
    for row in range(5):
        for column in range(8):
            x, y = inverse(column - 3.5, row - 2.0)
            expected[row, column] = bilinear(image, y + 2.0, x + 3.5)
    torch.testing.assert_close(function(image[None, None], amount)[0, 0], expected)


def test_scale_by_one_is_the_identity():
    images = torch.rand(3, 2, 9, 6, dtype=torch.float32)
    torch.testing.assert_close(scale(images, 1.0), images, atol=1e-5, rtol=0)


@pytest.mark.parametrize("spec", EXACT + INTERPOLATING)
class TestEveryTransform:
    def test_same_seed_same_result(self, spec):
        images = torch.rand(32, 1, 8, 8)
        first, again = (transform(spec)(images, generator(3)) for _ in range(2))
        assert torch.equal(first, again)
        if spec != "none":
            assert not torch.equal(first, transform(spec)(images, generator(4)))

    def test_leaves_its_input_and_the_global_seed_alone(self, spec):
        images = torch.rand(8, 1, 8, 8)
        before, state = images.clone(), torch.get_rng_state()
        transform(spec)(images, generator())
        assert torch.equal(images, before)
        assert torch.equal(torch.get_rng_state(), state)

    @pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64], ids=str)
    def test_keeps_dtype_and_shape(self, spec, dtype):
        turned = transform(spec)(torch.rand(4, 3, 6, 6).to(dtype), generator())
        assert turned.dtype == dtype
        assert turned.shape == (4, 3, 6, 6)

    @pytest.mark.parametrize("size", [0, 1])
    def test_takes_small_batches(self, spec, size):
        assert transform(spec)(torch.rand(size, 1, 6, 6), generator()).shape == (size, 1, 6, 6)

    def test_default_dtype_does_not_change_the_draw(self, spec):
        images = torch.rand(16, 1, 8, 8, dtype=torch.float64)
        previous = torch.get_default_dtype()
        results = []
        try:
            for dtype in (torch.float32, torch.float64):
                torch.set_default_dtype(dtype)
                results.append(transform(spec)(images, generator()))
        finally:
            torch.set_default_dtype(previous)
        assert torch.equal(*results)

    def test_says_what_it_is(self, spec):
        made = transform(spec)
        assert made.name == spec
        assert made.exact == (spec in EXACT)
        assert pickle.loads(pickle.dumps(made)).name == spec


@pytest.mark.parametrize("spec", ["quarter", "d4"])
@pytest.mark.parametrize("size", [0, 2])
def test_exchanging_axes_needs_square_images(spec, size):
    with pytest.raises(ValueError, match=f"{spec}.*expected square images, got 8x6"):
        transform(spec)(torch.rand(size, 1, 8, 6), generator())


@pytest.mark.parametrize("spec", ["flip", "flips", "half", "rotate:360", "scale:0.5-2"])
def test_other_transforms_take_other_shapes(spec):
    assert transform(spec)(torch.rand(2, 1, 8, 6), generator()).shape == (2, 1, 8, 6)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("quater", "got 'quater'; did you mean quarter"),
        ("Flips", "did you mean flips or flip"),
        ("rotat:90", "did you mean rotate:A"),
        ("zzz", "expected one of none, flip, .*rotate:A, scale:a-b, got 'zzz'; use one of them"),
        ("", "use one of them"),
        ("quarter:3", "got 'quarter:3'; did you mean quarter"),
        ("rotate", "got 'nothing' for A; write for example rotate:90"),
        ("rotate:", "got 'nothing' for A"),
        ("rotate:abc", "0 < A <= 360, got 'abc'"),
        ("rotate:-90", "0 < A <= 360, got '-90'"),
        ("rotate:0", "0 < A <= 360, got '0'"),
        ("rotate:361", "0 < A <= 360, got '361'"),
        ("rotate:nan", "0 < A <= 360, got 'nan'"),
        ("scale", "got 'nothing' for a-b; write for example scale:0.5-1"),
        ("scale:0.5", "0 < a <= b, got '0.5'"),
        ("scale:1-0.5", "0 < a <= b, got '1-0.5'"),
        ("scale:0-1", "0 < a <= b, got '0-1'"),
        ("scale:a-b", "0 < a <= b, got 'a-b'"),
    ],
)
def test_refuses_other_specifications(spec, message):
    with pytest.raises(ValueError, match=message) as caught:
        transform(spec)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("spec", ["rotate:90", "scale:0.5-1", "quarter", "flips"])
def test_signals_have_no_plane_to_be_moved_in(spec):
    with pytest.raises(ValueError, match=f"transform '{spec}': expected at least 2 axes"):
        transform(spec)(torch.zeros(2, 3, 20), torch.Generator())


@pytest.mark.parametrize("spec", ["flip", "quarter", "rotate:360", "scale:0.5-1"])
def test_slices_of_a_volume_are_moved_alike(spec):
    slices = torch.rand(3, 2, 1, 6, 6).expand(-1, -1, 4, -1, -1)
    moved = transform(spec)(slices, torch.Generator().manual_seed(0))
    torch.testing.assert_close(moved, moved[:, :, :1].expand_as(moved))
    flat = transform(spec)(slices[:, :, 0], torch.Generator().manual_seed(0))
    torch.testing.assert_close(moved[:, :, 0], flat)


def test_a_signal_is_reversed():
    signals = torch.rand(40, 2, 9)
    moved = transform("flip")(signals, torch.Generator().manual_seed(0))
    still = (moved == signals).flatten(1).all(1)
    assert 0 < int(still.sum()) < 40
    assert torch.equal(moved[~still], signals[~still].flip(-1))
