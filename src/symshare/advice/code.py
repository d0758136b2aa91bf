"""Advice as code to paste: a network with the symmetry built in, and augmentation by a library."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain, combinations, permutations

from symshare.names import VECTOR
from symshare.records import Advice, Element, VerdictRecord

LIBRARIES = {1: ("torch",), 2: ("torchvision", "albumentations", "kornia"), 3: ("monai", "torchio")}
"""Libraries that augmentation is written for, by the axes of space; signals need none but torch."""


def libraries_of(record: VerdictRecord) -> tuple[str, ...]:
    """The libraries that there is code for, the usual one first."""
    return LIBRARIES[len(_shape(record))]


def augmentation(record: VerdictRecord, library: str) -> str:
    """Augmentation with all that the advice allows; empty where it allows none.

    Each image gets one of the exact moves at random, and then one move of one family: families
    were judged one by one, and what each may cost adds up where they come together.

    Args:
        record: of a discovery.
        library: one of :func:`libraries_of`.

    Raises:
        ValueError: where there is no code for this library and such data.
    """
    known = libraries_of(record)
    if library not in known:
        raise ValueError(
            f"advice: expected one of {', '.join(known)} for {record.things.many}, got "
            f"{library!r}; leave it out for {known[0]}"
        )
    exact, left_out = _exact(record)
    lines = [a for a in record.advice if a.kind == "augment" and a.family]
    if not exact and not lines:
        return ""
    values = _Values.of(record)
    moves = [_MOVES[library](line, values) for line in lines]
    notes = [f"# not in this code: {', '.join(left_out)}", ""] if left_out else []
    body = [*notes, *_HEADS[library](exact, moves, values)]
    while body[-1] == "":
        body.pop()
    return "\n".join([*body, ""])


def network(record: VerdictRecord) -> str:
    """A network whose layers share their weights over what was found; empty where nothing was."""
    shape = _shape(record)
    d = len(shape)
    found = [e for e in record.elements if e.name in record.found and _axes_and_flips(e)]
    # Vectors have no convolutions, and maps of numbers are in units that a network has to know.
    if not found or shape == VECTOR or record.numbers:
        return ""
    classes = len(record.classes)
    stay = tuple(range(classes))
    maps = {e.name: list(e.label_map) for e in found if e.label_map != stay}
    head, pool = f"torch.nn.Linear(32, {classes})", ["    GroupPool(),"]
    if maps:
        rows = f"[{maps}.get(name, {list(stay)}) for name in group.names]"
        head, pool = f"GroupHead(32, torch.tensor({rows}))", []
    layers = f"GroupConv{d}d, {'GroupHead' if maps else 'GroupPool'}, LiftConv{d}d"
    channels = len(record.ranges.spread) if record.ranges else 1
    group = [f"group = groups.hyperoctahedral({d}).subset({[e.name for e in found]})"]
    if moving := next((e.channels for e in found if e.channels), None):
        channels = len(moving)
        group = _of_channels(found, d, channels)
    lines = [
        "import torch",
        f"from symshare import Fixed, {layers}, groups",
        "",
        *group,
        f"channels = {channels}  # of one of your {record.things.many}",
        "features = torch.nn.Sequential(",
        f"    LiftConv{d}d(channels, 32, 3, Fixed(group)), torch.nn.ReLU(),",
        f"    GroupConv{d}d(32, 32, 3, Fixed(group)), torch.nn.ReLU(),",
        *pool,
        ")",
        f"head = {head}",
        "",
        "def scores(x):",
        f"    return head(features(x).mean({tuple(range(-d, 0))}))",
        "",
    ]
    return "\n".join(lines)


def _of_channels(found: Sequence[Element], dims: int, channels: int) -> list[str]:
    """A group of elements of which some move channels."""
    from symshare.groups import hyperoctahedral

    linear = hyperoctahedral(dims)
    known = [tuple(row) for row in linear.permutation(3).tolist()]
    moves = [linear.names[known.index(e.kernel_permutation)] for e in found if e.kernel_permutation]
    still = (tuple(range(channels)), (1,) * channels)
    maps = [(e.channels, e.signs) if e.channels else still for e in found]
    rows = ["group = groups.ChannelAction(", f"    groups.hyperoctahedral({dims}),", "    ["]
    for name, (sources, signs) in zip(["id", *moves], [still, *maps], strict=True):
        rows.append(f"        ({name!r}, groups.ChannelMap({sources}, {signs})),")
    return [*rows, "    ],", f"    {['id', *(e.name for e in found)]},", ")"]


@dataclass(frozen=True)
class _Values:
    """What sizes become in code: units of values, and the shape of the grid."""

    spread: tuple[float, ...]
    clipped: bool
    shape: tuple[int, ...]

    @classmethod
    def of(cls, record: VerdictRecord) -> _Values:
        ranges = record.ranges
        if ranges is None:
            return cls((1.0,), False, _shape(record))
        return cls(ranges.spread, ranges.clipped, ranges.shape)

    def kept(self, code: str) -> str:
        """An expression of values, clipped where the data is."""
        return f"({code}).clamp(0, 1)" if self.clipped else code

    def by_value(self, line: Advice) -> str:
        """A move of the values of one tensor x."""
        lo, hi, s = _number(line.low), _number(line.high), self.spread[0]
        if line.family == "noise":
            return self.kept(f"x + random.uniform(0, {_number(hi * s)}) * torch.randn_like(x)")
        if line.family == "brightness":
            return self.kept(f"x + random.uniform({_number(lo * s)}, {_number(hi * s)})")
        assert line.family == "contrast", line.family
        return self.kept(f"x.mean() + 2 ** random.uniform({lo}, {hi}) * (x - x.mean())")


def _shape(record: VerdictRecord) -> tuple[int, ...]:
    if record.ranges:
        return record.ranges.shape
    return record.elements[0].shape if record.elements else (1, 1)


def _number(value: float | None) -> float:
    """A number in code: what was shown holds of smaller sizes too, so it is cut, not rounded.

    >>> _number(0.12345), _number(-14.0625)
    (0.1234, -14.06)
    """
    assert value is not None
    if not value:
        return 0.0
    unit = 10.0 ** (3 - math.floor(math.log10(abs(value))))
    return math.trunc(value * unit + math.copysign(1e-9, value)) / unit


def _axes_and_flips(element: Element) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """The order of the axes, and the axes that are then reversed; None of any other move."""
    import numpy as np

    if element.permutation is None:
        return None
    grid, d = np.arange(math.prod(element.shape)).reshape(element.shape), len(element.shape)
    flips = chain.from_iterable(combinations(range(d), n) for n in range(d + 1))
    for some in list(flips):
        for axes in permutations(range(d)):
            made = np.flip(grid.transpose(axes), some)
            if made.shape == element.shape and made.ravel().tolist() == list(element.permutation):
                return axes, some
    return None


def _exact(record: VerdictRecord) -> tuple[list[Element], list[str]]:
    """Exact moves to augment with, and those of the advice that a line of code cannot make."""
    advised = [name for a in record.advice if a.kind != "keep away" for name in a.elements]
    made, left_out = [], []
    for element in (e for e in record.elements if e.name in advised):
        if record.labels.moved(element):
            left_out.append(f"{element.name}, which moves the labels too")
        elif _axes_and_flips(element) is None:
            left_out.append(element.name)
        else:
            made.append(element)
    return made, left_out


def _on_tensor(element: Element) -> str:
    """An exact move of one tensor [C, *space]."""
    axes, flips = _axes_and_flips(element) or ((), ())
    code = "x"
    if axes != tuple(sorted(axes)):
        code += f".permute({', '.join(map(str, (0, *(1 + a for a in axes))))})"
    code += f".flip({[1 + axis for axis in flips]})" if flips else ""
    if element.channels is None or element.signs is None:
        return code
    code += f"[{list(element.channels)}]"
    if -1 not in element.signs:
        return code
    return f"{code} * torch.tensor({list(element.signs)}).view({(-1, *[1] * len(element.shape))})"


def _on_array(element: Element) -> str:
    """An exact move of one array [H, W, C]."""
    axes, flips = _axes_and_flips(element) or ((), ())
    code = "x" if axes == tuple(sorted(axes)) else f"x.transpose({axes[0]}, {axes[1]}, 2)"
    code = f"np.flip({code}, {flips})" if flips else code
    if element.channels is None or element.signs is None:
        return code
    code += f"[..., {list(element.channels)}]"
    return f"{code} * np.array({list(element.signs)}, np.float32)" if -1 in element.signs else code


def _exactly(exact: Sequence[Element], write: Callable[[Element], str]) -> list[str]:
    """A function that makes one of the exact moves, or none."""
    if not exact:
        return []
    moves = ["lambda x: x", *(f"lambda x: {write(element)}" for element in exact)]
    return [
        "exact = [",
        *(f"    {move},{_comment(e)}" for move, e in zip(moves, [None, *exact], strict=True)),
        "]",
        "",
    ]


def _comment(element: Element | None) -> str:
    return f"  # {element.name}" if element else ""


_ONE_EXACT = "lambda x: random.choice(exact)(x)"


def _listed(moves: Sequence[str]) -> list[str]:
    return [f"    {move}," for move in moves]


def _torchvision(line: Advice, v: _Values) -> str:
    lo, hi = _number(line.low), _number(line.high)
    bilinear = "interpolation=v2.InterpolationMode.BILINEAR"
    if line.family == "turn":
        return f"edges(v2.RandomRotation(({lo}, {hi}), {bilinear}))"
    if line.family == "scale":
        return f"edges(v2.RandomAffine(0, scale=({_number(2**lo)}, {_number(2**hi)}), {bilinear}))"
    if line.family == "shear":
        degrees = f"({_degrees(lo)}, {_degrees(hi)})"
        return f"edges(v2.RandomAffine(0, shear={degrees}, {bilinear}))"
    if line.family in ("shiftH", "shiftW"):
        drawn = f"random.randint({int(lo)}, {int(hi)})"
        by = f"[0, {drawn}]" if line.family == "shiftH" else f"[{drawn}, 0]"
        return f"edges(v2.Lambda(lambda x: v2.functional.affine(x, 0, {by}, 1.0, [0.0, 0.0])))"
    if line.family == "contrast" and v.clipped and len(v.spread) in (1, 3):
        return f"v2.ColorJitter(contrast=({_number(2**lo)}, {_number(2**hi)}))"
    if line.family == "blur":
        return f"v2.GaussianBlur({_taps(hi)}, sigma=({min(0.01, hi)}, {hi}))"
    return f"v2.Lambda(lambda x: {v.by_value(line)})"


def _head_torchvision(exact: Sequence[Element], moves: Sequence[str], v: _Values) -> list[str]:
    height, width = v.shape
    pad = max(v.shape) // 2 + 1
    edges = [
        "def edges(move):",
        '    """A move of an image whose border repeats its last pixels."""',
        f'    pad = v2.Pad({pad}, padding_mode="edge")',
        f"    return v2.Compose([pad, move, v2.CenterCrop(({height}, {width}))])",
        "",
    ]
    return [
        "# of one image at a time, a float tensor [C, H, W]",
        "import random",
        "",
        "import torch",
        "from torchvision.transforms import v2",
        "",
        *_exactly(exact, _on_tensor),
        *(edges if any("edges(" in move for move in moves) else []),
        "augment = v2.Compose([",
        *_listed([f"v2.Lambda({_ONE_EXACT})"] if exact else []),
        *_one_of("v2.RandomChoice([", moves, "])"),
        "])",
    ]


def _one_of(start: str, moves: Sequence[str], end: str) -> list[str]:
    """One of the moves, indented by one step."""
    if not moves:
        return []
    return [f"    {start}", *(f"        {move}," for move in moves), f"    {end},"]


def _albumentations(line: Advice, v: _Values) -> str:
    lo, hi = _number(line.low), _number(line.high)
    border = "border_mode=cv2.BORDER_REPLICATE, p=1"
    if line.family == "turn":
        return f"A.Affine(rotate=({lo}, {hi}), {border})"
    if line.family == "scale":
        return f"A.Affine(scale=({_number(2**lo)}, {_number(2**hi)}), {border})"
    if line.family == "shear":
        shear = f'{{"x": ({_degrees(lo)}, {_degrees(hi)}), "y": (0, 0)}}'
        return f"A.Affine(shear={shear}, {border})"
    if line.family in ("shiftH", "shiftW"):
        axis, other = ("y", "x") if line.family == "shiftH" else ("x", "y")
        by = f'{{"{axis}": ({int(lo)}, {int(hi)}), "{other}": (0, 0)}}'
        return f"A.Affine(translate_px={by}, {border})"
    if line.family == "blur":
        return f"A.GaussianBlur(blur_limit=0, sigma_limit=({min(0.01, hi)}, {hi}), p=1)"
    code = v.by_value(line).replace("torch.randn_like(x)", "np.random.randn(*x.shape)")
    code = code.replace(".clamp(0, 1)", ".clip(0, 1)")
    return f"A.Lambda(image=lambda x, **_: ({code}).astype(np.float32), p=1)"


def _head_albumentations(exact: Sequence[Element], moves: Sequence[str], v: _Values) -> list[str]:
    one = "A.Lambda(image=lambda x, **_: np.ascontiguousarray(random.choice(exact)(x)), p=1)"
    return [
        "# of one image at a time, a float32 array [H, W, C]: augment(image=x)",
        "import random",
        "",
        "import albumentations as A",
        "import cv2",
        "import numpy as np",
        "",
        *_exactly(exact, _on_array),
        "augment = A.Compose([",
        *_listed([one] if exact else []),
        *_one_of("A.OneOf([", moves, "], p=1)"),
        "])",
    ]


def _kornia(line: Advice, v: _Values) -> str:
    lo, hi = _number(line.low), _number(line.high)
    border = 'padding_mode="border", p=1'
    height, width = v.shape
    if line.family == "turn":
        # Kornia turns clockwise.
        return f"K.RandomAffine(degrees=({-hi}, {-lo}), {border})"
    if line.family == "scale":
        return f"K.RandomAffine(degrees=0, scale=({_number(2**lo)}, {_number(2**hi)}), {border})"
    if line.family == "shear":
        return f"K.RandomShear(shear=({_degrees(lo)}, {_degrees(hi)}), {border})"
    if line.family in ("shiftH", "shiftW"):
        axis, length = ("y", height) if line.family == "shiftH" else ("x", width)
        by = f"({_number(lo / length)}, {_number(hi / length)})"
        return f"K.RandomTranslate(translate_{axis}={by}, {border})"
    if line.family == "blur":
        taps = _taps(hi)
        sigma = f"({min(0.01, hi)}, {hi})"
        return f'K.RandomGaussianBlur(({taps}, {taps}), {sigma}, border_type="replicate", p=1)'
    return f"Values(lambda x: {v.by_value(line)})"


def _head_kornia(exact: Sequence[Element], moves: Sequence[str], v: _Values) -> list[str]:
    each = "torch.stack([random.choice(exact)(x) for x in images])" if exact else "images"
    moved = f"random.choice(moves)({each})" if moves else each
    by_value = [
        "class Values(torch.nn.Module):",
        '    """A move of the values of each image."""',
        "    def __init__(self, move):",
        "        super().__init__()",
        "        self.move = move",
        "",
        "    def forward(self, images):",
        "        return torch.stack([self.move(x) for x in images])",
        "",
    ]
    return [
        "# of a batch of images, a float tensor [B, C, H, W]",
        "import random",
        "",
        "import kornia.augmentation as K",
        "import torch",
        "",
        *_exactly(exact, _on_tensor),
        *(by_value if any("Values(" in move for move in moves) else []),
        *(["moves = [", *_listed(moves), "]", ""] if moves else []),
        "def augment(images):",
        f"    return {moved}",
    ]


def _monai(line: Advice, v: _Values) -> str:
    lo, hi, s = _number(line.low), _number(line.high), v.spread[0]
    border = 'padding_mode="border", prob=1'
    family = line.family or ""
    if family.startswith("turn"):
        # About y it turns as here, about x and z the other way.
        ends = (lo, hi) if family == "turny" else (-hi, -lo)
        range_ = str(tuple(_number(math.radians(end)) for end in ends))
        return f"T.RandRotate(range_{family[-1]}={range_}, {border})"
    if family == "scale":
        return (
            f"T.RandZoom(min_zoom={_number(2**lo)}, max_zoom={_number(2**hi)}, "
            'padding_mode="edge", prob=1)'
        )
    if family.startswith("shift"):
        by = ["(0, 0)"] * 3
        # MONAI moves the grid that is read, which moves the content the other way.
        by["xyz".index(family[-1])] = f"({_number(-hi)}, {_number(-lo)})"
        return f"T.RandAffine(translate_range=({', '.join(by)}), {border})"
    if family == "brightness":
        return f"T.RandShiftIntensity(offsets=({_number(lo * s)}, {_number(hi * s)}), prob=1)"
    if family == "blur":
        axes = ", ".join(f"sigma_{axis}=(0, {hi})" for axis in "xyz")
        return f"T.RandGaussianSmooth({axes}, prob=1)"
    if family == "noise":
        return f"T.RandGaussianNoise(std={_number(hi * s)}, prob=1)"
    return f"T.Lambda(lambda x: {v.by_value(line)})"


def _head_monai(exact: Sequence[Element], moves: Sequence[str], v: _Values) -> list[str]:
    return [
        "# of one volume at a time, a float tensor [C, D, H, W]; x, y, z are D, H, W",
        "import random",
        "",
        "import monai.transforms as T",
        "import torch",
        "",
        *_exactly(exact, _on_tensor),
        "augment = T.Compose([",
        *_listed([f"T.Lambda({_ONE_EXACT})"] if exact else []),
        *_one_of("T.OneOf([", moves, "])"),
        "])",
    ]


def _torchio(line: Advice, v: _Values) -> str:
    lo, hi, s = _number(line.low), _number(line.high), v.spread[0]
    family = line.family or ""
    if family.startswith("turn") or family.startswith("shift"):
        pairs = [0.0] * 6
        at = 2 * "xyz".index(family[-1])
        pairs[at : at + 2] = [-hi, -lo] if family == "turny" else [lo, hi]
        still = "scales=0" if family.startswith("turn") else "scales=0, degrees=0"
        what = "degrees" if family.startswith("turn") else "translation"
        return f"tio.RandomAffine({still}, {what}={tuple(pairs)})"
    if family == "scale":
        factors = f"({_number(2**lo)}, {_number(2**hi)})"
        return f"tio.RandomAffine(scales={factors}, degrees=0, isotropic=True)"
    if family == "blur":
        return f"tio.RandomBlur(std=(0, {hi}))"
    if family == "noise" and not v.clipped:
        return f"tio.RandomNoise(std=(0, {_number(hi * s)}))"
    return f"tio.Lambda(lambda x: {v.by_value(line)})"


def _head_torchio(exact: Sequence[Element], moves: Sequence[str], v: _Values) -> list[str]:
    return [
        "# of one volume at a time, a float tensor [C, D, H, W]; from outside comes its least",
        "# value, where the ranges were found with edges that repeat",
        "import random",
        "",
        "import torch",
        "import torchio as tio",
        "",
        *_exactly(exact, _on_tensor),
        "augment = tio.Compose([",
        *_listed([f"tio.Lambda({_ONE_EXACT})"] if exact else []),
        *_one_of("tio.OneOf([", moves, "])"),
        "])",
    ]


def _torch(line: Advice, v: _Values) -> str:
    lo, hi = _number(line.low), _number(line.high)
    written = {
        "shift": f"shift(x, random.randint({int(lo)}, {int(hi)}))",
        "warp": f"warp(x, 2 ** random.uniform({lo}, {hi}))",
        "gain": f"x * 2 ** random.uniform({lo}, {hi})",
        "offset": f"x + random.uniform({lo}, {hi}) * spread",
        "noise": f"x + random.uniform(0, {hi}) * spread * torch.randn_like(x)",
        "blur": f"blur(x, random.uniform(0, {hi}))",
    }
    return f"lambda x: {written[line.family or '']}"


_SIGNALS = {
    "shift(": [
        "def shift(x, steps):",
        '    """Later by so many steps; what comes in repeats the edge."""',
        "    source = torch.arange(x.shape[-1]) - steps",
        "    return x[:, source.clamp(0, x.shape[-1] - 1)]",
        "",
    ],
    "warp(": [
        "def warp(x, factor):",
        '    """Time runs so many times as fast at both ends, and as much slower in the middle."""',
        "    length = x.shape[-1]",
        "    t = (torch.arange(length) + 0.5) / length * math.pi",
        "    read = torch.atan2(factor * t.sin(), t.cos()) * length / math.pi - 0.5",
        "    low = read.floor().clamp(0, length - 2).long()",
        "    share = (read - low).clamp(0, 1)",
        "    return x[:, low] * (1 - share) + x[:, low + 1] * share",
        "",
    ],
    "blur(": [
        "def blur(x, sigma):",
        '    """A Gaussian over steps."""',
        "    step = torch.arange(x.shape[-1])",
        "    weights = (-((step[:, None] - step) ** 2) / (2 * max(sigma, 1e-3) ** 2)).exp()",
        "    return x @ (weights / weights.sum(-1, keepdim=True)).T",
        "",
    ],
}


def _head_torch(exact: Sequence[Element], moves: Sequence[str], v: _Values) -> list[str]:
    spread = f"spread = torch.tensor({[[_number(s)] for s in v.spread]})  # of each channel"
    code = " ".join(moves)
    chosen = "random.choice(exact)(x)" if exact else "x"
    return [
        "# of one signal at a time, a float tensor [C, L]",
        *(["import math"] if "warp(" in code else []),
        "import random",
        "",
        "import torch",
        "",
        *_exactly(exact, _on_tensor),
        *([spread, ""] if "spread" in code else []),
        *chain.from_iterable(lines for name, lines in _SIGNALS.items() if name in code),
        *(["moves = [", *_listed(moves), "]", ""] if moves else []),
        "def augment(x):",
        f"    return {f'random.choice(moves)({chosen})' if moves else chosen}",
    ]


def _degrees(shear: float) -> float:
    """A shear as libraries count it: the angle by which upright lines lean."""
    return _number(math.degrees(math.atan(shear)))


def _taps(sigma: float) -> int:
    """Positions of a blur that reaches two sigma."""
    return 2 * math.ceil(2 * sigma) + 1


_MOVES: dict[str, Callable[[Advice, _Values], str]] = {
    "torchvision": _torchvision,
    "albumentations": _albumentations,
    "kornia": _kornia,
    "monai": _monai,
    "torchio": _torchio,
    "torch": _torch,
}
_HEADS: dict[str, Callable[[Sequence[Element], Sequence[str], _Values], list[str]]] = {
    "torchvision": _head_torchvision,
    "albumentations": _head_albumentations,
    "kornia": _head_kornia,
    "monai": _head_monai,
    "torchio": _head_torchio,
    "torch": _head_torch,
}
