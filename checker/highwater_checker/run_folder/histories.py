"""The histories of a run's clients: one file for each incarnation of each client.

The first incarnation's file goes by the client's name, p0.jsonl; the second's is p0.2.jsonl.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from highwater_checker.history import (
    HistoryEvent,
    Sends,
    client_of,
    decode,
    incarnation_of,
    sends_of,
)
from highwater_checker.run_folder.lines import read_lines

Histories = Mapping[str, Sequence[HistoryEvent]]
"""By process, ascending."""


def read_history(path: Path, unread: list[str] | None = None) -> list[HistoryEvent]:
    """Return what one process wrote down, as far as it can be read; `unread` takes what cannot."""
    return read_lines(path, decode, unread)


def read_histories(
    history_folder: Path, unread: list[str] | None = None
) -> dict[str, list[HistoryEvent]]:
    """Return every process's history, by process, ascending."""
    paths = sorted(history_folder.glob("*.jsonl"))
    return {path.stem: read_history(path, unread) for path in paths}


def sends_in(histories: Histories, unread: list[str] | None = None) -> Sends:
    """Return the sends of all histories; `unread` takes outcomes without a send of their own."""
    parts: list[Sends] = []
    for process, events in histories.items():
        parts.append(sends_of(events))
        unmatched = len(parts[-1].unmatched)
        if unmatched and unread is not None:
            unread.append(f"{process}.jsonl: {unmatched} outcomes without a send of their own")
    return Sends(
        acknowledged=tuple(ack for part in parts for ack in part.acknowledged),
        failed=tuple(event for part in parts for event in part.failed),
        unknown=tuple(event for part in parts for event in part.unknown),
    )


def polls_in(histories: Histories) -> tuple[HistoryEvent, ...]:
    """Return all that tells of what consumers read, by process."""
    return tuple(
        event for events in histories.values() for event in events if event.function == "poll"
    )


def histories_of(history_folder: Path, client: str) -> list[Path]:
    """Return the histories of the client's incarnations, in their order; the last one lived on."""
    found = [path for path in history_folder.glob("*.jsonl") if client_of(path.stem) == client]
    return sorted(found, key=lambda path: incarnation_of(path.stem))


def incarnations_of(client: str, processes: Iterable[str]) -> list[str]:
    """Return the client's processes, in the order of their incarnations."""
    own = (process for process in processes if client_of(process) == client)
    return sorted(own, key=incarnation_of)


def torn_histories(history_folder: Path) -> list[str]:
    """Return the processes whose history ends in the middle of a line, which no reader counts."""
    return sorted(path.stem for path in history_folder.glob("*.jsonl") if _is_torn(path))


def torn_while_alive(history_folder: Path) -> list[str]:
    """Return those of them that nobody killed: the last incarnation of each client."""
    torn = torn_histories(history_folder)
    return [name for name in torn if _last_of(history_folder, client_of(name)).stem == name]


def _is_torn(path: Path) -> bool:
    """Look at the last byte alone: histories of a soak are long."""
    if not path.is_file():
        return False
    with path.open("rb") as history:
        if not history.seek(0, os.SEEK_END):
            return False
        history.seek(-1, os.SEEK_END)
        return history.read(1) != b"\n"


def _last_of(history_folder: Path, client: str) -> Path:
    return histories_of(history_folder, client)[-1]
