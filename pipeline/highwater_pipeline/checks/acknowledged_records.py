"""I1: every acknowledged record lies at its acknowledged offset, on every replica that was read."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from highwater_checker.wording import Wording
from highwater_pipeline.checks.evidence import (
    PARTITION,
    PLACE,
    REPLICA,
    WHERE_DUE,
    acknowledged_sends,
    held_records,
    is_promised,
    operation_text,
    where_due,
    whole_replicas,
    without_succeeded,
)
from highwater_pipeline.checks.findings import (
    Check,
    CheckFrames,
    all_of,
    findings_of,
    sum_by_run,
)
from highwater_pipeline.checks.ranges import doubts
from highwater_pipeline.tables import LOOKS, REPLICA_LOOKS, RUNS, Tables

INVARIANT = "I1"
SENT = [*PLACE, "key", "value", "process", "function", "operation_id", "acks"]


def run(tables: Tables) -> CheckFrames:
    """Find acknowledged records that a replica lacks or holds elsewhere.

    Each record sent with acks=all is looked for on every replica of its partition. Below a
    replica's log_start_offset it may be gone: retention removed it. So may a record of a compacted
    topic that a newer one of its key succeeds there. A replica out of the ISR may end before it.
    Records of a deleted topic are not looked for. Of a partition without a log they are lost if no
    node had a replica of it at the end; else its logs are evidence that is missing.
    Source: docs/reference/invariants.md, I1;
    highwater_checker.invariants.acknowledged_records.
    """
    acknowledged = acknowledged_sends(tables).where(~fn.col("is_over"))
    replicas = whole_replicas(tables).select(*REPLICA, *WHERE_DUE)
    # Replicas also hold records sent with fewer acks: they are compared with the rest.
    where = doubts(tables, acknowledged, PARTITION, counts=is_promised())
    doubted = where.doubted(acknowledged.select(*SENT)).where(is_promised())
    unread = of_nobody(tables, doubted.join(fn.broadcast(replicas), PARTITION, "left_anti"))
    expected = where_due(doubted.join(fn.broadcast(replicas), PARTITION))
    held = where.doubted(held_records(tables)).withColumnRenamed("value", "held")
    findings = all_of(
        _not_held(tables, expected, held),
        findings_of(
            unread,
            Wording.UNREAD,
            invariant=INVARIANT,
            offset="offset",
            operation=operation_text(),
            facts=["value"],
        ),
    )
    looked_at = expected.select("run_id", fn.lit(1).alias("records"))
    if where.like is not None:
        records = (fn.col("rows") * fn.col("replicas")).alias("records")
        looked_at = looked_at.unionByName(where.like.select("run_id", records))
    return CheckFrames(findings, sum_by_run(tables, looked_at, "records"))


def of_nobody(tables: Tables, records: DataFrame) -> DataFrame:
    """Return the records of partitions of which no node had a replica when all answered.

    Where nodes may stay down, nobody can tell.
    """
    may_end_without = fn.coalesce("only_in_sync", fn.lit(False))
    saw_the_end = fn.coalesce("saw_the_end", fn.lit(True))
    runs = tables[RUNS].where(saw_the_end & ~may_end_without).select("run_id")
    nodes = tables[RUNS].selectExpr("run_id", "coalesce(brokers + controllers, 0) AS nodes")
    some = "size(silent) > 0 OR size(answered) = 0 OR size(answered) < nodes"
    silent = tables[LOOKS].where("is_final").join(fn.broadcast(nodes), "run_id").where(some)
    hosted = tables[REPLICA_LOOKS].where("is_final").select(*PARTITION).distinct()
    return (
        records.join(fn.broadcast(runs), "run_id", "left_semi")
        .join(fn.broadcast(silent.select("run_id")), "run_id", "left_anti")
        .join(fn.broadcast(hosted), PARTITION, "left_anti")
    )


def _not_held(tables: Tables, expected: DataFrame, held: DataFrame) -> DataFrame:
    lost = expected.join(held.hint("shuffle_hash"), [*REPLICA, "offset"], "left").where(
        ~fn.col("held").eqNullSafe(fn.col("value"))
    )
    return findings_of(
        without_succeeded(tables, lost),
        Wording.LOST,
        invariant=INVARIANT,
        offset="offset",
        broker="broker",
        operation=operation_text(),
        facts=["value", "held"],
    )


CHECK = Check("acknowledged records are on every replica (I1)", run)
