"""I11: no replica cuts its log below its own high watermark, by its trace."""

from __future__ import annotations

from pyspark.sql import functions as fn

from highwater_checker.invariants.truncations import CHECK as NAME
from highwater_checker.wording import Wording
from highwater_core.events import EventKind
from highwater_pipeline.checks.findings import (
    Check,
    CheckFrames,
    count_by_run,
    findings_of,
)
from highwater_pipeline.checks.traces import events_of
from highwater_pipeline.tables import Tables

INVARIANT = "I11"


def run(tables: Tables) -> CheckFrames:
    """Find truncations to an offset below the high watermark that the replica had then.

    Looks at BECAME_FOLLOWER, after which a replica may have to truncate, and LOG_TRUNCATED.
    Source: docs/explanation/replication.md, "Invariants", I11;
    highwater_checker.invariants.truncations.
    """
    truncated = events_of(tables, EventKind.LOG_TRUNCATED)
    followed = events_of(tables, EventKind.BECAME_FOLLOWER)
    findings = findings_of(
        truncated.where(fn.col("offset") < fn.col("high_watermark")),
        Wording.CUT_BELOW_HIGH_WATERMARK,
        invariant=INVARIANT,
        topic=fn.coalesce("topic", fn.lit("")),
        partition=fn.coalesce("partition", fn.lit(-1)),
        offset="offset",
        facts=["node", "high_watermark", "reason"],
    )
    looked_at = truncated.select("run_id").unionByName(followed.select("run_id"))
    return CheckFrames(findings, count_by_run(tables, looked_at))


CHECK = Check(NAME, INVARIANT, run)
