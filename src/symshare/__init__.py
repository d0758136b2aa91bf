"""Find the symmetries of labelled data, and build networks that share weights over them."""

from importlib import import_module
from importlib.metadata import version
from typing import Any

__version__ = version("symshare")

_HOMES = {
    "symshare.convert": ("BakeReport", "bake", "export", "load_tensors"),
    "symshare.discovery.run": ("Discovery", "discover"),
    "symshare.layers": (
        "GroupBatchNorm",
        "GroupConv1d",
        "GroupConv2d",
        "GroupConv3d",
        "GroupConvTranspose1d",
        "GroupConvTranspose2d",
        "GroupConvTranspose3d",
        "GroupInstanceNorm",
        "GroupLayerNorm",
        "GroupLinear",
        "GroupMaxPool",
        "GroupPool",
        "LiftConv1d",
        "LiftConv2d",
        "LiftConv3d",
        "LiftConvTranspose1d",
        "LiftConvTranspose2d",
        "LiftConvTranspose3d",
        "SpatialAvgPool",
        "SpatialMaxPool",
    ),
    "symshare.representations": (
        "Birkhoff",
        "Fixed",
        "Gated",
        "Kronecker",
        "Measure",
        "Representation",
        "RowStochastic",
        "Sinkhorn",
        "Unconstrained",
        "shared",
    ),
    "symshare.sinkhorn": ("marginal_error", "project"),
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}

__all__ = [
    "BakeReport",
    "Birkhoff",
    "Discovery",
    "Fixed",
    "Gated",
    "GroupBatchNorm",
    "GroupConv1d",
    "GroupConv2d",
    "GroupConv3d",
    "GroupConvTranspose1d",
    "GroupConvTranspose2d",
    "GroupConvTranspose3d",
    "GroupInstanceNorm",
    "GroupLayerNorm",
    "GroupLinear",
    "GroupMaxPool",
    "GroupPool",
    "Kronecker",
    "LiftConv1d",
    "LiftConv2d",
    "LiftConv3d",
    "LiftConvTranspose1d",
    "LiftConvTranspose2d",
    "LiftConvTranspose3d",
    "Measure",
    "Representation",
    "RowStochastic",
    "Sinkhorn",
    "SpatialAvgPool",
    "SpatialMaxPool",
    "Unconstrained",
    "__version__",
    "bake",
    "discover",
    "export",
    "groups",
    "layers",
    "load_tensors",
    "marginal_error",
    "project",
    "shared",
]


def __getattr__(name: str) -> Any:
    """Import a public name on first use, so that the command line answers without torch."""
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    if name in ("groups", "layers"):
        return import_module(f"symshare.{name}")
    raise AttributeError(f"module 'symshare' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
