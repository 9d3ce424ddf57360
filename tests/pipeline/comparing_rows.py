"""Rows of runs with one failover each, as slow as a test wants it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from highwater_pipeline.tables import DATA_VERSION, EVENTS, FAULTS, OPERATIONS, RUNS, Table

MS = 1_000_000
START_NS = 1_700_000_000_000_000_000
FAULT_MS = 1_000
DETECT_MS = 500
AGAIN_MS = 90_000
GIVEN_UP_MS = 60_000
Row = dict[str, Any]
TestRows = dict[Table, list[Row]]


def store_of(runs: Iterable[TestRows]) -> TestRows:
    """Return the tables with all of these runs' rows."""
    found: TestRows = {RUNS: [], EVENTS: [], FAULTS: [], OPERATIONS: []}
    for run in runs:
        for table, rows in run.items():
            found[table] += rows
    return found


def run_of(
    run_id: str,
    total_ms: int | None,
    *,
    partitions: int = 1,
    fault: str = "kill",
    start_wall_ns: int = START_NS,
    **more: Any,
) -> TestRows:
    """Return a run in which a fault at 1 s moves the leaders of so many partitions.

    total_ms: partition p acknowledges its next record total_ms + p ms after the fault; with None it
      acknowledges no more, though clients send to it until 60 s.
    more: columns of RUNS.
    Sends take 5 ms until the fault. Every leader changes again 90 s after the fault.
    """
    events, sends = [], []
    for p in range(partitions):
        events += list(_events(run_id, start_wall_ns, p))
        acknowledged = [900] if total_ms is None else [900, FAULT_MS + total_ms + p]
        sends += [
            row for number, ms in enumerate(acknowledged) for row in _send(run_id, p, number, ms)
        ]
        if total_ms is None:
            sends += list(_send(run_id, p, len(acknowledged), GIVEN_UP_MS + 5))[:1]
    faults = [
        {"phase": "intended", "fault": fault, "at_ns": 0},
        {"phase": "acting", "at_ns": FAULT_MS * MS},
    ]
    return {
        RUNS: [
            {
                "run_id": run_id,
                "start_wall_ns": start_wall_ns,
                "world": "docker",
                "data_version": DATA_VERSION,
                **more,
            }
        ],
        EVENTS: events,
        FAULTS: [{"run_id": run_id, "number": 1, **row} for row in faults],
        OPERATIONS: sends,
    }


def _events(run_id: str, start_wall_ns: int, partition: int) -> Iterator[Row]:
    decided_ms = FAULT_MS + DETECT_MS
    for seq, (kind, at_ms, leader_epoch) in enumerate(
        (
            ("became_leader", 10, 0),
            ("leadership_decided", decided_ms, 1),
            ("became_leader", decided_ms + 10, 1),
            ("became_leader", AGAIN_MS, 2),
        )
    ):
        yield {
            "run_id": run_id, "kind": kind, "ts_ns": start_wall_ns + at_ms * MS,
            "node": leader_epoch, "incarnation": 1, "seq": seq, "topic": "t",
            "partition": partition, "leader_epoch": leader_epoch,
            "isr": [leader_epoch],
        }  # fmt: skip


def _send(run_id: str, partition: int, number: int, ok_ms: int) -> Iterator[Row]:
    for line, (kind, at_ms) in enumerate((("invoke", ok_ms - 5), ("ok", ok_ms))):
        yield {
            "run_id": run_id, "process": f"p{partition}", "operation_id": number,
            "line": 2 * number + line, "type": kind, "time_ns": at_ms * MS, "function": "send",
            "topic": "t", "partition": partition,
        }  # fmt: skip
