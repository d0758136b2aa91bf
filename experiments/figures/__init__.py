"""The figures of a paper, drawn with matplotlib.

Every function takes tensors or arrays and returns a `matplotlib.figure.Figure`;
:func:`save` writes it. The same input gives the same bytes, whatever the user's matplotlib
settings are.
"""

from importlib import import_module
from typing import Any

_HOMES = {
    "bars": ("coefficients",),
    "lines": ("cost", "curves"),
    "scheme": ("method",),
    "stacks": ("kernels", "matrices", "representations", "samples", "shift_twist", "stack"),
    "style": ("save",),
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}

__all__ = [
    "coefficients",
    "cost",
    "curves",
    "kernels",
    "matrices",
    "method",
    "representations",
    "samples",
    "save",
    "shift_twist",
    "stack",
]


def __getattr__(name: str) -> Any:
    """Import a figure on first use, so that nobody waits for matplotlib who draws nothing."""
    if name in _HOME:
        return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
