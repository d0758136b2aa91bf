"""Channels that may be permuted or change sign, alone and with a move of space."""

import numpy as np
import pytest
import torch

from symshare import groups
from symshare.groups import ChannelAction, ChannelMap
from symshare.propose import Candidates, propose
from symshare.propose.channels import (
    channel_maps,
    moving_channels,
    negations,
    of_channels,
    pairs_by_name,
    residual_of,
)

LEADS = ChannelMap((1, 0, 3, 2, 4, 5), (1, 1, 1, 1, 1, -1))


def leads(seed: int, count: int = 2000, steps: int = 32) -> torch.Tensor:
    """Six channels that hang together, no two alike, louder towards the end."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(count, 6, steps + 4, generator=generator).unfold(-1, 5, 1).mean(-1)
    mix = torch.eye(6) + 0.5 * torch.randn(6, 6, generator=torch.Generator().manual_seed(1))
    return torch.einsum("cd,ndl->ncl", mix, x) * torch.linspace(0.5, 1.5, steps)


def under(action: ChannelAction, x: torch.Tensor, seed: int) -> torch.Tensor:
    """Each sample moved by a random element."""
    drawn = torch.randint(len(action), (len(x),), generator=torch.Generator().manual_seed(seed))
    return torch.stack([action.apply(one, int(g)) for one, g in zip(x, drawn, strict=True)])


def names(candidates: Candidates) -> set[str]:
    return {e.name for e in candidates.elements if e.channels is not None}


@pytest.mark.parametrize("seed", range(5))
def test_a_mirror_that_swaps_leads_is_found_exactly(seed: int) -> None:
    still = ChannelMap.identity(6)
    law = ChannelAction(groups.reversal(), [("id", still), ("reverse", LEADS)])
    moments = of_channels(under(law, leads(seed), seed), seed=seed)
    order = np.arange(16)
    alone, capped = channel_maps(moments, order)
    assert (set(alone), capped) == ({still}, False)
    mirrored, capped = channel_maps(moments, order[::-1].copy())
    assert (set(mirrored), capped) == ({LEADS}, False)
    assert negations(moments) == [ChannelMap(still.sources, (-1,) * 6)]


def test_what_the_law_does_not_have_is_not_found() -> None:
    moments = of_channels(leads(0))
    order = np.arange(16)
    assert set(channel_maps(moments, order)[0]) == {ChannelMap.identity(6)}
    assert not channel_maps(moments, order[::-1].copy())[0]
    assert residual_of(moments, order[::-1].copy(), LEADS) > 2


def test_signs_go_where_channels_hang_together_and_means_allow_it() -> None:
    x = torch.randn(1000, 3, 16)
    x[:, 1] += x[:, 0]
    x[:, 2] += 1.0
    found = {m.word() for m in negations(of_channels(x))}
    assert found == {"negate0,1"}


@pytest.mark.parametrize("steps", [16, 17, 31, 3])
def test_parts_of_space_mirror_each_other(steps: int) -> None:
    x = leads(3, 400, steps)
    forth, back = of_channels(x), of_channels(x.flip(-1))
    torch.testing.assert_close(
        torch.tensor(forth.second[..., ::-1].copy()), torch.tensor(back.second)
    )
    torch.testing.assert_close(torch.tensor(forth.mean[..., ::-1].copy()), torch.tensor(back.mean))


def test_colours_under_turns_are_proposed_as_products() -> None:
    """Quarter turns that move the colours around; covariances do not see which way round."""
    generator = torch.Generator().manual_seed(0)
    x = torch.rand(3000, 3, 8, 8, generator=generator)
    x *= torch.tensor([1.0, 2.0, 3.0]).view(3, 1, 1) * (1 + torch.rand(8, 8, generator=generator))
    turns, cycle = groups.rotations(4), ChannelMap((1, 2, 0), (1, 1, 1))
    elements = [("id", ChannelMap.identity(3))]
    while len(elements) < 12:
        move, channels = elements[-1]
        turned = turns.names[turns.table[turns.names.index(move), 1]]
        elements.append((turned, channels.then(cycle)))
    law = ChannelAction(turns, elements)
    assert law.name == "C12"
    found = propose(under(law, x, 1))
    passed = {e.name for e in found.elements if e.residual is not None and e.residual <= 1}
    assert set(law.names) <= passed
    assert not passed & {"flipW", "transpose", "flipW*(0 1)"}


def test_vectors_under_a_hidden_group_are_proposed_its_elements() -> None:
    generator = torch.Generator().manual_seed(0)
    order = torch.randperm(12, generator=generator)
    ring = groups.cyclic_shifts(6)
    x = torch.randn(4000, 2, 6, generator=generator)
    x = x + 0.8 * x.roll(1, -1) + torch.tensor([0.0, 1.0]).view(2, 1)
    x[:, 1] += 0.7 * x[:, 0] + 0.3 * x[:, 0].roll(2, -1)
    places = torch.arange(12).view(2, 6)
    hidden = [ring.apply(places, g).flatten() for g in range(6)]
    vectors = x.flatten(1)[:, order]
    back = order.argsort()
    expected = {tuple(back[row[order]].tolist()) for row in hidden}
    found = propose(vectors[..., None])
    assert found.shape == (1,)
    got = {e.channels.sources for e in found.elements if e.channels}
    assert got | {tuple(range(12))} == expected
    assert found.action().name == "C6"


def test_candidates_are_read_back_as_they_were() -> None:
    still = ChannelMap.identity(6)
    law = ChannelAction(groups.reversal(), [("id", still), ("reverse", LEADS)])
    found = propose(under(law, leads(0), 0))
    assert "reverse*(0 1)(2 3)*negate5" in names(found)
    assert Candidates.from_json(found.to_json()) == found
    action = found.action(["reverse*(0 1)(2 3)*negate5"])
    x = torch.randn(6, 32)
    assert torch.equal(action.apply(x, 1), law.apply(x, 1))
    assert found.action(["reverse"]).names == ("id", "reverse")


def test_names_of_channels_propose_the_exchange_of_left_and_right() -> None:
    called = ("left arm", "right arm", "chest")
    x = leads(0)[:, :3]
    assert "(left arm right arm)" in names(propose(x, channels=called))
    assert names(propose(x)) == {"negate", "reverse*negate"}
    assert pairs_by_name(["a", "b"]) is None
    assert pairs_by_name(["L_hand", "L-hand", "R_hand"]) is None
    with pytest.raises(ValueError, match="a name of its own for each of 3 channels, got"):
        propose(x, channels=("a", "b"))


def test_elements_of_the_user_may_move_channels() -> None:
    swap = ChannelMap((1, 0, 2), (1, 1, 1))
    extra = ChannelAction(
        groups.reversal(), [("id", ChannelMap.identity(3)), ("id", swap)], ["id", "swapped"]
    )
    found = propose(leads(0)[:, :3], extra=extra)
    (mine,) = [e for e in found.elements if e.source == "user"]
    assert (mine.name, mine.channels, mine.permutation) == ("swapped", swap, tuple(range(32)))


def test_no_more_than_are_judged() -> None:
    """Independent channels alike in law may be permuted in 720 ways."""
    x = torch.randn(4000, 6, 16)
    elements = propose(torch.randn(100, 1, 16)).elements[:2]
    made, cut = moving_channels(elements, x)
    assert cut
    assert len(made) + 2 <= groups.CAP
