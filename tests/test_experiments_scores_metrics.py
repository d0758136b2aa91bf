import json
import math

import pytest
import torch

from experiments.scores import stack_metrics
from symshare import groups
from symshare.analysis import match

DEFECTS = ("closure", "identity", "inverse")
SUPPORT = ("average_precision", "f1", "total_variation")
KNOWN = groups.dihedral(4).lift(5)


def test_a_group_is_recovered():
    numbers = stack_metrics(KNOWN[torch.randperm(8)], KNOWN, torch.ones(8))
    assert numbers == pytest.approx(
        {
            "elements": 8,
            "known": 8,
            "marginal_error": 0,
            "entropy": 0,
            "vertex_gap": 0,
            "exact_hits": 8,
            "sharp_hits": 8,
            "mismatch": 0,
            "explained": 1,
            "uniform": 0,
            "concentration": 1,
            "unique": 1,
            "coverage": 1,
            "distinct": 8,
            # The transpose leaves the five positions of a diagonal, a flip those of a column.
            "least_distance": 20 / 25,
            **dict.fromkeys(DEFECTS, 0),
            "average_precision": 1,
            "f1": 1,
            "total_variation": 0,
        },
        abs=1e-6,
    )


def test_random_permutations_are_not():
    D, G = 25, 8
    R = torch.eye(D)[torch.rand(40, G, D).argsort(-1)]
    numbers = [stack_metrics(r, KNOWN) for r in R]
    assert sum(n["exact_hits"] for n in numbers) == 0
    # The assignment takes the best of a few, which agree in a position or two more than one.
    assert 1 - 4 / D < sum(n["mismatch"] for n in numbers) / 40 <= 1 - 1 / D
    alone = [float(match(r[:1], KNOWN[1:2]).mismatch) for r in R]
    assert sum(alone) / 40 == pytest.approx(1 - 1 / D, abs=0.02)


def test_collapse_shows():
    numbers = stack_metrics(KNOWN[[3, 3, 3, 3]], KNOWN)
    assert numbers["exact_hits"] == 1
    assert numbers["distinct"] == 1
    assert numbers["coverage"] == pytest.approx(0.25)
    assert numbers["least_distance"] == 0


def test_the_uniform_matrix_is_no_hit():
    numbers = stack_metrics(torch.full((4, 25, 25), 1 / 25), KNOWN)
    assert numbers["uniform"] == 4
    assert numbers["explained"] is None
    assert numbers["sharp_hits"] == 0
    assert numbers["entropy"] == pytest.approx(1)
    assert all(numbers[name] is None for name in DEFECTS)


@pytest.mark.parametrize("softness", [0.04, 0.5])
def test_hits_are_sharp_or_not(softness):
    numbers = stack_metrics((1 - softness) * KNOWN + softness / 25, KNOWN)
    assert numbers["exact_hits"] == 8
    assert numbers["sharp_hits"] == (8 if softness < 0.05 else 0)
    assert (numbers["closure"] is None) == (softness > 0.1)


def test_partial_support_needs_a_measure():
    held = torch.tensor([1.0, 1.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0])
    R = KNOWN[held > 0]
    assert all(stack_metrics(R, KNOWN)[name] is None for name in SUPPORT)
    numbers = stack_metrics(R, KNOWN, held)
    assert [numbers[name] for name in SUPPORT] == pytest.approx([1, 1, 0], abs=1e-6)


def test_copies_count_once():
    _, words = groups.cube_words()
    cube = groups.cube().lift(3)
    R = 0.8 * cube[torch.randperm(24)[:6]] + 0.2 / 27
    once = stack_metrics(R, cube, torch.ones(24))
    # A word of each element first, so that both come in the same order.
    order = torch.cat([torch.arange(24), words])
    held = torch.zeros(88)
    held[:24] = 1
    again = stack_metrics(R, cube[order], held)
    assert again == pytest.approx(once, abs=1e-6)
    assert again["known"] == 24


@pytest.mark.parametrize(
    ("R", "known"),
    [
        (torch.ones(1, 1, 1), torch.ones(1, 1, 1)),
        (torch.eye(3)[None], torch.eye(3)[None]),
        (KNOWN[:2], KNOWN),
        (KNOWN, KNOWN[:2]),
        (torch.full((1, 4, 4), 0.25), torch.eye(4)[None]),
    ],
    ids=["one position", "one element", "fewer learned", "fewer known", "uniform"],
)
def test_always_json(R, known):
    numbers = stack_metrics(R.clone().requires_grad_(), known, torch.ones(len(known)))
    assert json.loads(json.dumps(numbers, allow_nan=False)) == numbers
    assert set(numbers) == set(stack_metrics(KNOWN, KNOWN))
    assert numbers["exact_hits"] <= min(len(R), len(known))


@pytest.mark.parametrize(
    ("R", "message"),
    [
        (-torch.eye(2)[None], "stack_metrics: R must be non-negative"),
        (torch.full((1, 2, 2), math.nan), "stack_metrics: 4 of 4 entries of R"),
        (torch.eye(3)[None], "R acts on 3 positions, the known elements on 2"),
    ],
)
@pytest.mark.usefixtures("unchecked")
def test_messages(R, message):
    with pytest.raises(ValueError, match=message):
        stack_metrics(R, torch.eye(2)[None])


@pytest.mark.usefixtures("unchecked")
def test_a_measure_has_a_weight_for_each_element():
    with pytest.raises(ValueError, match="stack_metrics: expected a weight for each of 8 .* got 3"):
        stack_metrics(KNOWN, KNOWN, torch.ones(3))


def test_an_anchored_identity_does_not_speak_for_uniform_elements():
    uniform = torch.full((3, 9, 9), 1 / 9)
    numbers = stack_metrics(torch.cat([torch.eye(9)[None], uniform]), groups.rotations(4).lift(3))
    assert (numbers["explained"], numbers["uniform"]) == (None, 3)
