"""Panels of curves as one SVG or PNG file."""

import io
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal
from xml.sax.saxutils import escape

from PIL import Image, ImageDraw, ImageFont

from symshare.report.sentences import Number

__all__ = ["Panel", "Series", "draw"]

COLOURS = ("#2557c7", "#0b8a66", "#c2560a", "#6b7280", "#8a3ab9", "#1a1f29")
TEXT, GRID, PAGE = "#1a1f29", "#d9dde4", "#ffffff"
WIDTH, HEIGHT = 420, 300
LEFT, RIGHT, TOP, BOTTOM = 62, 16, 34, 44
LEGEND = 30
SIZE = 12
_Anchor = Literal["start", "middle", "end"]
SCALE = 2
"""Pixels of the PNG for each unit of length."""


@dataclass(frozen=True)
class Series:
    """One curve: its name, and its points (x, y)."""

    name: str
    points: tuple[tuple[Number, Number], ...]


@dataclass(frozen=True)
class Panel:
    """One pair of axes from zero, linear, with a mark and a tick at every x that occurs."""

    title: str
    x: str
    y: str
    series: tuple[Series, ...]


class _Svg:
    """Draws SVG."""

    def __init__(self, width: int, height: int):
        self.parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
            f'width="{width}" height="{height}" font-family="system-ui, sans-serif" '
            f'font-size="{SIZE}" fill="{TEXT}" role="img">',
            f'<rect width="{width}" height="{height}" fill="{PAGE}"/>',
        ]

    def line(self, points: Sequence[tuple[Number, Number]], colour: str, width: Number) -> None:
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        self.parts.append(
            f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="{width}"/>'
        )

    def dot(self, x: Number, y: Number, colour: str, radius: Number) -> None:
        self.parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius}" fill="{colour}"/>')

    def text(self, x: Number, y: Number, words: str, anchor: _Anchor) -> None:
        self.parts.append(
            f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" '
            f'dominant-baseline="central">{escape(words)}</text>'
        )

    def content(self) -> bytes:
        return "\n".join([*self.parts, "</svg>", ""]).encode()


class _Png:
    """Draws PNG."""

    def __init__(self, width: int, height: int):
        self.image = Image.new("RGB", (SCALE * width, SCALE * height), PAGE)
        self.draw = ImageDraw.Draw(self.image)
        self.font = ImageFont.load_default(SCALE * SIZE)

    def line(self, points: Sequence[tuple[Number, Number]], colour: str, width: Number) -> None:
        scaled = [(SCALE * x, SCALE * y) for x, y in points]
        self.draw.line(scaled, fill=colour, width=round(SCALE * width), joint="curve")

    def dot(self, x: Number, y: Number, colour: str, radius: Number) -> None:
        self.draw.circle((SCALE * x, SCALE * y), SCALE * radius, fill=colour)

    def text(self, x: Number, y: Number, words: str, anchor: _Anchor) -> None:
        where = {"start": "lm", "middle": "mm", "end": "rm"}[anchor]
        self.draw.text((SCALE * x, SCALE * y), words, fill=TEXT, font=self.font, anchor=where)

    def content(self) -> bytes:
        buffer = io.BytesIO()
        self.image.save(buffer, "PNG", optimize=True)
        return buffer.getvalue()


_Canvas = _Svg | _Png


def draw(panels: Sequence[Panel], form: Literal["svg", "png"], columns: int = 2) -> bytes:
    """Content of a picture file with these panels side by side.

    Curves of one name have one colour in all panels; the legend stands on top. The marks of
    earlier curves are larger, so that they show where curves coincide.

    Args:
        panels: at least one; every series has at least one point.
        form: of the file.
        columns: panels in a row.

    >>> panel = Panel("cost", "n", "seconds", (Series("ours", ((1.0, 2.0), (2.0, 3.0))),))
    >>> draw([panel], "svg").decode().count("<circle"), draw([panel], "png")[1:4]
    (3, b'PNG')
    """
    columns = min(columns, len(panels))
    lines = -(-len(panels) // columns)
    width, height = columns * WIDTH, LEGEND + lines * HEIGHT
    canvas: _Canvas = _Svg(width, height) if form == "svg" else _Png(width, height)
    names = list(dict.fromkeys(series.name for panel in panels for series in panel.series))
    colours = {name: COLOURS[i % len(COLOURS)] for i, name in enumerate(names)}
    for i, (name, colour) in enumerate(colours.items()):
        x = LEFT + i * (width - LEFT) / len(names)
        canvas.dot(x, LEGEND / 2, colour, 3)
        canvas.text(x + 9, LEGEND / 2, name, "start")
    for i, panel in enumerate(panels):
        _panel(canvas, panel, colours, WIDTH * (i % columns), LEGEND + HEIGHT * (i // columns))
    return canvas.content()


def _panel(canvas: _Canvas, panel: Panel, colours: dict[str, str], x0: int, y0: int) -> None:
    """One panel with its upper left corner at (x0, y0)."""
    points = [point for series in panel.series for point in series.points]
    ticks = _ticks(max(y for _, y in points))
    right, top = max(x for x, _ in points) or 1.0, ticks[-1]
    room_x, room_y = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM

    def at(x: Number, y: Number) -> tuple[Number, Number]:
        return x0 + LEFT + room_x * x / right, y0 + TOP + room_y * (1 - y / top)

    canvas.text(x0 + LEFT, y0 + TOP / 2, f"{panel.title} [{panel.y}]", "start")
    canvas.text(x0 + LEFT + room_x / 2, y0 + HEIGHT - SIZE, panel.x, "middle")
    for y in ticks:
        canvas.line([at(0, y), at(right, y)], GRID, 1)
        canvas.text(at(0, y)[0] - 6, at(0, y)[1], f"{y:g}", "end")
    for x in sorted({x for x, _ in points}):
        canvas.text(at(x, 0)[0], at(x, 0)[1] + SIZE, f"{x:g}", "middle")
    for above, series in reversed(list(enumerate(reversed(panel.series)))):
        curve = [at(x, y) for x, y in series.points]
        canvas.line(curve, colours[series.name], 1.5)
        for point in curve:
            canvas.dot(*point, colours[series.name], 3 + 1.5 * above)


def _ticks(top: Number) -> list[float]:
    """At most six round numbers from zero, the last one at `top` or above."""
    if top <= 0:
        return [0.0, 1.0]
    step = next(_steps(top))
    return [i * step for i in range(math.ceil(top / step) + 1)]


def _steps(top: Number) -> Iterator[float]:
    """Round steps of which five reach `top`, the smallest first."""
    power = 10.0 ** (math.floor(math.log10(top)) - 1)
    for factor in (1, 2, 2.5, 5, 10, 20, 25, 50, 100):
        if top <= 5 * factor * power:
            yield factor * power
