"""Networks as files that other programs run: ONNX, torch.export programs, plain tensors."""

import copy
import io
import json
import logging
import warnings
from collections.abc import Callable, Generator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from symshare.convert.baking import bake, is_plain
from symshare.convert.tensors import metadata, tensors_file
from symshare.files import write_atomically

__all__ = ["FORMATS", "export"]

Example = Tensor | tuple[Tensor, ...]


def export(model: nn.Module, format: str, path: str | Path, example: Example | None = None) -> Path:
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

    Returns:
        The path.

    Raises:
        ValueError: for an unknown format, or an example that is missing or empty.
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
    baked = copy.deepcopy(model).eval() if is_plain(model) else bake(model)
    content = FORMATS[format](baked.cpu(), example)
    path = Path(path)
    write_atomically(path, content)
    return path


def _safetensors(baked: nn.Module, example: Example | None) -> bytes:
    return tensors_file(baked)


def _pt2(baked: nn.Module, example: Example | None) -> bytes:
    file = io.BytesIO()
    facts = json.dumps(metadata())
    with _quiet():
        program = torch.export.export(baked, **_inputs("pt2", example))
        torch.export.save(program, file, extra_files={"symshare.json": facts})
    return file.getvalue()


def _onnx(baked: nn.Module, example: Example | None) -> bytes:
    missing = [name for name in ("onnx", "onnxscript") if find_spec(name) is None]
    if missing:
        raise ImportError(
            f"export: writing ONNX needs {' and '.join(missing)}; install them with "
            'pip install "symshare[onnx]"'
        )
    inputs = _inputs("onnx", example)
    names = ["input"]
    if len(inputs["args"]) > 1:
        names = [f"input{i}" for i in range(len(inputs["args"]))]
    with _quiet():
        program = torch.onnx.export(
            baked, **inputs, input_names=names, output_names=["output"], dynamo=True, verbose=False
        )
    assert program is not None  # it is where dynamo=True
    proto = program.model_proto
    for key, value in metadata().items():
        proto.metadata_props.add(key=key, value=value)
    return proto.SerializeToString()


FORMATS: dict[str, Callable[[nn.Module, Example | None], bytes]] = {
    "onnx": _onnx,
    "pt2": _pt2,
    "safetensors": _safetensors,
}


def _inputs(format: str, example: Example | None) -> dict[str, Any]:
    """Arguments of an exporter: the example, with an open first axis."""
    if example is None:
        raise ValueError(
            f"export: format {format!r} needs an example input, such as one batch of images"
        )
    args = (example,) if isinstance(example, Tensor) else tuple(example)
    if any(x.ndim == 0 or len(x) == 0 for x in args):
        shapes = ", ".join(str(tuple(x.shape)) for x in args)
        raise ValueError(f"export: the example needs a batch of at least one, got {shapes}")
    batch = torch.export.Dim("batch")
    # A batch of one would be taken for a constant.
    args = tuple(x.detach().cpu()[:1].repeat_interleave(2, 0) for x in args)
    return {"args": args, "dynamic_shapes": tuple({0: batch} for _ in args)}


@contextmanager
def _quiet() -> Generator[None]:
    """Without the exporter's remarks about itself; errors pass."""
    remarks = logging.getLogger("torch.onnx._internal.exporter._registration")
    level = remarks.level
    remarks.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        remarks.setLevel(level)
