"""Tensors of a baked network on disk, with a schema."""

from pathlib import Path

from torch import Tensor, nn

import symshare
from symshare.files import open_tensors

__all__ = ["SCHEMA", "load_tensors", "metadata", "tensors_file"]

SCHEMA = 1
"""Rises when a file means something else than before."""


def metadata() -> dict[str, str]:
    """What every exported file says of itself."""
    return {
        "format": "pt",
        "content": "symshare baked network",
        "schema": str(SCHEMA),
        "symshare": symshare.__version__,
    }


def tensors_file(baked: nn.Module) -> bytes:
    """Content of a safetensors file with the state dict of a baked network."""
    from safetensors.torch import save

    # Modules that are used twice stand there under both names, which needs two copies.
    tensors = {name: x.detach().clone().contiguous() for name, x in baked.state_dict().items()}
    return save(tensors, metadata())


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
        if facts.get("content") != metadata()["content"] or not schema.isdecimal():
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
