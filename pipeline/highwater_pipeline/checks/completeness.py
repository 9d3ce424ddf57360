"""C00: traces are whole: no event of a node is missing, told twice, or without what checks need."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as fn

from highwater_pipeline.checks.findings import (
    Check,
    CheckFrames,
    count_by_run,
    findings_of,
    text,
)
from highwater_pipeline.checks.traces import lacking_details
from highwater_pipeline.tables import EVENTS, Tables

INVARIANT = "C00"
BEFORE_THE_FIRST = -1
WHO = "node {node}, incarnation {incarnation}"


def run(tables: Tables) -> CheckFrames:
    """Find gaps and repeats in each incarnation's seq, from 0, and details that are not there.

    Looks at every event. A node that was killed may have lost the end of its trace; no seq tells.
    Source: highwater_core.events, "in each node ordered by seq without gaps".
    """
    findings = _missteps(tables).unionByName(_unusable(tables))
    return CheckFrames(findings, count_by_run(tables, tables[EVENTS]))


def _missteps(tables: Tables) -> DataFrame:
    of_one_start = Window.partitionBy("run_id", "node", "incarnation").orderBy("seq")
    previous = fn.lag("seq", 1, BEFORE_THE_FIRST).over(of_one_start)
    steps = tables[EVENTS].withColumn("previous", previous)
    what = (
        fn.when(fn.col("seq") == fn.col("previous"), text(WHO + ": seq {seq} is told twice"))
        .when(fn.col("previous") == BEFORE_THE_FIRST, text(WHO + ": begins with seq {seq}"))
        .otherwise(text(WHO + ": seq {seq} follows {previous}"))
    )
    return findings_of(
        steps.where(fn.col("seq") != fn.col("previous") + 1),
        invariant=INVARIANT,
        topic=fn.lit(""),
        partition=fn.lit(-1),
        message=what,
    )


def _unusable(tables: Tables) -> DataFrame:
    return findings_of(
        lacking_details(tables),
        invariant=INVARIANT,
        topic=fn.coalesce("topic", fn.lit("")),
        partition=fn.coalesce("partition", fn.lit(-1)),
        message=text(WHO + ": {kind} at seq {seq} has no usable {lacking}"),
    )


CHECK = Check("traces are whole (C00)", INVARIANT, run)
