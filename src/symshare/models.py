"""The networks of the paper's MNIST experiments, and a smaller sibling for small images."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Literal

from jaxtyping import Float
from torch import Tensor, nn

from symshare import groups
from symshare.layers import (
    GroupConv2d,
    GroupInstanceNorm,
    GroupLayerNorm,
    GroupPool,
    LiftConv2d,
)
from symshare.representations import Fixed, Representation, Sinkhorn

__all__ = [
    "MNIST",
    "SMALL",
    "Architecture",
    "GroupCNN",
    "free_parameters",
    "matched_channels",
    "plain",
    "probe",
    "wscnn",
]

_NORMS = {"layer": GroupLayerNorm, "instance": GroupInstanceNorm}


@dataclass(frozen=True)
class Architecture:
    """Shape of a :class:`GroupCNN`, whatever its representations.

    Attributes:
        blocks: number of convolutions without padding, the lifting one included.
        kernel_size: side of every kernel.
        norm: "layer" (over channels, group and space, as in the published code) or "instance"
            (over group and space, as in the paper's text).
    """

    blocks: int
    kernel_size: int
    norm: Literal["layer", "instance"] = "layer"

    @property
    def smallest(self) -> int:
        """Pixels a side that an image needs.

        >>> MNIST.smallest, SMALL.smallest
        (21, 7)
        """
        return self.blocks * (self.kernel_size - 1) + 1


MNIST = Architecture(blocks=5, kernel_size=5)
"""The paper's network for MNIST."""

SMALL = Architecture(blocks=3, kernel_size=3)
"""For images of 7 to 20 pixels a side."""


class GroupCNN(nn.Module):
    """Blocks of (group) convolution, norm and ReLU; mean over space and group; a linear head.

    One class for the G-CNN (`Fixed`), the weight-sharing CNN (`Sinkhorn`), the gated one
    (`Gated`) and, with one group element, the plain CNN.

    Args:
        architecture: number of blocks, kernel, norm.
        in_channels: channels of the images.
        classes: number of logits.
        channels: width C of every block; each channel has G copies.
        representations: one for each block, the first for lifting; an instance may repeat.
        image_size: (H, W), to refuse images that the kernels would use up.

    Raises:
        ValueError: if there are more or fewer representations than blocks, or the kernels do
            not fit into the image.

    >>> net = GroupCNN(MNIST, 1, 10, 32, [Fixed(groups.rotations(4))] * 5, (28, 28))
    >>> net.free_parameters()
    410890
    """

    def __init__(
        self,
        architecture: Architecture,
        in_channels: int,
        classes: int,
        channels: int,
        representations: list[Representation],
        image_size: tuple[int, int],
    ):
        super().__init__()
        if len(representations) != architecture.blocks:
            raise ValueError(
                f"GroupCNN: {architecture.blocks} blocks need as many representations, got "
                f"{len(representations)}"
            )
        if min(image_size) < architecture.smallest:
            raise ValueError(
                f"GroupCNN: {architecture.blocks} kernels of size {architecture.kernel_size} "
                f"without padding need images of at least {architecture.smallest} pixels a side, "
                f"got {image_size[0]} x {image_size[1]}; use fewer blocks or a smaller kernel"
            )
        norm = _NORMS[architecture.norm]
        k = architecture.kernel_size
        self.lifting = LiftConv2d(in_channels, channels, k, representations[0])
        self.hidden = nn.ModuleList(
            GroupConv2d(channels, channels, k, representation)
            for representation in representations[1:]
        )
        self.norms = nn.ModuleList([norm(rep.gate) for rep in representations])
        self.pool = GroupPool(representations[-1].gate)
        self.head = nn.Linear(channels, classes)

    def forward(self, x: Float[Tensor, "B I H W"]) -> Float[Tensor, "B classes"]:
        for convolution, norm in zip((self.lifting, *self.hidden), self.norms, strict=True):
            x = norm(convolution(x)).relu()
        return self.head(self.pool(x).mean((-2, -1)))

    def stacks(self) -> list[Representation]:
        """The representation of every convolution, the lifting one first."""
        layers = (
            module for module in self.modules() if isinstance(module, LiftConv2d | GroupConv2d)
        )
        return [layer.representation for layer in layers]

    def representation_parameters(self) -> int:
        """Number of parameters of the representations, shared ones counted once."""
        return sum(p.numel() for p in representation_parameters(self))

    def free_parameters(self) -> int:
        """Number of all other parameters: base weights, biases and the head."""
        return sum(p.numel() for p in self.parameters()) - self.representation_parameters()


def representation_parameters(network: nn.Module) -> list[nn.Parameter]:
    """Parameters of all representations in a network, each once."""
    found = {
        id(p): p
        for module in network.modules()
        if isinstance(module, Representation)
        for p in module.parameters()
    }
    return list(found.values())


def plain(blocks: int) -> list[Representation]:
    """Representations of a plain CNN: the trivial group in every block."""
    return [Fixed(groups.rotations(1))] * blocks


def wscnn(
    architecture: Architecture, group_size: int, make: Callable[..., Sinkhorn] = Sinkhorn
) -> list[Representation]:
    """Representations of the paper's network: a free stack for each block.

    >>> sum(p.numel() for rep in wscnn(MNIST, 4) for p in rep.parameters())
    121875
    """
    taps = architecture.kernel_size**2
    sizes = [taps] + [group_size * taps] * (architecture.blocks - 1)
    return [make(group_size, positions) for positions in sizes]


def free_parameters(
    architecture: Architecture, in_channels: int, classes: int, channels: int, group_size: int = 1
) -> int:
    """Free parameters of a :class:`GroupCNN`, without building it.

    >>> free_parameters(MNIST, 1, 10, 64), free_parameters(MNIST, 1, 10, 16, group_size=4)
    (412170, 103050)
    """
    taps = architecture.kernel_size**2
    lifting = channels * (in_channels * taps + 1)
    hidden = channels * (channels * group_size * taps + 1) * (architecture.blocks - 1)
    return lifting + hidden + classes * (channels + 1)


def matched_channels(
    architecture: Architecture, in_channels: int, classes: int, group_size: int, parameters: int
) -> int:
    """Width at which a network with G elements has nearest to this many free parameters.

    >>> matched_channels(MNIST, 1, 10, group_size=4, parameters=412_170)
    32
    """
    count = partial(free_parameters, architecture, in_channels, classes, group_size=group_size)
    upper = 1
    while count(upper) < parameters:
        upper += 1
    return min(range(max(1, upper - 1), upper + 1), key=lambda c: abs(count(c) - parameters))


def probe(in_channels: int, classes: int, image_size: tuple[int, int]) -> nn.Sequential:
    """A small plain CNN without any symmetry of its own: the witness of a held-out test.

    3 x 3 convolutions halve the longer side to at most 4 pixels; the head sees positions, since
    a network that averages over space could not notice a shift.

    >>> probe(1, 10, (8, 8))[-1]
    Linear(in_features=512, out_features=10, bias=True)
    """
    layers: list[nn.Module] = []
    channels, width, size, stride = in_channels, 16, image_size, 1
    while stride == 1 or max(size) > 4:
        layers += _probe_block(channels, width, stride)
        size = tuple(-(-side // stride) for side in size)
        channels, width, stride = width, 32, 2
    layers += _probe_block(channels, width, 1)
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(width * size[0] * size[1], classes))


def _probe_block(in_channels: int, out_channels: int, stride: int) -> list[nn.Module]:
    norm = nn.GroupNorm(1, out_channels, affine=False)
    return [nn.Conv2d(in_channels, out_channels, 3, stride, padding=1), norm, nn.ReLU()]
