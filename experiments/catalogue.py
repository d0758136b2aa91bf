"""The rows of all studies: a YAML file for each study, and presets that several share.

A row names what it is `like`: presets of `rows/shared.yaml`, or rows as "study/row". Their settings
are merged from left to right, and its own come last.
"""

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

import yaml

__all__ = ["COMMANDS", "STUDIES", "Row", "Study", "Task", "Tier", "merged", "read_row", "select"]

Task = Literal["images", "toy", "cost"]
Tier = Literal["A", "B", "C"]

_ROWS = Path(__file__).parent / "rows"


@dataclass(frozen=True)
class Row:
    """A row of a table, as the file of its study says it, presets in place.

    Attributes:
        name: "study/row".
        title: how the table names it.
        task: what runs it.
        config: settings of the task at the paper's size.
        cpu: what else differs at the budgets `cpu` and `smoke`, beside the size.
        tier: A the paper's rows and ours under one sound protocol, B the paper's under the
            published one, C ablations.
        paper: the paper's numbers: `parameters`, and by test `accuracy: [mean, spread]`.
        note: a sentence on where ours differs.
    """

    name: str
    title: str
    task: Task = "images"
    config: dict[str, Any] = field(default_factory=dict)
    cpu: dict[str, Any] = field(default_factory=dict)
    tier: Tier = "A"
    paper: dict[str, Any] = field(default_factory=dict)
    note: str = ""

    def __post_init__(self) -> None:
        """Refuse values that no row can have."""
        for name in ("config", "cpu", "paper"):
            if not isinstance(getattr(self, name), dict):
                raise ValueError(
                    f"{self.name}: {name} must be a mapping, got {getattr(self, name)!r}"
                )
        for name, allowed in (("task", get_args(Task)), ("tier", get_args(Tier))):
            if getattr(self, name) not in allowed:
                raise ValueError(
                    f"{self.name}: {name} must be one of {', '.join(allowed)}, got "
                    f"{getattr(self, name)!r}"
                )

    @property
    def study(self) -> str:
        """Name of the study that the row belongs to."""
        return self.name.partition("/")[0]


@dataclass(frozen=True)
class Study:
    """What one name of `python -m experiments` stands for.

    Attributes:
        name: as on the command line.
        title: a line on what it is.
        rows: in the order of the table.
    """

    name: str
    title: str
    rows: tuple[Row, ...]


def read_row(path: Path) -> Row:
    """The row of a YAML file that holds no other.

    Raises:
        ValueError: for a file that is no row.
        OSError: for one that cannot be read.
    """
    name = f"{path.resolve().parent.name or 'own'}/{path.stem}"
    return _row(name, _content(path), str(path))


def _content(path: Path) -> dict[str, Any]:
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: no YAML: {' '.join(str(error).split())}") from error
    if not isinstance(content, dict):
        raise ValueError(f"{path}: expected a mapping of settings, got {content!r}")
    return content


def _row(name: str, written: dict[str, Any], where: str) -> Row:
    """A row as it is written, in a file or a place of one that messages name."""
    settings = _settled(written, (where,))
    try:
        return Row(name, **settings)
    except TypeError as error:
        allowed = ", ".join([*(f for f in Row.__dataclass_fields__ if f != "name"), "like"])
        raise ValueError(f"{where}: expected the settings {allowed}: {error}") from error


def _settled(written: dict[str, Any], path: tuple[str, ...]) -> dict[str, Any]:
    """The settings of a row or preset, with those of what it is like.

    Args:
        written: its own.
        path: names that led here, its own at the end.
    """
    like = written.get("like", [])
    if not isinstance(like, list) or not all(isinstance(name, str) for name in like):
        raise ValueError(f"{path[-1]}: like must be a list of names, got {like!r}")
    settings: dict[str, Any] = {}
    for name in like:
        if name in path:
            raise ValueError(f"{path[0]}: like goes in a circle, {' -> '.join([*path, name])}")
        if name not in _WRITTEN:
            near = difflib.get_close_matches(name, _WRITTEN, n=3)
            hint = (
                f"did you mean {' or '.join(near)}?" if near else f"presets: {', '.join(_PRESETS)}"
            )
            raise ValueError(
                f"{path[-1]}: like expects presets of shared.yaml and rows such as "
                f"table1/rotated-cnn, got {name!r}; {hint}"
            )
        settings = merged(settings, _settled(_WRITTEN[name], (*path, name)))
    return merged(settings, {key: value for key, value in written.items() if key != "like"})


_SHARED = _content(_ROWS / "shared.yaml")
_STUDIES = {name: _content(_ROWS / f"{name}.yaml") for name in _SHARED["studies"]}
_PRESETS: dict[str, Any] = _SHARED["presets"]
_WRITTEN = _PRESETS | {
    f"{study}/{name}": row
    for study, content in _STUDIES.items()
    for name, row in content["rows"].items()
    if "/" not in name  # with a study before it, a row of that one
}


def _read_study(name: str) -> Study:
    content = _STUDIES[name]
    rows = (row if "/" in row else f"{name}/{row}" for row in content["rows"])
    return Study(name, content["title"], tuple(_row(row, _WRITTEN[row], row) for row in rows))


def select(what: str, tiers: Iterable[Tier] = ("A", "B", "C")) -> list[Row]:
    """The rows that a name stands for.

    Args:
        what: "all", a study, a row such as `table1/rotated-cnn`, or the path of a YAML file.
        tiers: those of a study that count; a row by its name always does.

    Raises:
        ValueError: where nothing has this name.

    >>> [row.title for row in select("toy-cube")]
    ['24 rotations of the cube']
    """
    rows = {row.name: row for study in STUDIES.values() for row in study.rows}
    if what.endswith((".yaml", ".yml")):
        own = read_row(Path(what))
        if own.name in rows:
            raise ValueError(
                f"{what}: {own.name} is a row of symshare; put the file into a folder of another "
                "name"
            )
        return [own]
    if what in rows:
        return [rows[what]]
    chosen = {row.name: row for row in STUDIES[what].rows} if what in STUDIES else rows
    if what != "all" and what not in STUDIES:
        near = difflib.get_close_matches(what, [*STUDIES, *rows], n=3)
        hint = f"did you mean {' or '.join(near)}?" if near else "--list names them all"
        raise ValueError(
            f"expected all, {', '.join(STUDIES)}, a row, or a .yaml file, got {what!r}; {hint}"
        )
    return [row for row in chosen.values() if row.tier in tuple(tiers)]


def merged(settings: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Nested settings with changes in their place.

    >>> merged({"optim": {"lr": 1, "steps": 2}}, {"optim": {"lr": 3}})
    {'optim': {'lr': 3, 'steps': 2}}
    """
    result = dict(settings)
    for name, value in changes.items():
        old = result.get(name)
        both = isinstance(value, Mapping) and isinstance(old, Mapping)
        # The tests of a row are a whole: naming others replaces them.
        result[name] = merged(old, value) if both and name != "test" else value
    return result


STUDIES: dict[str, Study] = {name: _read_study(name) for name in _STUDIES}
"""All studies by name."""

COMMANDS: dict[str, str] = {
    "discovery": "How often the verdict of symshare is right, on data of derived symmetries.",
    "moments": "What stacks learn from images alone, under every law of MNIST and CIFAR-10.",
}
"""What `python -m experiments` runs beside the studies; each has options of its own."""
