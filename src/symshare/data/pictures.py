"""One encoded picture as an array: upright, of grey or three colours, resized where asked."""

from __future__ import annotations

import io
from typing import Any, Literal

import numpy as np

from symshare.extras import needs

Colour = Literal["grey", "rgb"]
"""What pictures are converted to on request."""

ENDINGS = (".png", ".jpg", ".jpeg", ".tif", ".tiff", ".webp", ".bmp")
"""Names of picture files end in one of these."""

_FORMATS = ("PNG", "JPEG", "TIFF", "WEBP", "BMP")
_MODES: dict[Colour, str] = {"grey": "L", "rgb": "RGB"}
_PNG_DEPTH = 24
"""Where a PNG file keeps its bits per value."""

_TIFF_DEPTHS = 258
"""Tag of a TIFF file with the bits per value of each channel."""


class DamagedPictureError(ValueError):
    """A picture that cannot be read."""


def picture(
    content: bytes, size: tuple[int, int] | None = None, colour: Colour | None = None
) -> np.ndarray:
    """Decode a PNG, JPEG, TIFF, WebP or BMP file.

    It is turned upright as its EXIF data says. Palettes become three colours, and an alpha channel
    that is opaque everywhere is dropped.

    Args:
        content: The bytes of the file.
        size: Height and width to resize to, antialiased, whatever the proportions.
        colour: What to convert to; what is transparent is then laid on black.

    Returns:
        [H, W], or [H, W, 3] of pictures in colour: uint8, or float32 in [0, 1] where grey values
        have 16 bits, or float32 as they are where they are floats.

    Raises:
        DamagedPictureError: If the file cannot be decoded.
        ValueError: If something in it would be lost: transparency where no colour is asked for,
            pages, or more than 8 bits that Pillow cuts.

    Example:
        >>> from PIL import Image
        >>> file = io.BytesIO()
        >>> Image.new("P", (4, 2)).save(file, "PNG")
        >>> picture(file.getvalue()).shape, picture(file.getvalue(), colour="grey").shape
        ((2, 4, 3), (2, 4))
    """
    pillow = needs("PIL.Image", "data", "decode images")
    operations = needs("PIL.ImageOps", "data", "decode images")
    try:
        image = pillow.open(io.BytesIO(content), formats=_FORMATS)
        frames = 1 if image.format == "MPO" else getattr(image, "n_frames", 1)
        depth = _depth(image, content)
        image.load()
        image = operations.exif_transpose(image)
    except Exception as error:  # Pillow does not name what its decoders raise
        raise DamagedPictureError(str(error).partition("\n")[0] or type(error).__name__) from error
    if frames > 1:
        raise ValueError(f"expected one picture, got {frames} pages or frames; save one of them")
    if depth > 8:
        return _deep(image, depth, size, colour)
    return _shallow(image, size, colour)


def _depth(image: Any, content: bytes) -> int:
    """Bits per value; decoded, more than 8 are silently cut in colour."""
    if image.format == "PNG":
        return content[_PNG_DEPTH]
    return max(image.tag_v2.get(_TIFF_DEPTHS, (1,))) if image.format == "TIFF" else 8


def _deep(
    image: Any, depth: int, size: tuple[int, int] | None, colour: Colour | None
) -> np.ndarray:
    """Grey values of 16 bits as floats up to 1; floats as they are."""
    whole = depth == 16 and image.mode.startswith("I")
    values = np.asarray(image)
    signed = whole and values.min() < 0
    if signed or image.has_transparency_data or not (whole or image.mode == "F"):
        raise ValueError(
            f"expected 8 bits a value, or 16 of grey without a sign and without transparency, got "
            f"{depth} in mode {image.mode}; convert the images, or save them as arrays in an .npz "
            "file"
        )
    values = values.astype(np.float32)
    if whole:
        values /= np.float32(65535)
    if size is not None:
        values = np.array(_resized(needs("PIL.Image", "data", "resize").fromarray(values), size))
    return np.repeat(values[..., None], 3, axis=2) if colour == "rgb" else values


def _shallow(image: Any, size: tuple[int, int] | None, colour: Colour | None) -> np.ndarray:
    """Values of 8 bits and less."""
    if image.mode not in ("1", "L", "LA", "P", "PA", "RGB", "RGBA", "CMYK"):
        raise ValueError(
            f"expected grey, colours or a palette, got mode {image.mode}; convert the images to RGB"
        )
    grey = image.mode in ("1", "L", "LA")
    if image.has_transparency_data:
        # By way of RGBA, as Pillow warns of palettes with opacities.
        image = image.convert("RGBA")
        if image.getextrema()[3][0] < 255:
            if colour is None:
                raise ValueError(
                    "expected an opaque picture, got transparent pixels; lay them on black and "
                    "convert all pictures with --data.colour grey or --data.colour rgb"
                )
            black = needs("PIL.Image", "data", "decode images").new("RGBA", image.size, "black")
            black.alpha_composite(image)
            image = black
    image = image.convert("L" if grey else "RGB")
    if colour is not None:
        image = image.convert(_MODES[colour])
    return np.asarray(image if size is None else _resized(image, size))


def _resized(image: Any, size: tuple[int, int]) -> Any:
    """The picture at a height and width; Pillow averages over what shrinks to one pixel."""
    height, width = size
    bilinear = needs("PIL.Image", "data", "resize images").Resampling.BILINEAR
    return image.resize((width, height), bilinear)
