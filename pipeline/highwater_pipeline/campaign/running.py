"""Runs a campaign's schedules in Spark's workers, a group at a time, and shrinks what fails."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

from highwater_pipeline.campaign.state import (
    Group,
    GroupReceipt,
    Settings,
    ShrunkReceipt,
    forget_unfinished,
    group_folder,
    group_receipts,
    shrunk_receipt,
    write_group_receipt,
    write_shrunk_receipt,
)
from highwater_pipeline.campaign.tables import SCHEDULES, SHRUNK
from highwater_pipeline.ingest.decoding import Row, decoded
from highwater_pipeline.ingest.store import write
from highwater_pipeline.tables import Table, read_table

SCHEDULES_PER_TASK = 4
"""As many as a process of the bare pool is given at a time: tasks are several times the cores."""

RowsOf = Callable[[Row], Iterable[Row]]

RANGE = StructType(
    [
        StructField("campaign", StringType()),
        StructField("group", IntegerType()),
        StructField("first", LongType()),
        StructField("after", LongType()),
    ]
)
"""Schedules [first, after) of a campaign: what rows_of is given, and returns SCHEDULES' rows of."""

FAILED = StructType(
    [
        StructField("campaign", StringType()),
        StructField("seed", LongType()),
        StructField("family", StringType()),
        StructField("plan", StringType()),
    ]
)
"""A failing schedule: what is shrunk to a row of SHRUNK."""


class RowsMissing(Exception):
    """A group came back without all of its schedules."""


def run_groups(
    spark: SparkSession,
    store: Path,
    name: str,
    settings: Settings,
    rows_of: RowsOf,
    heard: Callable[[GroupReceipt], None],
) -> None:
    """Run and write the groups that have no receipt yet, in order; tell of each as it is kept.

    Raises:
        RowsMissing: a group lacks schedules; nothing says that it is done.
    """
    done = group_receipts(store, name)
    forget_unfinished(store / SCHEDULES.name, name, done)
    for group in settings.groups():
        if group.number not in done:
            heard(_run_group(spark, store, name, group, rows_of))


def _run_group(
    spark: SparkSession, store: Path, name: str, group: Group, rows_of: RowsOf
) -> GroupReceipt:
    began_s = time.monotonic()
    write(frame_of(spark, name, group, rows_of), SCHEDULES, store)
    rows, sums = _sums_of(spark, group_folder(store / SCHEDULES.name, name, group.number))
    schedules, wanted = sums["schedules"], group.after - group.first
    if not rows == schedules == wanted:
        raise RowsMissing(
            f"group {group.number} came back with {schedules} schedules in {rows} rows, not "
            f"{wanted}"
        )
    receipt = GroupReceipt(group.number, **sums, wall_s=round(time.monotonic() - began_s, 3))
    write_group_receipt(store, name, receipt)
    return receipt


def _sums_of(spark: SparkSession, written: Path) -> tuple[int, Row]:
    """Return how many rows a group's folder has, and what GroupReceipt tells of them.

    Of the rows that are there, not of those that were made: what an executor had made is made again
    when that is lost.
    """
    if not written.is_dir():  # no row at all: nothing was written
        return 0, {"schedules": 0}
    kept = spark.read.schema(SCHEDULES.schema).parquet(str(written))
    (found,) = kept.agg(
        fn.count("*").alias("rows"),
        fn.count_distinct("number").alias("schedules"),
        fn.count_if(fn.col("outcome") == "fail").alias("failing"),
        fn.count_if(fn.col("outcome") == "lost").alias("lost"),
        fn.sum("events").alias("events"),
        fn.sum("cpu_ns").alias("cpu_ns"),
    ).collect()
    sums = found.asDict()
    return sums.pop("rows"), sums


def frame_of(spark: SparkSession, name: str, group: Group, rows_of: RowsOf) -> DataFrame:
    """Return SCHEDULES' rows of a group, which are run whenever the frame is."""
    ranges = [
        (name, group.number, first, min(first + SCHEDULES_PER_TASK, group.after))
        for first in range(group.first, group.after, SCHEDULES_PER_TASK)
    ]
    return decoded(spark, ranges, RANGE, rows_of, SCHEDULES.schema)


def shrink_failing(
    spark: SparkSession,
    store: Path,
    name: str,
    failed: Sequence[tuple[str, int, str, str]],
    shrunk_of: RowsOf,
    max_runs: int,
) -> None:
    """Shrink the failing schedules (FAILED's rows), a task each, unless that was done before.

    max_runs: which shrunk_of allows each; with another number than before it is done again.
    """
    asked = ShrunkReceipt(len(failed), max_runs)
    if not failed or shrunk_receipt(store, name) == asked:
        return
    write(decoded(spark, failed, FAILED, shrunk_of, SHRUNK.schema), SHRUNK, store)
    write_shrunk_receipt(store, name, asked)


def read_rows(spark: SparkSession, store: Path, table: Table, name: str) -> DataFrame:
    """Return the campaign's rows of a table; an empty frame where it has none."""
    frame = read_table(spark, store, table)
    return frame.where(frame["campaign"] == name)
