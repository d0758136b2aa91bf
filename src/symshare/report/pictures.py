"""Tensors as small pictures inside the page: PNG, and SVG for the traces of signals.

Signed and nonnegative values are drawn as opacity of a colour, so that zero is whatever the
page's background is, in the light and in the dark theme.
"""

import base64
import struct
import zlib
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int, UInt8
from torch import Tensor

from symshare.names import VECTOR

# The longer side of a picture of an image or of kernel positions [px].
SIDE = 64
POSITIVE = (230, 97, 1)
NEGATIVE = (55, 120, 220)
MASS = (55, 120, 220)
# Channels of a signal, told apart under every common colour blindness; more share the last.
TRACES = ("#3778dc", "#e66101", "#009e73", "#cc79a7")
# Top left, top right, bottom left, bottom right: told apart under every common colour blindness.
CORNERS = ((0, 90, 181), (255, 194, 10), (220, 50, 32), (0, 158, 115))


RGB = tuple[int, int, int]


@dataclass(frozen=True)
class Picture:
    """A picture as a data URI, with the text that stands for it and its size on the page [px]."""

    uri: str
    alt: str
    width: int
    height: int


def png(pixels: UInt8[Tensor, "H W C"]) -> bytes:
    r"""Encode pixels as PNG: grey, RGB or RGBA by the number of channels C = 1, 3 or 4.

    >>> png(torch.zeros(1, 1, 1, dtype=torch.uint8))[:8]
    b'\x89PNG\r\n\x1a\n'
    """
    height, width, channels = pixels.shape
    colour = {1: 0, 3: 2, 4: 6}[channels]
    rows = b"".join(b"\0" + row.numpy().tobytes() for row in pixels)
    chunks = {
        b"IHDR": struct.pack(">IIBBBBB", width, height, 8, colour, 0, 0, 0),
        b"IDAT": zlib.compress(rows, 9),
        b"IEND": b"",
    }
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
        for name, data in chunks.items()
    )


def _picture(pixels: UInt8[Tensor, "H W C"], alt: str, box: int) -> Picture:
    """Size the picture so that its longer side is `box` px and the shorter one stays visible."""
    height, width = pixels.shape[:2]
    scale = box / max(height, width)
    uri = "data:image/png;base64," + base64.b64encode(png(pixels)).decode("ascii")
    return Picture(uri, alt, max(round(width * scale), 12), max(round(height * scale), 12))


def _thin_out(pixels: Float[Tensor, "C H W"]) -> Float[Tensor, "C h w"]:
    """Average an image down until its longer side is no larger than on the page."""
    factor = -(-max(pixels.shape[1:]) // SIDE)
    if factor == 1:
        return pixels
    return torch.nn.functional.avg_pool2d(pixels, factor, ceil_mode=True)


def image(
    values: Float[Tensor, "C ..."],
    limits: tuple[float, float],
    alt: str,
) -> Picture:
    """Draw an image.

    A signal is drawn as a trace for each of at most four channels, a vector as one over its
    numbers, a volume as three slices through its middle, one across each axis.

    Args:
        values: three channels of an image are drawn in colour, any other number as the grey mean.
        limits: the values drawn black and white, or at the bottom and at the top.
        alt: what the picture shows, in words.
    """
    if values.ndim == 2:
        rows = values.T if values.shape[1:] == VECTOR else values
        return _traces(rows.float(), limits, alt)
    if values.ndim == 4:
        return _grey(_slices(values.float()), limits, alt, SIDE)
    return _grey(values, limits, alt, SIDE)


def _grey(
    plane: Float[Tensor, "C H W"], limits: tuple[float, float], alt: str, box: int
) -> Picture:
    """Draw a plane in grey, or in colour where it has three channels."""
    low, high = limits
    plane = _thin_out(plane.float())
    if plane.shape[0] != 3:
        plane = plane.mean(0, keepdim=True)
    scaled = ((plane - low) / ((high - low) or 1.0)).clamp(0, 1).mul(255).round()
    return _picture(scaled.to(torch.uint8).permute(1, 2, 0).contiguous(), alt, box)


def _slices(volume: Float[Tensor, "C D H W"]) -> Float[Tensor, "C h w"]:
    """The middle slices across each axis: the last two below and beside the first, as in a plan."""
    across, down, along = (volume.select(axis, volume.shape[axis] // 2) for axis in (1, 2, 3))
    D, H, W = volume.shape[1:]
    plan = volume.new_full((len(volume), H + 1 + D, W + 1 + D), float(volume.min()))
    plan[:, :H, :W], plan[:, H + 1 :, :W] = across, down
    plan[:, :H, W + 1 :] = along.transpose(1, 2)
    return plan


def _traces(signal: Float[Tensor, "C L"], limits: tuple[float, float], alt: str) -> Picture:
    """Draw the channels of a signal as lines, from left to right."""
    low, high = limits
    width, height = SIDE, 3 * SIDE // 4
    shown = signal[: len(TRACES)]
    down = (height - 4) * (1 - (shown - low) / ((high - low) or 1.0)) + 2
    across = torch.linspace(1, width - 1, signal.shape[1])
    lines = [
        f'<polyline fill="none" stroke="{colour}" points="'
        + " ".join(f"{x:.1f},{y:.1f}" for x, y in zip(across.tolist(), row.tolist(), strict=True))
        + '"/>'
        for colour, row in zip(TRACES, down, strict=False)
    ]
    svg = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}">'
        f"{''.join(lines)}</svg>"
    )
    uri = "data:image/svg+xml;base64," + base64.b64encode(svg.encode()).decode("ascii")
    return Picture(uri, alt, width, height)


def positions(shape: tuple[int, ...], permutation: Int[Tensor, " P"] | None, alt: str) -> Picture:
    """Draw a kernel whose positions are coloured, so that one sees where each of them goes.

    That of a volume is drawn slice by slice from left to right, deeper ones darker.
    """
    *deep, height, width = (1, *shape) if len(shape) == 1 else shape
    down = torch.linspace(0, 1, height).reshape(-1, 1, 1)
    across = torch.linspace(0, 1, width).reshape(1, -1, 1)
    corners = torch.tensor(CORNERS, dtype=torch.float32)
    top = corners[0] * (1 - across) + corners[1] * across
    bottom = corners[2] * (1 - across) + corners[3] * across
    light = torch.linspace(1, 0.4, deep[0] if deep else 1).reshape(-1, 1, 1, 1)
    colours = (light * (top * (1 - down) + bottom * down)).reshape(-1, 3)
    if permutation is not None:
        colours = colours[permutation]
    slices = colours.reshape(-1, height, width, 3).round().to(torch.uint8)
    # An empty column between slices.
    apart = torch.nn.functional.pad(slices, (0, 0, 0, 1), value=255) if deep else slices
    return _picture(apart.transpose(0, 1).flatten(1, 2), alt, SIDE)


def _coloured(
    values: Float[Tensor, "*O H W"], limit: Float[Tensor, "*O 1 1"], positive: RGB, negative: RGB
) -> UInt8[Tensor, "*O H W 4"]:
    """A colour for each sign, opaque where a value reaches the limit."""
    strength = (values.abs() / limit.where(limit > 0, 1.0)).clamp(0, 1)
    alpha = strength.mul(255).round().to(torch.uint8).unsqueeze(-1)
    above, below = (torch.tensor(colour, dtype=torch.uint8) for colour in (positive, negative))
    return torch.cat([torch.where(values.unsqueeze(-1) >= 0, above, below), alpha], dim=-1)


def kernel_rows(
    kernels: Float[Tensor, "O G kh kw"], names: list[str], cell: int = 8, gap: int = 8
) -> list[tuple[str, Picture]]:
    """Draw kernels as [elements x channels]: one strip of O kernels for each of G elements.

    Args:
        kernels: one input channel of a lifting layer's expanded kernel.
        names: G element names.
        cell: pixels of the picture per kernel position.
        gap: empty pixels between kernels.
    """
    limits = kernels.abs().amax(dim=(1, 2, 3)).reshape(-1, 1, 1)
    rows = []
    for name, tiles in zip(names, kernels.unbind(1), strict=True):
        tiles = _coloured(tiles, limits, POSITIVE, NEGATIVE)
        tiles = tiles.repeat_interleave(cell, 1).repeat_interleave(cell, 2)
        tiles = torch.nn.functional.pad(tiles, (0, 0, 0, gap))
        strip = tiles.transpose(0, 1).flatten(1, 2)[:, :-gap]
        alt = f"{len(tiles)} kernels of the lifting layer for the element {name}"
        rows.append((name, _picture(strip, alt, strip.shape[1] // 2)))
    return rows


def way(matrices: Float[Tensor, "S D D"], alt: str) -> Picture:
    """Draw matrices side by side, full colour at 1."""
    D = matrices.shape[-1]
    tiles = _coloured(matrices, torch.ones(len(matrices), 1, 1), MASS, MASS)
    # Small matrices are enlarged here: a browser would blur them.
    scale = max(72 // D, 1)
    tiles = tiles.repeat_interleave(scale, 1).repeat_interleave(scale, 2)
    tiles = torch.nn.functional.pad(tiles, (0, 0, 0, max(scale * D // 12, 2)))
    strip = tiles.transpose(0, 1).flatten(1, 2)
    return _picture(strip, alt, strip.shape[1])


def stack_matrix(matrix: Float[Tensor, "D D"], alt: str) -> Picture:
    """Draw one matrix of a representation: full colour at 1 (or at its maximum, if larger)."""
    limit = matrix.abs().max().clamp(min=1).reshape(1, 1)
    return _picture(_coloured(matrix, limit, MASS, MASS), alt, 120)
