"""`python -m benchmarks layer`: a lifting layer at inference, beside a loop over the elements."""

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from functools import partial

import torch
from jaxtyping import Float
from torch import Tensor, nn

from benchmarks.options import BenchConfig
from benchmarks.recording import Recorder, Row, ratios
from benchmarks.timing import Contender, interleaved, peak_bytes, session
from symshare.convert import bake
from symshare.layers import LiftConv2d
from symshare.representations import Sinkhorn

__all__ = ["CONTENDERS", "LoopLift", "rows"]

GROUP_SIZES = (1, 4, 8, 16)
KERNEL_SIZES = (3, 5, 7, 9)
INPUT = (32, 3, 100, 100)
OUT_CHANNELS = 16
OURS, BAKED, LOOP, PLAIN = "ours", "ours, baked", "loop over elements", "plain convolution"
CONTENDERS = (OURS, BAKED, LOOP, PLAIN)


class LoopLift(nn.Module):
    """Lifting layer of a G-CNN for C_n as it is often written: a convolution for each element.

    Each element turns the kernel and convolves the input with it; the maps are stacked. Quarter
    turns are exact, others are interpolated.

    Args:
        in_channels: I.
        out_channels: O.
        kernel_size: side of the kernel.
        group_size: G, the number of turns.

    >>> LoopLift(3, 16, 5, group_size=8)(torch.zeros(2, 3, 9, 9)).shape
    torch.Size([2, 16, 8, 5, 5])
    """

    grids: Tensor

    def __init__(self, in_channels: int, out_channels: int, kernel_size: int, group_size: int):
        super().__init__()
        bound = 1 / math.sqrt(in_channels * kernel_size**2)
        shape = (out_channels, in_channels, kernel_size, kernel_size)
        self.theta = nn.Parameter(torch.empty(shape).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.empty(out_channels).uniform_(-bound, bound))
        self.group_size = group_size
        angles = torch.arange(group_size) * (2 * math.pi / group_size)
        cos, sin, zero = angles.cos(), angles.sin(), torch.zeros(group_size)
        turns = torch.stack([cos, -sin, zero, sin, cos, zero], -1).unflatten(-1, (2, 3))
        size = [group_size, 1, kernel_size, kernel_size]
        self.register_buffer("grids", nn.functional.affine_grid(turns, size, align_corners=True))

    def kernel(self, g: int) -> Float[Tensor, "O I k k"]:
        """The kernel, turned by g / G of a full turn."""
        if 4 * g % self.group_size == 0:
            return torch.rot90(self.theta, 4 * g // self.group_size, (-2, -1))
        grid = self.grids[g].expand(len(self.theta), -1, -1, -1)
        return nn.functional.grid_sample(self.theta, grid, align_corners=True)

    def forward(self, x: Float[Tensor, "B I H W"]) -> Float[Tensor, "B O G H2 W2"]:
        maps = [nn.functional.conv2d(x, self.kernel(g), self.bias) for g in range(self.group_size)]
        return torch.stack(maps, 2)


def rows(
    config: BenchConfig,
    group_sizes: Sequence[int] = GROUP_SIZES,
    kernel_sizes: Sequence[int] = KERNEL_SIZES,
    input_shape: tuple[int, int, int, int] = INPUT,
    out_channels: int = OUT_CHANNELS,
) -> Iterator[Row]:
    """Every number as it is taken, the summary last.

    Memory is what a call holds at most beyond its input and the weights, its output included;
    see :func:`benchmarks.timing.peak_bytes`. "plain convolution" has as many output channels
    as the others have channels times elements.

    Args:
        config: how long and on what.
        group_sizes: |G|.
        kernel_sizes: sides of the kernel.
        input_shape: (batch, channels, height, width).
        out_channels: O.
    """
    with session(config) as device:
        recorder = Recorder("layer", device)
        x = torch.randn(input_shape).to(device)
        found: dict[tuple[str, str], list[float]] = {}
        for G in group_sizes:
            for k in kernel_sizes:
                layers = _layers(input_shape[1], out_channels, k, G)
                for measures, unit, values in _measured(layers, x, config, device):
                    more = {"group_size": G, "kernel_size": k}
                    case = f"|G| = {G}, k = {k}"
                    for name in CONTENDERS:
                        yield recorder.row(measures, case, name, unit, values[name], **more)
                    for name in (OURS, BAKED, PLAIN):
                        row = recorder.row(
                            f"{measures}, ratio",
                            case,
                            f"{name} / {LOOP}",
                            "1",
                            ratios(values[name], values[LOOP]),
                            **more,
                        )
                        found.setdefault((measures, name), []).append(row["median"])
                        yield row
        yield {
            "summary": True,
            "time_ratio_median": statistics.median(found["time", OURS]),
            "time_ratio_max": max(found["time", OURS]),
            "memory_ratio_median": statistics.median(found["memory", OURS]),
            "baked_time_ratio_median": statistics.median(found["time", BAKED]),
            "baked_time_ratio_max": max(found["time", BAKED]),
            "baked_memory_ratio_median": statistics.median(found["memory", BAKED]),
        }


def _layers(in_channels: int, out_channels: int, k: int, G: int) -> dict[str, nn.Module]:
    """The contenders of one cell of the grid, in eval mode."""
    ours = LiftConv2d(in_channels, out_channels, k, Sinkhorn(G, k * k)).eval()
    layers = {
        OURS: ours,
        BAKED: bake(ours),
        LOOP: LoopLift(in_channels, out_channels, k, G),
        PLAIN: nn.Conv2d(in_channels, out_channels * G, k),
    }
    return {name: layer.eval() for name, layer in layers.items()}


def _measured(
    layers: Mapping[str, nn.Module], x: Tensor, config: BenchConfig, device: torch.device
) -> Iterator[tuple[str, str, dict[str, list[float]]]]:
    """What was measured, its unit, and the numbers of each contender."""
    runs = {name: partial(_infer, layer.to(device), x) for name, layer in layers.items()}
    contenders = {name: Contender(run) for name, run in runs.items()}
    yield "time", "s", interleaved(contenders, config, device)
    yield "memory", "bytes", {name: [peak_bytes(run, device)] for name, run in runs.items()}


@torch.inference_mode()
def _infer(layer: nn.Module, x: Tensor) -> Tensor:
    return layer(x)
