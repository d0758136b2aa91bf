"""What is advised follows from what was found, and the code makes the moves that were examined."""

import ast
import importlib.util
from dataclasses import replace

import numpy as np
import pytest
import torch

from symshare.advice import advise, augmentation, libraries_of, network
from symshare.advice.code import LIBRARIES
from symshare.names import RANGES
from symshare.ranges.families import families_of
from symshare.records import Advice, ExaminedSize, Range, Ranges, Reach, VerdictRecord
from synthetic_run import CASES, write_run

SHAPES = {1: (2, 40), 2: (1, 24, 24), 3: (1, 12, 12, 12)}
PAIRS = [(d, library) for d, libraries in LIBRARIES.items() for library in libraries]


@pytest.fixture(scope="module")
def records(tmp_path_factory):
    """The verdicts of all kinds of synthetic runs."""
    folder = tmp_path_factory.mktemp("runs")
    for kind in CASES:
        write_run(folder / kind, kind)
    return {kind: VerdictRecord.read(folder / kind / "verdict.json") for kind in CASES}


def smooth(d):
    """Two samples without symmetry in [0, 1], smooth enough to be interpolated, dark at the rim."""
    generator = torch.Generator().manual_seed(0)
    shape = SHAPES[d]
    grids = torch.meshgrid(*[torch.linspace(-1, 1, n) for n in shape[1:]], indexing="ij")
    image = torch.zeros(2, *shape)
    for _ in range(12):
        middle = 0.8 * torch.rand(d, generator=generator) - 0.4
        far = sum((g - m) ** 2 for g, m in zip(grids, middle, strict=True))
        image += torch.rand(2, shape[0], *[1] * d, generator=generator) * torch.exp(-far / 0.05)
    return image / image.max()


def record_of(record, d, lines):
    """The record with ranges of samples of so many axes, and these lines of advice."""
    x = smooth(d)
    shape, spread = SHAPES[d][1:], float(x.std(correction=0))
    ranges = Ranges((), (), 0.1, 0.4, 100, 100, (spread,) * SHAPES[d][0], d > 1, shape, 1.0)
    return replace(record, elements=(), found=(), ranges=ranges, advice=tuple(lines))


def line(family, low, high):
    return Advice("augment", family, "", (), family, low, high)


@pytest.mark.parametrize(("d", "library"), PAIRS)
def test_every_family_has_code_that_parses(records, d, library):
    families = families_of(smooth(d))
    for name, family in families.items():
        low = -family.sizes()[1] if family.signed else 0.0
        record = record_of(records["none"], d, [line(name, low, family.sizes()[2])])
        ast.parse(augmentation(record, library))


def run(code):
    names = {}
    exec(compile(code, "advice", "exec"), names)
    return names["augment"]


def augmented(library, augment, images):
    """What the code makes of each image."""
    if library == "albumentations":
        made = [augment(image=x.permute(1, 2, 0).numpy())["image"] for x in images]
        return torch.stack([torch.as_tensor(x).permute(2, 0, 1) for x in made])
    if library == "kornia":
        return augment(images)
    return torch.stack([torch.as_tensor(augment(x)) for x in images])


# Families whose code draws between two ends, so that equal ends make one move.
AT_ONE_SIZE = {name for names in RANGES.values() for name in names} - {"blur", "noise"}


@pytest.mark.parametrize("family", sorted(AT_ONE_SIZE))
@pytest.mark.parametrize(("d", "library"), PAIRS)
def test_the_code_makes_the_move_that_was_examined(records, d, library, family):
    """At one size, far enough from zero that a wrong sign or unit would show."""
    if importlib.util.find_spec(library) is None:
        pytest.skip(f"{library} is not installed")
    if family not in RANGES[d]:
        pytest.skip(f"no such family of {d} axes")
    x = smooth(d)
    known = families_of(x)[family]
    size = {"turn": 20.0, "shif": 2.0, "shea": 0.25, "scal": -0.25}.get(family[:4], 0.5)
    code = augmentation(record_of(records["none"], d, [line(family, size, size)]), library)
    made = augmented(library, run(code), x)
    expected = known.act(x, torch.full((2,), size), torch.Generator())
    moved = (expected - x).abs().mean()
    # MONAI zooms by whole voxels; a move the other way would be off by more than it moves.
    assert (made - expected).abs().mean() < 0.5 * moved


def examined(size, loss, safe, broken=False, worn=0.0):
    return ExaminedSize(
        size, loss, (loss - 0.01, loss + 0.01), worn, None, None, None, safe, safe, broken, ()
    )


def turns(low, high, sizes):
    reach = Reach(low, high, None, None)
    return Range("turn", "degrees", False, True, True, 180.0, reach, reach, Reach(0.0, 0.0, None,
                 None), tuple(sizes))  # fmt: skip


def with_turns(record, range_):
    ranges = Ranges((range_,), (), 0.1, 0.4, 100, 100, (1.0,), False, (8, 8), 1.0)
    record = replace(record, ranges=ranges)
    return replace(record, advice=advise(record))


def test_what_is_found_is_to_be_built_in_and_what_is_broken_to_be_kept_away_from(records):
    lines = {line.kind: line for line in advise(records["group"])}
    assert set(lines) == {"build in", "keep away"}
    assert set(lines["build in"].elements) == {"rot90", "rot180", "rot270"}
    assert not set(lines["build in"].elements) & set(lines["keep away"].elements)
    found = [e for e in records["group"].elements if e.status == "symmetric"]
    assert f"at most {max(e.interval[1] for e in found):.3f} nats of the" in lines["build in"].why


def test_what_labels_tolerate_is_to_be_augmented_with(records):
    lines = {line.kind: line for line in advise(records["tolerated"])}
    assert set(lines["augment"].elements) == {"flipW", "flipH"}


def test_weak_networks_advise_nothing(records):
    assert advise(records["undecided"]) == ()


def test_a_range_is_advised_as_far_as_its_images_can_be_seen(records):
    sizes = [
        examined(-40.0, 0.9, False, broken=True),
        examined(-10.0, 0.01, True),
        examined(10.0, 0.01, True),
        examined(20.0, 0.02, True, worn=0.5),
        examined(30.0, 0.03, True, worn=0.1),
    ]
    record = with_turns(records["none"], turns(-10.0, 30.0, sizes))
    (line,) = [a for a in record.advice if a.kind == "augment"]
    assert (line.low, line.high) == (-10.0, 10.0)
    assert "borders and interpolation alone cost more than 0.400 nats" in line.why
    (away,) = [a for a in record.advice if a.kind == "keep away" and a.family]
    assert (away.low, away.high) == (-40.0, None)


def test_a_family_without_a_safe_size_is_only_kept_away_from(records):
    sizes = [examined(-5.0, 0.9, False, broken=True), examined(5.0, 0.9, False, broken=True)]
    record = with_turns(records["none"], turns(0.0, 0.0, sizes))
    assert [a.kind for a in record.advice if a.family] == ["keep away"]


@pytest.mark.parametrize("kind", CASES)
def test_all_code_of_every_verdict_parses(records, kind):
    record = replace(records[kind], advice=advise(records[kind]))
    for library in libraries_of(record):
        ast.parse(augmentation(record, library))
    ast.parse(network(record))


def test_the_network_has_the_symmetry(records):
    names = {}
    exec(compile(network(records["group"]), "advice", "exec"), names)
    x = torch.rand(2, 1, 9, 9)
    turned = names["scores"](x.rot90(1, (-2, -1)))
    torch.testing.assert_close(turned, names["scores"](x), atol=1e-5, rtol=1e-4)


def test_exact_moves_of_tensors_are_those_of_the_verdict(records):
    """Each expression beside the permutation that the verdict holds."""
    from symshare.advice.code import _on_array, _on_tensor

    x = torch.rand(1, 8, 8)
    for element in records["group"].elements:
        expected = x.flatten(1)[:, list(element.permutation)].view_as(x)
        assert eval(_on_tensor(element), {"x": x}).equal(expected)
        array = eval(_on_array(element), {"x": x.permute(1, 2, 0).numpy(), "np": np})
        assert torch.from_numpy(array.copy()).permute(2, 0, 1).equal(expected)


def test_an_unknown_library_is_refused(records):
    record = replace(records["group"], advice=advise(records["group"]))
    with pytest.raises(ValueError, match="expected one of torchvision, albumentations, kornia"):
        augmentation(record, "monai")
