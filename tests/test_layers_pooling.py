import itertools
import re
import warnings

import pytest
import torch
from torch.nn import functional as F

from symshare import groups
from symshare.layers import GroupMaxPool, GroupPool, SpatialAvgPool, SpatialMaxPool

POOLS = {SpatialMaxPool: "max", SpatialAvgPool: "avg"}
SPACE = {1: (9,), 2: (9, 7), 3: (5, 7, 5)}


def by_torch(kind, dims, f, *args, **options):
    """Element by element."""
    pool = getattr(F, f"{POOLS[kind]}_pool{dims}d")
    return torch.stack([pool(x, *args, **options) for x in f.unbind(2)], 2)


@pytest.mark.filterwarnings("ignore:.*rotations are not exact")
@pytest.mark.parametrize("dims", SPACE)
@pytest.mark.parametrize("kind", POOLS)
def test_every_element_is_pooled_as_torch_does(kind, dims):
    f = torch.randn(2, 3, 4, *SPACE[dims])
    kernel = (2, 3, 2)[:dims]
    table = [{}, {"stride": 1, "padding": 1}, {"stride": (1, 2, 3)[:dims]}]
    if kind is SpatialMaxPool:
        table.append({"stride": 2, "dilation": 2})
    for options in table:
        expected = by_torch(kind, dims, f, kernel, **options)
        assert torch.equal(kind(kernel, **options)(f), expected)


@pytest.mark.parametrize("padding", [0, 1])
@pytest.mark.parametrize(("kernel", "stride"), [(2, 2), (3, 2), (3, 3), (2, 1)])
@pytest.mark.parametrize("kind", POOLS)
def test_it_warns_where_and_only_where_flips_are_not_exact(kind, kernel, stride, padding):
    moves = groups.dihedral(4)
    for size in (6, 7, 8, 9):
        f = torch.randn(1, 2, 4, size, size)
        y, said = warned(kind((kernel, kernel), stride, padding), f)
        exact = [
            torch.allclose(warned(kind((kernel, kernel), stride, padding), g)[0], h, atol=1e-6)
            for g, h in ((moves.apply(f, i), moves.apply(y, i)) for i in range(len(moves)))
        ]
        assert all(exact) == (not said)
        if said:
            advised = int(re.search(r"use maps of size \((\d)", said[0]).group(1))
            f = f[..., :advised, :advised]
            assert warned(kind((kernel, kernel), stride, padding), f)[1] == []


def warned(layer, f):
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        return layer(f), [str(x.message) for x in said]


def test_it_warns_once_and_never_for_one_element():
    layer = SpatialMaxPool((2, 2))
    layer(torch.randn(1, 1, 1, 5, 5))
    with pytest.warns(UserWarning, match=r"size \(5, 4\) flips .* use maps of size \(4, 4\)"):
        layer(torch.randn(1, 1, 4, 5, 4))
    layer(torch.randn(1, 1, 4, 5, 5))


@pytest.mark.parametrize("space", [(), (5,), (5, 6), (2, 3, 4)])
def test_the_maximum_over_the_group_forgets_the_order_of_elements(space):
    f = torch.randn(2, 3, 4, *space, requires_grad=True)
    y = GroupMaxPool()(f)
    assert torch.equal(y, f.max(2).values)
    for order in itertools.permutations(range(4)):
        assert torch.equal(GroupMaxPool()(f[:, :, list(order)]), y)


def test_equal_maxima_share_the_gradient():
    f = torch.ones(1, 1, 4, requires_grad=True)
    GroupMaxPool()(f).sum().backward()
    assert f.grad.flatten().tolist() == [0.25] * 4


@pytest.mark.parametrize("layer", [GroupPool(), GroupMaxPool()])
def test_maps_without_a_group_axis_are_refused(layer, unchecked):
    with pytest.raises(ValueError, match=r"expected a map \[B, C, G, ...\], got \(2, 3\)"):
        layer(torch.randn(2, 3))


@pytest.mark.parametrize("kind", POOLS)
def test_refusals(kind, unchecked):
    with pytest.raises(ValueError, match=r"one length for each axis .* images use \(2, 2\)"):
        kind(2)
    with pytest.raises(ValueError, match="stride must be one number or 2, each at least 1"):
        kind((2, 2), stride=0)
    with pytest.raises(ValueError, match="expected a kernel of 1, 2 or 3 axes"):
        kind((2,) * 4)
    for shape in ((1, 3, 6, 6), (1, 3, 4, 6, 6, 6)):
        with pytest.raises(ValueError, match=f"{kind.__name__}: expected a map .* 2 axes of space"):
            kind((2, 2))(torch.randn(shape))
