"""What a run, or a soak's present run, looks like now; read from its folder alone.

So it can be watched from another process, and a watcher can never disturb what it watches.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import msgspec

from highwater.report.observation import active_controller
from highwater.runs.chaos.acting import acting_faults
from highwater.soak.folder import SoakFolder
from highwater.soak.hooks import command_again
from highwater.soak.ledger import Entry, read_entries
from highwater.soak.status import Doing, Status, read_status
from highwater_chaos.words import say_fault
from highwater_checker.looks import Look, decode_looks, leaderships, replicas_of
from highwater_checker.run_folder import names
from highwater_checker.run_folder.files import text_of
from highwater_checker.verdict import Outcome
from highwater_core.ids import node_name
from highwater_core.json_lines import DamagedLines

TAIL_BYTES = 1 << 20
"""Of the looks: room for several of a large cluster."""
LEAST_LINES = 3
"""Two looks for the throughput, and a line that is being written."""
OVER_LOOKS = 20
"""Throughput is that between the last look and one so many before."""
ENTRIES_SHOWN = 12
FINDINGS_SHOWN = 10


class NodeView(msgspec.Struct, frozen=True):
    """A node; incarnation -1: it does not answer."""

    name: str
    incarnation: int
    is_active: bool
    resident_bytes: int
    open_files: int


class ReplicaView(msgspec.Struct, frozen=True):
    broker: int
    high_watermark: int
    log_end_offset: int


class PartitionView(msgspec.Struct, frozen=True):
    """A partition as its leader knows it; leader -1: no answering broker leads it."""

    name: str
    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    replicas: tuple[ReplicaView, ...]


class FindingView(msgspec.Struct, frozen=True):
    """A plan of a soak that failed. command: runs it again."""

    plan: int
    began: str
    invariants: tuple[str, ...]
    command: str


class View(msgspec.Struct, frozen=True):
    """One moment. time_s: of the run. records_per_s: appended by leaders. faults: that act now.

    soak: None where the folder is a run's. last: a soak's last plans, the newest first.
    findings: the soak's newest ones, at most FINDINGS_SHOWN, the newest first.
    is_abandoned: its status says that it runs, and no process does: it was killed.
    """

    run: str
    time_s: float
    records_per_s: float
    nodes: tuple[NodeView, ...]
    partitions: tuple[PartitionView, ...]
    faults: tuple[str, ...]
    soak: Status | None = None
    last: tuple[Entry, ...] = ()
    findings: tuple[FindingView, ...] = ()
    is_abandoned: bool = False


def read_view(folder: Path) -> View:
    """Return the present state of the run in the folder, or of the soak's present run."""
    soak = SoakFolder(folder)
    status = read_status(soak.status)
    if status is None:
        return view_of(folder)
    entries, _ = read_entries(soak.ledger)
    view = view_of(soak.runs / status.run)
    last = tuple(reversed(entries[-ENTRIES_SHOWN:]))
    return msgspec.structs.replace(
        view,
        soak=status,
        last=last,
        findings=_findings(folder, entries),
        is_abandoned=status.doing is Doing.RUNNING and not soak.is_locked(),
    )


def _findings(soak: Path, entries: Sequence[Entry]) -> tuple[FindingView, ...]:
    failed = [entry for entry in reversed(entries) if entry.outcome is Outcome.FAIL]
    return tuple(
        FindingView(entry.number, entry.began, entry.invariants, command_again(soak, entry))
        for entry in failed[:FINDINGS_SHOWN]
    )


def view_of(run: Path) -> View:
    """Return the state of the run's last look; an empty one where there is no look yet."""
    return view_at(run, last_looks(run / names.LOOKS))


def view_at(run: Path, looks: Sequence[Look]) -> View:
    """Return the state of the last of the run's looks."""
    if not looks:
        return View(text_of(run.name), 0.0, 0.0, (), (), _faults(run))
    look = looks[-1]
    return View(
        run=text_of(run.name),
        time_s=round(look.time_ns / 1e9, 1),
        records_per_s=records_per_s(looks[0], look),
        nodes=nodes_of(look),
        partitions=partitions_of(look),
        faults=_faults(run),
    )


def last_looks(path: Path) -> Sequence[Look]:
    """Return the newest looks of the file, at most OVER_LOOKS; a line that is being written is
    left out.
    """
    try:
        return decode_looks(_last_lines(path)[-OVER_LOOKS - 1 :])
    except OSError:
        return ()
    except DamagedLines as damaged:
        return list(damaged.found)


def _last_lines(path: Path) -> list[bytes]:
    """Return the file's last lines: those within TAIL_BYTES, but two whole ones at least.

    A look at ten thousand partitions is longer than TAIL_BYTES.
    """
    with path.open("rb") as file:
        size, tail_bytes = file.seek(0, os.SEEK_END), TAIL_BYTES
        while True:
            file.seek(max(0, size - tail_bytes))
            lines = file.read(tail_bytes).splitlines(keepends=True)
            if size <= tail_bytes:
                return lines
            if len(lines) > LEAST_LINES:
                return lines[1:]
            tail_bytes *= 4


def _faults(run: Path) -> tuple[str, ...]:
    try:
        return tuple(say_fault(each.fault) for each in acting_faults(run / names.INTENTS))
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):  # none yet; or an earlier version's
        return ()


def records_per_s(before: Look, after: Look) -> float:
    """Return how many records leaders appended between the looks, per second."""
    took_s = (after.time_ns - before.time_ns) / 1e9
    if took_s <= 0:
        return 0.0
    was, now = leaderships(before), leaderships(after)
    grown = sum(max(0, now[at].log_end_offset - was[at].log_end_offset) for at in now if at in was)
    return round(grown / took_s, 1)


def nodes_of(look: Look) -> tuple[NodeView, ...]:
    active = active_controller(look)
    return tuple(
        NodeView(
            name=node_name(node),
            incarnation=-1 if snapshot is None else snapshot.incarnation,
            is_active=active is not None and active.node_id == node,
            resident_bytes=0 if snapshot is None else snapshot.resident_bytes,
            open_files=0 if snapshot is None else dict(snapshot.counters).get("open_files", 0),
        )
        for node, snapshot in sorted(look.nodes.items())
    )


def partitions_of(look: Look) -> tuple[PartitionView, ...]:
    """Return every partition of which an answering broker has a replica."""
    led = leaderships(look)
    known = {
        replica.topic_partition
        for snapshot in look.nodes.values()
        if snapshot is not None
        for replica in snapshot.replicas
    }
    found = []
    for at in sorted(known):
        leadership = led.get(at)
        replicas = replicas_of(look, at).items()
        found.append(
            PartitionView(
                name=str(at),
                leader=-1 if leadership is None else leadership.leader,
                leader_epoch=-1 if leadership is None else leadership.leader_epoch,
                isr=() if leadership is None else leadership.isr,
                replicas=tuple(
                    ReplicaView(broker, each.high_watermark, each.log_end_offset)
                    for broker, each in replicas
                ),
            )
        )
    return tuple(found)
