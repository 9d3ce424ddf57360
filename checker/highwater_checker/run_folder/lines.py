"""Reads a run's files of JSON lines, as far as they can be read."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from highwater_checker.run_folder.files import files_in, read_whole, text_of
from highwater_core.events import TraceEvent
from highwater_core.json_lines import DamagedLines
from highwater_core.traces import decode_events

T = TypeVar("T")


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
