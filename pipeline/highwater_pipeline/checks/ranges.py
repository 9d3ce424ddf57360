"""Ranges of offsets in which replicas hold just what clients were told: no record is looked at.

Ranges are summed up where their rows are read, so that a few sums are exchanged and compared in
place of all rows, and rows are compared only where sums differ. What a check finds is the same.
Of few records all are looked at: Tables.by_ranges.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn

from highwater_pipeline.checks.evidence import PARTITION, REPLICA, held_records, whole_replicas
from highwater_pipeline.checks.findings import kept
from highwater_pipeline.checks.sums import sums_of
from highwater_pipeline.tables import Tables

RANGE, _HASH = "range", "hash"
RANGE_BITS = 8
"""Of a range, 2**RANGE_BITS offsets; of one difference so many are looked at, on each replica."""


@dataclass(frozen=True, slots=True)
class Doubts:
    """Where the records of whole replicas are to be looked at.

    doubtful: (PARTITION, RANGE); None for everywhere. like: the ranges that need it not, each with
    rows, how many were told of and count, and replicas, how many hold just what was told; None for
    none.
    """

    doubtful: DataFrame | None = None
    like: DataFrame | None = None

    def doubted(self, told: DataFrame) -> DataFrame:
        """Return the rows in ranges to doubt, kept: where little is wrong they are few."""
        if self.doubtful is None:
            return told
        few = fn.broadcast(_hashed(self.doubtful).select(_HASH))
        found = _hashed(_in_ranges(told)).join(few, _HASH, "left_semi")
        return kept(found.drop(RANGE, _HASH))


def doubts(
    tables: Tables,
    told: DataFrame,
    by: Sequence[str],
    *,
    told_by: DataFrame | None = None,
    counts: Column | None = None,
    is_odd: Column | None = None,
) -> Doubts:
    """Return where any whole replica holds anything but what was told of by each of by.

    told: rows with by, which has PARTITION, offset and value. told_by: where it is given, rows with
    run_id, topic and those of by that are no PARTITION: who tells of all that replicas hold.
    counts: of rows of told, whether they are counted in like's rows; None when all are.
    is_odd: of rows of told; a range with such a row is to be looked at, whatever replicas hold.
    """
    if not tables.by_ranges:
        return Doubts()
    odd = fn.lit(False) if is_odd is None else is_odd
    sums = kept(
        _in_ranges(told)
        .groupBy(*by, RANGE)
        .agg(
            sums_of("offset", "value").alias("told"),
            fn.min("offset").alias("first"),
            fn.count_if(fn.lit(True) if counts is None else counts).alias("rows"),
            fn.coalesce(fn.max(odd), fn.lit(False)).alias("is_odd"),
        )
    )
    held = kept(_sums_of_replicas(tables))
    differs = ~fn.col("told").eqNullSafe(fn.col("held"))
    is_cut = fn.col("first") < fn.col("log_start_offset")
    replicas = whole_replicas(tables).select(*REPLICA, "log_start_offset")
    compared = (
        sums.join(fn.broadcast(replicas), PARTITION, "left")
        .join(held, [*REPLICA, RANGE], "left")
        .groupBy(*by, RANGE)
        .agg(
            fn.max("rows").alias("rows"),
            fn.count("broker").alias("replicas"),
            fn.max(differs | is_cut | fn.col("is_odd")).alias("is_doubtful"),
        )
    )
    place = [*PARTITION, RANGE]
    doubtful = compared.where("is_doubtful").select(*place)
    if told_by is not None:
        untold = held.join(fn.broadcast(told_by), ["run_id", "topic"]).join(
            sums, [*by, RANGE], "left"
        )
        doubtful = doubtful.unionByName(untold.where(differs).select(*place))
    doubtful = kept(doubtful.distinct())
    like = compared.join(fn.broadcast(doubtful), place, "left_anti")
    return Doubts(doubtful, like.select("run_id", "rows", "replicas"))


def _hashed(rows: DataFrame) -> DataFrame:
    """Return them with their range's hash: a join looks up a number sooner than names."""
    return rows.withColumn(_HASH, fn.xxhash64(*PARTITION, RANGE))


def _in_ranges(rows: DataFrame) -> DataFrame:
    return rows.withColumn(RANGE, fn.shiftright("offset", RANGE_BITS))


def _sums_of_replicas(tables: Tables) -> DataFrame:
    """Return what each whole replica holds in each range: REPLICA, RANGE and held."""
    replicas = fn.broadcast(whole_replicas(tables).select(*REPLICA))
    held = _in_ranges(held_records(tables)).join(replicas, REPLICA, "left_semi")
    return held.groupBy(*REPLICA, RANGE).agg(sums_of("offset", "value").alias("held"))
