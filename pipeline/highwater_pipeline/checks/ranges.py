"""Ranges of offsets in which replicas hold the records that clients report, found by sums.

Rows are summed up by range where they are read, so that Spark exchanges and compares a few sums
instead of all rows. Rows are compared only in ranges whose sums differ. A check's findings are the
same. Where there are few records all are compared: Tables.by_ranges.
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
"""A range has 2**RANGE_BITS offsets: one difference makes all of them be compared."""


@dataclass(frozen=True, slots=True)
class Doubts:
    """In which ranges of offsets replicas' records must be compared one by one.

    doubtful: rows (PARTITION, RANGE) of those ranges; None: all ranges are.
    like: one row for each of the other ranges; None: there are none. Its columns:
      rows: how many client operations of the range are counted.
      replicas: how many replicas hold exactly the records of the clients' histories.
    """

    doubtful: DataFrame | None = None
    like: DataFrame | None = None

    def doubted(self, rows: DataFrame) -> DataFrame:
        """Return those of the rows whose offsets lie in doubtful ranges; they are cached."""
        if self.doubtful is None:
            return rows
        few = fn.broadcast(_hashed(self.doubtful).select(_HASH))
        found = _hashed(_in_ranges(rows)).join(few, _HASH, "left_semi")
        return kept(found.drop(RANGE, _HASH))


def doubts(
    tables: Tables,
    reported: DataFrame,
    by: Sequence[str],
    *,
    reported_by: DataFrame | None = None,
    counts: Column | None = None,
    is_odd: Column | None = None,
) -> Doubts:
    """Return the ranges in which a whole replica's records differ from the clients' histories.

    reported: a row for each record in a client's history; the columns of by, offset and value.
    by: the columns by which the reported records are grouped; PARTITION is among them.
    reported_by: rows (run_id, topic, and by without PARTITION) of the clients whose histories must
      have every record; None: histories need not have all.
    counts: whether a reported record counts in like's column rows; None: every one does.
    is_odd: whether a reported record makes its range doubtful by itself.
    """
    if not tables.by_ranges:
        return Doubts()
    odd = fn.lit(False) if is_odd is None else is_odd
    sums = kept(
        _in_ranges(reported)
        .groupBy(*by, RANGE)
        .agg(
            sums_of("offset", "value").alias("reported"),
            fn.min("offset").alias("first"),
            fn.count_if(fn.lit(True) if counts is None else counts).alias("rows"),
            fn.coalesce(fn.max(odd), fn.lit(False)).alias("is_odd"),
        )
    )
    held = kept(_sums_of_replicas(tables))
    differs = ~fn.col("reported").eqNullSafe(fn.col("held"))
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
    if reported_by is not None:
        due = held.join(fn.broadcast(reported_by), ["run_id", "topic"])
        unreported = due.join(sums, [*by, RANGE], "left").where(differs)
        doubtful = doubtful.unionByName(unreported.select(*place))
    doubtful = kept(doubtful.distinct())
    like = compared.join(fn.broadcast(doubtful), place, "left_anti")
    return Doubts(doubtful, like.select("run_id", "rows", "replicas"))


def _hashed(rows: DataFrame) -> DataFrame:
    """Return the rows with their range's hash: a join is faster by one number than by names."""
    return rows.withColumn(_HASH, fn.xxhash64(*PARTITION, RANGE))


def _in_ranges(rows: DataFrame) -> DataFrame:
    return rows.withColumn(RANGE, fn.shiftright("offset", RANGE_BITS))


def _sums_of_replicas(tables: Tables) -> DataFrame:
    """Return the sums of each whole replica's records by range: REPLICA, RANGE and held."""
    replicas = fn.broadcast(whole_replicas(tables).select(*REPLICA))
    held = _in_ranges(held_records(tables)).join(replicas, REPLICA, "left_semi")
    return held.groupBy(*REPLICA, RANGE).agg(sums_of("offset", "value").alias("held"))
