import math

import pytest
import torch
from torch import nn

from experiments.scores import feature_error, functional_match, prediction_changes, up_to
from symshare import groups
from symshare.models import SMALL, GroupCNN, plain
from symshare.representations import Fixed


def turn(x: torch.Tensor) -> torch.Tensor:
    return x.rot90(1, (-2, -1))


class TestFunctionalMatch:
    def test_by_loops(self):
        R = torch.rand(2, 5, 5).double()
        P = torch.eye(5).double()[torch.rand(3, 5).argsort(-1)]
        theta = torch.randn(4, 2, 5).double()
        found = functional_match(R, P, theta)
        for g, r in enumerate(R):
            for k, p in enumerate(P):
                missed = sum(float(((r @ w - p @ w) ** 2).sum()) for w in theta.reshape(-1, 5))
                size = sum(float(((p @ w) ** 2).sum()) for w in theta.reshape(-1, 5))
                assert float(found.error[g, k]) == pytest.approx(math.sqrt(missed / size))
        assert found.rank == 5

    def test_free_off_the_span_of_the_kernels(self):
        P = groups.rotations(4).lift(3)
        theta = torch.randn(16, 9)
        theta[:, 4] = 0
        R = P.clone()
        # No kernel has weight on the centre, so its column is free.
        R[:, :, 4] = torch.rand(4, 9)
        found = functional_match(R, P, theta)
        assert found.error.diagonal().max() < 1e-6
        assert found.error[0, 1] > 0.5
        assert found.rank == 8

    @pytest.mark.parametrize("size", [1e-4, 1.0, 1e4])
    @pytest.mark.parametrize(("scale", "rank"), [(1e-2, 2), (1e-5, 1)])
    def test_small_directions_do_not_count(self, scale, rank, size):
        theta = size * torch.tensor([[1.0, 0.0, 0.0], [0.0, scale, 0.0]])
        assert functional_match(torch.eye(3)[None], torch.eye(3)[None], theta).rank == rank

    def test_free_matrices_serve(self):
        found = functional_match(-torch.eye(2)[None], torch.eye(2)[None], torch.ones(1, 2))
        assert float(found.error) == pytest.approx(2)

    @pytest.mark.usefixtures("unchecked")
    @pytest.mark.parametrize(
        ("d", "k", "theta", "message"),
        [
            (2, 3, torch.ones(1, 2), "R acts on 2 positions, the known elements on 3"),
            (2, 2, torch.ones(1, 3), "R acts on 2 positions, theta has 3"),
            (2, 2, torch.zeros(1, 2), "all base kernels are zero"),
            (2, 2, torch.full((1, 2), math.nan), "2 of 2 entries of theta"),
        ],
    )
    def test_messages(self, d, k, theta, message):
        with pytest.raises(ValueError, match=f"functional_match: .*{message}"):
            functional_match(torch.eye(d)[None], torch.eye(k)[None], theta)


class TestPredictionChanges:
    def test_by_loops(self):
        network = nn.Sequential(nn.Flatten(), nn.Linear(16, 3)).double()
        x, y = torch.randn(7, 1, 4, 4).double(), torch.randint(3, (7,))
        sweep = {90: turn, 180: lambda x: x.rot90(2, (-2, -1))}
        changes = prediction_changes(network, x, y, sweep, batch_size=3)
        p = network(x).softmax(-1).tolist()
        kept = sum(max(range(3), key=row.__getitem__) == int(y[i]) for i, row in enumerate(p))
        for angle, transform in sweep.items():
            q = network(transform(x)).softmax(-1).tolist()
            divergence = sum(
                a * math.log(a / b)
                for before, after in zip(p, q, strict=True)
                for a, b in zip(before, after, strict=True)
            )
            hits = sum(max(range(3), key=row.__getitem__) == int(y[i]) for i, row in enumerate(q))
            assert changes[angle].divergence == pytest.approx(divergence / 7)
            assert changes[angle].accuracy == pytest.approx(hits / 7)
            assert changes[angle].drop == pytest.approx((kept - hits) / 7)

    def test_invariant_network_passes_and_plain_one_fails(self):
        x, y = torch.randn(8, 1, 9, 9), torch.randint(4, (8,))
        C4 = [Fixed(groups.rotations(4))] * 3
        exact = GroupCNN(SMALL, 1, 4, 4, C4, (9, 9)).eval()
        free = GroupCNN(SMALL, 1, 4, 4, plain(3), (9, 9)).eval()
        sweep = {"quarter": turn}
        assert prediction_changes(exact, x, y, sweep)["quarter"].divergence < 1e-6
        assert prediction_changes(exact, x, y, sweep)["quarter"].drop == 0
        assert prediction_changes(free, x, y, sweep)["quarter"].divergence > 1e-5

    def test_certain_networks_stay_finite(self):
        x, y = torch.tensor([[[[1.0, -1.0]]]]), torch.tensor([0])
        changes = prediction_changes(
            lambda x: 1e4 * x.flatten(1), x, y, {"flip": lambda x: x.flip(-1)}
        )
        assert changes["flip"].divergence == pytest.approx(2e4)

    @pytest.mark.usefixtures("unchecked")
    def test_messages(self):
        x = torch.ones(2, 1, 2, 2)
        with pytest.raises(ValueError, match="got 2 images and 1 labels"):
            prediction_changes(lambda x: x.flatten(1), x, torch.zeros(1).long(), {})
        with pytest.raises(ValueError, match="at least one image, got 0 images"):
            prediction_changes(lambda x: x.flatten(1), x[:0], torch.zeros(0).long(), {})
        with pytest.raises(ValueError, match="f gives logits that are not finite"):
            prediction_changes(lambda x: x.flatten(1) / 0, x, torch.zeros(2).long(), {})


LAYERS = ["lifting", "hidden.0", "norms.1", "hidden.1"]


@pytest.mark.parametrize("layer", LAYERS)
class TestFeatureError:
    def test_exact_layers_in_any_order(self, layer):
        network = GroupCNN(SMALL, 1, 4, 3, [Fixed(groups.rotations(4))] * 3, (9, 9)).eval()
        features, x = up_to(network, layer), torch.randn(4, 1, 9, 9)
        found = feature_error(features, turn, x)
        assert found.error < 1e-5
        # (T f)[h] = T f[g^-1 h] for the quarter turn g.
        assert found.source.tolist() == [3, 0, 1, 2]
        order = torch.randperm(4)
        shuffled = feature_error(lambda x: features(x)[:, :, order], turn, x)
        assert shuffled.error < 1e-5
        assert torch.equal(order[shuffled.source], found.source[order])

    def test_plain_layers_fail(self, layer):
        network = GroupCNN(SMALL, 1, 4, 3, plain(3), (9, 9)).eval()
        assert feature_error(up_to(network, layer), turn, torch.randn(4, 1, 9, 9)).error > 0.1


def test_feature_error_by_its_formula():
    weight = torch.randn(2, 3)
    x = torch.randn(5, 1, 4, 4)

    def layer(x):
        return x[:, :, None] * weight[None, :, :, None, None] * torch.arange(16.0).view(4, 4)

    found = feature_error(layer, turn, x)
    moved = turn(layer(x))[:, :, found.source]
    expected = (layer(turn(x)) - moved).abs().mean() / layer(x).abs().mean()
    assert found.error == pytest.approx(float(expected))


@pytest.mark.usefixtures("unchecked")
def test_feature_error_messages():
    x = torch.ones(2, 1, 3, 3)
    with pytest.raises(ValueError, match=r"expected features \[B, C, G, \*space\] .* got \(2, 1"):
        feature_error(lambda x: x, turn, x)
    with pytest.raises(ValueError, match="f is zero on all images"):
        feature_error(lambda x: 0 * x[:, :, None], turn, x)
    with pytest.raises(ValueError, match="T must act on the last axes only"):
        feature_error(lambda x: x[:, :, None, :2], turn, x)


def test_up_to_messages_and_clean_up():
    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.step = nn.Identity()

        def forward(self, x):
            return self.step(self.step(x))

    network = Twice()
    with pytest.raises(ValueError, match=r"no module 'head'; choose from \['step'\]"):
        up_to(network, "head")
    with pytest.raises(ValueError, match="expected one output of 'step', got 2"):
        up_to(network, "step")(torch.ones(1))
    assert not network.step._forward_hooks
