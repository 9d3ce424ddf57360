"""I6: the ISR is a non-empty part of the assignment, and the leader is in it."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from highwater_checker.wording import Wording
from highwater_pipeline.checks.evidence import PARTITION
from highwater_pipeline.checks.findings import (
    Check,
    CheckFrames,
    count_by_run,
    findings_of,
)
from highwater_pipeline.tables import REPLICA_LOOKS, Tables

INVARIANT = "I6"
RECORD = [*PARTITION, "leader", "leader_epoch", "isr", "assigned_replicas"]


def run(tables: Tables) -> CheckFrames:
    """Find states of a partition, as its leader showed them in a look, that break I6.

    Looks at each different state of a run once. The leader is the node that shows itself as leader
    in the highest leader epoch of the look; of several such nodes, the lowest.
    Source: docs/explanation/replication.md, "Invariants", I6; highwater_checker.invariants.isr.
    """
    records = _records(tables)
    isr, assigned = fn.col("isr"), fn.col("assigned_replicas")
    problems = fn.array(
        fn.when(fn.size(isr) == 0, Wording.EMPTY_ISR.name),
        fn.when(
            fn.size(fn.array_except(isr, assigned)) > 0,
            Wording.STRANGER_IN_ISR.name,
        ),
        fn.when(~fn.array_contains(isr, fn.col("leader")), Wording.LEADER_NOT_IN_ISR.name),
        fn.when(fn.size(fn.array_distinct(isr)) != fn.size(isr), Wording.TWICE_IN_ISR.name),
    )
    findings = findings_of(
        records.withColumn("wording", fn.explode(fn.array_compact(problems))),
        fn.col("wording"),
        invariant=INVARIANT,
        facts=["leader", "leader_epoch", "isr", "assigned_replicas"],
    )
    return CheckFrames(findings, count_by_run(tables, records))


def _records(tables: Tables) -> DataFrame:
    """Return each state that a leader showed, once; row grain: all columns of RECORD."""
    told = fn.struct("node", "leader_epoch", "isr", "assigned_replicas")
    first = fn.struct("leader_epoch", -fn.col("node"))
    return (
        tables[REPLICA_LOOKS]
        .where(fn.col("role") == "leader")
        .groupBy(*PARTITION, "look")
        .agg(fn.max_by(told, first).alias("told"))
        .select(*PARTITION, "told.*")
        .withColumnRenamed("node", "leader")
        .withColumn("isr", fn.sort_array("isr"))
        .select(*RECORD)
        .distinct()
    )


CHECK = Check("the ISR is within the assignment (I6)", INVARIANT, run)
