"""Frozen dataclasses as JSON files: written, read with a check of every value, and described."""

import inspect
import json
import re
import sys
from dataclasses import MISSING, asdict, dataclass, fields, is_dataclass
from functools import cache
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from symshare.files import damaged, read_json, write_atomically

R = TypeVar("R", bound="Record")

_WORDS = {bool: "boolean", int: "integer", float: "number", str: "string", NoneType: "null"}
"""What JSON Schema calls a plain type."""

_hints = cache(get_type_hints)


@dataclass(frozen=True)
class Record:
    """A frozen dataclass of numbers, strings, tuples, mappings and further dataclasses."""

    def to_json(self) -> str:
        """The record as JSON text; the keys are the names of the fields."""
        return json.dumps(asdict(self), indent=1, allow_nan=False)

    def write(self, path: Path) -> None:
        """Write the record as a JSON file that is whole or absent."""
        write_atomically(path, self.to_json().encode())

    @classmethod
    def read(cls: type[R], path: Path) -> R:
        """Read a record and check every value; keys that it does not know are left out.

        Raises:
            ValueError: if the file is cut, is of another schema, or holds a value that its field
                cannot have.
        """
        content = read_json(path)
        expected = cls.__dict__.get("schema")
        if expected is not None and content.get("schema") != expected:
            raise ValueError(
                f"expected schema {expected} in {path}, got {content.get('schema')!r}; "
                "read it with the version of symshare that wrote it"
            )
        try:
            return _read(cls, content, cls.__name__)
        except ValueError as error:
            raise ValueError(f"{damaged(path)} ({error})") from error

    @classmethod
    def json_schema(cls) -> dict[str, Any]:
        """The JSON Schema of the files, with the descriptions of the docstrings."""
        definitions: dict[str, Any] = {}
        _describe(cls, definitions)
        return {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            **definitions.pop(cls.__name__),
            "$defs": definitions,
        }


def _read(hint: Any, value: Any, where: str) -> Any:
    """The value as the type that was promised: a list becomes a tuple, a whole number a float."""
    inner = get_args(hint)
    kind = get_origin(hint) or hint
    if kind is UnionType:
        (other,) = (option for option in inner if option is not NoneType)
        return None if value is None else _read(other, value, where)
    if is_dataclass(kind) and isinstance(value, dict):
        hints = _hints(kind)
        if missing := [name for name in _required(kind) if name not in value]:
            raise ValueError(f"{where} has no {', '.join(missing)}")
        known = {n: h for n, h in hints.items() if n in value}
        return kind(**{n: _read(h, value[n], f"{where}.{n}") for n, h in known.items()})
    if kind is tuple and isinstance(value, list):
        kinds = inner[:1] * len(value) if inner[-1] is ... else inner
        if len(kinds) == len(value):
            entries = zip(kinds, value, strict=True)
            return tuple(_read(k, v, f"{where}[{i}]") for i, (k, v) in enumerate(entries))
    if kind is dict and isinstance(value, dict) and set(get_args(inner[0])) <= set(value):
        names = get_args(inner[0]) or value
        return {name: _read(inner[1], value[name], f"{where}.{name}") for name in names}
    if kind is Literal and value in inner:
        return value
    if kind is float and type(value) in (int, float) and abs(value) <= sys.float_info.max:
        return float(value)
    if kind in _WORDS and type(value) is kind and kind is not float:
        return value
    expected = hint.__name__ if isinstance(hint, type) and not inner else hint
    raise ValueError(f"{where}: expected {expected}, got {value!r:.80}")


def _required(kind: Any) -> list[str]:
    """Keys that every file has: those of earlier versions lack what came later, with a default."""
    return [f.name for f in fields(kind) if f.default is MISSING or f.name == "schema"]


def _describe(hint: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    """The schema of a type; those of dataclasses are put into the definitions."""
    inner = get_args(hint)
    kind = get_origin(hint) or hint
    if is_dataclass(kind):
        name = hint.__name__
        if name not in definitions:
            definitions[name] = {}  # keeps the order of first use
            definitions[name] |= _describe_fields(hint, definitions)
        return {"$ref": f"#/$defs/{name}"}
    if kind is UnionType:
        return {"anyOf": [_describe(option, definitions) for option in inner]}
    if kind is tuple and inner[-1] is ...:
        return {"type": "array", "items": _describe(inner[0], definitions)}
    if kind is tuple:
        entries = [_describe(entry, definitions) for entry in inner]
        return {"type": "array", "prefixItems": entries, "minItems": len(inner), "items": False}
    if kind is dict:
        names, entry = list(get_args(inner[0])), _describe(inner[1], definitions)
        if not names:
            return {"type": "object", "additionalProperties": entry}
        return {"type": "object", "properties": dict.fromkeys(names, entry), "required": names}
    if kind is Literal:
        return {"enum": list(inner)}
    return {"type": _WORDS[kind]}


def _describe_fields(kind: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    meanings: dict[str, str] = {}
    for parent in reversed(kind.__mro__):
        attributes = (inspect.getdoc(parent) or "").partition("Attributes:\n")[2]
        entries = re.findall(r"^    (\w+): (.*?)(?=^    \w|\Z)", attributes, re.M | re.S)
        meanings |= {name: " ".join(text.split()) for name, text in entries}
    hints = _hints(kind)
    return {
        "title": kind.__name__,
        "description": (inspect.getdoc(kind) or "").partition("\n")[0],
        "type": "object",
        "properties": {
            name: {"description": meanings[name], **_describe(hint, definitions)}
            for name, hint in hints.items()
        },
        "required": _required(kind),
    }
