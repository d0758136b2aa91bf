"""The networks of the paper's MNIST experiments, a smaller sibling, and the witness of tests."""

from dataclasses import dataclass
from typing import Literal

from jaxtyping import Float
from torch import Tensor, nn

from symshare.layers import GroupConv2d, GroupInstanceNorm, GroupLayerNorm, GroupPool, LiftConv2d
from symshare.models.network import GroupNetwork
from symshare.representations import Representation

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

    def __post_init__(self) -> None:
        if self.blocks < 1 or self.kernel_size < 1 or self.norm not in _NORMS:
            raise ValueError(
                "Architecture: expected at least one block and one tap, and a norm among "
                f"{', '.join(map(repr, _NORMS))}, got blocks={self.blocks}, "
                f"kernel_size={self.kernel_size}, norm={self.norm!r}"
            )

    @property
    def convolutions(self) -> int:
        """Number of convolutions, each with a representation: one for each block."""
        return self.blocks

    @property
    def smallest(self) -> int:
        """Pixels a side that an image needs.

        >>> MNIST.smallest, SMALL.smallest
        (21, 7)
        """
        return self.blocks * (self.kernel_size - 1) + 1

    def free_parameters(
        self, in_channels: int, classes: int, channels: int, group_size: int
    ) -> int:
        """Parameters of a network of this shape, those of its representations left out."""
        taps = self.kernel_size**2
        lifting = channels * (in_channels * taps + 1)
        hidden = channels * (channels * group_size * taps + 1) * (self.blocks - 1)
        return lifting + hidden + classes * (channels + 1)


MNIST = Architecture(blocks=5, kernel_size=5)
"""The paper's network for MNIST."""

SMALL = Architecture(blocks=3, kernel_size=3)
"""For images of 7 to 20 pixels a side."""


class GroupCNN(GroupNetwork):
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
