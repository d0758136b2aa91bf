"""`python -m benchmarks step`: the paper's MNIST network, trained and baked, and a plain CNN."""

import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from itertools import chain, pairwise

import torch
from jaxtyping import Float
from torch import Tensor, nn

from benchmarks.options import BenchConfig
from benchmarks.recording import Recorder, Row, ratios
from benchmarks.timing import Contender, interleaved, session
from symshare import groups
from symshare.convert import bake
from symshare.models import (
    MNIST,
    Architecture,
    GroupCNN,
    representation_parameters,
    wscnn,
)
from symshare.representations import Fixed, Representation, shared

__all__ = ["PlainCNN", "rows", "training_step"]

GROUP_SIZE = 4
CLASSES = 10
CHANNELS = 32
TRAINING_BATCHES = (64, 8)
INFERENCE_BATCHES = (1, 8, 64)
OURS, BAKED, UNBAKED = "weight sharing", "weight sharing, baked", "weight sharing, unbaked"
PLAIN, GCNN = "plain CNN", "C4 G-CNN"


class PlainCNN(nn.Module):
    """A CNN in plain `torch.nn`, with the blocks of a `GroupCNN` and no symmetry.

    Args:
        architecture: number of blocks and kernel size; the norm is that over channels and space.
        channels: width of every block.
        image_channels: channels of the images.
        classes: number of logits.

    >>> PlainCNN(MNIST, 8)(torch.zeros(2, 1, 28, 28)).shape
    torch.Size([2, 10])
    """

    def __init__(
        self,
        architecture: Architecture,
        channels: int,
        image_channels: int = 1,
        classes: int = CLASSES,
    ):
        super().__init__()
        widths = [image_channels, *[channels] * architecture.blocks]
        blocks: list[nn.Module] = []
        for before, after in pairwise(widths):
            norm = nn.GroupNorm(1, after, affine=False)
            blocks += [nn.Conv2d(before, after, architecture.kernel_size), norm, nn.ReLU()]
        self.blocks = nn.Sequential(*blocks)
        self.head = nn.Linear(channels, classes)

    def forward(self, x: Float[Tensor, "B I H W"]) -> Float[Tensor, "B classes"]:
        return self.head(self.blocks(x).mean((-2, -1)))


def rows(
    config: BenchConfig,
    unbaked: bool = False,
    gcnn: bool = False,
    architecture: Architecture = MNIST,
    image_size: int = 28,
    channels: int = CHANNELS,
    training_batches: Sequence[int] = TRAINING_BATCHES,
    inference_batches: Sequence[int] = INFERENCE_BATCHES,
) -> Iterator[Row]:
    """Every number as it is taken, the summary last.

    A training step is the forward pass, the loss, the backward pass and AdamW. The plain CNN is
    as wide as the network with shared weights when expanded.

    In the summary, ratios are to the plain CNN. `baked_ratio_by_batch` has the median over the
    rounds of each batch size, and `baked_ratio` that over the rounds of all of them together.

    Args:
        config: how long and on what.
        unbaked: also time inference before baking.
        gcnn: also time the G-CNN of the same shape with C4 known.
        architecture: blocks and kernel.
        image_size: pixels a side.
        channels: width of the network with shared weights; each channel has 4 elements.
        training_batches: batch sizes of training.
        inference_batches: batch sizes of inference.
    """
    with session(config) as device:
        recorder = Recorder("step", device)
        networks: dict[str, nn.Module] = {
            OURS: _group_cnn(architecture, image_size, channels),
            PLAIN: PlainCNN(architecture, GROUP_SIZE * channels),
        }
        if gcnn:
            networks[GCNN] = _group_cnn(
                architecture, image_size, channels, Fixed(groups.rotations(4))
            )
        for network in networks.values():
            network.to(device)
        draw = partial(_images, image_size, device=device)

        training: dict[str, list[float]] = {}
        for batch in training_batches:
            steps = {name: training_step(net, *draw(batch)) for name, net in networks.items()}
            timed, found = _compare(recorder, config, device, "training step", batch, steps)
            yield from timed
            training[str(batch)] = found[OURS]

        for network in networks.values():
            network.eval()
        baked = bake(networks[OURS])
        inference = {BAKED: baked, PLAIN: networks[PLAIN]}
        if unbaked:
            inference[UNBAKED] = networks[OURS]
        if gcnn:
            inference[GCNN] = networks[GCNN]
        differences: list[float] = []
        baked_ratios: dict[str, list[float]] = {}
        for batch in inference_batches:
            x, _ = draw(batch)
            runs = {name: partial(_infer, network, x) for name, network in inference.items()}
            timed, found = _compare(recorder, config, device, "inference", batch, runs)
            yield from timed
            baked_ratios[str(batch)] = found[BAKED]
            differences.append((runs[BAKED]() - _infer(networks[OURS], x)).abs().max().item())
        yield recorder.row(
            "largest difference of an output, by batch",
            f"batches {', '.join(map(str, inference_batches))}",
            f"{BAKED} - {UNBAKED}",
            "1",
            differences,
            max=max(differences),
        )
        yield {
            "summary": True,
            "train_ratio": _medians(training),
            "baked_ratio": statistics.median(chain.from_iterable(baked_ratios.values())),
            "baked_ratio_by_batch": _medians(baked_ratios),
            "baked_max_abs_diff": max(differences),
        }


def training_step(
    network: nn.Module,
    x: Tensor,
    y: Tensor,
    forward: Callable[[Tensor], Tensor] | None = None,
    together: bool = True,
) -> Callable[[], None]:
    """One step of AdamW on a batch, to be called again and again.

    Args:
        network: it is trained.
        x: images.
        y: their classes.
        forward: what computes the logits; by default the network itself.
        together: project stacks of one size in one call before the forward pass, rather than
            each in its layer.
    """
    compute = network if forward is None else forward
    learned = representation_parameters(network)
    known = {id(p) for p in learned}
    weights = [p for p in network.parameters() if id(p) not in known]
    parts = [{"params": weights}, {"params": learned, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW([part for part in parts if part["params"]], lr=1e-3)
    network.train()
    projected = shared if learned and together else nullcontext

    def step() -> None:
        optimizer.zero_grad()
        with projected(network):
            loss = nn.functional.cross_entropy(compute(x), y)
        loss.backward()
        optimizer.step()

    return step


def _group_cnn(
    architecture: Architecture, image_size: int, channels: int, known: Representation | None = None
) -> GroupCNN:
    """The network with learned stacks, or with the known group."""
    stacks = wscnn(architecture, GROUP_SIZE) if known is None else [known] * architecture.blocks
    return GroupCNN(architecture, 1, CLASSES, channels, stacks, (image_size, image_size))


def _images(size: int, batch: int, device: torch.device) -> tuple[Tensor, Tensor]:
    images = torch.randn(batch, 1, size, size)
    return images.to(device), torch.randint(CLASSES, (batch,)).to(device)


def _medians(found: Mapping[str, Sequence[float]]) -> dict[str, float]:
    return {name: statistics.median(values) for name, values in found.items()}


@torch.inference_mode()
def _infer(network: nn.Module, x: Tensor) -> Tensor:
    return network(x)


def _compare(
    recorder: Recorder,
    config: BenchConfig,
    device: torch.device,
    what: str,
    batch: int,
    runs: Mapping[str, Callable[[], object]],
) -> tuple[list[Row], dict[str, list[float]]]:
    """Rows of one batch size, and the ratios of each contender to the plain CNN by round."""
    contenders = {name: Contender(run) for name, run in runs.items()}
    times = interleaved(contenders, config, device)
    case = f"batch {batch}"
    made = [
        recorder.row(what, case, name, "s", seconds, batch=batch) for name, seconds in times.items()
    ]
    found = {name: ratios(times[name], times[PLAIN]) for name in runs if name != PLAIN}
    for name, values in found.items():
        label = f"{name} / {PLAIN}"
        made.append(
            recorder.row(f"{what}, ratio within rounds", case, label, "1", values, batch=batch)
        )
    return made, found
