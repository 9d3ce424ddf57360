"""Rows of the tables that several checks read, by the definitions of highwater_checker."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as fn

from highwater_checker.lives_of_records import ONLY_LIFE, UNKNOWN_LIFE
from highwater_pipeline.checks.findings import text
from highwater_pipeline.tables import (
    LOOKS,
    OF_THE_END,
    OPERATIONS,
    RECORDS,
    REPLICA_LOOKS,
    REPLICAS,
    RUNS,
    Tables,
)

PARTITION = ["run_id", "topic", "partition"]
REPLICA = [*PARTITION, "broker"]
WHERE_DUE = ["log_start_offset", "log_end_offset", "in_sync"]
"""Columns of REPLICAS by which where_due tells the records that must be on a replica."""
PLACE = [*PARTITION, "offset"]
OPERATION = ["run_id", "process", "operation_id"]

ACKS_ALL = -1


def operations_of(tables: Tables, function: str) -> DataFrame:
    """Return the rows of OPERATIONS of one function, with file, and operation as findings name it.

    Lines without a counterpart (is_unmatched) are left out. (file, line) is the order in which the
    checker reads a run's histories. life and is_over are "" and false where OPERATIONS has null:
    the topic was never deleted.
    """
    return (
        tables[OPERATIONS]
        .where((fn.col("function") == function) & fn.col("is_unmatched").isNull())
        .fillna({"life": ONLY_LIFE, "is_over": False})
        .withColumn("file", fn.concat("process", fn.lit(".jsonl")))
        .withColumn("operation", operation_text())
    )


def operation_text() -> Column:
    """Return the name that findings give to the operation of a row of OPERATIONS."""
    return text("{process}'s {function} {operation_id}")


def client_of_process() -> Column:
    """Return the client of which the process is an incarnation: c0, of c0.2 too."""
    return fn.split_part("process", fn.lit("."), fn.lit(1))


def life_is_known() -> Column:
    """Return whether it is known in which life of its topic a record was acknowledged or read."""
    return fn.col("life") != UNKNOWN_LIFE


def is_type(*types: str) -> Column:
    """Return whether an operation's line is of one of the types: invoke, ok, fail, info."""
    return fn.col("type").isin(*types)


def promised_sends(tables: Tables) -> DataFrame:
    """Return the acknowledgements of sends whose producer asked for acks=all, or is not known.

    Row grain: a row of operations_of with type ok; time_ns is when it was acknowledged.
    """
    return acknowledged_sends(tables).where(is_promised())


def acknowledged_sends(tables: Tables) -> DataFrame:
    """Return the acknowledgements of sends with any acks."""
    return operations_of(tables, "send").where(is_type("ok"))


def is_promised() -> Column:
    """Return whether a send's producer asked for acks=all, or is not known."""
    return fn.coalesce("acks", fn.lit(ACKS_ALL)) == ACKS_ALL


def reads_of_consumers(tables: Tables) -> DataFrame:
    """Return the rows of operations_of that report a record as read."""
    return operations_of(tables, "poll").where(is_type("ok"))


def places_of(reported: DataFrame, by: Sequence[str]) -> DataFrame:
    """Return each place of reported records once, and is_one: whether all its rows have one value.

    by: the columns that name a place; rows with equal ones are of one place.

    Values are compared by 64-bit hashes: Spark aggregates columns of fixed size without a sort.
    """
    hashed = fn.xxhash64("value")
    return reported.groupBy(*by).agg((fn.min(hashed) == fn.max(hashed)).alias("is_one"))


def with_first(
    reported: DataFrame, places: DataFrame, by: Sequence[str], order: Sequence[str]
) -> DataFrame:
    """Return the reported records of places where clients reported more than one value.

    Each row has a column more, first: the (value, operation) of its place's first row by the order.
    There are few such places, and only they are sorted.
    reported: rows with PLACE, value and operation. places: as places_of returns them for by.
    """
    in_order = Window.partitionBy(*by).orderBy(*order)
    first = fn.first(fn.struct("value", "operation")).over(in_order)
    many = fn.broadcast(places.where(~fn.col("is_one")).select(*by))
    return reported.join(many, list(by), "left_semi").withColumn("first", first)


def held_records(tables: Tables) -> DataFrame:
    """Return the records that replicas hold.

    Row grain: (REPLICA, offset), with value, "" for a null one.
    """
    value = fn.coalesce("value", fn.lit("")).alias("value")
    return tables[RECORDS].select(*REPLICA, "offset", value)


def compacted_replicas(tables: Tables) -> DataFrame:
    """Return the rows of whole_replicas of topics that are compacted."""
    compacted = tables[RUNS].select("run_id", fn.explode("compacted").alias("topic"))
    return whole_replicas(tables).join(fn.broadcast(compacted), ["run_id", "topic"], "left_semi")


def newest_of_keys(tables: Tables) -> DataFrame:
    """Return the newest committed record of each key on compacted replicas.

    Row grain: (REPLICA, key), with newest, its offset.
    """
    replicas = compacted_replicas(tables).select(*REPLICA, "high_watermark")
    return (
        tables[RECORDS]
        .dropna(subset="key")
        .join(fn.broadcast(replicas), REPLICA)
        .where(fn.col("offset") < fn.col("high_watermark"))
        .groupBy(*REPLICA, "key")
        .agg(fn.max("offset").alias("newest"))
    )


def without_succeeded(tables: Tables, lacking: DataFrame) -> DataFrame:
    """Return the rows of lacking without records that compaction may have removed.

    lacking: rows with REPLICA, offset, key and held, null where the replica has no record there.
    """
    found = lacking.join(newest_of_keys(tables), [*REPLICA, "key"], "left")
    is_succeeded = fn.col("held").isNull() & (fn.col("newest") > fn.col("offset"))
    return found.where(~fn.coalesce(is_succeeded, fn.lit(False))).drop("newest")


def whole_replicas(tables: Tables) -> DataFrame:
    """Return the rows of REPLICAS whose log decoded and that a verdict needs.

    It needs those with a high watermark: see ingest.replica_logs.asked_of.
    No check looks whether every assigned replica was read: verdicts require that.
    """
    return tables[REPLICAS].where(fn.col("damage").isNull() & (fn.col("high_watermark") >= 0))


def where_due(due: DataFrame) -> DataFrame:
    """Return the rows whose record must be on the replica.

    due: rows of committed records, with offset, and of REPLICAS.
    Source: highwater_checker.segments.ReplicaLog.must_hold.
    """
    is_due = fn.coalesce("in_sync", fn.lit(True)) | (fn.col("offset") < fn.col("log_end_offset"))
    return due.where(is_due & (fn.col("offset") >= fn.col("log_start_offset")))


def looks_in_run(tables: Tables) -> DataFrame:
    """Return the rows of LOOKS of the looks while the run went on."""
    return tables[LOOKS].where(fn.col("look") != OF_THE_END)


def replica_looks_in_run(tables: Tables) -> DataFrame:
    """Return the rows of REPLICA_LOOKS of the looks while the run went on."""
    return tables[REPLICA_LOOKS].where(fn.col("look") != OF_THE_END)
