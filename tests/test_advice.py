"""What is advised follows from what was found, and the code makes the moves that were examined."""

import ast
import importlib.util
from dataclasses import replace

import pytest
import torch

from symshare.advice import augmentation
from symshare.advice.code import LIBRARIES
from symshare.names import RANGES
from symshare.ranges.families import families_of
from symshare.records import Advice, Ranges, VerdictRecord
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
