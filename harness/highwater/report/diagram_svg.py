"""A story's diagram as SVG for a run's page: a column a node, time downwards. No I/O."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from textwrap import wrap

from highwater_checker.stories.diagram import Diagram, Step

_TIME_WIDTH, _COLUMN_WIDTH, _HEAD_HEIGHT = 80, 185, 34
_LINE_HEIGHT, _PADDING = 14, 7
_CHARACTER_WIDTH = 6.1
_MOST_LINES = 4


@dataclass(frozen=True, slots=True)
class Column:
    """A vertical line, with the name above it. Units: pixels."""

    name: str
    x: float


@dataclass(frozen=True, slots=True)
class Row:
    """A step: an arrow from x to to_x, or with to_x None a box around x. Units: pixels.

    y: of the arrow, or of the box's upper edge. lines: of its text, which stands in the box or
    above the arrow, in the middle at text_x. whole: the text without cuts.
    """

    time_ms: float
    y: float
    height: float
    x: float
    to_x: float | None
    text_x: float
    width: float
    lines: tuple[str, ...]
    whole: str
    is_verdict: bool


@dataclass(frozen=True, slots=True)
class Drawing:
    """Units: pixels."""

    width: float
    height: float
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]


def drawing_of(diagram: Diagram) -> Drawing:
    """Return the places of the diagram's columns and steps."""
    xs = {
        name: _TIME_WIDTH + (number + 0.5) * _COLUMN_WIDTH
        for number, name in enumerate(diagram.columns)
    }
    rows = tuple(_rows(diagram.steps, xs))
    height = rows[-1].y + rows[-1].height + _PADDING if rows else _HEAD_HEIGHT
    width = _TIME_WIDTH + len(xs) * _COLUMN_WIDTH
    return Drawing(width, height, tuple(Column(name, x) for name, x in xs.items()), rows)


def _rows(steps: tuple[Step, ...], xs: dict[str, float]) -> Iterator[Row]:
    top: float = _HEAD_HEIGHT
    for step in steps:
        x, to_x = xs[step.who], xs.get(step.to)
        span = _COLUMN_WIDTH if to_x is None else max(_COLUMN_WIDTH, abs(to_x - x))
        width = span - 2 * _PADDING
        lines = _lines(step.text, width)
        height = len(lines) * _LINE_HEIGHT + _PADDING
        yield Row(
            time_ms=step.at_ns / 1e6,
            y=top if to_x is None else top + height,
            height=height if to_x is None else _PADDING,
            x=x,
            to_x=to_x,
            text_x=x if to_x is None else (x + to_x) / 2,
            width=width,
            lines=lines,
            whole=step.text,
            is_verdict=step.is_verdict,
        )
        top += height + _PADDING


def _lines(text: str, width: float) -> tuple[str, ...]:
    lines = wrap(text, int(width / _CHARACTER_WIDTH)) or [""]
    if len(lines) > _MOST_LINES:
        lines = [*lines[: _MOST_LINES - 1], f"{lines[_MOST_LINES - 1][:-4]} ..."]
    return tuple(lines)
