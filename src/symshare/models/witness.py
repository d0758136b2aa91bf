"""The network that a held-out test asks: small, and without any symmetry of its own."""

from torch import nn

__all__ = ["probe"]


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
