"""Events of nodes' traces by kind, with their details, and the lives of topics."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn

from highwater_core.events import EventKind
from highwater_core.ids import FIRST_CONTROLLER_ID
from highwater_pipeline.checks.findings import text
from highwater_pipeline.tables import EVENTS, Tables

REQUIRED: dict[EventKind, tuple[str, ...]] = {
    EventKind.BECAME_LEADER: ("high_watermark", "isr"),
    EventKind.HIGH_WATERMARK_ADVANCED: ("isr",),
    EventKind.ISR_CHANGED: ("isr",),
    EventKind.ISR_WRITTEN: ("isr",),
    EventKind.LEADER_ELECTED: ("leader",),
    EventKind.LOG_APPENDED: ("end_offset",),
    EventKind.LOG_TRUNCATED: ("high_watermark", "from_offset", "reason"),
}
"""By kind, the details without which the checker stops; completeness.py finds such events."""


def events_of(tables: Tables, kind: EventKind) -> DataFrame:
    """Return the rows of EVENTS of a kind, with file.

    (file, seq) is the order in which the checker reads a run's events: by the names of the nodes'
    files, then as each node wrote them.
    """
    return _of_kind(tables[EVENTS], kind).withColumn("file", file_of_node())


def _of_kind(events: DataFrame, kind: EventKind) -> DataFrame:
    return events.where(fn.col("kind") == kind.value)


def lacking_details(tables: Tables) -> DataFrame:
    """Return the rows of EVENTS that lack REQUIRED details of their kind.

    lacking: the missing details' names. One query serves all kinds: a detail has one type in all.
    """
    lacking = (
        fn.when(
            fn.col("kind") == kind.value,
            fn.concat_ws(", ", *(fn.when(fn.col(name).isNull(), name) for name in names)),
        )
        for kind, names in REQUIRED.items()
    )
    return (
        tables[EVENTS]
        .where(fn.col("kind").isin([kind.value for kind in REQUIRED]))
        .withColumn("lacking", fn.coalesce(*lacking))
        .where(fn.col("lacking") != "")
    )


def file_of_node() -> Column:
    """Return the name of the file that an event's node traced it to."""
    node_kind = fn.when(fn.col("node") >= FIRST_CONTROLLER_ID, "controller").otherwise("broker")
    return text("{node_kind}-{node}-{incarnation}.jsonl", node_kind=node_kind)


def deleted_topics(events: DataFrame) -> DataFrame:
    """Return (run_id, topic), each once, of the topics that had several lives, or that ended.

    events: rows of EVENTS. Such a topic was deleted, or seen to be gone, or known by two ids.
    Source: highwater_checker.lives.
    """
    topic = ["run_id", "topic"]
    seen = _of_kind(events, EventKind.TOPICS_CHANGED).select(
        "run_id", fn.explode("deleted").alias("topic")
    )
    made = _of_kind(events, EventKind.TOPIC_DELETED).select(*topic)
    led = _of_kind(events, EventKind.BECAME_LEADER).where("topic_id <> ''")
    ids = led.groupBy(*topic).agg((fn.min("topic_id") < fn.max("topic_id")).alias("has_two"))
    found = seen.unionByName(made).unionByName(ids.where("has_two").select(*topic))
    return found.dropna().distinct()


def with_life(tables: Tables, rows: DataFrame) -> DataFrame:
    """Return the rows (events, or looks at replicas) with life, which tells a topic's lives apart.

    life: the topic's id if a topic of that name was deleted in the run, null if it has no id; ""
      if none was deleted.
    Source: highwater_checker.lives.
    """
    gone = deleted_topics(tables[EVENTS]).withColumn("is_deleted", fn.lit(True))
    life = fn.when(fn.col("is_deleted"), fn.nullif(fn.col("topic_id"), fn.lit(""))).otherwise("")
    joined = rows.join(fn.broadcast(gone), ["run_id", "topic"], "left")
    return joined.withColumn("life", life).drop("is_deleted")
