"""I3: replicas hold equal batches from the highest log start to the lowest high watermark."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as fn

from highwater_checker.wording import Wording
from highwater_pipeline.checks.evidence import (
    PARTITION,
    REPLICA,
    compacted_replicas,
    newest_of_keys,
    whole_replicas,
)
from highwater_pipeline.checks.findings import (
    Check,
    CheckFrames,
    all_of,
    findings_of,
    kept,
    sum_by_run,
)
from highwater_pipeline.checks.sums import sums_of
from highwater_pipeline.tables import RECORDS, Tables

BATCH = ["base_offset", "next_offset", "leader_epoch", "batch_crc"]


def run(tables: Tables) -> CheckFrames:
    """Compare each partition's replicas with the one on its lowest broker, batch by batch.

    The first difference of each is found, from the highest log start to the lowest high watermark;
    a batch counts when it lies wholly in there. Batches are equal when their offsets, leader epoch
    and CRC-32 are: a batch's last record is its end, which holds as long as nothing compacts. Of a
    compacted topic records are compared instead, and one of two replicas may lack what a newer
    record of the key succeeds, and a record without a value.
    Source: docs/reference/invariants.md, I3;
    highwater_checker.invariants.replica_equality.
    """
    batches = kept(_batches_in_common(tables))
    compared = kept(_compared(tables, batches))
    unlike = compared.where(~fn.col("found").eqNullSafe(fn.col("expected")))
    different = (
        _pairs(batches, unlike.select(*REPLICA, "reference"))
        .where(~fn.col("expected").eqNullSafe(fn.col("found")))
        .groupBy(*REPLICA, "reference")
        .agg(fn.min(fn.struct("number", "expected", "found")).alias("first"))
        .select(*REPLICA, "reference", "first.expected", "first.found")
    )
    findings = findings_of(
        different,
        Wording.UNLIKE,
        invariant="I3",
        offset=fn.least("expected.base_offset", "found.base_offset"),
        broker="broker",
        facts=["reference", "expected", fn.col("broker").alias("node"), "found"],
    )
    # One batch of each is a pair, and each that the other lacks.
    pairs = compared.select("run_id", fn.greatest("found.rows", "expected.rows").alias("pairs"))
    beside = kept(_records_beside(tables))
    pairs = pairs.unionByName(beside.select("run_id", fn.lit(1).cast("long").alias("pairs")))
    return CheckFrames(
        all_of(findings, _unlike_records(tables, beside)), sum_by_run(tables, pairs, "pairs")
    )


def _records_beside(tables: Tables) -> DataFrame:
    """Return each record of compacted replicas beside the one of their partition's reference.

    Row grain: (REPLICA, offset), with reference, key, expected and found: (leader_epoch, key,
    value), or null.
    """
    replicas = compacted_replicas(tables)
    ranges = replicas.groupBy(*PARTITION).agg(
        fn.max("log_start_offset").alias("start_offset"),
        fn.min("high_watermark").alias("end_offset"),
        fn.min("broker").alias("reference"),
    )
    mine = replicas.select(*REPLICA).join(ranges, PARTITION)
    records = (
        tables[RECORDS]
        .join(fn.broadcast(mine), REPLICA)
        .where(fn.col("offset").between(fn.col("start_offset"), fn.col("end_offset") - 1))
        .withColumn("record", fn.struct("leader_epoch", "key", "value"))
        .select(*REPLICA, "reference", "offset", "record")
    )
    others = mine.where(fn.col("broker") != fn.col("reference")).select(*REPLICA, "reference")
    of_reference = records.where(fn.col("broker") == fn.col("reference")).select(
        *PARTITION, "reference", "offset", fn.col("record").alias("expected")
    )
    expected = of_reference.join(others, [*PARTITION, "reference"])
    found = records.where(fn.col("broker") != fn.col("reference")).withColumnRenamed(
        "record", "found"
    )
    return expected.join(found, [*REPLICA, "reference", "offset"], "full_outer").withColumn(
        "key", fn.coalesce("expected", "found")["key"]
    )


def _unlike_records(tables: Tables, beside: DataFrame) -> DataFrame:
    """Return the first record of each replica in which it differs from its reference."""
    newest = newest_of_keys(tables)
    of_reference = newest.withColumnsRenamed({"broker": "reference", "newest": "newest_there"})
    is_in_one = fn.col("expected").isNull() | fn.col("found").isNull()
    is_newer = fn.greatest("newest", "newest_there") > fn.col("offset")
    has_no_value = fn.coalesce("expected", "found")["value"].isNull()
    may_lack = has_no_value | fn.coalesce(is_newer, fn.lit(False))
    unlike = (
        beside.where(~fn.col("found").eqNullSafe(fn.col("expected")))
        .join(newest, [*REPLICA, "key"], "left")
        .join(of_reference, [*PARTITION, "reference", "key"], "left")
        .where(~(is_in_one & may_lack))
        .groupBy(*REPLICA, "reference")
        .agg(fn.min_by(fn.struct("offset", "expected", "found"), "offset").alias("first"))
    )
    return findings_of(
        unlike,
        Wording.UNLIKE_RECORD,
        invariant="I3",
        offset=fn.col("first.offset"),
        broker="broker",
        facts=[
            "reference",
            _value_of("first.expected").alias("value"),
            fn.col("broker").alias("node"),
            _value_of("first.found").alias("held"),
        ],
    )


def _value_of(record: str) -> Column:
    """Return the record's value, "" where it has none, null where there is no record."""
    value = fn.coalesce(fn.col(f"{record}.value"), fn.lit(""))
    return fn.when(fn.col(record).isNotNull(), value)


def _batches_in_common(tables: Tables) -> DataFrame:
    """Return the batches of whole replicas that lie wholly in what all of a partition have.

    Row grain: (REPLICA, base_offset), with next_offset, leader_epoch and batch_crc.
    """
    replicas = _compared_by_batch(tables)
    ranges = replicas.groupBy(*PARTITION).agg(
        fn.max("log_start_offset").alias("start_offset"),
        fn.min("high_watermark").alias("end_offset"),
    )
    mine = replicas.select(*REPLICA).join(ranges, PARTITION)
    return (
        tables[RECORDS]
        .groupBy(*REPLICA, "base_offset")
        .agg(
            (fn.max("offset") + 1).alias("next_offset"),
            fn.min("leader_epoch").alias("leader_epoch"),
            fn.min("batch_crc").alias("batch_crc"),
        )
        .join(fn.broadcast(mine), REPLICA)
        .where(
            (fn.col("base_offset") >= fn.col("start_offset"))
            & (fn.col("next_offset") <= fn.col("end_offset"))
        )
        .select(*REPLICA, *BATCH)
    )


def _compared_by_batch(tables: Tables) -> DataFrame:
    compacted = compacted_replicas(tables).select(*REPLICA)
    return whole_replicas(tables).join(fn.broadcast(compacted), REPLICA, "left_anti")


def _compared(tables: Tables, batches: DataFrame) -> DataFrame:
    """Return each replica but the references, with found and expected.

    found: the sums of its batches. expected: those of its reference's. A log without a batch has
    null. Where the sums are equal, so are the batches, but for a chance of 2**-64.
    """
    logs = batches.groupBy(*REPLICA).agg(sums_of(*BATCH).alias("sums"))
    replicas = _compared_by_batch(tables).select(*REPLICA)
    references = replicas.groupBy(*PARTITION).agg(fn.min("broker").alias("reference"))
    others = replicas.join(references, PARTITION).where(fn.col("broker") != fn.col("reference"))
    found = logs.withColumnRenamed("sums", "found")
    expected = logs.withColumnsRenamed({"sums": "expected", "broker": "reference"})
    return others.join(found, REPLICA, "left").join(expected, [*PARTITION, "reference"], "left")


def _pairs(batches: DataFrame, replicas: DataFrame) -> DataFrame:
    """Return the n-th batch of the reference beside the n-th of each of the few replicas.

    Row grain: (REPLICA, number); replicas: (REPLICA, reference). A log with fewer batches than the
    other has null for those that it lacks.
    """
    few = fn.broadcast(replicas)
    of_few = fn.broadcast(replicas.select(*PARTITION).distinct())
    in_order = Window.partitionBy(*REPLICA).orderBy("base_offset")
    numbered = kept(
        batches.join(of_few, PARTITION, "left_semi").select(
            *REPLICA,
            fn.row_number().over(in_order).alias("number"),
            fn.struct(*BATCH).alias("batch"),
        )
    )
    found = numbered.join(few, REPLICA).withColumnRenamed("batch", "found")
    expected = (
        numbered.withColumnsRenamed({"broker": "reference", "batch": "expected"})
        .join(few, [*PARTITION, "reference"])
        .select(*REPLICA, "reference", "number", "expected")
    )
    return expected.join(found, [*REPLICA, "reference", "number"], "full_outer")


CHECK = Check("replicas are byte-equal (I3)", run)
