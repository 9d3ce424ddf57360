"""Sums of a campaign's schedules, computed in Spark: rows that fit on a page."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as fn

from highwater_pipeline.tables import Row

COUNTED = ("marks", "fired", "missed", "not_reached", "flagged")
"""The columns of lists, whose entries are counted."""
_CPU_ACCURACY = 1_000


def by_family(schedules: DataFrame) -> list[Row]:
    """Return one row a family, in their order: schedules by outcome, sums, and CPU time.

    Units: cpu_median_ns and cpu_p99_ns are nanoseconds a schedule.
    """
    outcomes = [
        fn.count_if(fn.col("outcome") == outcome).alias(outcome)
        for outcome in ("pass", "fail", "documented", "lost")
    ]
    sums = [fn.sum(name).alias(name) for name in ("acknowledged", "events", "simulated_ns")]
    frame = schedules.groupBy("family").agg(
        fn.count("*").alias("schedules"),
        *outcomes,
        fn.count_if("is_excused").alias("excused"),
        *sums,
        fn.sum("cpu_ns").alias("cpu_ns"),
        fn.percentile_approx("cpu_ns", 0.5, _CPU_ACCURACY).alias("cpu_median_ns"),
        fn.percentile_approx("cpu_ns", 0.99, _CPU_ACCURACY).alias("cpu_p99_ns"),
    )
    return _collected(frame, "family")


def by_entry(schedules: DataFrame) -> list[Row]:
    """Return one row for each entry of the lists.

    Columns:
        what: the list's column.
        family, entry.
        count: for a mark, the schedules that reached it; for other entries, how often they occur.
        first: the lowest number of a schedule that has the entry.
    """
    entries = fn.concat(*(_entries(name) for name in COUNTED))
    frame = (
        schedules.select("family", "number", fn.explode(entries).alias("of"))
        .select("family", "number", "of.*")
        .groupBy("what", "family", "entry")
        .agg(fn.count("*").alias("count"), fn.min("number").alias("first"))
    )
    return _collected(frame, "what", "family", "entry")


def _entries(column: str) -> Column:
    return fn.transform(
        column, lambda entry: fn.struct(fn.lit(column).alias("what"), entry.alias("entry"))
    )


def chosen(schedules: DataFrame, each: int) -> list[Row]:
    """Return the first schedules of each kind of violation, by seed; a bounded number of each.

    Columns: all of the table's, and of_kind, the number of schedules of the kind.
    """
    found = schedules.where(fn.col("outcome").isin("fail", "documented"))
    kind = Window.partitionBy("invariant", "rows")
    place = fn.row_number().over(kind.orderBy("seed", "family"))
    frame = (
        found.withColumn("of_kind", fn.count("*").over(kind))
        .withColumn("place", place)
        .where(fn.col("place") <= each)
        .drop("place")
    )
    return _collected(frame, "invariant", "rows", "seed", "family")


def lost(schedules: DataFrame, most: int) -> list[Row]:
    """Return the first schedules without an outcome: seed, family, message."""
    frame = schedules.where(fn.col("outcome") == "lost").orderBy("number").limit(most)
    return [row.asDict() for row in frame.select("seed", "family", "message").collect()]


def _collected(frame: DataFrame, *order: str) -> list[Row]:
    """Return the rows, sorted here: they are few, and a sort in Spark would cost a shuffle."""
    rows = [row.asDict() for row in frame.collect()]
    return sorted(rows, key=lambda row: tuple(row[name] for name in order))
