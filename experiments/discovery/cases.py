"""Made images with labels, whose symmetries follow from how they are made.

A function returns `Upright` images before any law has moved them, or, where the poses belong to
the story (near copies, a rare class that stays upright), the data as they are, for the law "none"
only. Noise is smooth wherever pixels would otherwise be exchangeable one by one, which would be a
symmetry too.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from itertools import permutations

import numpy as np

from experiments.discovery.truths import (
    LAWS,
    LabelMap,
    Truth,
    lattice,
    lattice_truth,
    scrambled,
)


@dataclass(frozen=True, eq=False)
class Upright:
    """Images before a law has moved them, with the symmetries that they have by themselves.

    Attributes:
        images: [N, C, H, W], or in the order of their layout.
        labels: [N].
        own: names of the lattice moves, beside the identity, that are symmetries.
        maybe: names of those of which it is not known.
        exchanges: lattice moves that are symmetries together with a map of the classes, and that
            map.
        truth: in the place of both, for data whose symmetries are no lattice moves or whose poses
            are in the images; no law moves them further.
        periodic: axes along which images wrap around, as the judge is told.
        groups: number of what each image depends on, where the judge is told.
        independent: number of images that are independent of one another; None for all.
        clean: share of the labels that were not redrawn.
        learnable: whether a small network can learn the label from so many images.
        layout: order of the axes, as the judge is told.
    """

    images: np.ndarray
    labels: np.ndarray
    own: tuple[str, ...] = ()
    maybe: tuple[str, ...] = ()
    exchanges: dict[str, LabelMap] = field(default_factory=dict)
    truth: Truth | None = None
    periodic: tuple[str, ...] = ()
    groups: np.ndarray | None = None
    independent: int | None = None
    clean: float = 1.0
    learnable: bool = True
    layout: str = "NCHW"

    def truth_under(self, law: str) -> Truth:
        """The symmetries of the images as a law leaves them.

        Raises:
            ValueError: where the poses are in the images and a law is to move them further.
        """
        if self.truth is None:
            return lattice_truth(self.images.shape[2:], law, self.own, self.maybe, self.exchanges)
        if law != "none":
            raise ValueError(
                f"discovery: expected the law none for data with poses of their own, got {law!r}; "
                "name no law for them in plan.py"
            )
        return self.truth


NO_SYMMETRY: tuple[str, ...] = ()


def smooth(generator: np.random.Generator, *shape: int) -> np.ndarray:
    """Random fields whose neighbouring pixels are alike, of mean 0 and spread about 1."""
    *lead, height, width = shape
    field = generator.normal(size=(*lead, height + 2, width + 2))
    rows = field[..., :-2, :] + field[..., 1:-1, :] + field[..., 2:, :]
    return (rows[..., :-2] + rows[..., 1:-1] + rows[..., 2:]) / 3


def moved_by(images: np.ndarray, law: str, generator: np.random.Generator) -> np.ndarray:
    """Each image moved by a uniform element of the group of a law."""
    height, width = images.shape[-2:]
    moves = lattice((height, width))
    group = np.array([moves[name] for name in LAWS[law]])
    chosen = group[generator.integers(len(group), size=len(images))]
    flat = images.reshape(len(images), images.shape[1], -1)
    return np.take_along_axis(flat, chosen[:, None, :], 2).reshape(images.shape)


def _fields(look: int, classes: int, height: int, width: int) -> np.ndarray:
    """One standardised random field for each class, the same for every seed of a data set."""
    fields = smooth(np.random.default_rng(look), classes, height, width)
    return (fields - fields.mean((1, 2), keepdims=True)) / fields.std((1, 2), keepdims=True)


def templates(
    n: int,
    seed: int,
    *,
    look: int,
    classes: int = 4,
    side: int = 8,
    width: int | None = None,
    noise: float = 0.7,
    tails: float | None = None,
    priors: Iterable[float] | None = None,
    nuisance: float = 0.0,
    redrawn: float = 0.0,
) -> Upright:
    """A random field for each class in white noise: no two of its pixels, nor of its poses, agree.

    Args:
        n: images.
        seed: of the images.
        look: seed of the fields, which makes the data set.
        classes: number of classes.
        side: height.
        width: the height where None.
        noise: its spread.
        tails: degrees of freedom of Student's t, for noise with heavy tails.
        priors: shares of the classes.
        nuisance: spread of a brightness and of an offset of each image by itself.
        redrawn: share of the labels that are drawn anew.
    """
    generator = np.random.default_rng(seed)
    fields = _fields(look, classes, side, width or side)
    labels = generator.choice(classes, n, p=None if priors is None else list(priors))
    shape = (n, side, width or side)
    if tails is None:
        errors = generator.normal(size=shape)
    else:
        errors = generator.standard_t(tails, size=shape) / np.sqrt(tails / (tails - 2))
    images = fields[labels] + noise * errors
    gain, offset = 1 + nuisance * generator.uniform(-1, 1, n), nuisance * generator.normal(size=n)
    images = gain[:, None, None] * images + 3 * offset[:, None, None]
    wrong = generator.random(n) < redrawn
    labels = np.where(wrong, generator.integers(classes, size=n), labels)
    return Upright(images[:, None], labels, clean=1 - redrawn)


def saw(
    n: int, seed: int, *, axis: int = 1, side: int = 8, teeth: int = 1, lame: bool = False
) -> Upright:
    """Brightness rises along one axis and falls at once, with a random phase; the label is a stamp.

    Over all phases the second moments are even, so that they do not tell the ramp from its mirror
    image. The mirror across the other axis keeps all.

    Args:
        n: images.
        seed: of the images.
        axis: along which brightness rises, 1 from left to right and 0 from top to bottom.
        side: height and width.
        teeth: ramps in an image.
        lame: whether the stamp also lies to one side of the axis, so that nothing is kept.
    """
    generator = np.random.default_rng(seed)
    phase = generator.uniform(size=(n, 1, 1))
    ramp = (teeth * np.arange(side) / side + phase) % 1 - 0.5
    images = np.broadcast_to(2 * ramp, (n, side, side)) + 0.2 * smooth(generator, n, side, side)
    labels = generator.integers(3, size=n)
    rows = slice(1, 3) if lame else slice(side // 2 - 1, side // 2 + 1)
    images[:, rows, side // 2 - 1 : side // 2 + 1] += 3.0 * (labels - 1)[:, None, None]
    if axis == 0:
        images = images.swapaxes(1, 2)
    own = NO_SYMMETRY if lame else ("flipH",) if axis == 1 else ("flipW",)
    return Upright(images[:, None].copy(), labels, own=own)


def sky(n: int, seed: int, *, side: int = 12, low: bool = False) -> Upright:
    """Red grows downwards, blue upwards: upside down they trade places, and their sum stays.

    The label is the column of a green bar, of which the mirror makes the opposite one, or its row,
    which is the same from left to right. Mirrored at random, columns are the same as their opposite
    ones, so that classes become alike: the law `flip` is none to ask about.

    Args:
        n: images.
        seed: of the images.
        side: height and width, a multiple of 4.
        low: whether the bar lies across instead of upright.
    """
    generator = np.random.default_rng(seed)
    down = np.linspace(0, 1, side)[:, None] * np.ones((1, side))
    strength = generator.uniform(0.6, 1, (n, 1, 1))
    labels = generator.integers(4, size=n)
    bar = np.repeat(np.eye(4), side // 4, axis=1)[labels] * 0.8
    green = np.broadcast_to(bar[:, :, None] if low else bar[:, None], (n, side, side))
    planes = [strength * down, green, strength * (1 - down)]
    images = np.stack(planes, 1) + 0.1 * smooth(generator, n, 3, side, side)
    if low:
        return Upright(images, labels, own=("flipW",))
    return Upright(images, labels, exchanges={"flipW": (3, 2, 1, 0)})


def twins(n: int, seed: int, *, look: int, side: int = 8) -> Upright:
    """A field in one colour and its mirror image in another: a mirror and a swap of colours.

    Colours do not move with the pixels, so no move is a symmetry.
    """
    generator = np.random.default_rng(seed)
    fields, labels = _fields(look, 4, side, side), generator.integers(4, size=n)
    planes = np.stack([fields[labels], fields[labels][..., ::-1]], 1)
    return Upright(planes + 0.5 * generator.normal(size=planes.shape), labels)


def butterflies(n: int, seed: int, *, look: int, side: int = 10) -> Upright:
    """Fields that are their own mirror image, in smooth noise that has no direction."""
    generator = np.random.default_rng(seed)
    fields = _fields(look, 4, side, side)
    fields = (fields + fields[..., ::-1]) / np.sqrt(2)
    labels = generator.integers(4, size=n)
    images = fields[labels] + 0.6 * smooth(generator, n, side, side)
    return Upright(images[:, None], labels, own=("flipW",))


def rare_upright(n: int, seed: int, *, look: int, share: float, classes: int = 10) -> Upright:
    """Quarter turns for all classes but one, which is rare and upright: no turn keeps the law."""
    priors = [share, *[(1 - share) / (classes - 1)] * (classes - 1)]
    upright = templates(n, seed, look=look, classes=classes, noise=0.5, priors=priors)
    turned = moved_by(upright.images, "quarter", np.random.default_rng([seed, 1]))
    stays = (upright.labels == 0)[:, None, None, None]
    images = np.where(stays, upright.images, turned)
    return replace(upright, images=images, truth=lattice_truth((8, 8), "none"))


def repeated(
    n: int, seed: int, *, look: int, copies: int, apart: float, told: bool = False
) -> Upright:
    """Quarter turns, and each image several times in one pose, as the frames of a film.

    Args:
        n: images before they are repeated.
        seed: of the images.
        look: of the fields.
        copies: of each image.
        apart: spread of the noise between the copies of an image, 0 for exact ones.
        told: whether the judge is told which images belong together.
    """
    upright = templates(n, seed, look=look, noise=0.9)
    generator = np.random.default_rng([seed, 1])
    images = np.repeat(moved_by(upright.images, "quarter", generator), copies, axis=0)
    groups = np.repeat(np.arange(n), copies)
    return Upright(
        images + apart * generator.normal(size=images.shape),
        upright.labels[groups],
        truth=lattice_truth((8, 8), "quarter"),
        groups=groups if told else None,
        independent=n,
    )


def parity(n: int, seed: int, *, side: int = 8) -> Upright:
    """The label is the row of a bar, and the parity of the signs of the left half.

    No small network learns the parity, so a judge may know half of the label only. Every pixel has
    a brightness of its own, so that none is exchangeable with another; a mirror brings other signs
    to the left.
    """
    generator = np.random.default_rng(seed)
    sizes = np.random.default_rng(side).permutation(np.linspace(0.6, 1.6, side * side))
    signs = generator.choice([-1.0, 1.0], (n, side, side))
    odd = (signs[:, :, : side // 2].reshape(n, -1).prod(1) > 0).astype(int)
    row = generator.integers(4, size=n)
    bar = np.repeat(np.eye(4), side // 4, axis=1)[row][:, :, None]
    images = signs * sizes.reshape(side, side) + 2 * bar
    return Upright(images[:, None], 2 * row + odd, learnable=False)


def mirror_swaps(n: int, seed: int, *, look: int, classes: int = 10) -> Upright:
    """Half of the images are mirrored, and the mirror exchanges the first two classes.

    The law of the images is that of their mirror images; that of images with labels is not, unless
    the labels are exchanged as well.
    """
    upright = templates(n, seed, look=look, classes=classes, noise=0.5)
    mirrored = np.random.default_rng([seed, 1]).random(n) < 0.5
    images = np.where(mirrored[:, None, None, None], upright.images[..., ::-1], upright.images)
    exchanged = np.array([1, 0, *range(2, classes)])
    labels = np.where(mirrored, exchanged[upright.labels], upright.labels)
    truth = lattice_truth((8, 8), "none", exchanges={"flipW": tuple(exchanged.tolist())})
    return Upright(images, labels, truth=truth)


def handed(n: int, seed: int, *, look: int, side: int = 8) -> Upright:
    """Things and their mirror images, equally often; the label is the thing and which it is."""
    generator = np.random.default_rng(seed)
    fields = _fields(look, 2, side, side)
    both = np.concatenate([fields, fields[..., ::-1]])
    labels = generator.integers(4, size=n)
    images = both[labels] + 0.7 * generator.normal(size=(n, side, side))
    truth = lattice_truth((side, side), "none", exchanges={"flipW": (2, 3, 0, 1)})
    return Upright(images[:, None], labels, truth=truth)


def some_poses(n: int, seed: int, *, look: int, shares: dict[str, float]) -> Upright:
    """Templates in poses of unequal shares, such as upright or a quarter turned: no move keeps it.

    Args:
        n: images.
        seed: of the images.
        look: of the fields.
        shares: by the name of the move; that no move keeps them is for the caller to see to.
    """
    upright = templates(n, seed, look=look)
    moves = lattice((8, 8))
    orders = np.array([moves[name] for name in shares])
    chosen = np.random.default_rng([seed, 1]).choice(len(shares), n, p=list(shares.values()))
    flat = upright.images.reshape(n, 1, -1)
    images = np.take_along_axis(flat, orders[chosen][:, None, :], 2).reshape(upright.images.shape)
    return replace(upright, images=images, truth=lattice_truth((8, 8), "none"))


def stamped(n: int, seed: int, *, look: int, noise: float = 0.7) -> Upright:
    """Templates in all eight poses, with a faint stamp that is always upright.

    It is an L of four pixels, each twice the noise above the rest, so that of no image alone one
    could be sure.
    """
    upright = templates(n, seed, look=look, noise=noise)
    images = moved_by(upright.images, "d4", np.random.default_rng([seed, 1]))
    images[:, 0, [0, 1, 2, 0], [0, 0, 0, 1]] += 2 * noise
    return replace(upright, images=images, truth=lattice_truth((8, 8), "none"))


def any_order(
    n: int, seed: int, *, look: int, parts: int, length: int, columns: bool = False
) -> Upright:
    """Rows, or columns, in any order: the symmetric group of so many."""
    generator = np.random.default_rng(seed)
    fields = np.random.default_rng(look).normal(size=(4, parts, length))
    labels = generator.integers(4, size=n)
    order = np.argsort(generator.random((n, parts)), 1)
    images = np.take_along_axis(fields[labels], order[:, :, None], 1)
    images = images + 0.5 * generator.normal(size=images.shape)
    grid = np.arange(parts * length).reshape(parts, length)
    if columns:
        images, grid = images.swapaxes(1, 2), np.arange(parts * length).reshape(length, parts)
    orders = [list(order) for order in permutations(range(parts))]
    moved = [grid[:, order] if columns else grid[order] for order in orders]
    truth = Truth(frozenset(tuple(g.ravel().tolist()) for g in moved), group=f"S{parts}")
    return Upright(images[:, None].copy(), labels, truth=truth)


def rolled(n: int, seed: int, *, look: int, side: int = 8) -> Upright:
    """A texture that wraps around: a field shifted by any number of columns."""
    upright = templates(n, seed, look=look, side=side, noise=0.6)
    first = np.random.default_rng([seed, 1]).integers(side, size=n)
    columns = (np.arange(side) + first[:, None]) % side
    images = np.take_along_axis(upright.images, columns[:, None, None, :], 3)
    grid = np.arange(side * side).reshape(side, side)
    shifts = [np.roll(grid, step, 1) for step in range(side)]
    truth = Truth(frozenset(tuple(s.ravel().tolist()) for s in shifts), group=f"Z{side}")
    return replace(upright, images=images, truth=truth, periodic=("W",))


def hidden(n: int, seed: int, *, look: int, law: str) -> Upright:
    """Templates moved by a law, and then all pixels in one fixed order that nobody knows."""
    upright = templates(n, seed, look=look, noise=0.5)
    images = moved_by(upright.images, law, np.random.default_rng([seed, 1]))
    order = np.random.default_rng(look + 1).permutation(64)
    images = images.reshape(n, 1, -1)[..., order].reshape(images.shape)
    truth = scrambled(lattice_truth((8, 8), law), tuple(order.tolist()))
    return replace(upright, images=images, truth=truth)
