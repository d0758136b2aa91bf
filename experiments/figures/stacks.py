"""Figures made of tiles: kernels, representation stacks, samples."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Real
from matplotlib.figure import Figure

from experiments.figures import style, tiles
from experiments.figures.checks import Array, arrays, check_names, check_size

__all__ = ["kernels", "matrices", "representations", "samples", "shift_twist", "stack"]

CHANNELS = 16
ACROSS = 10
"""Most tiles beside each other."""
ROOM = 4.3
"""Room for them on a page, beside names and a colour bar [inches]."""


def kernels(W: Real[Array, "C G k k"], names: Sequence[str]) -> Figure:
    """Learned kernels of the lifting layer, [elements x channels]: one row for each element.

    Of more than 16 channels the ones with the largest norm are shown. Each channel has its own
    scale, since kernels of one channel are copies of each other.

    Args:
        W: one input channel of the expanded weights.
        names: of the elements.

    Raises:
        ValueError: if shapes or names do not fit.
    """
    (W,) = arrays("kernels", {"W": "C G k k"}, W=W)
    rows = check_names("kernels", names, W.shape[1])
    strongest = np.argsort(-np.linalg.norm(W.reshape(len(W), -1), axis=1), kind="stable")
    shown = np.sort(strongest[:CHANNELS])
    header = "channel"
    if len(shown) < len(W):
        header = f"channel (the {len(shown)} of {len(W)} with the largest norm)"
    largest = np.abs(W[shown]).max(axis=(1, 2, 3), keepdims=True)
    values = (W[shown] / np.where(largest > 0, largest, 1)).swapaxes(0, 1)
    scale = style.signal_scale(np.array([-1.0, 1.0]), "weight / largest")
    band = tiles.Band(values, [str(i + 1) for i in shown], rows)
    return tiles.board([band], scale, header=header)


def representations(
    R: Real[Array, "G D D"], truth: Real[Array, "G D D"], names: Sequence[str]
) -> Figure:
    """The learned representations of a layer above the true ones.

    Args:
        R: learned, in the order of `truth`.
        truth: representations of a known group.
        names: of its elements.

    Raises:
        ValueError: if shapes or names do not fit.
    """
    R, truth = arrays("representations", {"R": "G D D", "truth": "G D D"}, R=R, truth=truth)
    columns = check_names("representations", names, len(R))
    return _matrices([("learned", R), ("truth", truth)], columns)


def matrices(
    R: Real[Array, "G D D"], names: Sequence[str], truth: Real[Array, "G D D"] | None = None
) -> Figure:
    """A stack of learned matrices, each above the true one if there are any.

    Args:
        R: learned.
        names: of the elements.
        truth: in the order of R.

    Raises:
        ValueError: if shapes or names do not fit.
    """
    if truth is not None:
        R, truth = arrays("matrices", {"R": "G D D", "truth": "G D D"}, R=R, truth=truth)
        lines = [("learned", R), ("truth", truth)]
    else:
        (R,) = arrays("matrices", {"R": "G D D"}, R=R)
        lines = [("", R)]
    return _matrices(lines, check_names("matrices", names, len(R)))


def shift_twist(
    truth: Real[Array, "G D D"],
    learned: Sequence[Real[Array, "G D D"]],
    names: Sequence[str] | None = None,
    layers: Sequence[str] | None = None,
) -> Figure:
    """The shift-twist of a group above what each group layer has learned.

    Lines mark off the blocks: block (h, k) takes element k of the input to element h.

    Args:
        truth: D = G P; R[g] is the Kronecker product of the shift and the twist.
        learned: one stack for each layer.
        names: of the elements; they are numbered otherwise.
        layers: of the learned stacks; they are numbered otherwise.

    Raises:
        ValueError: if shapes or names do not fit, or D is no multiple of G.
    """
    rows = []
    for stack in [truth, *learned]:
        rows.append(
            arrays("shift_twist", {"truth": "G D D", "R": "G D D"}, truth=truth, R=stack)[1]
        )
    G, D, _ = rows[0].shape
    if D % G:
        raise ValueError(
            f"shift_twist: D must be a multiple of the number of elements, got D = {D}, G = {G}"
        )
    columns = [str(i + 1) for i in range(G)] if names is None else names
    columns = check_names("shift_twist", columns, G)
    titles = [f"layer {i + 1}" for i in range(len(learned))] if layers is None else layers
    titles = check_names("shift_twist", titles, len(learned), "layer")
    return _matrices(list(zip(["truth", *titles], rows, strict=True)), columns, block=D // G)


def _matrices(
    lines: Sequence[tuple[str, np.ndarray]], columns: Sequence[str], block: int = 0
) -> Figure:
    """Stacks of equal shape below each other, in as many bands as the width asks for."""
    bands = [
        tiles.Band(np.stack([R[cut] for _, R in lines]), columns[cut], [name for name, _ in lines])
        for cut in _cuts(columns, 6)
    ]
    return tiles.board(bands, style.mass_scale("entry"), block=block)


def _cuts(names: Sequence[str], most: int) -> list[slice]:
    """Cut a row of tiles into rows of nearly equal length, `most` at most and fewer for long names.

    >>> _cuts(["a"] * 12, 10)
    [slice(0, 6, None), slice(6, 12, None)]
    """
    longest = max(map(style.text_width, names))
    most = max(min(most, int(ROOM / (longest + 2 * tiles.PAD))), 1)
    rows = -(-len(names) // most)
    length = -(-len(names) // rows)
    return [slice(i, min(i + length, len(names))) for i in range(0, len(names), length)]


def samples(
    x: Real[Array, "n D"], size: Sequence[int], labels: Sequence[object], title: str = ""
) -> Figure:
    """Samples of a data set on a line (bars), in a plane (images) or in space (slices).

    Args:
        x: the samples.
        size: of a signal, one to three lengths. The first axis of a volume points down.
        labels: one for each sample.
        title: above all.

    Raises:
        ValueError: if shapes, size or labels do not fit.
    """
    (x,) = arrays("samples", {"x": "n D"}, x=x)
    shape = check_size("samples", size, x.shape[1])
    names = check_names("samples", [str(label) for label in labels], len(x), "sample")
    bands = [tiles.Band(x[cut].reshape(1, -1, *shape), names[cut], [""]) for cut in _cuts(names, 6)]
    label = "value" if len(shape) > 1 else ""
    return tiles.board(bands, style.signal_scale(x, label), title=title)


def stack(kernels: Real[Array, "G O D"], size: Sequence[int], names: Sequence[str]) -> Figure:
    """A learned kernel stack: elements side by side, base kernels below each other.

    Args:
        kernels: R[g] applied to each base kernel.
        size: of a kernel, one to three lengths.
        names: of the elements.

    Raises:
        ValueError: if shapes, size or names do not fit.
    """
    (values,) = arrays("stack", {"kernels": "G O D"}, kernels=kernels)
    shape = check_size("stack", size, values.shape[2])
    columns = check_names("stack", names, len(values))
    grid = values.reshape(*values.shape[:2], *shape).swapaxes(0, 1)
    rows = [f"kernel {i + 1}" for i in range(len(grid))] if len(grid) > 1 else [""]
    bands = [tiles.Band(grid[:, cut], columns[cut], rows) for cut in _cuts(columns, ACROSS)]
    label = "weight" if len(shape) > 1 else ""
    return tiles.board(bands, style.signal_scale(values, label))
