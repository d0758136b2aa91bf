"""The networks of the paper's MNIST experiments, a smaller sibling, and the witness of tests."""

import math
from dataclasses import dataclass
from typing import Literal

from jaxtyping import Float, Int
from torch import Tensor, nn

from symshare.layers import (
    GroupConv1d,
    GroupConv2d,
    GroupConv3d,
    GroupHead,
    GroupInstanceNorm,
    GroupLayerNorm,
    GroupPlaces,
    GroupPool,
    LiftConv1d,
    LiftConv2d,
    LiftConv3d,
)
from symshare.models.network import GroupNetwork
from symshare.representations import Representation

_NORMS = {"layer": GroupLayerNorm, "instance": GroupInstanceNorm}
_LIFTING = {1: LiftConv1d, 2: LiftConv2d, 3: LiftConv3d}
_HIDDEN = {1: GroupConv1d, 2: GroupConv2d, 3: GroupConv3d}
_PLAIN: dict[int, type[nn.Conv1d | nn.Conv2d | nn.Conv3d]]
_PLAIN = {1: nn.Conv1d, 2: nn.Conv2d, 3: nn.Conv3d}


@dataclass(frozen=True)
class Architecture:
    """Shape of a :class:`GroupCNN`, whatever its representations.

    Attributes:
        blocks: number of convolutions without padding, the lifting one included.
        kernel_size: positions of every kernel along each axis.
        norm: "layer" (over channels, group and space, as in the published code) or "instance"
            (over group and space, as in the paper's text).
        dims: axes of space of the images, one to three.
        places: whether the head reads where features lie, see :class:`symshare.layers.GroupPlaces`,
            through a hidden layer: labels that are numbers may be places.
    """

    blocks: int
    kernel_size: int
    norm: Literal["layer", "instance"] = "layer"
    dims: int = 2
    places: bool = False

    def __post_init__(self) -> None:
        known = self.norm in _NORMS and self.dims in _PLAIN
        if self.blocks < 1 or self.kernel_size < 1 or not known:
            raise ValueError(
                "Architecture: expected at least one block and one tap, a norm among "
                f"{', '.join(map(repr, _NORMS))} and one to three axes, got blocks={self.blocks}, "
                f"kernel_size={self.kernel_size}, norm={self.norm!r}, dims={self.dims}"
            )

    @property
    def convolutions(self) -> int:
        """Number of convolutions, each with a representation: one for each block."""
        return self.blocks

    @property
    def smallest(self) -> int:
        """Positions along each axis that an image needs.

        >>> MNIST.smallest, SMALL.smallest
        (21, 7)
        """
        return self.blocks * (self.kernel_size - 1) + 1

    @property
    def taps(self) -> int:
        """Positions of a kernel."""
        return self.kernel_size**self.dims

    def free_parameters(
        self, in_channels: int, classes: int, channels: int, group_size: int
    ) -> int:
        """Parameters of a network of this shape, those of its representations left out."""
        lifting = channels * (in_channels * self.taps + 1)
        hidden = channels * (channels * group_size * self.taps + 1) * (self.blocks - 1)
        reader = channels * (channels * (1 + self.dims) + 1) if self.places else 0
        return lifting + hidden + reader + classes * (channels + 1)


MNIST = Architecture(blocks=5, kernel_size=5)
"""The paper's network for MNIST."""

SMALL = Architecture(blocks=3, kernel_size=3)
"""For images of 7 to 20 pixels a side."""


VECTOR_WIDTH = 64
"""Width of the witness of vectors."""

VECTORS = Architecture(blocks=3, kernel_size=1, dims=1)
"""Of vectors, which have one position: layers over channels and elements only."""


class GroupCNN(GroupNetwork):
    """Blocks of (group) convolution, norm and ReLU; mean over space and group; a linear head.

    Where labels are numbers, a hidden layer that reads places stands before the mean over the
    group, see `Architecture.places`.

    One class for the G-CNN (`Fixed`), the weight-sharing CNN (`Sinkhorn`), the gated one
    (`Gated`) and, with one group element, the plain CNN.

    Args:
        architecture: number of blocks, kernel, norm.
        in_channels: channels of the images.
        classes: number of logits.
        channels: width C of every block; each channel has G copies.
        representations: one for each block, the first for lifting; an instance may repeat.
        image_size: positions along each axis of space, to refuse images that the kernels would
            use up.
        label_map: what each element makes of each class, or of the numbers, see
            :class:`symshare.GroupHead`; None where labels stay.
        frames: what each element makes of a position, where the architecture reads places.

    Raises:
        ValueError: if there are more or fewer representations than blocks, or the kernels do
            not fit into the image.

    >>> from symshare import Fixed, groups
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
        image_size: tuple[int, ...],
        label_map: Int[Tensor, "G K"] | Float[Tensor, "G K K"] | None = None,
        frames: Float[Tensor, "G dims dims"] | None = None,
    ):
        super().__init__()
        if len(representations) != architecture.blocks:
            raise ValueError(
                f"GroupCNN: {architecture.blocks} blocks need as many representations, got "
                f"{len(representations)}"
            )
        if len(image_size) != architecture.dims or min(image_size) < architecture.smallest:
            raise ValueError(
                f"GroupCNN: {architecture.blocks} kernels of size {architecture.kernel_size} "
                f"without padding need images of at least {architecture.smallest} positions along "
                f"each of {architecture.dims} axes, got {' x '.join(map(str, image_size))}; use "
                "fewer blocks or a smaller kernel"
            )
        norm = _NORMS[architecture.norm]
        k, dims = architecture.kernel_size, architecture.dims
        self.lifting = _LIFTING[dims](in_channels, channels, k, representations[0])
        self.hidden = nn.ModuleList(
            _HIDDEN[dims](channels, channels, k, representation)
            for representation in representations[1:]
        )
        self.norms = nn.ModuleList([norm(rep.gate) for rep in representations])
        self.pool = GroupPool(representations[-1].gate)
        self.places = None
        if architecture.places:
            assert frames is not None
            features = channels * (1 + dims)
            self.places, self.reader = GroupPlaces(frames), nn.Linear(features, channels)
        self.labels_move = label_map is not None
        self.head: nn.Linear | GroupHead = (
            nn.Linear(channels, classes) if label_map is None else GroupHead(channels, label_map)
        )

    def forward(self, x: Float[Tensor, "B I *space"]) -> Float[Tensor, "B classes"]:
        for convolution, norm in zip((self.lifting, *self.hidden), self.norms, strict=True):
            x = norm(convolution(x)).relu()
        if self.places is not None:
            read = self.reader(self.places(x).transpose(1, 2)).relu().transpose(1, 2)
            return self.head(read if self.labels_move else self.pool(read))
        if self.labels_move:
            return self.head(x.flatten(3).mean(-1))
        return self.head(self.pool(x).flatten(2).mean(-1))


def probe(in_channels: int, classes: int, image_size: tuple[int, ...]) -> nn.Sequential:
    """A small plain CNN without any symmetry of its own: the witness of a held-out test.

    Kernels of 3 positions along each axis halve the longest one to at most 4 positions; the head
    sees positions, since a network that averages over space could not notice a shift. Vectors,
    which have one position, are read by two wider layers.

    >>> probe(1, 10, (8, 8))[-1]
    Linear(in_features=512, out_features=10, bias=True)
    """
    layers: list[nn.Module] = []
    dims, vectors = len(image_size), image_size == (1,)
    first, width = (VECTOR_WIDTH, VECTOR_WIDTH) if vectors else (16, 32)
    kernel = 1 if vectors else 3
    layers += _probe_block(in_channels, first, kernel, 1, dims)
    size, channels = image_size, first
    while max(size) > 4:
        layers += _probe_block(channels, width, kernel, 2, dims)
        size, channels = tuple(-(-side // 2) for side in size), width
    layers += _probe_block(channels, width, kernel, 1, dims)
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(width * math.prod(size), classes))


def _probe_block(
    in_channels: int, out_channels: int, kernel: int, stride: int, dims: int
) -> list[nn.Module]:
    norm = nn.GroupNorm(1, out_channels, affine=False)
    convolution = _PLAIN[dims](in_channels, out_channels, kernel, stride, padding=kernel // 2)
    return [convolution, norm, nn.ReLU()]
