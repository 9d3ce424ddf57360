"""C00: traces are whole: no event is missing, there twice, or without details that checks need."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as fn

from highwater_checker.wording import Wording
from highwater_pipeline.checks.findings import (
    Check,
    CheckFrames,
    all_of,
    findings_of,
    sum_by_run,
)
from highwater_pipeline.checks.traces import lacking_details
from highwater_pipeline.tables import EVENTS, Tables

INVARIANT = "C00"
BEFORE_THE_FIRST = -1
START = ["run_id", "node", "incarnation"]
WHICH = ["node", "incarnation", "seq"]
_WORD = 6
"""The low bits of a seq are its bit in a word; its other bits are the number of the word."""


def run(tables: Tables) -> CheckFrames:
    """Find gaps and repeats in each incarnation's seq, from 0 on, and events that lack details.

    Looks at every event. The lost end of a killed node's trace leaves no gap, and is not found.
    Source: highwater_core.events, "in each node ordered by seq without gaps".
    """
    starts = _starts(tables)
    broken = starts.where(~fn.col("is_whole")).select(*START)
    findings = all_of(_missteps(tables, broken), _unusable(tables))
    return CheckFrames(findings, sum_by_run(tables, starts, "events"))


def _starts(tables: Tables) -> DataFrame:
    """Return each start of a node: START, events (how many), is_whole (each seq from 0 on, once).

    Each seq that is there sets one bit of a word of 2**_WORD bits. The bits are counted: no sort.
    """
    place = fn.col("seq").bitwiseAND(2**_WORD - 1).cast("int")
    bit = fn.call_function("shiftleft", fn.lit(1).cast("long"), place)
    words = (
        tables[EVENTS]
        .groupBy(*START, fn.shiftright("seq", _WORD).alias("word"))
        .agg(
            fn.count(fn.lit(1)).alias("events"),
            fn.bit_count(fn.bit_or(bit)).alias("different"),
            fn.min("seq").alias("first"),
            fn.max("seq").alias("last"),
        )
    )
    starts = words.groupBy(*START).agg(
        *(fn.sum(name).alias(name) for name in ("events", "different")),
        fn.min("first").alias("first"),
        fn.max("last").alias("last"),
    )
    return starts.select(
        *START,
        "events",
        (
            (fn.col("first") == 0)
            & (fn.col("different") == fn.col("events"))
            & (fn.col("last") == fn.col("events") - 1)
        ).alias("is_whole"),
    )


def _missteps(tables: Tables, broken: DataFrame) -> DataFrame:
    """Return the findings in the traces of broken, which has START."""
    of_one_start = Window.partitionBy(*START).orderBy("seq")
    previous = fn.lag("seq", 1, BEFORE_THE_FIRST).over(of_one_start)
    steps = (
        tables[EVENTS]
        .join(fn.broadcast(broken), START, "left_semi")
        .withColumn("previous", previous)
    )
    what = (
        fn.when(fn.col("seq") == fn.col("previous"), Wording.TOLD_TWICE.name)
        .when(fn.col("previous") == BEFORE_THE_FIRST, Wording.BEGINS_LATE.name)
        .otherwise(Wording.LEAVES_A_GAP.name)
    )
    return findings_of(
        steps.where(fn.col("previous") != fn.col("seq") - 1),
        what,
        invariant=INVARIANT,
        topic=fn.lit(""),
        partition=fn.lit(-1),
        facts=[*WHICH, "previous"],
    )


def _unusable(tables: Tables) -> DataFrame:
    return findings_of(
        lacking_details(tables),
        Wording.LACKS_DETAILS,
        invariant=INVARIANT,
        topic=fn.coalesce("topic", fn.lit("")),
        partition=fn.coalesce("partition", fn.lit(-1)),
        facts=[*WHICH, "kind", "lacking"],
    )


CHECK = Check("traces are whole (C00)", run)
