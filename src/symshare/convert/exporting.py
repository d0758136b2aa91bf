"""Networks as files that other programs run: ONNX, torch.export programs, plain tensors."""

import io
import json
import logging
import warnings
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import torch
from torch import Tensor, nn

import symshare
from symshare.convert.baking import bake, is_plain
from symshare.convert.modules import copied
from symshare.files import open_tensors, write_atomically

SCHEMA = 1
"""Rises when a file means something else than before."""

Example = Tensor | tuple[Tensor, ...]
Axes = Mapping[int, str] | tuple[Mapping[int, str], ...]


def export(
    model: nn.Module,
    format: str,
    path: str | Path,
    example: Example | None = None,
    *,
    dynamic_shapes: Axes | None = None,
) -> Path:
    """Write a network to a file for inference, baked and in eval mode; the network stays as it is.

    Args:
        model: a network, baked or not; :func:`bake` it with `hard=True` first for permutations.
        format: "onnx", for onnxruntime and others, with inputs `input` (or `input0`, `input1`,
            ...) and output `output`; "pt2", which `torch.export.load` reads without symshare;
            "safetensors", the tensors of the state dict, which :func:`load_tensors` reads.
        path: the file, written whole or not at all.
        example: an input, or a tuple of all inputs, that the network takes; "onnx" and "pt2"
            need it. The first axis is the batch, and the file takes batches of any size
            from 1 on.
        dynamic_shapes: other axes that the file takes in every size that the network does, as in
            `torch.export`, with a name for each: `{2: "height", 3: "width"}` for images. With
            several inputs, a tuple of such. Sizes that the network does not take are refused when
            the file is used. Choose an example whose maps stay larger than one pixel: a PT2 file
            takes an axis of one for a constant.

    Returns:
        The path.

    Raises:
        ValueError: for an unknown format, for an example that is missing or empty, or if what the
            network computes depends on the size of a dynamic axis otherwise than by a lower bound.
        ImportError: if the packages that write ONNX are not installed.
        OSError: if the file cannot be written.

    >>> import tempfile
    >>> from symshare import Fixed, LiftConv2d, groups
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     network = LiftConv2d(1, 2, 3, Fixed(groups.rotations(4)))
    ...     export(network, "safetensors", f"{folder}/network.safetensors").name
    'network.safetensors'
    """
    if format not in FORMATS:
        raise ValueError(
            f"export: format must be one of {', '.join(map(repr, FORMATS))}, got {format!r}"
        )
    baked = copied(model).eval() if is_plain(model) else bake(model)
    path = Path(path)
    write_atomically(path, FORMATS[format](baked.cpu(), example, dynamic_shapes))
    return path


def load_tensors(path: str | Path) -> dict[str, Tensor]:
    """State dict in a file that `export(model, "safetensors", path)` wrote.

    It fits the baked network: `bake(model).load_state_dict(load_tensors(path))`.

    Raises:
        ValueError: if the file is damaged, was written by another program, or has a schema
            that this version does not know.
        OSError: if it cannot be read.
    """
    path = Path(path)
    with open_tensors(path) as file:
        facts = file.metadata() or {}
        schema = facts.get("schema", "")
        if facts.get("content") != _metadata()["content"] or not schema.isdecimal():
            raise ValueError(
                f"load_tensors: {path} is no file of symshare.export; read it with "
                "safetensors.torch.load_file"
            )
        if int(schema) > SCHEMA:
            raise ValueError(
                f"load_tensors: {path} has schema {schema}, written by symshare "
                f"{facts.get('symshare')}; this version knows schemas up to {SCHEMA}; upgrade "
                "symshare"
            )
        return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 # no mapping


def _metadata() -> dict[str, str]:
    """What every file says of itself."""
    return {
        "format": "pt",
        "content": "symshare baked network",
        "schema": str(SCHEMA),
        "symshare": symshare.__version__,
    }


def _safetensors(baked: nn.Module, example: Example | None, axes: Axes | None) -> bytes:
    from safetensors.torch import save

    # Modules that are used twice stand there under both names, which needs two copies.
    tensors = {name: x.detach().clone().contiguous() for name, x in baked.state_dict().items()}
    return save(tensors, _metadata())


def _pt2(baked: nn.Module, example: Example | None, axes: Axes | None) -> bytes:
    file = io.BytesIO()
    with _quiet():
        program = _program(baked, *_inputs("pt2", example, axes))
        facts = {"symshare.json": json.dumps(_metadata())}
        torch.export.save(program, file, extra_files=facts)
    return file.getvalue()


def _onnx(baked: nn.Module, example: Example | None, axes: Axes | None) -> bytes:
    missing = [name for name in ("onnx", "onnxscript") if find_spec(name) is None]
    if missing:
        raise ImportError(
            f"export: writing ONNX needs {' and '.join(missing)}; install them with "
            'pip install "symshare[onnx]"'
        )
    args, names = _inputs("onnx", example, axes)
    with _quiet():
        program = torch.onnx.export(
            _program(baked, args, names),
            input_names=["input"] if len(args) == 1 else [f"input{i}" for i in range(len(args))],
            output_names=["output"],
            dynamic_shapes=names,
            dynamo=True,
            verbose=False,
        )
    assert program is not None  # it is where dynamo=True
    proto = program.model_proto
    for key, value in _metadata().items():
        proto.metadata_props.add(key=key, value=value)
    return proto.SerializeToString()


FORMATS: dict[str, Callable[[nn.Module, Example | None, Axes | None], bytes]] = {
    "onnx": _onnx,
    "pt2": _pt2,
    "safetensors": _safetensors,
}


def _inputs(
    format: str, example: Example | None, axes: Axes | None
) -> tuple[tuple[Tensor, ...], tuple[dict[int, str], ...]]:
    """The example, and for each of its tensors the axes of any size, by name."""
    if example is None:
        raise ValueError(
            f"export: format {format!r} needs an example input, such as one batch of images"
        )
    args = (example,) if isinstance(example, Tensor) else tuple(example)
    if any(x.ndim == 0 or len(x) == 0 for x in args):
        shapes = ", ".join(str(tuple(x.shape)) for x in args)
        raise ValueError(f"export: the example needs a batch of at least one, got {shapes}")
    if axes is None:
        axes = ({},) * len(args)
    each = (axes,) if isinstance(axes, Mapping) else tuple(axes)
    if len(each) != len(args) or any(
        not 0 <= axis < x.ndim for x, named in zip(args, each, strict=True) for axis in named
    ):
        raise ValueError(
            "export: dynamic_shapes names axes of each input, such as {2: 'height', 3: 'width'}, "
            f"got {axes} for inputs of {', '.join(str(x.ndim) for x in args)} axes"
        )
    # A batch of one would be taken for a constant.
    args = tuple(x.detach().cpu()[:1].repeat_interleave(2, 0) for x in args)
    return args, tuple({0: "batch", **named} for named in each)


def _program(
    baked: nn.Module, args: tuple[Tensor, ...], names: tuple[dict[int, str], ...]
) -> torch.export.ExportedProgram:
    batch, free = torch.export.Dim("batch"), torch.export.Dim.DYNAMIC
    shapes = tuple({axis: free if axis else batch for axis in named} for named in names)
    try:
        return torch.export.export(baked, args, dynamic_shapes=shapes)
    except RuntimeError as error:
        axes = ", ".join(name for named in names for axis, name in named.items() if axis)
        if not axes:
            raise
        raise ValueError(
            f"export: the network is no function of inputs of any {axes}, as torch.export says "
            "above; take the mean over space before the head, say, or leave the axis out of "
            "dynamic_shapes"
        ) from error


@contextmanager
def _quiet() -> Generator[None]:
    """Without the exporter's remarks about itself; errors pass."""
    remarks = logging.getLogger("torch.onnx")
    level = remarks.level
    remarks.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings(action="ignore"):
            yield
    finally:
        remarks.setLevel(level)
