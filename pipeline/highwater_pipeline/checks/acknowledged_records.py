"""I1: every acknowledged record lies at its acknowledged offset, on every replica that was read."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from highwater_pipeline.checks.evidence import PARTITION, REPLICA, promised_sends, whole_replicas
from highwater_pipeline.checks.findings import (
    Check,
    CheckFrames,
    count_by_run,
    findings_of,
    shown,
    text,
)
from highwater_pipeline.tables import RECORDS, Tables

INVARIANT = "I1"


def run(tables: Tables) -> CheckFrames:
    """Find acknowledged records that a replica lacks or holds elsewhere.

    Looks at acks=all sends, each on every replica of its partition; below a replica's
    log_start_offset retention removed them. Source: replication.md section 2, I1;
    highwater_checker.invariants.acknowledged_records.
    """
    acknowledged = promised_sends(tables)
    replicas = whole_replicas(tables).select(*REPLICA, "log_start_offset")
    expected = acknowledged.join(fn.broadcast(replicas), PARTITION).where(
        fn.col("offset") >= fn.col("log_start_offset")
    )
    unread = acknowledged.join(fn.broadcast(replicas), PARTITION, "left_anti")
    findings = _not_held(tables, expected).unionByName(
        findings_of(
            unread,
            invariant=INVARIANT,
            offset="offset",
            operation="operation",
            message=text(
                "{value} was acknowledged; no replica of its partition was read",
                value=shown("value"),
            ),
        )
    )
    return CheckFrames(findings, count_by_run(tables, expected))


def _not_held(tables: Tables, expected: DataFrame) -> DataFrame:
    held = tables[RECORDS].select(
        *REPLICA, "offset", fn.coalesce("value", fn.lit("")).alias("held")
    )
    lost = expected.join(held.hint("shuffle_hash"), [*REPLICA, "offset"], "left").where(
        ~fn.col("held").eqNullSafe(fn.col("value"))
    )
    return findings_of(
        lost,
        invariant=INVARIANT,
        offset="offset",
        broker="broker",
        operation="operation",
        message=text(
            "{value} was acknowledged; there is {held}", value=shown("value"), held=shown("held")
        ),
    )


CHECK = Check("acknowledged records are on every replica (I1)", INVARIANT, run)
