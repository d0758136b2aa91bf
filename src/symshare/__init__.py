"""Find the symmetries of labelled data, and build networks that share weights over them."""

from importlib import import_module
from importlib.metadata import version
from typing import Any

__version__ = version("symshare")

_HOMES = {
    "symshare.discovery.run": ("Discovery", "discover"),
    "symshare.layers": (
        "GroupConv2d",
        "GroupInstanceNorm",
        "GroupLayerNorm",
        "GroupLinear",
        "GroupPool",
        "LiftConv2d",
    ),
    "symshare.representations": ("Fixed", "Gated", "Measure", "Representation", "Sinkhorn"),
    "symshare.sinkhorn": ("marginal_error",),
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}

__all__ = [
    "Discovery",
    "Fixed",
    "Gated",
    "GroupConv2d",
    "GroupInstanceNorm",
    "GroupLayerNorm",
    "GroupLinear",
    "GroupPool",
    "LiftConv2d",
    "Measure",
    "Representation",
    "Sinkhorn",
    "__version__",
    "discover",
    "groups",
    "marginal_error",
]


def __getattr__(name: str) -> Any:
    """Import a public name on first use, so that the command line answers without torch."""
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    if name == "groups":
        return import_module("symshare.groups")
    raise AttributeError(f"module 'symshare' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
