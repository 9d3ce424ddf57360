"""Runs with a compacted topic: Spark and DuckDB have the same findings as the checker."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pyspark.sql import SparkSession

from bench.pipeline.in_duckdb import SAID_AGAIN
from highwater_checker.history import HistoryEvent, OperationType
from highwater_checker.invariants.compactions import check_compactions
from highwater_checker.segments import ReplicaLog, batches_in
from highwater_core.events import EventKind, TraceEvent
from highwater_pipeline.checks.registry import CHECKS
from highwater_wire.kafka.compacted_batch import empty_batch
from highwater_wire.kafka.record_batch import build_batch
from tests.pipeline.frames import Run
from tests.pipeline.judges import Judges, opinions_of_duckdb, opinions_of_python, opinions_of_spark
from tests.pipeline.record_judges import PYTHON

KEYS = ["a", "b", "a", "c", "a", "b"]
"""Of the records from offset 0 on; each one's value is its offset."""
ALL = range(len(KEYS))
NEWEST = (3, 4, 5)
ASKED = ("acknowledged_records", "reads", "replica_equality")
JUDGES: Judges = {
    **{name: PYTHON[name] for name in ASKED},
    "compactions": lambda run: check_compactions(run.events),
}


def log(broker: int, kept: Sequence[int], *, other_at: int = -1, hw: int = 6) -> ReplicaLog:
    """Return a log in which these offsets have records, that at other_at another one."""
    data = b""
    for offset, key in enumerate(KEYS):
        value = b"other" if offset == other_at else b"%d" % offset
        record = build_batch([(key.encode(), value, 1)], offset, leader_epoch=1)
        data += record if offset in kept else empty_batch(offset, offset, 1)
    return ReplicaLog(broker, "t", 0, batches_in([(f"{0:020d}.log", data)]), hw, is_compacted=True)


def history(polled: Sequence[int] = ALL) -> list[HistoryEvent]:
    events: list[HistoryEvent] = []
    for offset, key in enumerate(KEYS):
        sent = HistoryEvent(
            10 * offset, OperationType.INVOKE, offset, "p0", "send", "t", 0, str(offset), key=key
        )
        done = replace(sent, time_ns=10 * offset + 1, type=OperationType.OK, offset=offset, tries=1)
        read = replace(done, time_ns=100 + offset, process="c0", function="poll", tries=0)
        events += [sent, done, *([read] if offset in polled else [])]
    return events


def run_of(
    name: str,
    *logs: ReplicaLog,
    events: Sequence[TraceEvent] = (),
    polled: Sequence[int] = ALL,
) -> Run:
    return Run(name, history(polled), {"p0": -1}, {"p0": 1}, logs, events=events)


def traced(kind: EventKind, ts_ns: int, offset: int, **detail: int) -> TraceEvent:
    return TraceEvent(ts_ns, 1, 1, ts_ns, kind, "t", 0, 1, 1, offset, detail)


COMPACTED, ADVANCED = EventKind.LOG_COMPACTED, EventKind.HIGH_WATERMARK_ADVANCED
RUNS = [
    run_of("whole", log(0, ALL), log(1, ALL)),
    run_of("compacted", log(0, NEWEST), log(1, NEWEST)),
    run_of("compacted apart", log(0, ALL), log(1, NEWEST), log(2, (1, 3, 4, 5))),
    run_of("read where it was compacted", log(0, ALL), log(1, NEWEST), polled=NEWEST),
    run_of("the newest is not read", log(0, ALL), log(1, NEWEST), polled=(3, 4)),
    run_of("the newest is gone", log(0, (3, 5)), log(1, NEWEST)),
    run_of("the newest is gone everywhere", log(0, (3, 4)), log(1, (3, 4))),
    run_of("by what is not committed", log(0, NEWEST, hw=5), log(1, ALL, hw=5)),
    run_of("another record", log(0, ALL), log(1, NEWEST, other_at=4)),
    run_of("a key of one record", log(0, (4, 5)), log(1, NEWEST)),
    run_of(
        "beyond what is committed",
        log(0, ALL),
        events=[
            traced(ADVANCED, 1, 4, high_watermark=0),
            traced(COMPACTED, 2, 3, dirty_end=4),
            traced(COMPACTED, 3, 3, dirty_end=5),
            traced(ADVANCED, 4, 6),
        ],
    ),
]
SOUND = ("whole", "compacted", "compacted apart", "read where it was compacted")


def test_three_judges_agree_about_compacted_topics(spark: SparkSession) -> None:
    checks = {name: CHECKS[name] for name in JUDGES}
    python = opinions_of_python(JUDGES, RUNS)
    pipeline = opinions_of_spark(spark, checks, RUNS)
    for key, opinion in python.items():
        assert pipeline[key] == opinion, key
    for key, opinion in opinions_of_duckdb(JUDGES, RUNS).items():
        said = python[key]
        assert opinion == (said.without_messages() if key[0] in SAID_AGAIN else said), key
    found = {run_id for (_, run_id), opinion in python.items() if opinion.findings}
    assert found == {run.run_id for run in RUNS} - set(SOUND)
