"""Runs a campaign's schedules in Spark's workers, a group at a time, and shrinks failing ones."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
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
from highwater_pipeline.reading import read_table
from highwater_pipeline.tables import Table

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
"""The argument of rows_of: schedules [first, after) of a campaign, a row each."""

FAILED = StructType(
    [
        StructField("campaign", StringType()),
        StructField("seed", LongType()),
        StructField("family", StringType()),
        StructField("plan", StringType()),
    ]
)
"""A failing schedule, which is shrunk to a row of SHRUNK."""


@dataclass(frozen=True, slots=True)
class Work:
    """What workers do for a campaign: rows_of, a row of the table for each schedule.

    per_task: schedules of one task. tries_lost_again: whether groups with schedules without an
    outcome are run again by the next process.
    """

    rows_of: RowsOf
    table: Table = SCHEDULES
    per_task: int = SCHEDULES_PER_TASK
    tries_lost_again: bool = False


class RowsMissing(Exception):
    """Schedules of a group are missing in the table after the group was written."""


def run_groups(
    spark: SparkSession,
    store: Path,
    name: str,
    settings: Settings,
    work: Work,
    heard: Callable[[GroupReceipt], None],
) -> None:
    """Run and write the groups that have no receipt yet, in order; report each one's receipt.

    Raises:
        RowsMissing: a group lacks schedules; it gets no receipt.
    """
    receipts = group_receipts(store, name)
    done = {
        number: each
        for number, each in receipts.items()
        if not (work.tries_lost_again and each.lost)
    }
    forget_unfinished(store / work.table.name, name, done)
    for group in settings.groups():
        if group.number not in done:
            heard(_run_group(spark, store, name, group, work))


def _run_group(
    spark: SparkSession, store: Path, name: str, group: Group, work: Work
) -> GroupReceipt:
    began_s = time.monotonic()
    write(frame_of(spark, name, group, work), work.table, store)
    written = group_folder(store / work.table.name, name, group.number)
    rows, sums = _sums_of(spark, written, work.table)
    schedules, wanted = sums["schedules"], group.after - group.first
    if not rows == schedules == wanted:
        raise RowsMissing(
            f"group {group.number} came back with {schedules} schedules in {rows} rows, not "
            f"{wanted}"
        )
    receipt = GroupReceipt(group.number, **sums, wall_s=round(time.monotonic() - began_s, 3))
    write_group_receipt(store, name, receipt)
    return receipt


def _sums_of(spark: SparkSession, written: Path, table: Table) -> tuple[int, Row]:
    """Return the number of rows in a group's folder, and their sums for GroupReceipt.

    The stored rows are counted: rows of a lost executor are computed twice and stored once.
    """
    if not written.is_dir():  # no row at all: nothing was written
        return 0, {"schedules": 0}
    kept = spark.read.schema(table.schema).parquet(str(written))
    summed = [name for name in ("events", "cpu_ns") if name in table.columns]
    (found,) = kept.agg(
        fn.count("*").alias("rows"),
        fn.count_distinct("number").alias("schedules"),
        fn.count_if(fn.col("outcome") == "fail").alias("failing"),
        fn.count_if(fn.col("outcome") == "lost").alias("lost"),
        *(fn.sum(name).alias(name) for name in summed),
    ).collect()
    sums = found.asDict()
    return sums.pop("rows"), sums


def frame_of(spark: SparkSession, name: str, group: Group, work: Work) -> DataFrame:
    """Return a group's rows; each evaluation of the frame runs the schedules."""
    ranges = [
        (name, group.number, first, min(first + work.per_task, group.after))
        for first in range(group.first, group.after, work.per_task)
    ]
    return decoded(spark, ranges, RANGE, work.rows_of, work.table.schema, evenly_by="first")


def shrink_failing(
    spark: SparkSession,
    store: Path,
    name: str,
    failed: Sequence[tuple[str, int, str, str]],
    shrunk_of: RowsOf,
    max_runs: int,
) -> None:
    """Shrink the failing schedules, one task each, unless they are shrunk already.

    failed: rows of FAILED.
    max_runs: the runs that shrunk_of may use for each. A new number shrinks all again.
    """
    asked = ShrunkReceipt(len(failed), max_runs)
    if not failed or shrunk_receipt(store, name) == asked:
        return
    write(decoded(spark, failed, FAILED, shrunk_of, SHRUNK.schema), SHRUNK, store)
    write_shrunk_receipt(store, name, asked)


def read_rows(spark: SparkSession, store: Path, table: Table, name: str) -> DataFrame:
    """Return the campaign's rows of a table; an empty frame if there are none."""
    frame = read_table(spark, store, table)
    return frame.where(frame["campaign"] == name)
