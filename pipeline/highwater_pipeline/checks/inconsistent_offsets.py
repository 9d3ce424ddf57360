"""Inconsistent offsets: no two clients report different records at one offset.

Source: docs/explanation/replication.md, "Histories", "inconsistent-offsets"; "Invariants", I9.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from highwater_checker.wording import Wording
from highwater_pipeline.checks.evidence import (
    PLACE,
    places_of,
    promised_sends,
    reads_of_consumers,
    with_first,
)
from highwater_pipeline.checks.findings import (
    Check,
    CheckFrames,
    count_by_run,
    findings_of,
)
from highwater_pipeline.tables import Tables

INVARIANT = "inconsistent-offsets"


def run(tables: Tables) -> CheckFrames:
    """Find offsets at which two clients, or one client twice, report different values.

    Looks at each offset that acks=all producers or any consumers report. Reports are ordered as by
    the checker: producers before consumers, then by file and line.
    Source: highwater_checker.invariants.inconsistent_offsets.
    """
    told = _told(tables)
    places = places_of(told, PLACE)
    beside = with_first(told, places, PLACE, ["is_read", "file", "line"])
    findings = findings_of(
        beside.where(fn.col("value") != fn.col("first.value")),
        Wording.TOLD_OTHERWISE,
        invariant=INVARIANT,
        offset="offset",
        operation="operation",
        facts=[
            "value",
            fn.col("first.operation").alias("first"),
            fn.col("first.value").alias("first_value"),
        ],
    )
    return CheckFrames(findings, count_by_run(tables, places))


def _told(tables: Tables) -> DataFrame:
    sends = promised_sends(tables).withColumn("is_read", fn.lit(False))
    reads = reads_of_consumers(tables).withColumn("is_read", fn.lit(True))
    return sends.unionByName(reads)


CHECK = Check("one offset is one record to everyone", INVARIANT, run)
