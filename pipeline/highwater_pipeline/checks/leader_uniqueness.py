"""I7: at most one broker leads a partition in one leader epoch, and no epoch is given twice."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as fn

from highwater_checker.wording import Wording
from highwater_core.events import EventKind
from highwater_pipeline.checks.evidence import PARTITION
from highwater_pipeline.checks.findings import (
    Check,
    CheckFrames,
    all_of,
    count_by_run,
    findings_of,
)
from highwater_pipeline.checks.traces import events_of, with_life
from highwater_pipeline.tables import Tables

INVARIANT = "I7"
LEADERSHIP = [*PARTITION, "life", "leader_epoch"]


def run(tables: Tables) -> CheckFrames:
    """Find leader epochs in which two brokers led, or were elected, or that were written twice.

    Looks at BECAME_LEADER of brokers and LEADER_ELECTED of controllers. An event is found if it
    names another leader than the first event of its epoch. Deleted topics without ids are left out.
    Source: docs/explanation/replication.md, "Invariants", I7;
    highwater_checker.invariants.leader_uniqueness.
    """
    became = events_of(tables, EventKind.BECAME_LEADER).withColumn("leader", fn.col("node"))
    elected = events_of(tables, EventKind.LEADER_ELECTED)
    columns = [*LEADERSHIP, "leader", "file", "seq"]
    led, elected = (
        with_life(tables, each).select(*columns).dropna(subset=LEADERSHIP)
        for each in (became.unionByName(elected, allowMissingColumns=True), elected)
    )
    findings = all_of(_two_leaders(led), _repeats(elected))
    return CheckFrames(findings, count_by_run(tables, led))


def _two_leaders(led: DataFrame) -> DataFrame:
    so_far = (
        Window.partitionBy(*LEADERSHIP)
        .orderBy("file", "seq")
        .rowsBetween(Window.unboundedPreceding, Window.currentRow)
    )
    first = fn.first("leader", ignorenulls=True).over(so_far)
    return findings_of(
        led.withColumn("first", first).where(fn.col("leader") != fn.col("first")),
        Wording.TWO_LEADERS,
        invariant=INVARIANT,
        facts=["first", "leader", "leader_epoch"],
    )


def _repeats(elected: DataFrame) -> DataFrame:
    times = elected.groupBy(*LEADERSHIP).agg(fn.count(fn.lit(1)).alias("times"))
    return findings_of(
        times.where(fn.col("times") > 1),
        Wording.WRITTEN_TWICE,
        invariant=INVARIANT,
        facts=["leader_epoch"],
    )


CHECK = Check("one leader per leader epoch (I7)", INVARIANT, run)
