"""The histories of a run's clients: one file for each incarnation of each client.

The first incarnation's file has the client's name, p0.jsonl; the second's is p0.2.jsonl.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path, PurePath

from highwater_checker.history import (
    OF_MEMBERS,
    POLL,
    SEND,
    HistoryEvent,
    Sends,
    client_of,
    decode,
    incarnation_of,
    process_name,
    sends_of,
    unmatched_of,
)
from highwater_checker.run_folder import names
from highwater_checker.run_folder.files import files_in, is_torn, text_of
from highwater_checker.run_folder.lines import read_lines

Histories = Mapping[str, Sequence[HistoryEvent]]
"""By process, ascending."""
_PROCESS = re.compile(r"[^.\ud800-\udfff]+(\.[0-9]+)?")
"""See highwater_checker.history.process_name. Surrogates stand for bytes that are no UTF-8."""


def read_history(path: Path, unread: list[str] | None = None) -> list[HistoryEvent]:
    """Return one process's history; unreadable lines go to `unread`."""
    return read_lines(path, decode, unread)


def read_histories(
    history_folder: Path, unread: list[str] | None = None, damaged: set[str] | None = None
) -> dict[str, list[HistoryEvent]]:
    """Return every process's history, by process, ascending; `unread` takes lines alone.

    A line of another process than its file's is left out, and goes to `unread`.
    damaged: takes the processes of which lines went to `unread`.
    """
    found: dict[str, list[HistoryEvent]] = {}
    for process in processes_in(history_folder):
        own_unread = None if unread is None else list[str]()
        events = read_history(_history_of(history_folder, process), own_unread)
        found[process] = [event for event in events if event.process == process]
        strangers = len(events) - len(found[process])
        if own_unread is None or unread is None:
            continue
        if strangers:
            own_unread.append(f"{process}.jsonl: {strangers} lines of another process")
        if own_unread and damaged is not None:
            damaged.add(process)
        unread += own_unread
    return found


def sends_in(
    histories: Histories, unread: list[str] | None = None, without_offsets: Collection[str] = ()
) -> Sends:
    """Return the sends of all histories.

    `unread` takes the lines of sends, commits and fetches of committed offsets that have no
    counterpart (highwater_checker.history.OpenOperations).
    without_offsets: the clients whose acknowledgements have no offsets.
    """
    parts: list[Sends] = []
    for process, events in histories.items():
        gets_offsets = client_of(process) not in without_offsets
        parts.append(sends_of(events, gets_offsets=gets_offsets))
        if unread is not None:
            unread += _unmatched(process, unmatched_of(events, gets_offsets=gets_offsets))
    return Sends(
        acknowledged=tuple(ack for part in parts for ack in part.acknowledged),
        failed=tuple(event for part in parts for event in part.failed),
        unknown=tuple(event for part in parts for event in part.unknown),
    )


def _unmatched(process: str, unmatched: Sequence[HistoryEvent]) -> Iterator[str]:
    """Yield how many lines of a process's operations have no counterpart, in words."""
    sends = sum(event.function == SEND for event in unmatched)
    if sends:
        yield f"{process}.jsonl: {sends} lines of sends without a counterpart or an offset"
    if len(unmatched) > sends:
        commits = len(unmatched) - sends
        yield f"{process}.jsonl: {commits} lines of commits without a counterpart"


def readers_of_no_plan(histories: Histories, promised: Collection[str]) -> list[str]:
    """Return the processes that read, were members of no group, and are of no promised client."""
    return [
        process
        for process, events in histories.items()
        if client_of(process) not in promised
        and any(event.function == POLL for event in events)
        and not any(event.function in OF_MEMBERS for event in events)
    ]


def polls_in(histories: Histories) -> tuple[HistoryEvent, ...]:
    """Return all polls of consumers, by process."""
    return tuple(
        event for events in histories.values() for event in events if event.function == POLL
    )


def incarnations_of(client: str, processes: Iterable[str]) -> list[str]:
    """Return the client's processes, in the order of their incarnations."""
    own = (process for process in processes if client_of(process) == client)
    return sorted(own, key=incarnation_of)


def last_process(client: str, processes: Iterable[str]) -> str | None:
    """Return the client's process of the highest incarnation, None of a client with none."""
    return next(reversed(incarnations_of(client, processes)), None)


def incarnations_missing(processes: Collection[str]) -> list[str]:
    """Return each client's first incarnation that has no history, though a later one has."""
    found: list[str] = []
    for client in sorted({client_of(process) for process in processes}):
        for number, process in enumerate(incarnations_of(client, processes), start=1):
            if incarnation_of(process) != number:
                found.append(process_name(client, number))
                break
    return found


def histories_missing(clients: Iterable[str], processes: Collection[str]) -> list[str]:
    """Return the processes without a history: of clients with none, and of earlier starts."""
    without = [client for client in clients if not incarnations_of(client, processes)]
    return [*dict.fromkeys((*without, *incarnations_missing(processes)))]


def followed_processes(processes: Collection[str]) -> list[str]:
    """Return each client's processes but its last: killed ones, which may have lost their ends."""
    return sorted(
        each
        for client in {client_of(process) for process in processes}
        for each in incarnations_of(client, processes)[:-1]
    )


def torn_histories(history_folder: Path) -> list[str]:
    """Return the processes whose history ends in the middle of a line, which no reader counts."""
    processes = processes_in(history_folder)
    return sorted(each for each in processes if is_torn(_history_of(history_folder, each)))


def torn_while_alive(history_folder: Path) -> list[str]:
    """Return the torn histories of processes that nobody killed: each client's last one."""
    processes = processes_in(history_folder)
    return [
        each
        for each in torn_histories(history_folder)
        if incarnations_of(client_of(each), processes)[-1] == each
    ]


def _history_of(history_folder: Path, process: str) -> Path:
    return history_folder / f"{process}.jsonl"


def processes_in(history_folder: Path, unread: list[str] | None = None) -> list[str]:
    """Return the processes that left a history, by file; `unread` takes names of no process."""
    found: list[str] = []
    for path in files_in(history_folder, ".jsonl"):
        if _PROCESS.fullmatch(path.stem):
            found.append(path.stem)
        elif unread is not None:
            unread.append(f"{text_of(path.name)}: no process has such a name")
    return found


def process_of(name: str) -> str | None:
    """Return the process whose history has this path in the run's folder, None of other files."""
    path = PurePath(name)
    is_history = path.parent.as_posix() == names.HISTORY and path.suffix == ".jsonl"
    return path.stem if is_history and _PROCESS.fullmatch(path.stem) else None
