"""Inconsistent offsets: no two clients are told of different records at one offset.

Source: reference/history-checks.md section 2, "inconsistent-offsets"; replication.md, I9.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as fn

from highwater_pipeline.checks.evidence import PLACE, promised_sends, reads_of_consumers
from highwater_pipeline.checks.findings import (
    Check,
    CheckFrames,
    count_by_run,
    findings_of,
    shown,
    text,
)
from highwater_pipeline.tables import Tables

INVARIANT = "inconsistent-offsets"


def run(tables: Tables) -> CheckFrames:
    """Find offsets of which two clients, or one twice, were told different values.

    Looks at each place of which acks=all producers or any consumers were told; who was told first
    is the checker's: producers before consumers, then by the order of files and lines.
    Source: highwater_checker.invariants.inconsistent_offsets.
    """
    told = _told(tables)
    in_order = Window.partitionBy(*PLACE).orderBy("is_read", "file", "line")
    first = fn.first(fn.struct("value", "operation")).over(in_order)
    other = told.withColumn("first", first).where(fn.col("value") != fn.col("first.value"))
    findings = findings_of(
        other,
        invariant=INVARIANT,
        offset="offset",
        operation="operation",
        message=text(
            "{value} here; {first} had {first_value}",
            value=shown("value"),
            first="first.operation",
            first_value=shown("first.value"),
        ),
    )
    return CheckFrames(findings, count_by_run(tables, told.select(*PLACE).distinct()))


def _told(tables: Tables) -> DataFrame:
    sends = promised_sends(tables).withColumn("is_read", fn.lit(False))
    reads = reads_of_consumers(tables).withColumn("is_read", fn.lit(True))
    return sends.unionByName(reads)


CHECK = Check("one offset is one record to everyone", INVARIANT, run)
