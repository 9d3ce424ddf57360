"""Shows a simulation's trace: one aligned line per event.

Columns: virtual time in ms, node, event, partition, e<leader epoch> c<controller epoch>, @offset,
detail as key=value.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from highwater_core.events import TraceEvent
from highwater_simulator.trace_log import Entry

_NS_PER_MS = 1_000_000


def display(entries: Iterable[Entry]) -> Iterator[str]:
    """Yield a line for each entry."""
    for entry in entries:
        yield display_line(entry)


def display_line(entry: Entry) -> str:
    event = entry.event
    head = f"{entry.at_ns / _NS_PER_MS:12.3f}  {entry.who:<16}"
    if not isinstance(event, TraceEvent):
        return f"{head}  * {event.what}{_detail(event.detail)}"
    partition = ""
    if event.topic is not None:
        number = "" if event.partition is None else f"-{event.partition}"
        partition = f"{event.topic}{number}"
    leader_epoch = "" if event.leader_epoch is None else f"e{event.leader_epoch}"
    controller_epoch = "" if event.controller_epoch is None else f"c{event.controller_epoch}"
    offset = "" if event.offset is None else f"@{event.offset}"
    line = (
        f"{head}  {event.kind:<24} {partition:<12} {leader_epoch:>3} {controller_epoch:>3} "
        f"{offset:>6}{_detail(event.detail)}"
    )
    return line.rstrip()


def _detail(detail: dict[str, Any]) -> str:
    return "".join(f"  {key}={_value(value)}" for key, value in detail.items())


def _value(value: Any) -> str:
    if isinstance(value, list | tuple):
        return "[" + ",".join(_value(item) for item in value) + "]"
    return str(value)
