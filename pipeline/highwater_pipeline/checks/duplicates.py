"""Duplicates and aborted reads: a value lies in a log once, unless it was sent more than once.

Source: docs/explanation/replication.md, "Histories", "duplicate" and "G1a".
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from highwater_checker.wording import Wording
from highwater_pipeline.checks.evidence import (
    OPERATION,
    PARTITION,
    REPLICA,
    held_records,
    is_type,
    operations_of,
    whole_replicas,
)
from highwater_pipeline.checks.findings import (
    Check,
    CheckFrames,
    all_of,
    count_by_run,
    findings_of,
)
from highwater_pipeline.tables import Tables

SENT_ONCE = 1
VALUE = ["run_id", "value"]


def run(tables: Tables) -> CheckFrames:
    """Find records that lie at several offsets though they were sent once, or though they failed.

    Each value of one replica of each partition is looked at. A value that was sent again (tries
    above 1), or for which that is unknown (tries 0), may lie there twice. A value whose send failed
    for certain may not lie there at all. Permitted duplicates are not counted, unlike the
    checker's `noted`.
    Source: highwater_checker.invariants.duplicates.
    """
    held = _offsets_by_value(tables)
    failed = _failed(tables)
    aborted = held.join(failed.hint("shuffle_hash"), VALUE)
    repeated = (
        held.where(fn.size("offsets") > 1)
        .join(failed.hint("shuffle_hash"), VALUE, "left_anti")
        .join(_succeeded_or_unknown(tables), VALUE)
        .where(fn.col("tries") == SENT_ONCE)
    )
    findings = all_of(
        _findings(aborted, "aborted-read", 0, Wording.ABORTED_READ),
        _findings(repeated, "duplicate", 1, Wording.DUPLICATE),
    )
    return CheckFrames(findings, count_by_run(tables, held))


def _offsets_by_value(tables: Tables) -> DataFrame:
    """Return the offsets, ascending, of each value in the replica with the most committed.

    Row grain: (run_id, topic, partition, value), with broker. Of replicas with equal high
    watermarks the one on the lowest broker is taken.
    """
    most_committed = fn.struct("high_watermark", -fn.col("broker"))
    chosen = (
        whole_replicas(tables)
        .groupBy(*PARTITION)
        .agg(fn.max_by("broker", most_committed).alias("broker"))
    )
    return (
        held_records(tables)
        .join(fn.broadcast(chosen), REPLICA)
        .groupBy(*REPLICA, "value")
        .agg(fn.sort_array(fn.collect_list("offset")).alias("offsets"))
    )


def _succeeded_or_unknown(tables: Tables) -> DataFrame:
    """Return (run_id, value, operation, tries) of sends that succeeded or may have.

    Each value comes once. Of several sends of one value it is the one that the checker keeps: the
    last, where unknown sends count as later than the others.
    """
    sends = operations_of(tables, "send")
    begun, ended = sends.where(is_type("invoke")), sends.where(~is_type("invoke"))
    is_open, is_unknown = fn.col("is_open"), fn.col("is_open") | is_type("info")
    unfinished = begun.join(ended.select(*OPERATION).hint("shuffle_hash"), OPERATION, "left_anti")
    return (
        ended.where(is_type("ok", "info"))
        .withColumn("is_open", fn.lit(False))
        .unionByName(unfinished.withColumn("is_open", fn.lit(True)))
        .withColumn("told_at", fn.struct(is_unknown, "file", is_open, "line"))
        .groupBy(*VALUE)
        .agg(fn.max_by(fn.struct("operation", "tries"), "told_at").alias("send"))
        .select(*VALUE, "send.operation", "send.tries")
    )


def _failed(tables: Tables) -> DataFrame:
    """Return (run_id, value, operation) of sends that failed for certain."""
    return (
        operations_of(tables, "send")
        .where(is_type("fail"))
        .groupBy(*VALUE)
        .agg(fn.max_by("operation", fn.struct("file", "line")).alias("operation"))
    )


def _findings(suspects: DataFrame, invariant: str, at: int, wording: Wording) -> DataFrame:
    return findings_of(
        suspects,
        wording,
        invariant=invariant,
        offset=fn.get("offsets", fn.lit(at)),
        broker="broker",
        operation="operation",
        facts=["value", "offsets"],
    )


CHECK = Check("what was sent once is there once", "duplicate", run)
