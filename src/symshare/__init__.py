"""Find the symmetries of labelled data, and build networks that share weights over them.

Public names are listed once, in `__init__.pyi`, which type checkers read. Here each is imported on
first use, so that the command line answers without torch.
"""

import ast
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

__version__ = version("symshare")

_HOMES = {
    alias.name: statement.module or ""
    for statement in ast.parse(Path(__file__).with_suffix(".pyi").read_text("utf-8")).body
    if isinstance(statement, ast.ImportFrom)
    for alias in statement.names
}
"""The module below this one that each public name comes from; none where it is one itself."""

__all__ = ["__version__", *_HOMES]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'symshare' has no attribute {name!r}")
    if not _HOMES[name]:
        return import_module(f"symshare.{name}")
    return getattr(import_module(f"symshare.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
