"""Writes what a simulated run leaves where a run on containers has it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from highwater.run_folder import RunFolder
from highwater_checker.history import HistoryEvent, encode
from highwater_checker.looks import Look, encode_look
from highwater_checker.run_folder import names
from highwater_core.events import TraceEvent
from highwater_core.traces import encode_event
from highwater_simulator.trace_log import Entry
from highwater_simulator.world import World


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


def look_at(world: World) -> Look:
    """Return what every node that runs says of itself now."""
    nodes = (*world.brokers, *world.controllers)
    return Look(world.kernel.now_ns(), {node: world.snapshot(node) for node in nodes})


def write_looks(folder: RunFolder, looks: Iterable[Look]) -> None:
    """Write the looks, in their order; the last one is of the end."""
    write_lines(folder, names.LOOKS, map(encode_look, looks))


def write_segments(folder: RunFolder, world: World) -> None:
    """Write the log of every replica that a broker says it hosts, as its disk has it."""
    for broker, handle in world.brokers.items():
        snapshot = world.snapshot(broker)
        for replica in () if snapshot is None else snapshot.replicas:
            place = folder.path / "segments" / handle.name
            (place / str(replica.topic_partition)).mkdir(parents=True, exist_ok=True)
            for path in handle.disk.paths(str(replica.topic_partition)):
                content = bytes(handle.disk.content(path) or b"")
                folder.write_bytes(f"segments/{handle.name}/{path}", content)


def write_lines(folder: RunFolder, name: str, lines: Iterable[bytes]) -> None:
    """Write the lines, each with its end."""
    folder.write_bytes(name, b"".join(line + b"\n" for line in lines))
