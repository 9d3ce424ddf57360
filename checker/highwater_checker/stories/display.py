"""Shows a run's entries: one aligned line per event.

Columns: the run's time in ms, node, event, partition, e<leader epoch> c<controller epoch>, @offset,
detail as key=value. Lines that are no node's event are marked: * by the world, > by the plan, ! by
the oracle.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from typing import Any

from highwater_checker.stories.entries import JUDGE, ORACLE, PLAN, Entry, Note
from highwater_core.events import EventKind, TraceEvent

_NS_PER_MS = 1_000_000
_TURNING_POINTS = frozenset(
    {
        EventKind.CONTROLLER_ELECTED,
        EventKind.CONTROLLER_RESIGNED,
        EventKind.LEADER_ELECTED,
        EventKind.BECAME_LEADER,
        EventKind.BECAME_FOLLOWER,
        EventKind.LOG_TRUNCATED,
        EventKind.ISR_WRITTEN,
        EventKind.ISR_CHANGED,
        EventKind.SESSION_LOST,
        EventKind.FAIL_POINT_HIT,
        EventKind.BAD_INPUT_MET,
    }
)


class Role(StrEnum):
    """The role of a piece of a line, for its colour."""

    TIME = "time"
    WHO = "who"
    EVENT = "event"
    TURNING_POINT = "turning_point"
    """An event that changes a leader, an ISR or a log."""
    PLACE = "place"
    """Partition, epochs and offset."""
    DETAIL = "detail"
    PLAN = "plan"
    ORACLE = "oracle"
    WORLD = "world"


Piece = tuple[str, Role]


def display(entries: Iterable[Entry]) -> Iterator[str]:
    """Yield a line for each entry."""
    for entry in entries:
        yield display_line(entry)


def display_line(entry: Entry) -> str:
    return "".join(text for text, _ in pieces(entry)).rstrip()


def pieces(entry: Entry) -> tuple[Piece, ...]:
    """Return the line's pieces in order, spaces included."""
    event = entry.event
    time = f"{entry.at_ns / _NS_PER_MS:12.3f}  ", Role.TIME
    if isinstance(event, Note):
        return time, *_note(entry.who, event)
    role = Role.TURNING_POINT if event.kind in _TURNING_POINTS else Role.EVENT
    return (
        time,
        (f"{entry.who:<16}  ", Role.WHO),
        (f"{event.kind:<24} ", role),
        (_place(event), Role.PLACE),
        (_detail(event.detail), Role.DETAIL),
    )


def _note(who: str, note: Note) -> tuple[Piece, ...]:
    if who in (ORACLE, JUDGE):
        return ((f"{who:<16}! {note.what}{_detail(note.detail)}", Role.ORACLE),)
    if who == PLAN:
        return ((f"{who:<16}> {note.what}{_detail(note.detail)}", Role.PLAN),)
    return (
        (f"{who:<16}", Role.WHO),
        (f"* {note.what}", Role.WORLD),
        (_detail(note.detail), Role.DETAIL),
    )


def _place(event: TraceEvent) -> str:
    partition = ""
    if event.topic is not None:
        number = "" if event.partition is None else f"-{event.partition}"
        partition = f"{event.topic}{number}"
    leader_epoch = "" if event.leader_epoch is None else f"e{event.leader_epoch}"
    controller_epoch = "" if event.controller_epoch is None else f"c{event.controller_epoch}"
    offset = "" if event.offset is None else f"@{event.offset}"
    return f"{partition:<8} {leader_epoch:>3} {controller_epoch:>3} {offset:>6}"


def _detail(detail: Mapping[str, Any]) -> str:
    return "".join(f"  {key}={_value(value)}" for key, value in detail.items())


def _value(value: Any) -> str:
    if isinstance(value, list | tuple):
        return "[" + ",".join(_value(item) for item in value) + "]"
    return str(value)
