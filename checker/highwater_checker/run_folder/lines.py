"""Reads a run's files of JSON lines, as far as they can be read."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from highwater_checker.finding import Traced
from highwater_checker.run_folder import names
from highwater_core.events import TraceEvent
from highwater_core.json_lines import DamagedLines
from highwater_core.traces import decode_events

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class EvidenceLine:
    """A line of a run: its file's path in the run's folder, its number from 1, its text."""

    file: str
    line: int
    text: str


def evidence_lines(run_folder: Path, path: Path) -> Iterator[EvidenceLine]:
    """Yield the lines of one of the run's files; invalid text is replaced."""
    file = path.relative_to(run_folder).as_posix()
    for number, line in enumerate(path.read_bytes().splitlines(), start=1):
        yield EvidenceLine(file, number, line.decode(errors="replace"))


def read_lines(
    path: Path, read: Callable[[Sequence[bytes]], list[T]], unread: list[str] | None
) -> list[T]:
    """Return the contents of the file's valid lines; the others go to `unread`.

    Raises:
        OSError: there is no such file, and no `unread` is given.
    """
    try:
        return read(path.read_bytes().splitlines(keepends=True))
    except DamagedLines as damaged:
        what, found = str(damaged), damaged.found
    except OSError as error:
        if unread is None:
            raise
        what, found = error.strerror or str(error), []
    if unread is not None:
        unread.append(f"{path.name}: {what}")
    return found


def read_traces(trace_folder: Path, unread: list[str] | None = None) -> tuple[TraceEvent, ...]:
    """Return every node's events, each node's in its own order; `unread` takes the malformed."""
    return tuple(
        event
        for path in sorted(trace_folder.glob("*.jsonl"))
        for event in read_lines(path, decode_events, unread)
    )


def lines_of_events(
    run_folder: Path, events: Collection[Traced]
) -> dict[Traced, list[EvidenceLine]]:
    """Return the traces' lines by event, more than one where its number is there twice.

    Unknown events and unreadable lines have none.
    """
    found: dict[Traced, list[EvidenceLine]] = {}
    for path in sorted((run_folder / names.TRACE).glob("*.jsonl")) if events else ():
        for told in evidence_lines(run_folder, path):
            event = _event_of(told)
            if event is not None and event in events:
                found.setdefault(event, []).append(told)
    return found


def _event_of(line: EvidenceLine) -> Traced | None:
    """Return the line's event, None if it cannot be read."""
    try:
        return next((Traced.of(event) for event in decode_events([line.text.encode()])), None)
    except DamagedLines:
        return None
