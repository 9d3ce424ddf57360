"""The life of its topic in which a record was acknowledged or read: OPERATIONS' life and is_over.

Both are null for topics that were never deleted. highwater_checker.lives_of_records has the rule.
For a deleted topic one worker gets all its operations, and all trace events about its lives.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as fn
from pyspark.sql.pandas.types import to_arrow_schema

from highwater_checker.history import POLL, SEND
from highwater_checker.lives import deleted_topics
from highwater_checker.lives_of_records import TELLING, UNKNOWN, LivesOfRecords
from highwater_core.events import EventKind, TraceEvent
from highwater_core.ids import NO_TOPIC_ID, TopicPartition
from highwater_pipeline.tables import EVENTS, OPERATIONS

Row = Mapping[str, Any]

_KINDS = [kind.value for kind in TELLING]
_NO_APPENDS = [kind.value for kind in TELLING if kind is not EventKind.LOG_APPENDED]
_TOPIC = ["run_id", "topic"]


def with_lives(operations: pa.Table, events: pa.Table, start_wall_ns: int | None) -> pa.Table:
    """Return a run's operations with their lives."""
    few = events.filter(pc.is_in(events["kind"], pa.array(_NO_APPENDS)))
    deleted = deleted_topics(_events_of(few.to_pylist()))
    if not deleted:
        return operations
    told = events.filter(pc.is_in(events["kind"], pa.array(_KINDS)))
    names = pa.array(sorted(deleted))
    is_appended = pc.equal(told["kind"], EventKind.LOG_APPENDED.value)
    told = told.filter(pc.or_(pc.invert(is_appended), pc.is_in(told["topic"], names)))
    lives = LivesOfRecords(_events_of(told.to_pylist()), start_wall_ns)
    is_one = pc.is_in(operations["topic"], names)
    others = operations.filter(pc.invert(is_one))
    return pa.concat_tables([others, _with_lives(operations.filter(is_one), lives)])


def with_lives_by_topic(
    operations: DataFrame, events: DataFrame, runs: DataFrame, deleted: DataFrame
) -> DataFrame:
    """Return the operations of all runs with their lives. deleted: few (run_id, topic) rows."""
    if deleted.isEmpty():
        return operations
    gone = fn.broadcast(deleted)
    columns = [name for name in EVENTS.columns if name not in (*_TOPIC, "detail")]
    vanished = fn.col("kind") == EventKind.TOPICS_CHANGED.value
    told = (
        events.where(fn.col("kind").isin(_KINDS))
        .withColumn("named", fn.when(vanished, fn.col("deleted")).otherwise(fn.array("topic")))
        .select("run_id", fn.explode("named").alias("topic"), *columns)
        .join(gone, _TOPIC, "left_semi")
        .join(fn.broadcast(runs.select("run_id", "start_wall_ns")), "run_id")
    )
    own = operations.join(gone, _TOPIC, "left_semi").select(*OPERATIONS.columns)
    with_them = (
        own.groupBy(*_TOPIC)
        .cogroup(told.groupBy(*_TOPIC))
        .applyInArrow(_of_one_topic, OPERATIONS.schema)
    )
    others = operations.join(gone, _TOPIC, "left_anti").select(*OPERATIONS.columns)
    return others.unionByName(with_them)


def _of_one_topic(operations: pa.Table, told: pa.Table) -> pa.Table:
    events = told.to_pylist()
    start_wall_ns = events[0]["start_wall_ns"] if events else None
    return _with_lives(operations, LivesOfRecords(_events_of(events), start_wall_ns))


def _with_lives(operations: pa.Table, lives: LivesOfRecords) -> pa.Table:
    """Return the operations of deleted topics; only sends and reads have lives."""
    rows: list[dict[str, Any]] = operations.to_pylist()
    begun = {
        (row["run_id"], row["process"], row["operation_id"]): row["time_ns"]
        for row in rows
        if (row["function"], row["type"]) == (SEND, "invoke")
    }
    for row in rows:
        found = UNKNOWN
        at = TopicPartition(row["topic"], row["partition"])
        if (row["function"], row["type"]) == (SEND, "ok"):
            operation = row["run_id"], row["process"], row["operation_id"]
            invoked_ns = begun.get(operation, row["time_ns"])
            found = lives.of(at, row["offset"], invoked_ns, row["time_ns"])
        elif (row["function"], row["type"]) == (POLL, "ok"):
            found = lives.of_read(at, row["offset"], row["time_ns"])
        row["life"], row["is_over"] = found.life, found.is_over
    return pa.Table.from_pylist(rows, schema=to_arrow_schema(OPERATIONS.schema))


def _events_of(rows: Iterable[Row]) -> Sequence[TraceEvent]:
    """Return the checker's events about lives; C00 finds events that lack details."""
    return [
        TraceEvent(
            row["ts_ns"],
            row["node"],
            row["incarnation"],
            row["seq"],
            EventKind(row["kind"]),
            None if row["kind"] == EventKind.TOPICS_CHANGED.value else row["topic"],
            topic_id=row["topic_id"] or NO_TOPIC_ID,
            partition=row["partition"],
            offset=row["offset"],
            detail={"end_offset": row["end_offset"], "deleted": row["deleted"] or ()},
        )
        for row in rows
        if row["kind"] != EventKind.LOG_APPENDED.value or row["end_offset"] is not None
    ]
