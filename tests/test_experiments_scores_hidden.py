import itertools

import pytest
import torch

from experiments.scores import align
from symshare import groups
from symshare.analysis import match

CASES = {
    "C4 k3": (groups.rotations(4), 3),
    "flips k2": (groups.flips("HW"), 2),
    "D4 k3": (groups.dihedral(4), 3),
    "Z5": (groups.cyclic_shifts(5), 5),
    "trivial": (groups.rotations(1), 3),
}


def relabelled(R: torch.Tensor, inputs: torch.Tensor) -> torch.Tensor:
    S = torch.kron(torch.eye(len(inputs))[inputs], torch.eye(R.shape[-1] // len(inputs))).to(R)
    return S @ R @ S.T


@pytest.mark.parametrize("softness", [0.0, 0.7])
@pytest.mark.parametrize(("action", "kernel"), CASES.values(), ids=CASES)
def test_a_relabelled_group_is_found(action, kernel, softness):
    target, K = action.regular(kernel), len(action)
    D = target.shape[-1]
    soft = (1 - softness) * target + softness / D
    aligned = align(relabelled(soft, torch.randperm(K))[torch.randperm(K)], target, K)
    assert torch.allclose(aligned.R, soft[aligned.outputs].double())
    assert sorted(aligned.outputs.tolist()) == list(range(K))
    assert aligned.mass == pytest.approx(1 - softness + softness / D)
    assert match(aligned.R, target).exact_hits == K


def test_as_the_search_over_both_orders():
    target = groups.cyclic_shifts(3).regular(3)
    for _ in range(5):
        R = torch.rand(3, 9, 9).double().softmax(-1)
        best = max(
            float((relabelled(R, torch.tensor(inputs))[list(outputs)] * target).sum())
            for inputs in itertools.permutations(range(3))
            for outputs in itertools.permutations(range(3))
        )
        aligned = align(R, target, 3)
        assert aligned.mass == pytest.approx(best / 27)
        assert torch.equal(aligned.R, relabelled(R, aligned.inputs))
        reached = sum(float((r * target[k]).sum()) for r, k in zip(*aligned[::2], strict=True))
        assert reached == pytest.approx(best)


@pytest.mark.parametrize("count", [2, 4], ids=["fewer", "more"])
def test_stacks_of_another_size(count):
    target = groups.rotations(4).regular(2)
    known = target[:3] if count == 4 else target
    aligned = align(relabelled(target[:count], torch.tensor([2, 0, 3, 1])), known, 4)
    assert aligned.mass == pytest.approx(1)
    assert int((aligned.outputs >= 0).sum()) == min(count, len(known))


def test_random_stacks_fit_worse():
    target = groups.rotations(4).regular(3)
    R = torch.eye(36)[torch.rand(4, 36).argsort(-1)]
    assert align(R, target, 4).mass < 0.3


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("elements", "message"),
    [
        (9, "expected 1 to 8 input elements that divide D=18 positions, got 9"),
        (0, "got 0"),
        (4, "that divide D=18 positions, got 4"),
    ],
)
def test_messages(elements, message):
    R = torch.eye(18)[None]
    with pytest.raises(ValueError, match=message):
        align(R, R, elements)


@pytest.mark.usefixtures("unchecked")
def test_refuses_what_is_no_stack():
    with pytest.raises(ValueError, match="align: R must be non-negative"):
        align(-torch.eye(2)[None], torch.eye(2)[None], 1)
    with pytest.raises(ValueError, match="align: R acts on 2 positions, the known elements on 4"):
        align(torch.eye(2)[None], torch.eye(4)[None], 1)
