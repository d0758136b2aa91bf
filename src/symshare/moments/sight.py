"""What a convolution sees: the patches that its kernel is laid on, and their second moments."""

import math
from collections.abc import Iterator

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from symshare.layers.convolution import Convolution
from symshare.layers.geometry import Geometry
from symshare.moments.statistics import Moments, by_class

SCALES = (3, 5)
"""Further dilations, times that of the kernel, at which images are read: what sets a mirror image
apart may show in the whole digit only. Images are blurred to the same scale first."""

PATCHES = 32
"""Random patches of each image. Those of one image hang together, so that more say little more."""

CHANNELS = 16
"""Random channels of features; each gives a moment of its own."""

_AT_ONCE = 64
"""Images whose patches are held at once."""


class Sight:
    """Adds up the second moments of what a convolution sees, block by block.

    Images have one moment for each class, channel and scale, features one for each channel. What a
    layer reads that mixes channels has one for each class and scale, over channels and positions.

    Args:
        layer: a convolution that is not transposed.
        classes: number of classes.
        generator: of the patches that are drawn.

    Attributes:
        blocks: the moments of each block, [K, D, D], in the order in which they were added.
    """

    def __init__(self, layer: Convolution, classes: int, generator: torch.Generator):
        self.layer, self.classes, self.generator = layer, classes, generator
        self._mean: Tensor | None = None
        self._channels: Tensor | None = None
        self.blocks: list[Tensor] = []

    def add(self, inputs: Tensor, labels: Int[Tensor, " N"]) -> None:
        """One block: the input of the layer for some images, and their labels."""
        lifting = self.layer.lifting
        if self.layer.mixes_channels:
            # One channel of as many elements, as a group layer reads them.
            inputs = inputs[:, None]
        if self._mean is None:
            space = tuple(range(2, inputs.ndim))
            self._mean = inputs.mean((0, *space), keepdim=True)
            order = torch.randperm(inputs.shape[1], generator=self.generator)
            self._channels = order[: inputs.shape[1] if lifting else CHANNELS]
        inputs = (inputs - self._mean)[:, self._channels]
        classes = self.classes if lifting else 1
        labels = labels if lifting else torch.zeros_like(labels)
        parts = zip(inputs.split(_AT_ONCE), labels.split(_AT_ONCE), strict=True)
        sums = [
            len(own) * torch.cat([by_class(rows, own, classes) for rows in self._patches(part)])
            for part, own in parts
        ]
        self.blocks.append(torch.stack(sums).sum(0) / len(inputs))

    def moments(self) -> Moments:
        """What was added so far."""
        return Moments(torch.stack(self.blocks))

    def _patches(self, inputs: Tensor) -> Iterator[Float[Tensor, "n C D L"]]:
        """Patches of inputs as they are and, of images, at every scale that fits."""
        geometry = self.layer.geometry
        yield self._drawn(inputs, geometry)
        for scale in SCALES if self.layer.lifting else ():
            dilation = tuple(scale * d for d in geometry.dilation)
            reach = [d * (k - 1) for d, k in zip(dilation, geometry.kernel_size, strict=True)]
            space = [n - scale + 1 for n in inputs.shape[-geometry.dims :]]
            if any(n <= r for n, r in zip(space, reach, strict=True)):
                return
            pool = (F.avg_pool1d, F.avg_pool2d, F.avg_pool3d)[geometry.dims - 1]
            planes = inputs.flatten(1, -geometry.dims - 1)
            blurred = pool(planes, scale, 1).unflatten(1, inputs.shape[1 : -geometry.dims])
            once = (1,) * geometry.dims
            none = (0,) * geometry.dims
            options = geometry._replace(dilation=dilation, stride=once, padding=none)
            yield self._drawn(blurred, options)

    def _drawn(self, inputs: Tensor, geometry: Geometry) -> Float[Tensor, "n C D L"]:
        """Random patches among those that the kernel is laid on; (K, P) are one axis."""
        dims = geometry.dims
        margins = [m for pair in reversed(geometry.margins) for m in pair]
        mode = "constant" if geometry.padding_mode == "zeros" else geometry.padding_mode
        n, C = inputs.shape[:2]
        # Padding modes other than zeros take one axis before space only.
        flat = inputs.flatten(0, -dims - 1)[:, None]
        padded = F.pad(flat, margins, mode)[:, 0].unflatten(0, inputs.shape[:-dims])
        for axis in range(dims):
            k, d, s = geometry.kernel_size[axis], geometry.dilation[axis], geometry.stride[axis]
            padded = padded.unfold(inputs.ndim - dims + axis, d * (k - 1) + 1, s)[..., ::d]
        # [n, C, (K,) *out, *k] to [n, C, out, D]
        out = padded.shape[-2 * dims : -dims]
        places = math.prod(out)
        drawn = torch.rand(n, places, generator=self.generator).argsort(1)[:, :PATCHES]
        rows = padded.reshape(n, C, -1, places, geometry.taps)  # K, or 1 for images
        index = drawn[:, None, None, :, None].expand(-1, C, rows.shape[2], -1, geometry.taps)
        return rows.gather(3, index).permute(0, 1, 2, 4, 3).flatten(2, 3)
