"""Events of nodes' traces by kind, with their details, and the lives of topics."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn

from highwater_core.events import EventKind
from highwater_core.ids import FIRST_CONTROLLER_ID
from highwater_pipeline.checks.findings import text
from highwater_pipeline.tables import EVENTS, Tables


def events_of(tables: Tables, kind: EventKind) -> DataFrame:
    """Return the rows of EVENTS of a kind, with file.

    (file, seq) is the order in which the checker reads a run's events: by the names of the nodes'
    files, then as each node wrote them.
    """
    return _of_kind(tables[EVENTS], kind).withColumn("file", file_of_node())


def _of_kind(events: DataFrame, kind: EventKind) -> DataFrame:
    return events.where(fn.col("kind") == kind.value)


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
    """Return the rows (events, or looks at replicas) with life, which names one life of a topic.

    life: the topic's id if a topic of that name was deleted in the run, null if it has no id; ""
      if none was deleted.
    Source: highwater_checker.lives.
    """
    gone = deleted_topics(tables[EVENTS]).withColumn("is_deleted", fn.lit(True))
    life = fn.when(fn.col("is_deleted"), fn.nullif(fn.col("topic_id"), fn.lit(""))).otherwise("")
    joined = rows.join(fn.broadcast(gone), ["run_id", "topic"], "left")
    return joined.withColumn("life", life).drop("is_deleted")
