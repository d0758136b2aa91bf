"""Learn the stacks of a network, layer by layer, from what each layer sees."""

import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import Any, TypeVar

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.functional import one_hot

from symshare.groups import CAP, GroupAction
from symshare.layers.convolution import Convolution
from symshare.moments.alignment import Commutant, commutant, commutant_among, unwatched
from symshare.moments.sight import Sight
from symshare.moments.statistics import Moments, blocks_of
from symshare.representations import Gated, Sinkhorn
from symshare.representations.starts import SHARP_MASS, near

LIFTING_IMAGES = 12_000
"""Most images that a lifting layer is shown: mirror images on turned digits differ by little."""

GROUP_IMAGES = 1_600
"""Most images that a group layer is shown: what breaks the order of elements is plain to see."""

HARD = 1 - 1e-6
"""Mass of what was learned while the layers above learn. They tell a mixture of 0.999 from the
permutation where features have a large mean, and the identity is not mixed."""

OPEN = 0.9
"""Where the measure of an element starts that moments do not refuse; of the others at 1 - OPEN.
Training still moves it."""

_AT_ONCE = 100
"""Images that go through the network at once."""

Network = TypeVar("Network", bound=nn.Module)


Watch = Callable[[str, int, Float[Tensor, "S D D"]], None]


@dataclass(frozen=True)
class LearnedLayer:
    """What was learned for one layer.

    Attributes:
        name: of the layer in the network.
        slots: number of elements G of its stack.
        elements: how many of these are elements of the data, the identity counted in; the others
            are cosets, see :func:`learn_stacks`. 0 where the layer was left as it was.
        ratios: of these elements, as :meth:`Moments.test` gives them: 1 on average for a true one.
        p_values: of these elements.
        nearest: the largest p value of what was refused, 0 where nothing was.
        power: mean ratio of random permutations. Below `moments.alignment.POWER` the images were
            too few to search, and elements are those of `within` at most.
        rounds: how often all starts were learned.
        seconds: that it took, with collecting the moments.
        note: why the layer was left as it was; empty where it was learned.
    """

    name: str
    slots: int
    elements: int = 0
    ratios: tuple[float, ...] = ()
    p_values: tuple[float, ...] = ()
    nearest: float = 0.0
    power: float = 0.0
    rounds: int = 0
    seconds: float = 0.0
    note: str = ""

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> "LearnedLayer":
        """From its values as JSON has them, lists in the place of tuples.

        Raises:
            TypeError: for names that no record has.
        """
        tuples: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value
            for name, value in values.items()
        }
        return cls(**tuples)


def learn_stacks(
    model: nn.Module,
    images: Float[Tensor, "N I *space"],
    labels: Int[Tensor, " N"] | None = None,
    *,
    within: GroupAction | None = None,
    seed: int = 0,
    mass: float = SHARP_MASS,
    watch: Watch = unwatched,
) -> tuple[LearnedLayer, ...]:
    """Learn the free stacks of a network from what its layers see, before or without training.

    Layer by layer, in the order in which they are called: the second moments of the patches that
    the kernel is laid on are collected, and the permutations that commute with them are found from
    random starts (:func:`commutant`). Images are read by class and at several scales, features by
    channel. The stack (a `Sinkhorn`) becomes these permutations, before the next layer is looked
    at. Of a group layer the search ends where it has an element for each slot.

    A layer with more slots than elements keeps the group: the other slots are cosets of it by
    random permutations, which a symmetry of the data permutes as well. Choose a number of slots
    that is a multiple of the order. Where nothing is found, all slots but one are random.

    Second moments are even, and know nothing of the label beyond its classes: what is found is a
    candidate, and `symshare.discover` decides.

    Args:
        model: with layers whose representation is a `Sinkhorn`; it is changed in place.
        images: different images, scaled as the model is to see them.
        labels: of the images, from 0; None for one class.
        within: choose among these elements, by what they do to the kernel positions, such as
            `groups.rotations(4)`; needed where the data has more elements than a layer has slots.
        seed: of images, patches and starts.
        mass: of the permutations in the stacks in the end, see `Sinkhorn.near`.
        watch: is given the name of a layer, the number of the step and the matrices [S, D, D] that
            are being learned, at every step; each of several rounds begins at step 0.

    Returns:
        A record for each convolution, in order.

    Raises:
        ValueError: for a model without free stacks, too few images, labels of another length,
            images that are not finite, a mass outside (0, 1), or more elements than slots. The
            model is as it was.

    >>> from symshare import GroupConv2d, LiftConv2d, Sinkhorn
    >>> _ = torch.manual_seed(0)
    >>> lifting, hidden = Sinkhorn(2, 4), Sinkhorn(2, 8)
    >>> net = nn.Sequential(LiftConv2d(1, 4, 2, lifting), GroupConv2d(4, 4, 2, hidden))
    >>> images = torch.randn(800, 1, 8, 8).cumsum(2).cumsum(3)
    >>> images[400:] = images[400:].flip(-1)
    >>> [layer.elements for layer in learn_stacks(net, images)]
    [2, 2]
    >>> lifting()[1].argmax(-1).tolist()  # the mirror, that no one has named
    [1, 0, 3, 2]
    """
    _check(images, labels, mass)
    return _Search(images, labels, within, seed, watch).network(model, mass)


def learned_network(
    build: Callable[[int], Network],
    images: Float[Tensor, "N I *space"],
    labels: Int[Tensor, " N"] | None = None,
    *,
    slots: int,
    within: GroupAction | None = None,
    seed: int = 0,
    mass: float = SHARP_MASS,
    watch: Watch = unwatched,
) -> tuple[Network, tuple[LearnedLayer, ...]]:
    """A network with as many elements as its images have, with its stacks learned.

    The lifting layer is learned first, to see how many elements there are; the network is built
    with so many, and all of its stacks are learned as by :func:`learn_stacks`. With one element,
    the identity, it is a plain CNN.

    Args:
        build: makes a network from a number of elements, which all of its layers have. Its first
            convolution has a `Sinkhorn` and is called on the images as they are.
        images: as for :func:`learn_stacks`.
        labels: as there.
        slots: most elements.
        within: as there.
        seed: as there.
        mass: as there.
        watch: as there.

    Returns:
        The network, and what was learned for each of its layers.

    Raises:
        ValueError: as :func:`learn_stacks`.

    >>> from symshare import LiftConv2d, Sinkhorn
    >>> _ = torch.manual_seed(0)
    >>> images = torch.randn(800, 1, 8, 8).cumsum(2).cumsum(3)
    >>> images[400:] = images[400:].flip(-1)
    >>> build = lambda elements: LiftConv2d(1, 4, 3, Sinkhorn(elements, 9))
    >>> network, _ = learned_network(build, images, slots=4)
    >>> network.representation.group_size
    2
    """
    _check(images, labels, mass)
    search = _Search(images, labels, within, seed, watch)
    network = build(slots)
    name, lifting = next(iter(_in_order(network, images[:2])), ("", None))
    note = _left_as_it_was(lifting, {}) if lifting else "the images reach no layer of symshare"
    if lifting is None or note:
        raise ValueError(f"learned_network: the first convolution cannot be learned: {note}")
    first = search.layer(network, name, lifting)
    if len(first[0]) < slots:
        network = build(len(first[0]))
    return network, search.network(network, mass, {name: first})


def open_gates(
    model: nn.Module,
    images: Float[Tensor, "N I *space"],
    labels: Int[Tensor, " N"] | None = None,
    *,
    seed: int = 0,
) -> LearnedLayer:
    """Start the learned measure of a network from what its lifting layer sees.

    Each element of the dictionary is tested as :meth:`Moments.test` does, on the second moments of
    the patches that the kernel is laid on. Gates of elements that are not refused, nor any product
    that comes with them, start at `OPEN`, those of the others at 1 - `OPEN`, from where training
    goes on: gates that all start half open may close for good in its first steps.

    Args:
        model: with a `Gated` representation in its first convolution; its measure is changed in
            place.
        images: as for :func:`learn_stacks`.
        labels: as there.
        seed: of images and patches.

    Returns:
        The record of the lifting layer; its elements are those whose gates were opened, the
        identity counted in.

    Raises:
        ValueError: for a model whose first convolution has no `Gated` representation of
            permutations, and as :func:`learn_stacks`. The model is as it was.

    >>> from symshare import Gated, LiftConv2d, groups
    >>> _ = torch.manual_seed(0)
    >>> images = torch.randn(800, 1, 8, 8).cumsum(2).cumsum(3)
    >>> images[400:] = images[400:].flip(-1)
    >>> gated = Gated(groups.flips("HW"))
    >>> open_gates(LiftConv2d(1, 4, 3, gated), images).elements
    2
    >>> gated.measure  # of id, flipW, flipH, rot180
    tensor([1.0000, 0.9000, 0.1000, 0.1000], grad_fn=<CatBackward0>)
    """
    _check(images, labels)
    name, layer = next(iter(_in_order(model, images[:2])), ("", None))
    if layer is None or not isinstance(layer.representation, Gated) or layer.transposed:
        raise ValueError(
            "open_gates: the first convolution has no Gated representation, so there are no gates "
            "to open; use kind gated"
        )
    stack = layer.stack().detach()
    sources = stack.argmax(-1)
    if not torch.equal(stack, one_hot(sources, stack.shape[-1]).to(stack)):
        raise ValueError(
            "open_gates: the dictionary has elements that are no permutations of the kernel's "
            "positions, and only these are tested; leave those elements out"
        )
    start = time.perf_counter()
    search = _Search(images, labels, None, seed, unwatched)
    found = commutant_among(search.moments(model, layer), sources, seed=seed)
    named, group = sources.tolist(), found.sources.tolist()
    is_open = torch.tensor([source in group for source in named])
    assert layer.representation.gate is not None
    with torch.no_grad():
        layer.representation.gate.logits.copy_(torch.where(is_open[1:], OPEN, 1 - OPEN).logit())
    inside = torch.tensor([source in named for source in group])
    return _record(name, layer, found, inside, start)


def of_layer(
    model: nn.Module,
    layer: Convolution,
    images: Float[Tensor, "N I *space"],
    labels: Int[Tensor, " N"] | None = None,
    *,
    seed: int = 0,
) -> Moments:
    """The second moments of what one layer of a model sees, as :func:`learn_stacks` collects them.

    Args:
        model: with the layer somewhere in it.
        layer: whose input is read.
        images: as for :func:`learn_stacks`.
        labels: as there.
        seed: of images, patches and channels.

    Raises:
        ValueError: as :func:`learn_stacks`, and for a layer that the images do not reach.

    >>> from symshare import LiftConv2d, Sinkhorn
    >>> layer = LiftConv2d(1, 4, 3, Sinkhorn(2, 9))
    >>> of_layer(layer, layer, torch.randn(64, 1, 8, 8)).blocks.shape  # of three scales one fits
    torch.Size([16, 1, 9, 9])
    """
    _check(images, labels)
    if layer not in [reached for _, reached in _in_order(model, images[:2])]:
        raise ValueError("of_layer: the images do not reach this layer; is it part of the model?")
    return _Search(images, labels, None, seed, unwatched).moments(model, layer)


class _Search:
    """Looks for the elements of layers, in what they see of some images."""

    def __init__(
        self,
        images: Tensor,
        labels: Tensor | None,
        within: GroupAction | None,
        seed: int,
        watch: Watch,
    ):
        self.images, self.within, self.seed, self.watch = images, within, seed, watch
        self.labels = torch.zeros(len(images), dtype=torch.int64) if labels is None else labels
        self.generator = torch.Generator().manual_seed(seed)
        self.order = torch.randperm(len(images), generator=self.generator)

    def layer(
        self, model: nn.Module, name: str, layer: Convolution, enough: int = CAP
    ) -> tuple[Int[Tensor, "H D"], LearnedLayer]:
        """The elements of one layer of a model, and the record of it."""
        start, slots = time.perf_counter(), layer.representation.group_size
        moments, watch = self.moments(model, layer), partial(self.watch, name)
        results = [commutant(moments, seed=self.seed, enough=enough, watch=watch)]
        if self.within is not None and layer.lifting:
            # Among many more elements the search may end before it meets those that were named.
            named = self.within.permutation(layer.geometry.kernel_size)
            results.append(commutant_among(moments, named, seed=self.seed))
        chosen = [(found, _inside(found.sources, self.within, layer)) for found in results]
        found, inside = max(chosen, key=lambda one: int(one[1].sum()))
        _check_slots(name, int(inside.sum()), found.capped, slots)
        return found.sources[inside], _record(name, layer, found, inside, start)

    def moments(self, model: nn.Module, layer: Convolution) -> Moments:
        """Those of what a layer of a model sees."""
        sight = Sight(layer, int(self.labels.max()) + 1, self.generator)
        shown = self.order[: LIFTING_IMAGES if layer.lifting else GROUP_IMAGES]
        for block in blocks_of(shown):
            sight.add(_input_of(model, layer, self.images[block]), self.labels[block])
        return sight.moments()

    def network(
        self,
        model: nn.Module,
        mass: float,
        known: Mapping[str, tuple[Tensor, LearnedLayer]] = MappingProxyType({}),
    ) -> tuple[LearnedLayer, ...]:
        """Learn all layers but those that are known; on errors the model stays as it was."""
        before: dict[Sinkhorn, tuple[Tensor, Tensor]] = {}
        records: list[LearnedLayer] = []
        learned: dict[Sinkhorn, Tensor] = {}
        try:
            for name, layer in _in_order(model, self.images[:2]):
                stack, slots = layer.representation, layer.representation.group_size
                if name not in known and (note := _left_as_it_was(layer, learned)):
                    records.append(LearnedLayer(name, slots, note=note))
                    continue
                assert isinstance(stack, Sinkhorn)
                before[stack] = stack.logits.detach().clone(), stack.projection.potentials.clone()
                # Features have the symmetries that the first layer gave them, and no more.
                enough = CAP if layer.lifting else slots
                group, record = known.get(name) or self.layer(model, name, layer, enough)
                records.append(replace(record, slots=slots))
                learned[stack] = _filled(group, slots, self.generator)
                _write(stack, learned[stack], HARD)
            if not learned:
                raise ValueError(
                    "learn_stacks: the model has no convolution with a Sinkhorn stack that the "
                    "images reach; nothing can be learned"
                )
            for stack, sources in learned.items():
                _write(stack, sources, mass)
        except BaseException:
            with torch.no_grad():
                for stack, (logits, potentials) in before.items():
                    stack.logits.copy_(logits)
                    stack.projection.potentials.copy_(potentials)
            raise
        return tuple(records)


def _record(
    name: str, layer: Convolution, found: Commutant, inside: Tensor, start: float
) -> LearnedLayer:
    """The record of a layer whose elements are some of those that were found, since `start`."""
    return LearnedLayer(
        name=name,
        slots=layer.representation.group_size,
        elements=int(inside.sum()),
        ratios=tuple(found.ratios[inside].tolist()),
        p_values=tuple(found.p_values[inside].tolist()),
        nearest=found.nearest,
        power=found.power,
        rounds=found.rounds,
        seconds=time.perf_counter() - start,
    )


def _check(images: Tensor, labels: Tensor | None, mass: float = SHARP_MASS) -> None:
    """Refuse what no moments can be made of."""
    if not isinstance(images, Tensor):
        raise TypeError(
            f"learn_stacks: expected images as a tensor [N, I, *space], got "
            f"{type(images).__name__}; use torch.as_tensor(images), with the axis of channels"
        )
    if not 0 < mass < 1:
        raise ValueError(f"learn_stacks: mass must be above 0 and below 1, got {mass}")
    if labels is not None and len(labels) != len(images):
        raise ValueError(
            f"learn_stacks: expected a label for each image, got {len(labels)} labels for "
            f"{len(images)} images"
        )
    if not torch.isfinite(images).all():
        raise ValueError("learn_stacks: images have NaN or infinite pixels; leave those images out")
    blocks_of(torch.arange(len(images)))


def _in_order(model: nn.Module, images: Tensor) -> list[tuple[str, Convolution]]:
    """Convolutions in the order in which they are called first."""
    called: dict[str, Convolution] = {}

    def note(name: str, layer: Convolution) -> None:
        called.setdefault(name, layer)

    hooks = [
        module.register_forward_pre_hook(lambda layer, _, name=name: note(name, layer))
        for name, module in model.named_modules()
        if isinstance(module, Convolution)
    ]
    try:
        with _evaluated(model):
            model(images)
    finally:
        for hook in hooks:
            hook.remove()
    return list(called.items())


@contextmanager
def _evaluated(model: nn.Module) -> Generator[None]:
    """All modules in evaluation, without gradients; then each in the mode that it had."""
    modes = {module: module.training for module in model.modules()}
    model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        for module, mode in modes.items():
            module.training = mode


def _left_as_it_was(layer: Convolution, learned: dict[Sinkhorn, Tensor]) -> str:
    """Why a layer is not learned; empty where it is."""
    stack = layer.representation
    if layer.transposed:
        return "it is transposed: it stamps kernels, and is laid on no patches"
    if not isinstance(stack, Sinkhorn):
        return f"its representation is {type(stack).__name__}, no free stack"
    if stack in learned:
        return "its stack was learned in a layer before"
    if stack.group_size == 1:
        return "its stack has one element"
    return ""


class _Reached(Exception):
    """The layer that was waited for has been called."""


def _input_of(model: nn.Module, layer: Convolution, images: Tensor) -> Tensor:
    """The input of a layer for images; nothing after it is computed."""
    seen: list[Tensor] = []

    def stop(_: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        seen.append(inputs[0])
        raise _Reached

    hook = layer.register_forward_pre_hook(stop)
    try:
        with _evaluated(model):
            for part in images.split(_AT_ONCE):
                with suppress(_Reached):
                    model(part)
    finally:
        hook.remove()
    return torch.cat(seen).float().cpu()


def _inside(sources: Int[Tensor, "G D"], within: GroupAction | None, layer: Convolution) -> Tensor:
    """Which permutations move the kernel positions as an element of an action does."""
    if within is None:
        return torch.ones(len(sources), dtype=torch.bool)
    allowed = within.permutation(layer.geometry.kernel_size).tolist()
    taps = layer.geometry.taps
    return torch.tensor([move_in_space(row, taps) in allowed for row in sources])


def move_in_space(sources: Int[Tensor, " D"], taps: int) -> list[int] | None:
    """What a permutation of [K, P] does to the P taps, where it does the same to each element.

    None where it tears elements apart, or moves the taps of each in another way.

    >>> move_in_space(torch.tensor([3, 2, 1, 0]), 2), move_in_space(torch.tensor([0, 2, 1, 3]), 2)
    ([1, 0], None)
    """
    places, blocks = sources.view(-1, taps) % taps, sources.view(-1, taps) // taps
    together = (places == places[0]).all() and (blocks == blocks[:, :1]).all()
    return places[0].tolist() if together else None


def _check_slots(name: str, elements: int, capped: bool, slots: int) -> None:
    """Refuse to choose among more elements than slots, or than were searched for."""
    if elements > slots or (capped and elements >= CAP):
        raise ValueError(
            f"learn_stacks: what {name or 'the layer'} sees has {elements}"
            f"{' or more' * capped} elements, and its "
            f"stack has {slots} slots; which of them to use is a question about the data: ask "
            "symshare.discover, and pass within=, such as groups.rotations(4), or give the layers "
            "more elements"
        )


def _filled(
    group: Int[Tensor, "H D"], slots: int, generator: torch.Generator
) -> Int[Tensor, "G D"]:
    """A group, and cosets of it by random permutations, until all slots are filled."""
    rows = [group]
    for _ in range(1, -(-slots // len(group))):
        random = torch.rand(group.shape[1], generator=generator).argsort()
        rows.append(random[group])
    return torch.cat(rows)[:slots]


def _write(stack: Sinkhorn, sources: Int[Tensor, "G D"], mass: float) -> None:
    """Give the stack these permutations, with so much of their mass and the rest uniform."""
    with torch.no_grad():
        logits = near(one_hot(sources, stack.positions).to(stack.logits), mass)
        stack.logits.copy_(logits[int(stack.anchor) :])
        stack.projection.potentials.zero_()
