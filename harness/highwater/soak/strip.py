"""A soak over time: a bar a plan, and the load of the machine, in rows of equal time. No I/O.

Each row is as long as its neighbours, an hour or more. Long pauses, as between two sessions of one
soak, are cut short.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from highwater.soak.ledger import Entry
from highwater_checker.verdict import Outcome

NAME_WIDTH, PLOT_WIDTH, RIGHT = 96, 800, 36
TOP, ROW_HEIGHT, BAR_HEIGHT, LOAD_HEIGHT = 20, 58, 20, 26
MOST_ROWS = 24
LONGEST_PAUSE_S = 600.0
_HOUR_S = 3_600.0
_LEAST_ROW_S = 240.0
_LETTER_WIDTH = 8.5
_LETTERS = {Outcome.PASS: "P", Outcome.FAIL: "F", Outcome.UNKNOWN: "U"}


@dataclass(frozen=True, slots=True)
class Bar:
    """A plan, or its part in a row. letter: of its verdict, "" without room. Units: pixels.

    run: its folder's name, "" without one.
    """

    x: float
    width: float
    outcome: str
    letter: str
    words: str
    run: str


@dataclass(frozen=True, slots=True)
class StripRow:
    """A row. name: when its first plan began (UTC). load: the points of a line, as SVG has it."""

    y: float
    name: str
    bars: tuple[Bar, ...]
    load: str


@dataclass(frozen=True, slots=True)
class Strip:
    """Units: pixels. ticks: place and words. most_load: what the top of each row's line stands for.

    pauses: how many were cut short.
    """

    width: float
    height: float
    rows: tuple[StripRow, ...]
    ticks: tuple[tuple[float, str], ...]
    most_load: float
    pauses: int


@dataclass(frozen=True, slots=True)
class _Placed:
    """A plan from when to when, in seconds of the strip."""

    entry: Entry
    begin_s: float
    end_s: float


def strip_of(entries: Sequence[Entry]) -> Strip:
    """Return the strip of the plans, in the order in which they began."""
    placed, pauses = _placed(entries)
    whole_s = placed[-1].end_s if placed else _HOUR_S
    row_s = _row_s(whole_s)
    most_load = max([1.0, *(entry.load for entry in entries)])
    pieces: defaultdict[int, list[Bar]] = defaultdict(list)
    points: defaultdict[int, list[tuple[float, float]]] = defaultdict(list)
    began: dict[int, str] = {}
    for each in placed:
        for number, bar in _bars(each, row_s):
            pieces[number].append(bar)
            began.setdefault(number, each.entry.began)
        number = int(min(each.end_s, whole_s - 1e-6) // row_s)
        height = LOAD_HEIGHT * each.entry.load / most_load
        points[number].append((_x(each.end_s - number * row_s, row_s), height))
    rows = tuple(
        StripRow(
            y=TOP + place * ROW_HEIGHT,
            name=_name(began[number]),
            bars=tuple(pieces[number]),
            load=_line(points[number], TOP + place * ROW_HEIGHT + LOAD_HEIGHT),
        )
        for place, number in enumerate(sorted(pieces))
    )
    ticks = tuple(
        (_x(row_s * quarter / 4, row_s), f"+{_duration(row_s * quarter / 4)}")
        for quarter in range(5)
    )
    height = TOP + len(rows) * ROW_HEIGHT
    return Strip(NAME_WIDTH + PLOT_WIDTH + RIGHT, height, rows, ticks, most_load, pauses)


def _placed(entries: Sequence[Entry]) -> tuple[list[_Placed], int]:
    """Return the plans without overlaps and long pauses, and how many pauses were cut."""
    in_order = sorted(entries, key=lambda entry: (_began_s(entry), entry.number))
    found: list[_Placed] = []
    pauses = 0
    at_s = last_s = 0.0
    for entry in in_order:
        began_s = _began_s(entry)
        pause_s = max(0.0, began_s - last_s) if found else 0.0
        pauses += pause_s > LONGEST_PAUSE_S
        begin_s = at_s + min(pause_s, LONGEST_PAUSE_S)
        at_s = begin_s + max(0.0, entry.took_s)
        last_s = max(last_s, began_s) + max(0.0, entry.took_s)
        found.append(_Placed(entry, begin_s, at_s))
    return found, pauses


def _began_s(entry: Entry) -> float:
    """Return when the plan began; 0 where its time cannot be read."""
    began = _moment(entry.began)
    return 0.0 if began is None else began.timestamp()


def _moment(text: str) -> datetime | None:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def _row_s(whole_s: float) -> float:
    """Return how long a row is: whole minutes a quarter up to an hour, whole hours beyond."""
    if whole_s <= _HOUR_S:
        return _LEAST_ROW_S * max(1, -(-whole_s // _LEAST_ROW_S))
    return _HOUR_S * -(-whole_s // (_HOUR_S * MOST_ROWS))


def _bars(placed: _Placed, row_s: float) -> Iterator[tuple[int, Bar]]:
    """Yield the plan's parts with the numbers of their rows; its letter is in the longest."""
    first, last = (
        int(placed.begin_s // row_s),
        int(max(placed.begin_s, placed.end_s - 1e-6) // row_s),
    )
    parts = [
        (number, max(placed.begin_s, number * row_s), min(placed.end_s, (number + 1) * row_s))
        for number in range(first, last + 1)
    ]
    longest = max(parts, key=lambda part: part[2] - part[1])
    entry = placed.entry
    for part in parts:
        number, begin_s, end_s = part
        x = _x(begin_s - number * row_s, row_s)
        width = max(0.8, _x(end_s - number * row_s, row_s) - x - 0.5)
        has_letter = part == longest and width >= _LETTER_WIDTH
        yield (
            number,
            Bar(
                round(x, 1),
                round(width, 1),
                entry.outcome.value,
                _LETTERS[entry.outcome] if has_letter else "",
                _words(entry),
                entry.run,
            ),
        )


def _words(entry: Entry) -> str:
    what = ", ".join(entry.invariants)
    return (
        f"plan {entry.number}: {entry.outcome.value}{f' ({what})' if what else ''}, "
        f"{entry.preset.value}, {entry.client.value}, {entry.took_s:.0f} s, load {entry.load:g}"
    )


def _x(in_row_s: float, row_s: float) -> float:
    return NAME_WIDTH + PLOT_WIDTH * in_row_s / row_s


def _line(points: Sequence[tuple[float, float]], base_y: float) -> str:
    return " ".join(f"{x:.1f},{base_y - height:.1f}" for x, height in points)


def _name(began: str) -> str:
    moment = _moment(began)
    return began[:16] if moment is None else f"{moment.astimezone(UTC):%b %d %H:%M}"


def _duration(seconds: float) -> str:
    return f"{seconds / _HOUR_S:g} h" if seconds >= _HOUR_S else f"{seconds / 60:g} min"
