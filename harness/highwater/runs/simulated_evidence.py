"""Writes the files of a simulated run as a run on containers has them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from highwater.run_folder import RunFolder
from highwater_chaos.faults import Fault
from highwater_chaos.words import say_step
from highwater_checker.history import HistoryEvent, encode
from highwater_checker.looks import Look, encode_look
from highwater_checker.run_folder import names
from highwater_checker.run_folder.documents import CLOCK, RunStart
from highwater_checker.run_folder.intents import NO_FAULT, Intent, Phase, encode_intent
from highwater_checker.stories.entries import PLAN, STARTED, Entry, Note
from highwater_core.events import TraceEvent
from highwater_core.ids import TopicPartition
from highwater_core.traces import encode_event
from highwater_simulator.clocks import NS_PER_MS, WALL_CLOCK_START_MS
from highwater_simulator.failed_folders import failed_folders
from highwater_simulator.liveness import Core
from highwater_simulator.runner import RunResult
from highwater_simulator.world import World

DONE = "it was done"
"""The proof of a simulated fault."""
START_WALL_NS = WALL_CLOCK_START_MS * NS_PER_MS


def write_histories(
    folder: RunFolder, history: Sequence[HistoryEvent], processes: Iterable[str] = ()
) -> None:
    """Write each process's history, in the order of its events.

    processes: they get a file even without an operation.
    """
    by_process: dict[str, list[bytes]] = {process: [] for process in processes}
    for event in history:
        by_process.setdefault(event.process, []).append(encode(event))
    for process, lines in by_process.items():
        write_lines(folder, f"{names.HISTORY}/{process}.jsonl", lines)


def write_traces(folder: RunFolder, entries: Iterable[Entry]) -> None:
    """Write each node incarnation's trace, in the order of its events.

    All by one clock, as on containers of one machine: a plan may change the nodes' own clocks.
    """
    by_incarnation: dict[str, list[bytes]] = {}
    for entry in entries:
        if isinstance(entry.event, TraceEvent):
            name = f"{entry.who}-{entry.event.incarnation}"
            event = replace(entry.event, ts_ns=START_WALL_NS + entry.at_ns)
            by_incarnation.setdefault(name, []).append(encode_event(event))
    for name, lines in by_incarnation.items():
        write_lines(folder, f"{names.TRACE}/{name}.jsonl", lines)


def write_clock(folder: RunFolder) -> None:
    """Write clock.json; the run's own time is virtual time."""
    folder.write(CLOCK, RunStart(start_monotonic_ns=0, start_wall_ns=START_WALL_NS))


def write_intents(folder: RunFolder, result: RunResult) -> None:
    """Write the starts of nodes after their first, and the steps that acted, without their ends.

    Ordering: the starts come first.
    """
    lines = starts_of(result.trace.entries)
    noted = _notes_of_steps(result)
    for number, (step, (at_ns, node)) in enumerate(
        zip(result.outcome.fired, noted, strict=True), start=1
    ):
        intended = Intent(at_ns, number, Phase.INTENDED, step.do)
        acting: Intent[Fault] = Intent(
            at_ns, number, Phase.ACTING, node=node, proof=DONE, acted_ns=at_ns
        )
        lines += [encode_intent(intended), encode_intent(acting)]
    write_lines(folder, names.INTENTS, lines)


def _notes_of_steps(result: RunResult) -> Iterator[tuple[int, int | None]]:
    """Yield when each step acted, ns of virtual time, and on which node; in the steps' order."""
    noted: dict[str, list[tuple[int, int | None]]] = {}
    for entry in result.trace.entries:
        if entry.who == PLAN and isinstance(entry.event, Note):
            at = entry.at_ns, entry.event.detail.get("on")
            noted.setdefault(entry.event.what, []).append(at)
    for step in result.outcome.fired:
        yield noted[say_step(step)].pop(0)


def starts_of(entries: Iterable[Entry]) -> list[bytes]:
    """Return a line of intent.jsonl for every start of a node that was up before.

    A node that never traced anything is left out.
    """
    nodes: dict[str, int] = {}
    lines: list[bytes] = []
    for entry in entries:
        event = entry.event
        if isinstance(event, TraceEvent):
            nodes[entry.who] = event.node
        elif event.what == STARTED and entry.who in nodes and event.detail["incarnation"] > 1:
            line: Intent[Fault] = Intent(
                entry.at_ns, NO_FAULT, Phase.STARTING, node=nodes[entry.who]
            )
            lines.append(encode_intent(line))
    return lines


def look_at(world: World, healed: Core | None = None) -> Look:
    """Return the snapshots of the nodes that run; with healed, of these nodes alone."""
    nodes = (*world.brokers, *world.controllers)
    asked = nodes if healed is None else (*healed.brokers, *healed.controllers)
    snapshots = {node: world.snapshot(node) if node in asked else None for node in nodes}
    return Look(world.kernel.now_ns(), snapshots)


def write_looks(folder: RunFolder, looks: Iterable[Look]) -> None:
    """Write the looks in their order; the last one is the final look."""
    write_lines(folder, names.LOOKS, map(encode_look, looks))


def write_segments(folder: RunFolder, world: World) -> None:
    """Write the log of every replica that a broker reports, from the log folder that serves it."""
    for broker, handle in world.brokers.items():
        snapshot = world.snapshot(broker)
        for replica in () if snapshot is None else snapshot.replicas:
            place = folder.path / names.SEGMENTS / handle.name
            (place / str(replica.topic_partition)).mkdir(parents=True, exist_ok=True)
            for path in _paths_of(world, broker, replica.topic_partition):
                content = bytes(handle.disk.content(path) or b"")
                _, within = handle.disk.in_log_folder(path)
                folder.write_bytes(f"{names.SEGMENTS}/{handle.name}/{within}", content)


def _paths_of(world: World, broker: int, at: TopicPartition) -> list[str]:
    disk, failed = world.brokers[broker].disk, failed_folders(world, broker)
    homes = disk.replica_folders(str(at))
    sound = [home for home in homes if disk.in_log_folder(home)[0] not in failed]
    return [path for home in sound for path in disk.paths(home)]


def write_lines(folder: RunFolder, name: str, lines: Iterable[bytes]) -> None:
    """Write the lines, each with its end."""
    folder.write_bytes(name, b"".join(line + b"\n" for line in lines))
