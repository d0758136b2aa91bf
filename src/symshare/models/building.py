"""From the description of a network to a network."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Literal, Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor

from symshare import groups
from symshare.groups import Action, ChannelAction, ChannelMap, GroupAction, LatticeMap
from symshare.models.convolutional import MNIST, SMALL, VECTORS, Architecture, GroupCNN
from symshare.names import Target
from symshare.representations import Birkhoff, Fixed, Gated, Kronecker, Representation, Sinkhorn
from symshare.settings import READERS, NetworkConfig


@runtime_checkable
class Shape(Protocol):
    """Number and size of the layers of a network, whatever its representations."""

    @property
    def kernel_size(self) -> int:
        """Positions of every kernel along each axis."""
        ...

    @property
    def taps(self) -> int:
        """Positions of every kernel."""
        ...

    @property
    def convolutions(self) -> int:
        """Number of convolutions, each with a representation."""
        ...

    def free_parameters(
        self, in_channels: int, classes: int, channels: int, group_size: int
    ) -> int:
        """Parameters of a network of this shape, those of its representations left out."""
        ...


_NAMED: dict[str, Callable[[], Action]] = {
    "C2": lambda: groups.rotations(2),
    "C4": lambda: groups.rotations(4),
    "C8": lambda: groups.rotations(8),
    "D2": lambda: groups.dihedral(2),
    "D4": lambda: groups.dihedral(4),
    "flipW": lambda: groups.flips("W"),
}


def dictionary(config: NetworkConfig, dims: int = 2) -> Action:
    """The elements that a network is given: those of its group, or the identity alone.

    Args:
        config: which network.
        dims: axes of space of its images.

    Raises:
        ValueError: for a group that is not known, of images with so many axes.

    >>> dictionary(NetworkConfig(kind="gcnn", group="C2"))
    GroupAction(id, rot180)
    >>> dictionary(NetworkConfig(kind="gated", group="rot180,flipW"))
    GroupAction(id, rot180, flipW)
    >>> dictionary(NetworkConfig(kind="gcnn", group="reverse"), dims=1)
    GroupAction(id, reverse)
    """
    group, linear = config.group, groups.hyperoctahedral(dims)
    if config.channels:
        return _with_channels(config, dims)
    if config.kind not in READERS["group"] or group == "C1":
        return linear.subset(["id"])
    if isinstance(group, str) and group in _NAMED and dims == 2:
        return _NAMED[group]()
    names = group.split(",") if isinstance(group, str) else group
    if not set(names) <= set(linear.names):
        short = f"one of C1, {', '.join(_NAMED)}, or " if dims == 2 else "C1, or "
        raise ValueError(
            f"network: for images with {dims} axes of space group must be {short}moves of a kernel "
            f"among {', '.join(linear.names[1:])}, got {group!r}"
        )
    return linear.subset(names)


def _with_channels(config: NetworkConfig, dims: int) -> ChannelAction:
    """The elements of a network that move channels."""
    linear = groups.hyperoctahedral(dims)
    names = config.group.split(",") if isinstance(config.group, str) else config.group
    if len(names) != len(config.channels) or not set(names) <= set(linear.names):
        raise ValueError(
            f"network: channels needs a row for each move of a kernel in group, among "
            f"{', '.join(linear.names)}, got {len(config.channels)} rows and {config.group!r}"
        )
    signs = config.signs or tuple((1,) * len(row) for row in config.channels)
    maps = [ChannelMap(*row) for row in zip(config.channels, signs, strict=True)]
    still = ChannelMap.identity(len(config.channels[0]))
    return ChannelAction(linear, [("id", still), *zip(names, maps, strict=True)])


def build_network(
    config: NetworkConfig,
    image: Sequence[int],
    classes: int,
    *,
    action: Action | None = None,
    representations: list[Representation] | None = None,
    target: Target = "classes",
    matrices: Float[Tensor, "G d d"] | None = None,
) -> GroupCNN:
    """The network of a description.

    Args:
        config: which network.
        image: channels of the images, and the length of each axis of space.
        classes: number of logits, or of the numbers of a label.
        action: its elements or dictionary; by default those of its group.
        representations: one for each convolution, in the place of those of its kind.
        target: what labels are; where they are numbers, the network reads places.
        matrices: what each element makes of the numbers, in the units of the network.

    Raises:
        ValueError: for an unknown group, images that are too small, or elements whose frames are
            not known where labels are numbers.

    >>> plain, shared = (
    ...     build_network(NetworkConfig(kind=kind), (1, 28, 28), 10) for kind in ("cnn", "gcnn")
    ... )
    >>> plain.free_parameters(), shared.free_parameters()
    (412170, 410890)
    """
    channels, *space = image
    image_size = tuple(space)
    shape = replace(architecture_of(config, image_size), places=target == "numbers")
    elements = partial(dictionary, config, shape.dims) if action is None else lambda: action
    stacks = representations or representations_of(config, elements(), shape)
    reference = free_parameters(shape, channels, classes, config.width)
    C = matched_channels(shape, channels, classes, stacks[0].group_size, reference)
    G = stacks[0].group_size
    maps = label_map_of(config, classes, G) if matrices is None else matrices
    frames = _frames(config, elements(), G) if shape.places else None
    return GroupCNN(shape, channels, classes, C, stacks, image_size, maps, frames)


def _frames(config: NetworkConfig, action: Action, elements: int) -> Float[Tensor, "G dims dims"]:
    """What each element of a network makes of a position; free ones are not known to move any."""
    if config.kind not in READERS["group"]:
        return torch.eye(action.dims).repeat(elements, 1, 1)
    maps: Sequence[LatticeMap | None] = ()
    if isinstance(action, GroupAction):
        maps = action.maps
    elif isinstance(action, ChannelAction):
        maps = [action.grid.maps[action.grid.names.index(name)] for name, _ in action.elements]
    matrices = [map.matrix for map in maps if map is not None]
    if len(matrices) < len(action):
        raise ValueError(
            "network: for labels that are numbers group must be of moves of the grid, got "
            f"{config.group!r}, whose angles the grid does not have; use C2, C4, D2 or D4"
        )
    return torch.tensor(matrices, dtype=torch.get_default_dtype())


def label_map_of(config: NetworkConfig, classes: int, elements: int) -> Tensor | None:
    """What each element of a network makes of each class; None where labels stay.

    Raises:
        ValueError: where there is not one row of all classes for each element but the identity.

    >>> label_map_of(NetworkConfig(kind="gcnn", group="flipW", label_map=((1, 0),)), 2, 2)
    tensor([[0, 1],
            [1, 0]])
    """
    rows = config.label_map
    if not rows:
        return None
    if len(rows) != elements - 1 or any(sorted(row) != list(range(classes)) for row in rows):
        raise ValueError(
            f"network: label_map must have a row of all {classes} classes for each of "
            f"{elements - 1} elements beside the identity, got {[list(row) for row in rows]}"
        )
    return torch.tensor([list(range(classes)), *rows])


def architecture_of(config: NetworkConfig, image_size: tuple[int, ...]) -> Architecture:
    """Number and size of the layers, for images of so many positions along each axis.

    >>> architecture_of(NetworkConfig(), (8, 8)).kernel_size
    3
    >>> architecture_of(NetworkConfig(), (1,)).taps  # of vectors
    1
    """
    if image_size == (1,):
        norm = VECTORS.norm if config.norm == "auto" else config.norm
        return replace(VECTORS, norm=norm)
    # A cube of 21 positions a side is too much for five layers of 125 taps.
    fitting = MNIST if min(image_size) >= MNIST.smallest and len(image_size) < 3 else SMALL
    shape = {"mnist": MNIST, "small": SMALL, "auto": fitting}[config.architecture]
    norm = shape.norm if config.norm == "auto" else config.norm
    return replace(shape, norm=norm, dims=len(image_size))


def free_parameters(
    architecture: Shape, in_channels: int, classes: int, channels: int, group_size: int = 1
) -> int:
    """Free parameters of a network of this architecture, without building it.

    >>> free_parameters(MNIST, 1, 10, 64), free_parameters(MNIST, 1, 10, 16, group_size=4)
    (412170, 103050)
    """
    return architecture.free_parameters(in_channels, classes, channels, group_size)


def matched_channels(
    architecture: Shape, in_channels: int, classes: int, group_size: int, parameters: int
) -> int:
    """Width at which a network with G elements has nearest to this many free parameters.

    >>> matched_channels(MNIST, 1, 10, group_size=4, parameters=412_170)
    32
    """
    count = partial(free_parameters, architecture, in_channels, classes, group_size=group_size)
    upper = 1
    while count(upper) < parameters:
        upper += 1
    return min(range(max(1, upper - 1), upper + 1), key=lambda c: abs(count(c) - parameters))


def plain(blocks: int) -> list[Representation]:
    """Representations of a plain CNN: the trivial group in every convolution."""
    return [Fixed(groups.rotations(1))] * blocks


def wscnn(
    architecture: Shape, group_size: int, make: Callable[..., Representation] = Sinkhorn
) -> list[Representation]:
    """Representations of the paper's networks: a free stack for each convolution.

    >>> sum(p.numel() for rep in wscnn(MNIST, 4) for p in rep.parameters())
    121875
    """
    taps = architecture.taps
    sizes = [taps] + [group_size * taps] * (architecture.convolutions - 1)
    return [make(group_size, positions) for positions in sizes]


def representations_of(config: NetworkConfig, action: Action, shape: Shape) -> list[Representation]:
    """A representation for every convolution of a network, the lifting one first.

    Args:
        config: of what kind.
        action: the elements or dictionary.
        shape: of the network.
    """
    if config.init == "moments":
        raise ValueError(
            "network: init moments needs images; build such a network with "
            "symshare.moments.learned_network, or with init sharp and symshare.moments.open_gates"
        )
    size, hidden = shape.kernel_size, shape.convolutions - 1
    if config.kind in _ONE_FOR_ALL:
        return [_ONE_FOR_ALL[config.kind](config, action, size)] * (1 + hidden)
    if config.kind == "sinkhorn-near":
        near = action.regular(size)
        return [Sinkhorn.near(action.lift(size)), *(Sinkhorn.near(near) for _ in range(hidden))]
    options = {"anchor": config.anchor, "init": config.init, "iterations": config.iterations}
    return wscnn(shape, config.elements, partial(Sinkhorn, **options))


def _birkhoff(config: NetworkConfig, action: Action, kernel_size: int) -> Representation:
    init: Literal["sharp", "paper"] = "paper" if config.init == "paper" else "sharp"
    return Birkhoff(action, config.elements, anchor=config.anchor, init=init)


_ONE_FOR_ALL: dict[str, Callable[[NetworkConfig, Action, int], Representation]] = {
    "cnn": lambda config, action, kernel_size: Fixed(action),
    "gcnn": lambda config, action, kernel_size: Fixed(action),
    "gated": lambda config, action, kernel_size: Gated(action),
    "birkhoff": _birkhoff,
    "kronecker": lambda config, action, kernel_size: Kronecker.from_action(
        action, kernel_size, learn=True
    ),
}
