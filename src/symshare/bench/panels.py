"""The cost figures of the paper: time and memory of a layer against |G| and kernel size."""

from collections.abc import Sequence

from symshare.bench.layer import CONTENDERS
from symshare.bench.rows import Row
from symshare.report.panels import Panel, Series

__all__ = ["cost_panels"]

_UNITS = {"time": ("ms", 1e3), "memory": ("MiB", 2.0**-20)}
_AXES = {"group_size": ("|G|", "kernel_size", "k"), "kernel_size": ("k", "group_size", "|G|")}


def cost_panels(rows: Sequence[Row]) -> list[Panel]:
    """Panels from the rows of `bench layer`: each against |G| at the largest k, and vice versa."""
    panels = []
    for measures, (unit, factor) in _UNITS.items():
        chosen = [row for row in rows if row.get("measures") == measures]
        for axis, (label, other, other_label) in _AXES.items():
            fixed = max(row[other] for row in chosen)
            line = [row for row in chosen if row[other] == fixed]
            series = tuple(
                Series(
                    name,
                    tuple((r[axis], factor * r["median"]) for r in line if r["contender"] == name),
                )
                for name in CONTENDERS
            )
            title = f"{measures} at {other_label} = {fixed}"
            panels.append(Panel(title, label, unit, series))
    return panels
