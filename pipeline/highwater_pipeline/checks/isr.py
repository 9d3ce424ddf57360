"""I6: the ISR is a non-empty part of the assignment, and the leader is in it."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn

from highwater_pipeline.checks.evidence import PARTITION
from highwater_pipeline.checks.findings import (
    Check,
    CheckFrames,
    count_by_run,
    findings_of,
    quoted,
    text,
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
        fn.when(fn.size(isr) == 0, "the ISR is empty"),
        fn.when(
            fn.size(fn.array_except(isr, assigned)) > 0,
            "the ISR holds a broker that is not assigned",
        ),
        fn.when(~fn.array_contains(isr, fn.col("leader")), "the leader is not in the ISR"),
        fn.when(fn.size(fn.array_distinct(isr)) != fn.size(isr), "the ISR names a broker twice"),
    )
    findings = findings_of(
        records.withColumn("problem", fn.explode(fn.array_compact(problems))),
        invariant=INVARIANT,
        message=text(
            "{problem}: PartitionRecord(topic={topic}, partition={partition}, leader={leader}, "
            "leader_epoch={leader_epoch}, isr={isr}, assigned_replicas={assigned_replicas})",
            topic=quoted("topic"),
            isr=_tuple("isr"),
            assigned_replicas=_tuple("assigned_replicas"),
        ),
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


def _tuple(name: str) -> Column:
    """Return an array of numbers as Python's repr() writes a tuple."""
    comma = fn.when(fn.size(name) == 1, ",").otherwise("")
    return text(
        "({members}{comma})",
        members=fn.array_join(fn.col(name).cast("array<string>"), ", "),
        comma=comma,
    )


CHECK = Check("the ISR is within the assignment (I6)", INVARIANT, run)
