"""Reads a run's files of JSON lines, as far as they can be read."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from highwater_checker.run_folder.files import files_in, is_torn, read_whole, text_of
from highwater_checker.slices import Start
from highwater_core.events import TraceEvent
from highwater_core.json_lines import DamagedLines
from highwater_core.traces import decode_events

T = TypeVar("T")
_TRACE = re.compile(r"(broker|controller)-(?P<node>\d{1,9})-(?P<incarnation>\d{1,9})\.jsonl")


def read_lines(
    path: Path, read: Callable[[Sequence[bytes]], list[T]], unread: list[str] | None
) -> list[T]:
    """Return the contents of the file's valid lines; the others go to `unread`.

    Raises:
        OSError: there is no such file, and no `unread` is given.
    """
    try:
        return read(io.BytesIO(read_whole(path)).readlines())
    except DamagedLines as damaged:
        what, found = str(damaged), damaged.found
    except OSError as error:
        if unread is None:
            raise
        what, found = error.strerror or str(error), []
    if unread is not None:
        unread.append(f"{text_of(path.name)}: {what}")
    return found


def torn_traces(trace_folder: Path) -> list[tuple[str, Start]]:
    """Return the names of traces that end in half a line, each with its node and start, by name.

    Unreadable files are left out, which their reader reports, and names of no node's start.
    """
    found: list[tuple[str, Start]] = []
    for path in files_in(trace_folder, ".jsonl"):
        named = _TRACE.fullmatch(path.name)
        if named is not None and is_torn(path):
            found.append((path.name, (int(named["node"]), int(named["incarnation"]))))
    return found


def read_traces(trace_folder: Path, unread: list[str] | None = None) -> tuple[TraceEvent, ...]:
    """Return every node's events, each node's in its own order.

    `unread` takes the malformed lines, and the files with events of a start that another has too.
    """
    found: list[TraceEvent] = []
    told: set[tuple[int, int]] = set()
    for path in files_in(trace_folder, ".jsonl"):
        events = read_lines(path, decode_events, unread)
        starts = {(event.node, event.incarnation) for event in events}
        if unread is not None and not told.isdisjoint(starts):
            unread.append(f"{text_of(path.name)}: another file has events of the same start")
        told |= starts
        found += events
    return tuple(found)
