"""Writes what a simulated run leaves: histories and traces, where a run on containers has them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from highwater.run_folder import RunFolder
from highwater_checker.history import HistoryEvent, encode
from highwater_core.events import TraceEvent
from highwater_core.traces import encode_event
from highwater_simulator.trace_log import Entry


def write_histories(folder: RunFolder, history: Sequence[HistoryEvent]) -> None:
    """Write each client's history, in the order of its events."""
    by_process: dict[str, list[bytes]] = {}
    for event in history:
        by_process.setdefault(event.process, []).append(encode(event))
    for process, lines in by_process.items():
        write_lines(folder, f"history/{process}.jsonl", lines)


def write_traces(folder: RunFolder, entries: Iterable[Entry]) -> None:
    """Write each node incarnation's trace, in the order of its events."""
    by_incarnation: dict[str, list[bytes]] = {}
    for entry in entries:
        if isinstance(entry.event, TraceEvent):
            name = f"{entry.who}-{entry.event.incarnation}"
            by_incarnation.setdefault(name, []).append(encode_event(entry.event))
    for name, lines in by_incarnation.items():
        write_lines(folder, f"trace/{name}.jsonl", lines)


def write_lines(folder: RunFolder, name: str, lines: Iterable[bytes]) -> None:
    """Write the lines, each with its end."""
    folder.write_bytes(name, b"".join(line + b"\n" for line in lines))
