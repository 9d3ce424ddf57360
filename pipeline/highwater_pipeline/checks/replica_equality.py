"""I3, I4: logs decode, replicas hold equal batches below the high watermark, and hold all of it."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as fn

from highwater_pipeline.checks.evidence import PARTITION, REPLICA, whole_replicas
from highwater_pipeline.checks.findings import (
    Check,
    CheckFrames,
    count_by_run,
    findings_of,
    text,
)
from highwater_pipeline.tables import RECORDS, REPLICAS, Tables

NO_BATCH = "no batch"


def run_segments_decode(tables: Tables) -> CheckFrames:
    """Find replicas whose log did not decode, though their brokers had stopped cleanly (I3)."""
    findings = findings_of(
        tables[REPLICAS].where(fn.col("damage").isNotNull()),
        invariant="I3",
        message=text("broker {broker}: {damage}"),
    )
    looked_at = whole_replicas(tables).select("run_id")
    damaged = tables[REPLICAS].where(fn.col("damage").isNotNull()).select("run_id")
    return CheckFrames(findings, count_by_run(tables, looked_at.unionByName(damaged)))


def run_high_watermarks_are_held(tables: Tables) -> CheckFrames:
    """Find replicas whose log ends below their high watermark (I4: HW <= LEO)."""
    replicas = whole_replicas(tables)
    findings = findings_of(
        replicas.where(fn.col("log_end_offset") < fn.col("high_watermark")),
        invariant="I4",
        offset="log_end_offset",
        message=text("broker {broker}: log ends at {log_end_offset}, HW {high_watermark}"),
    )
    return CheckFrames(findings, count_by_run(tables, replicas))


def run_replica_equality(tables: Tables) -> CheckFrames:
    """Compare each partition's replicas with the one on its lowest broker, batch by batch.

    The first difference of each is found, from the highest log start to the lowest high watermark;
    a batch counts when it lies wholly in there. Batches are equal when their offsets, leader epoch
    and CRC-32 are: a batch's last record is its end, which holds as long as nothing compacts.
    Source: replication.md, I3; highwater_checker.invariants.replica_equality.
    """
    pairs = _pairs(tables)
    different = (
        pairs.where(~fn.col("expected").eqNullSafe(fn.col("found")))
        .groupBy(*REPLICA, "reference")
        .agg(fn.min(fn.struct("number", "expected", "found")).alias("first"))
        .select(*REPLICA, "reference", "first.expected", "first.found")
    )
    findings = findings_of(
        different,
        invariant="I3",
        offset=fn.least("expected.base_offset", "found.base_offset"),
        message=text(
            "broker {reference} holds {expected}, broker {broker} holds {found}",
            expected=_show("expected"),
            found=_show("found"),
        ),
    )
    return CheckFrames(findings, count_by_run(tables, pairs))


def _pairs(tables: Tables) -> DataFrame:
    """Return the n-th batch of the reference beside the n-th of each other replica.

    Row grain: (run_id, topic, partition, broker, number), broker never being the reference; a
    replica with fewer batches than the other has null for those that it lacks.
    """
    replicas = whole_replicas(tables)
    ranges = replicas.groupBy(*PARTITION).agg(
        fn.min("broker").alias("reference"),
        fn.max("log_start_offset").alias("start_offset"),
        fn.min("high_watermark").alias("end_offset"),
    )
    batches = _numbered(_batches(tables).join(fn.broadcast(ranges), PARTITION))
    others = replicas.join(ranges, PARTITION).where(fn.col("broker") != fn.col("reference"))
    found = batches.where(fn.col("broker") != fn.col("reference")).select(
        *REPLICA, "reference", "number", fn.col("batch").alias("found")
    )
    expected = (
        batches.where(fn.col("broker") == fn.col("reference"))
        .drop("broker")
        .join(fn.broadcast(others.select(*REPLICA)), PARTITION)
        .select(*REPLICA, "reference", "number", fn.col("batch").alias("expected"))
    )
    return expected.join(found, [*REPLICA, "reference", "number"], "full_outer")


def _batches(tables: Tables) -> DataFrame:
    """Return the batches of whole replicas; row grain: (run_id, topic, partition, broker, base)."""
    return (
        tables[RECORDS]
        .groupBy(*REPLICA, "base_offset")
        .agg(
            (fn.max("offset") + 1).alias("next_offset"),
            fn.min("leader_epoch").alias("leader_epoch"),
            fn.min("batch_crc").alias("batch_crc"),
        )
        .join(fn.broadcast(whole_replicas(tables).select(*REPLICA)), REPLICA, "left_semi")
    )


def _numbered(batches: DataFrame) -> DataFrame:
    """Return the batches that lie wholly in [start_offset, end_offset), numbered by offset."""
    in_order = Window.partitionBy(*REPLICA).orderBy("base_offset")
    return (
        batches.where(
            (fn.col("base_offset") >= fn.col("start_offset"))
            & (fn.col("next_offset") <= fn.col("end_offset"))
        )
        .withColumn("number", fn.row_number().over(in_order))
        .withColumn("batch", fn.struct("base_offset", "next_offset", "leader_epoch", "batch_crc"))
    )


def _show(batch: str) -> Column:
    shown = text(
        "[{base_offset}, {next_offset}) of epoch {leader_epoch}",
        **{name: f"{batch}.{name}" for name in ("base_offset", "next_offset", "leader_epoch")},
    )
    return fn.coalesce(shown, fn.lit(NO_BATCH))


SEGMENTS_DECODE = Check("segments decode", "I3", run_segments_decode)
REPLICA_EQUALITY = Check("replicas are byte-equal (I3)", "I3", run_replica_equality)
HIGH_WATERMARKS_ARE_HELD = Check("log start <= HW <= LEO (I4)", "I4", run_high_watermarks_are_held)
