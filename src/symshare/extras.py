"""Packages that only some uses need, and that an extra of this one brings."""

from importlib import import_module
from typing import Any


def needs(module: str, extra: str, purpose: str) -> Any:
    """Import a module of an extra.

    Args:
        module: Its name.
        extra: What brings it, as in `pip install "symshare[extra]"`.
        purpose: What it is needed for, as in "read parquet files".

    Raises:
        ModuleNotFoundError: If it is not installed; the message says how to install it.

    Example:
        >>> needs("json", "data", "read JSON").loads("1")
        1
    """
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        missing = (error.name or module).partition(".")[0]
        raise ModuleNotFoundError(
            f"{missing} is needed to {purpose} and is not installed; install it with "
            f'pip install "symshare[{extra}]"',
            name=missing,
        ) from error
