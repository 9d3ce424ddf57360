"""The folder of a run in which a topic is deleted and made again.

The run of run_on_disk.py, whose topic t had a life before: broker 0 led it, p1 wrote "old-0" and
"old-1" at offsets 0 and 1, and a controller deleted it. Then p0 writes "v0" at offset 0.
c0 reads each record soon after it was acknowledged.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from highwater_checker.history import HistoryEvent, OperationType, encode
from highwater_checker.run_folder.documents import CLOCK, RunStart
from highwater_core.events import EventKind, TraceEvent
from highwater_core.ids import TopicId
from highwater_core.traces import encode_event
from tests.support.run_on_disk import write, write_run

START_WALL_NS = 1_000_000
FIRST, SECOND = TopicId("first"), TopicId("second")
DELETED_NS = 500
LED, FOLLOWED = EventKind.BECAME_LEADER, EventKind.BECAME_FOLLOWER
BOTH = {"isr": [0, 1], "high_watermark": 0}


def traced(
    at_ns: int,
    kind: EventKind,
    topic_id: TopicId,
    offset: int | None = None,
    *,
    node: int = 0,
    leader_epoch: int = 0,
    **detail: object,
) -> TraceEvent:
    """Return an event of t-0 at at_ns after the run's start; it gets its number when written."""
    ts_ns = START_WALL_NS + at_ns
    return TraceEvent(
        ts_ns, node, 1, 0, kind, "t", topic_id=topic_id, partition=0, leader_epoch=leader_epoch,
        offset=offset, detail=dict(detail),
    )  # fmt: skip


def deletion(topic_id: TopicId) -> TraceEvent:
    ts_ns = START_WALL_NS + DELETED_NS
    return TraceEvent(ts_ns, 1000, 1, 0, EventKind.TOPIC_DELETED, "t", topic_id=topic_id)


def two_lives(first: TopicId = FIRST, second: TopicId = SECOND) -> list[TraceEvent]:
    return [
        traced(100, LED, first, 0, **BOTH),
        traced(200, EventKind.LOG_APPENDED, first, 0, end_offset=1),
        traced(300, EventKind.LOG_APPENDED, first, 1, end_offset=2),
        deletion(first),
        traced(600, LED, second, 0, **BOTH),
        traced(610, FOLLOWED, second, 0, node=1, leader=0, high_watermark=0),
        traced(700, EventKind.LOG_APPENDED, second, 0, end_offset=1),
    ]


Sent = tuple[str, int, int, int]
"""Value, offset, when its send began and when it was acknowledged."""
OLD: tuple[Sent, ...] = (("old-0", 0, 195, 205), ("old-1", 1, 295, 305))
NEW: tuple[Sent, ...] = (("v0", 0, 695, 705),)


def write_made_again(
    folder: Path,
    *,
    events: Sequence[TraceEvent] | None = None,
    old: tuple[Sent, ...] = OLD,
    new: tuple[Sent, ...] = NEW,
    with_clock: bool = True,
) -> Path:
    """Write the run, and return its folder."""
    write_run(folder)
    for path in (folder / "trace").iterdir():
        path.unlink()
    by_node: dict[int, list[TraceEvent]] = {}
    for event in two_lives() if events is None else events:
        by_node.setdefault(event.node, []).append(event)
    for node, own in by_node.items():
        kind = "controller" if node >= 1000 else "broker"
        lines = b"".join(
            encode_event(replace(event, seq=seq)) + b"\n" for seq, event in enumerate(own)
        )
        write(folder / "trace" / f"{kind}-{node}-1.jsonl", lines)
    write(folder / "history" / "p0.jsonl", _history("p0", new))
    write(folder / "history" / "p1.jsonl", _history("p1", old))
    reads = [(at_ns + 5, offset, value) for value, offset, _, at_ns in (*old, *new)]
    write(folder / "history" / "c0.jsonl", polled(*reads))
    if with_clock:
        write(folder / CLOCK.name, CLOCK.encode(RunStart(0, START_WALL_NS)))
    return folder


def polled(*reads: tuple[int, int, str]) -> bytes:
    """Return the history of consumer c0. reads: time, offset and value of each record."""
    return b"".join(
        encode(HistoryEvent(at_ns, OperationType.OK, number, "c0", "poll", "t", 0, value, offset))
        + b"\n"
        for number, (at_ns, offset, value) in enumerate(reads)
    )


def _history(process: str, sends: tuple[Sent, ...]) -> bytes:
    lines = []
    for number, (value, offset, invoked_ns, acknowledged_ns) in enumerate(sends):
        for at_ns, kind, where in (
            (invoked_ns, OperationType.INVOKE, -1),
            (acknowledged_ns, OperationType.OK, offset),
        ):
            told = HistoryEvent(at_ns, kind, number, process, "send", "t", 0, value, where, tries=1)
            lines.append(encode(told) + b"\n")
    return b"".join(lines)
