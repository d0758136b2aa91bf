"""Tables with columns of pictures and labels: CSV, parquet, and what Hugging Face datasets hold."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch

from symshare.data.folders import PARTS
from symshare.data.listing import Encoded, Listing, numbered
from symshare.data.reading import first_line
from symshare.extras import needs

_IMAGES, _LABELS, _GROUPS = ("image", "img", "path", "file"), ("label", "class"), ("group",)
_DELIMITERS = {".csv": ",", ".tsv": "\t"}
_LOCAL = (
    "or, as there is no file or folder of this name here, give a local form: a folder that "
    "datasets.save_to_disk wrote, FILE.parquet, or a folder with a folder for each class"
)


class Columns(NamedTuple):
    """Names of the columns that are read; None for the usual ones.

    Where columns of numbers are named, these are the labels.
    """

    image: str | None = None
    label: str | None = None
    groups: str | None = None
    numbers: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Table:
    """A table whose columns are read when they are asked for.

    Attributes:
        where: Name of the table in errors.
        columns: Names of its columns.
        values: The values of a column.
        row: What a row of a position is called.
        folder: Where relative paths start.
        classes: Names of the classes that the numbers of a column mean.
        texts: Columns that hold text, so that images in them are paths.
    """

    where: str
    columns: Sequence[str]
    values: Callable[[str], list[Any]]
    row: Callable[[int], str]
    folder: Path
    classes: Mapping[str, Sequence[str]]
    texts: Sequence[str]


def list_csv(path: Path, columns: Columns) -> Listing:
    """List the pictures of a CSV or TSV file, by their paths relative to it.

    Raises:
        ValueError: If it is no table, lacks a column, or has an empty cell.
    """
    lines: list[int] = []
    delimiter = _DELIMITERS[path.suffix.lower()]
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.DictReader(file, delimiter=delimiter, skipinitialspace=True)
            rows = []
            for row in reader:
                rows.append(row)
                lines.append(reader.line_num)
            names = [name for name in reader.fieldnames or [] if name is not None]
    except (csv.Error, UnicodeDecodeError) as error:
        raise ValueError(
            f"{path}: not a sound table of text ({first_line(error)}); save it again, in UTF-8"
        ) from error

    def values(name: str) -> list[str | None]:
        return [row[name] for row in rows]

    table = _Table(str(path), names, values, lambda i: f"line {lines[i]}", path.parent, {}, names)
    return _list({"": table}, str(path), columns, [str(path)])


def list_parquet(files: Mapping[str, Path], where: str, columns: Columns) -> Listing:
    """List the pictures of parquet files, by the part that each holds.

    Raises:
        ValueError: If a file is damaged, lacks a column, or has an empty cell.
        ModuleNotFoundError: If pyarrow is not installed.
    """
    tables = {part: _parquet(path) for part, path in files.items()}
    return _list(tables, where, columns, [str(path) for path in files.values()])


def list_saved(path: Path, columns: Columns) -> Listing:
    """List the pictures of a folder that `datasets.save_to_disk` wrote.

    Raises:
        ValueError: If the folder is damaged, lacks a column, or has an empty cell.
        ModuleNotFoundError: If datasets is not installed.
    """
    datasets = needs("datasets", "data", f"read {path}, which it saved")
    try:
        data = datasets.load_from_disk(path)
    except Exception as error:  # as many as the files may be damaged in ways
        raise ValueError(
            f"{path}: not a sound folder of datasets.save_to_disk ({first_line(error)}); save it "
            "again"
        ) from error
    return _list_parts(data, str(path), columns)


def list_hub(name: str, columns: Columns, instead: str = _LOCAL) -> Listing:
    """List the pictures of a data set of the Hugging Face Hub, which is fetched.

    Args:
        name: As in "owner/name".
        columns: Names of its columns.
        instead: What to say that one can do without the Hub.

    Raises:
        FileNotFoundError: If it cannot be fetched.
        ValueError: If it lacks a column, or has an empty cell.
        ModuleNotFoundError: If datasets is not installed.
    """
    try:
        datasets = needs("datasets", "data", f"read {name} from the Hugging Face Hub")
        data = datasets.load_dataset(name)
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(f"{name}: {error}, {instead}", name=error.name) from error
    except (OSError, ValueError, RuntimeError) as error:
        raise FileNotFoundError(
            f"{name}: cannot read {name} from the Hugging Face Hub ({first_line(error)}); try "
            f"again, {instead}"
        ) from error
    return _list_parts(data, name, columns)


def _parquet(path: Path) -> _Table:
    parquet = needs("pyarrow.parquet", "data", "read parquet files")
    arrow = needs("pyarrow", "data", "read parquet files")

    def opened(read: Callable[[Any], Any]) -> Any:
        try:
            with parquet.ParquetFile(path) as file:
                return read(file)
        except (arrow.ArrowException, OSError) as error:
            raise ValueError(
                f"{path}: not a sound parquet file ({first_line(error)}); fetch it again"
            ) from error

    def values(name: str) -> list[Any]:
        return opened(lambda file: file.read(columns=[name]))[name].to_pylist()

    schema = opened(lambda file: file.schema_arrow)
    return _arrow(schema, values, str(path), path.parent)


def _arrow(schema: Any, values: Callable[[str], list[Any]], where: str, folder: Path) -> _Table:
    """A table with an Arrow schema, which holds the names of classes as datasets writes them."""
    written = json.loads((schema.metadata or {}).get(b"huggingface", b"{}"))
    features = written.get("info", {}).get("features", {})
    classes = {
        name: feature["names"]
        for name, feature in features.items()
        if isinstance(feature, dict) and feature.get("_type") == "ClassLabel"
    }
    texts = [field.name for field in schema if str(field.type) in ("string", "large_string")]
    return _Table(where, schema.names, values, lambda i: f"row {i}", folder, classes, texts)


def _list_parts(data: Any, where: str, columns: Columns) -> Listing:
    """List the pictures of a data set of Hugging Face, or of its parts."""
    parts = dict(data) if isinstance(data, dict) else {"": data}
    known = {part: dataset for part, dataset in parts.items() if part in ("", *PARTS)}
    if not known:
        raise ValueError(
            f"{where}: expected parts among {', '.join(PARTS)}, got {', '.join(parts) or 'none'}; "
            "save the part that is meant by itself"
        )
    tables = {}
    for part, dataset in known.items():

        def values(name: str, dataset: Any = dataset) -> list[Any]:
            return dataset.select_columns([name]).with_format("arrow")[:][name].to_pylist()

        name = f"{where}: {part}" if part else where
        tables[part] = _arrow(dataset.features.arrow_schema, values, name, Path())
    files = [f["filename"] for dataset in known.values() for f in dataset.cache_files]
    return _list(tables, where, columns, files)


def _list(
    tables: Mapping[str, _Table], where: str, columns: Columns, files: Sequence[str]
) -> Listing:
    """List the pictures of tables, one for each part."""
    labels: list[str] = []
    rows: list[list[float]] = []
    order: list[str] = []
    groups: list[str] = []
    test: list[bool] = []
    images: list[tuple[_Table, str]] = []
    files = list(files)
    for part, table in tables.items():
        image = _column(table, columns.image, _IMAGES, "--data.image_column")
        images.append((table, image))
        if image in table.texts:
            files += [str(table.folder / name) for name in _filled(table, image)]
        if columns.numbers:
            count = len(numbers := _numbers(table, columns.numbers))
            rows += numbers
        else:
            label = _column(table, columns.label, _LABELS, "--data.label_column")
            count = len(names := _classes(table, label))
            labels += names
            order += [name for name in table.classes.get(label, ()) if name not in order]
        test += [part == "test"] * count
        if columns.groups is not None or set(_GROUPS) & set(table.columns):
            group = _column(table, columns.groups, _GROUPS, "--groups")
            groups += [str(value) for value in _filled(table, group)]
    if groups and len(groups) < len(test):
        raise ValueError(
            f"{where}: expected a column of groups in every part or in none, got one in some; add "
            "it to the others"
        )
    index, classes = (
        (torch.tensor(rows), ()) if columns.numbers else numbered(labels, where, order or None)
    )

    def encoded(positions: Sequence[int]) -> list[Encoded]:
        pictures = [
            _encoded(table, i, cell)
            for table, image in images
            for i, cell in enumerate(_filled(table, image))
        ]
        return [pictures[i] for i in positions]

    official = test if any(test) else None
    return Listing(where, index, classes, files, encoded, groups or None, official, columns.numbers)


def _column(table: _Table, asked: str | None, usual: Sequence[str], option: str) -> str:
    """The name of a column that is asked for, or else the first of the usual ones."""
    wanted = usual if asked is None else (asked,)
    for name in wanted:
        if name in table.columns:
            return name
    raise ValueError(
        f"{table.where}: expected a column {' or '.join(f'`{name}`' for name in wanted)}, got "
        f"{', '.join(table.columns) or 'none'}; name the one that is meant by {option}"
    )


def _filled(table: _Table, column: str) -> list[Any]:
    """The values of a column, none of which may be missing."""
    values = table.values(column)
    for i, value in enumerate(values):
        if value is None or (isinstance(value, str) and not value.strip()):
            raise ValueError(
                f"{table.where}: expected a value in every cell of column `{column}`, got none in "
                f"{table.row(i)}; fill it in, or remove that row"
            )
    return values


def _classes(table: _Table, column: str) -> list[str]:
    """The name of the class of each row."""
    values, names = _filled(table, column), table.classes.get(column)
    numbers = [_number(value) for value in values]
    numeric = names is not None or None not in numbers
    for i, (value, number) in enumerate(zip(values, numbers, strict=True)):
        whole = number is not None and number.is_integer()
        known = names is None or (whole and number in range(len(names)))
        if not (known and (whole if numeric else isinstance(value, str))):
            below = "" if names is None else f" below {len(names)}"
            raise ValueError(
                f"{table.where}: expected classes in column `{column}`, by names or whole "
                f"numbers{below}, got {value!r} in {table.row(i)}; give the class of each image"
            )
    return [str(value) if names is None else names[int(value)] for value in values]


def _numbers(table: _Table, columns: Sequence[str]) -> list[list[float]]:
    """The numbers of each row, one of each column."""
    read = []
    for name in columns:
        column = _column(table, name, (), "--data.target_columns")
        values = [_number(value) for value in _filled(table, column)]
        for i, value in enumerate(values):
            if value is None:
                raise ValueError(
                    f"{table.where}: expected numbers in column `{column}`, got "
                    f"{table.values(column)[i]!r} in {table.row(i)}; give each image its number, "
                    "or name classes by --data.label_column"
                )
        read.append([value for value in values if value is not None])
    return [list(row) for row in zip(*read, strict=True)]


def _number(value: Any) -> float | None:
    """A number that a cell holds or writes."""
    try:
        return float(value)
    except (TypeError, ValueError):
        return None


def _encoded(table: _Table, i: int, cell: Any) -> Encoded:
    """The picture of a cell: a path, bytes, or as Hugging Face writes both."""
    row = f"{table.where}: {table.row(i)}"
    content = cell
    if isinstance(cell, dict):
        content = cell["path"] if cell.get("bytes") is None else cell["bytes"]
    if isinstance(content, str):
        path = str(table.folder / content)
        return Encoded(f"{path} ({row})", path)
    return Encoded(row, content if isinstance(content, bytes) else None)
