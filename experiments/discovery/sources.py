"""Real images: data sets that are at hand or in a folder, and patches of pictures in packages.

What upright real images have is not derived. It is declared here: `maybe` names the moves of which
nothing is claimed; all other moves turn a law of things with a top, a bottom and a hand into
another, as anyone sees who looks at them.
"""

from functools import cache
from pathlib import Path

import numpy as np

from experiments.discovery.cases import Upright
from symshare.data import LabelledImages, load
from symshare.data.transforms import rotate

SQUARE = ("rot90", "rot180", "rot270", "flipW", "flipH", "transpose", "antitranspose")

CHIRAL = "FGJLPQRk47"
"""Letters and digits of which none is its own mirror image or turn."""


def digits(seed: int, root: Path | None) -> Upright:
    """The 1797 written digits of scikit-learn, 8 x 8; no pose of them is another."""
    from sklearn.datasets import load_digits

    pixels, labels = load_digits(return_X_y=True)
    images = np.asarray(pixels, float).reshape(-1, 1, 8, 8) / 16
    return Upright(images, np.asarray(labels))


def mnist(seed: int, root: Path | None) -> Upright:
    """Six thousand of MNIST's training images, 28 x 28."""
    return _drawn(_parts("mnist", root)[0], 6000, seed)


def mnist_held_out(seed: int, root: Path | None) -> Upright:
    """MNIST's test images, which no verdict was ever asked of, pooled to 14 x 14."""
    return _drawn(_pooled(_parts("mnist", root)[1]), 8000, seed)


def cifar10_gray(seed: int, root: Path | None) -> Upright:
    """Training images of CIFAR-10 in gray, pooled to 16 x 16; a mirror may change nothing."""
    images, labels = _pooled(_parts("cifar10", root)[0])
    return _drawn((images.mean(1, keepdims=True), labels), 8000, seed, maybe=("flipW",))


def cifar10_colour(seed: int, root: Path | None) -> Upright:
    """CIFAR-10's test images, which no verdict was ever asked of, in colour, pooled to 16 x 16."""
    return _drawn(_pooled(_parts("cifar10", root)[1]), 10_000, seed, maybe=("flipW",))


def photographs(seed: int, root: Path | None) -> Upright:
    """Gray patches of scikit-learn's two photographs, 12 x 12; the label is the photograph.

    Patches have no top that one could see, so of no move is anything claimed.
    """
    from sklearn.datasets import load_sample_images

    pictures = [picture.mean(-1) / 255 for picture in load_sample_images().images]
    return _patches(pictures, 12, seed)


def portrait_and_terrain(seed: int, root: Path | None) -> Upright:
    """Patches of a portrait and of an elevation model that matplotlib brings, 8 x 8."""
    from matplotlib import get_data_path
    from PIL import Image

    folder = Path(get_data_path()) / "sample_data"
    with Image.open(folder / "grace_hopper.jpg") as file:
        portrait = np.asarray(file.convert("L")) / 255
    with np.load(folder / "jacksboro_fault_dem.npz") as archive:
        elevation = archive["elevation"].astype(float)
    elevation = (elevation - elevation.min()) / np.ptp(elevation)
    return _patches([portrait, elevation], 8, seed)


def letters(seed: int, root: Path | None, *, fonts: tuple[str, ...], n: int = 3000) -> Upright:
    """Chiral letters in fonts that matplotlib ships, 12 x 12, a little turned and with noise."""
    import torch

    generator = np.random.default_rng(seed)
    glyphs = np.stack([[_glyph(letter, font) for letter in CHIRAL] for font in fonts])
    labels, font = generator.integers(len(CHIRAL), size=n), generator.integers(len(fonts), size=n)
    upright = torch.from_numpy(glyphs[font, labels][:, None].astype("f4"))
    degrees = torch.from_numpy(generator.uniform(-8, 8, n))
    images = rotate(upright, degrees).numpy()
    return Upright(images + 0.15 * generator.normal(size=images.shape), labels)


@cache
def _parts(source: str, root: Path | None) -> tuple[tuple[np.ndarray, np.ndarray], ...]:
    """Training and test images of a source with their labels.

    Raises:
        FileNotFoundError: where there is no folder of that name in the root.
    """
    if root is None or not (root / source).is_dir():
        raise FileNotFoundError(
            f"expected a folder {source} in --data.root, got {root}; name the folder that holds it"
        )
    parts = load(source, root=root / source)
    return tuple(_arrays(part) for part in (parts.train.joined(parts.validation), parts.test))


def _arrays(data: LabelledImages) -> tuple[np.ndarray, np.ndarray]:
    return data.images.numpy(), data.labels.numpy()


def _pooled(part: tuple[np.ndarray, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Half the size, by means of 2 x 2 pixels."""
    images, labels = part
    n, channels, height, width = images.shape
    cells = images.reshape(n, channels, height // 2, 2, width // 2, 2)
    return cells.mean((3, 5)), labels


def _drawn(
    part: tuple[np.ndarray, np.ndarray], count: int, seed: int, maybe: tuple[str, ...] = ()
) -> Upright:
    images, labels = part
    chosen = np.random.default_rng(seed).permutation(len(labels))[:count]
    return Upright(images[chosen], labels[chosen], maybe=maybe)


def _patches(pictures: list[np.ndarray], side: int, seed: int) -> Upright:
    """Patches that do not overlap, cut from a corner that is drawn; as many of each picture."""
    generator = np.random.default_rng(seed)
    found = []
    for picture in pictures:
        top, left = generator.integers(side, size=2)
        rows, columns = (picture.shape[0] - top) // side, (picture.shape[1] - left) // side
        cut = picture[top : top + rows * side, left : left + columns * side]
        cells = cut.reshape(rows, side, columns, side).swapaxes(1, 2).reshape(-1, side, side)
        found.append(generator.permutation(cells))
    count = min(map(len, found))
    images = np.concatenate([cells[:count] for cells in found])[:, None]
    return Upright(images, np.repeat(np.arange(len(found)), count), maybe=SQUARE)


@cache
def _glyph(letter: str, font: str) -> np.ndarray:
    """A letter in the middle of 12 x 12 pixels."""
    from matplotlib import get_data_path
    from PIL import Image, ImageDraw, ImageFont

    path = Path(get_data_path()) / "fonts" / "ttf" / f"{font}.ttf"
    picture = Image.new("L", (12, 12))
    centre, form = (6, 6), ImageFont.truetype(str(path), 12)
    ImageDraw.Draw(picture).text(centre, letter, fill=255, font=form, anchor="mm")
    return np.asarray(picture) / 255
