"""What checks read of nodes' traces: events of a kind with their details, and deleted topics."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn

from highwater_core.events import EventKind
from highwater_core.ids import FIRST_CONTROLLER_ID
from highwater_pipeline.checks.findings import text
from highwater_pipeline.tables import EVENTS, Tables

DETAILS: dict[EventKind, str] = {
    EventKind.BECAME_LEADER: "high_watermark BIGINT, isr ARRAY<INT>",
    EventKind.HIGH_WATERMARK_ADVANCED: "isr ARRAY<INT>",
    EventKind.ISR_CHANGED: "isr ARRAY<INT>",
    EventKind.ISR_WRITTEN: "isr ARRAY<INT>",
    EventKind.LEADER_ELECTED: "leader INT",
    EventKind.LOG_APPENDED: "end_offset BIGINT",
    EventKind.LOG_TRUNCATED: "high_watermark BIGINT, from_offset BIGINT, reason STRING",
    EventKind.TOPICS_CHANGED: "deleted ARRAY<STRING>",
}
"""By kind, what checks read of an event's detail; the checker's types (highwater_core.events)."""

REQUIRED: dict[EventKind, tuple[str, ...]] = {
    EventKind.BECAME_LEADER: ("high_watermark", "isr"),
    EventKind.HIGH_WATERMARK_ADVANCED: ("isr",),
    EventKind.ISR_CHANGED: ("isr",),
    EventKind.ISR_WRITTEN: ("isr",),
    EventKind.LEADER_ELECTED: ("leader",),
    EventKind.LOG_APPENDED: ("end_offset",),
    EventKind.LOG_TRUNCATED: ("high_watermark", "from_offset", "reason"),
}
"""By kind, the details for want of which the checker stops; completeness.py finds such events."""


def events_of(tables: Tables, kind: EventKind) -> DataFrame:
    """Return EVENTS' rows of a kind, with DETAILS of it as columns in place of detail, and file.

    A detail that is absent or of another type is null. (file, seq) is the order in which the
    checker reads a run's events: by the names of the nodes' files, then as each node wrote them.
    """
    events = tables[EVENTS].where(fn.col("kind") == kind.value).withColumn("file", file_of_node())
    if kind not in DETAILS:
        return events.drop("detail")
    told = events.withColumn("detail", fn.from_json("detail", DETAILS[kind]))
    return told.select(*(name for name in told.columns if name != "detail"), "detail.*")


def lacking_details(tables: Tables) -> DataFrame:
    """Return EVENTS' rows that lack what is REQUIRED of their kind, and lacking, the names of it.

    One query of all kinds: a name has one type, whatever the kind.
    """
    kinds = [kind.value for kind in REQUIRED]
    types = dict.fromkeys(each for kind in REQUIRED for each in DETAILS[kind].split(", "))
    events = tables[EVENTS].where(fn.col("kind").isin(kinds))
    told = events.withColumn("detail", fn.from_json("detail", ", ".join(types)))
    lacking = (
        fn.when(
            fn.col("kind") == kind.value,
            fn.concat_ws(", ", *(fn.when(fn.col("detail")[name].isNull(), name) for name in names)),
        )
        for kind, names in REQUIRED.items()
    )
    return told.withColumn("lacking", fn.coalesce(*lacking)).where(fn.col("lacking") != "")


def file_of_node() -> Column:
    """Return the name of the file that an event's node traced it to."""
    node_kind = fn.when(fn.col("node") >= FIRST_CONTROLLER_ID, "controller").otherwise("broker")
    return text("{node_kind}-{node}-{incarnation}.jsonl", node_kind=node_kind)


def deleted_topics(tables: Tables) -> DataFrame:
    """Return (run_id, topic), each once, of the topics that a controller saw or made disappear."""
    seen = events_of(tables, EventKind.TOPICS_CHANGED).select(
        "run_id", fn.explode("deleted").alias("topic")
    )
    made = events_of(tables, EventKind.TOPIC_DELETED).select("run_id", "topic").dropna()
    return seen.unionByName(made).distinct()
