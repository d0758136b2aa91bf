"""The residual networks of the paper's CIFAR-10 experiments."""

import warnings
from dataclasses import dataclass
from typing import Literal

from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import max_pool2d

from symshare.layers import GroupBatchNorm, GroupConv2d, GroupInstanceNorm, GroupPool, LiftConv2d
from symshare.layers.weights import check_representation
from symshare.models.network import GroupNetwork
from symshare.representations import Representation

_HEAD = 256
"""Width of the hidden layer of the head."""


@dataclass(frozen=True)
class ResidualArchitecture:
    """Shape of a :class:`GroupResNet`, whatever its representations.

    Attributes:
        kernel_size: side of every kernel.
        lifting_padding: "same", or "valid" (none), as the published code has it for the G-CNN
            alone: 32 x 32 images then become maps of 26 x 26, and after the first pooling 13 x 13.
    """

    kernel_size: int = 7
    lifting_padding: Literal["same", "valid"] = "same"

    @property
    def convolutions(self) -> int:
        """Number of convolutions, each with a representation: the lifting one, two in a block."""
        return 5

    @property
    def taps(self) -> int:
        """Positions of a kernel."""
        return self.kernel_size**2

    @property
    def smallest(self) -> int:
        """Pixels a side that an image needs: each block halves what the lifting leaves.

        >>> CIFAR10.smallest, ResidualArchitecture(7, "valid").smallest
        (4, 10)
        """
        return 4 + self.margin

    @property
    def margin(self) -> int:
        """Pixels that the lifting convolution takes from each side length."""
        return self.kernel_size - 1 if self.lifting_padding == "valid" else 0

    def free_parameters(
        self, in_channels: int, classes: int, channels: int, group_size: int
    ) -> int:
        """Parameters of a network of this shape, those of its representations left out."""
        taps, C = self.taps, channels
        lifting = C * (in_channels * taps + 1) + 2 * C
        first = 2 * C * (C * group_size * taps + 1) + 2 * C
        second = 2 * C * (C * group_size * taps + 1) + 2 * C * (2 * C * group_size * taps + 1)
        shortcut = 2 * C * (C + 1)
        head = _HEAD * 2 * C + 2 * _HEAD + classes * (_HEAD + 1)
        return lifting + first + second + 4 * C + shortcut + head


CIFAR10 = ResidualArchitecture()
"""The paper's network for CIFAR-10."""


class GroupResNet(GroupNetwork):
    """A lifting convolution, two residual blocks, means over group and space, a head of two layers.

    One class for the G-CNN (`Fixed`), the weight-sharing CNN (`Sinkhorn`), those with one symmetry
    for all layers (`Gated`, `Kronecker`, `Birkhoff`) and, with one group element, the plain CNN.
    Batch norm and ReLU follow the lifting convolution. The blocks are C to C and C to 2C channels
    wide; all their convolutions keep the size, and each ends with a 2 x 2 max-pool. The head is
    linear, batch norm, ReLU, dropout 0.3, linear.

    For transformations that map the grid to itself and `Fixed` representations of their group the
    network is exactly invariant in eval mode, if both poolings meet even sides: a pool takes
    pixels in pairs from the first on, so a flip of an even side maps pairs to pairs, while of an
    odd side it leaves the last pixel out. Sides that are multiples of 4 satisfy this, with the
    lifting padding "valid" those that are so after it. It warns about others.

    Args:
        architecture: kernel, and padding of the lifting convolution.
        in_channels: channels of the images.
        classes: number of logits.
        channels: width C; each channel has G copies.
        representations: one for each of the five convolutions, all with as many elements, the
            first for lifting; an instance may repeat.
        image_size: (H, W), to refuse images that are too small and warn about odd sides.

    Raises:
        TypeError: if a representation is none.
        ValueError: if there are more or fewer than five representations, they differ in their
            number of elements, or the image is too small.

    >>> from symshare import Fixed, groups
    >>> net = GroupResNet(CIFAR10, 3, 10, 32, [Fixed(groups.rotations(4))] * 5, (32, 32))
    >>> net.free_parameters()
    1632394
    """

    def __init__(
        self,
        architecture: ResidualArchitecture,
        in_channels: int,
        classes: int,
        channels: int,
        representations: list[Representation],
        image_size: tuple[int, int],
    ):
        super().__init__()
        _check_representations(architecture, representations)
        _check_size(architecture, image_size, representations[0].group_size)
        k = architecture.kernel_size
        lift, *hidden = representations
        padding = architecture.lifting_padding
        self.lifting = LiftConv2d(in_channels, channels, k, lift, padding=padding)
        self.norm = GroupBatchNorm(channels, gate=lift.gate)
        self.blocks = nn.Sequential(
            ResidualBlock(channels, channels, k, *hidden[:2]),
            ResidualBlock(channels, 2 * channels, k, *hidden[2:]),
        )
        self.pool = GroupPool(hidden[-1].gate)
        self.head = nn.Sequential(
            nn.Linear(2 * channels, _HEAD, bias=False),
            nn.BatchNorm1d(_HEAD),
            nn.ReLU(),
            nn.Dropout(0.3),
            nn.Linear(_HEAD, classes),
        )

    def forward(self, x: Float[Tensor, "B I H W"]) -> Float[Tensor, "B classes"]:
        f = self.blocks(self.norm(self.lifting(x)).relu())
        return self.head(self.pool(f).mean((-2, -1)))


class ResidualBlock(nn.Module):
    r"""Two group convolutions beside a shortcut, then half the resolution.

    .. math:: y = \mathrm{ReLU}(\mathrm{pool}(\mathrm{BN}(s(f) + h_2(h_1(f))))), \quad
        h_i(f) = \mathrm{ReLU}(\mathrm{IN}(k_i \star f))

    The shortcut s is the identity, or where the width changes a linear map of the channels, the
    same at every group element and pixel. `first` and `second` are the representations of the
    two convolutions.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int,
        first: Representation,
        second: Representation,
    ):
        super().__init__()
        self.out_channels = out_channels
        self.conv1 = GroupConv2d(in_channels, out_channels, kernel_size, first, padding="same")
        self.norm1 = GroupInstanceNorm(first.gate)
        self.conv2 = GroupConv2d(out_channels, out_channels, kernel_size, second, padding="same")
        self.norm2 = GroupInstanceNorm(second.gate)
        same = in_channels == out_channels
        self.shortcut = nn.Identity() if same else nn.Conv3d(in_channels, out_channels, 1)
        self.norm = GroupBatchNorm(out_channels, gate=second.gate)

    def forward(self, f: Float[Tensor, "B I G H W"]) -> Float[Tensor, "B O G H//2 W//2"]:
        h = self.norm1(self.conv1(f)).relu()
        h = self.norm2(self.conv2(h)).relu()
        h = self.norm(self.shortcut(f) + h)
        return max_pool2d(h.flatten(1, 2), 2).unflatten(1, (self.out_channels, -1)).relu()


def _check_representations(
    architecture: ResidualArchitecture, representations: list[Representation]
) -> None:
    if len(representations) != architecture.convolutions:
        raise ValueError(
            f"GroupResNet: {architecture.convolutions} convolutions need as many representations, "
            f"got {len(representations)}"
        )
    for representation in representations:
        check_representation("GroupResNet", representation)
    sizes = [representation.group_size for representation in representations]
    if len(set(sizes)) != 1:
        raise ValueError(
            "GroupResNet: shortcuts add maps on the same elements, so all representations need as "
            f"many, got {sizes}; use one number of elements in all"
        )


def _check_size(
    architecture: ResidualArchitecture, image_size: tuple[int, int], group_size: int
) -> None:
    """Refuse images that are used up; warn of odd sides, which matter to more than one element."""
    margin = architecture.margin
    if min(image_size) < architecture.smallest:
        remedy = " or lifting_padding='same'" if margin else ""
        raise ValueError(
            f"GroupResNet: two poolings and lifting padding {architecture.lifting_padding!r} need "
            f"images of at least {architecture.smallest} pixels a side, got {image_size[0]} x "
            f"{image_size[1]}; use larger images{remedy}"
        )
    lifted = tuple(side - margin for side in image_size)
    extra = f", plus {margin}" if margin else ""
    if group_size > 1 and any(side % 4 for side in lifted):
        warnings.warn(
            f"GroupResNet: the poolings leave out pixels of maps of {lifted[0]} x {lifted[1]}, so "
            "that flips and rotations are not exact; use images whose sides are a multiple of 4"
            f"{extra}",
            UserWarning,
            stacklevel=3,
        )
