"""M01: the times of every change of a leader, split into its phases.

Detection lasts from the fault to the controller's decision, election from there to the new leader's
own event. Then come the new leader's first acknowledgement, and the moment when the ISR is whole
again.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as fn

from highwater_pipeline.metrics.run_time import (
    PARTITION,
    ms_between,
    timed_events,
    with_fault_before,
)
from highwater_pipeline.tables import LOOKS, OPERATIONS, Tables

SPLITS = ("detect_ms", "elect_ms", "first_ack_ms", "isr_restored_ms", "total_ms")
"""The columns of a failover's times."""
_LEADERSHIP = (*PARTITION, "leader_epoch")


def failovers(tables: Tables) -> DataFrame:
    """Return one row for each change of a leader: each leader epoch after a partition's first.

    Only epochs in which a broker began to lead, up to the last look: leaderships that stopping
    nodes hand over after it are no failovers.

    Columns:
        run_id, topic, partition, leader_epoch, leader.
        fault, fault_number, fault_ns: of the last fault that acted before, and was proven.
        elected_ns: in the run's time.
        detect_ms, elect_ms.
        first_ack_ms, isr_restored_ms: from elected_ns.
        total_ms: from the fault to the first acknowledgement.
    A time is null if its event did not happen before the next leader.
    Sort key: run_id, topic, partition, leader_epoch.
    """
    leaderships = _leaderships(tables)
    later = with_fault_before(
        _seen_to_end(leaderships.where("place > 1"), tables), "elected_ns", tables
    )
    found = (
        later.join(_first_acknowledged(leaderships, tables), list(_LEADERSHIP), "left")
        .join(_isr_restored(leaderships, tables), list(_LEADERSHIP), "left")
        # The controller did not detect a fault that came between decision and election.
        .withColumn(
            "detect_ms",
            fn.when(fn.expr("decided_ns >= fault_ns"), ms_between("fault_ns", "decided_ns")),
        )
        .withColumn("elect_ms", ms_between("decided_ns", "elected_ns"))
        .withColumn("first_ack_ms", ms_between("elected_ns", "acknowledged_ns"))
        .withColumn("isr_restored_ms", ms_between("elected_ns", "restored_ns"))
        .withColumn("total_ms", ms_between("fault_ns", "acknowledged_ns"))
    )
    return found.select(
        *_LEADERSHIP,
        "leader",
        "fault",
        "fault_number",
        "fault_ns",
        "elected_ns",
        "detect_ms",
        "elect_ms",
        "first_ack_ms",
        "isr_restored_ms",
        "total_ms",
    )


def _seen_to_end(leaderships: DataFrame, tables: Tables) -> DataFrame:
    """Return the leaderships up to the last look of their run; all, if the run has no looks."""
    ends = tables[LOOKS].groupBy("run_id").agg(fn.max("time_ns").alias("_end_ns"))
    return (
        leaderships.join(fn.broadcast(ends), "run_id", "left")
        .where("_end_ns IS NULL OR elected_ns <= _end_ns")
        .drop("_end_ns")
    )


def _leaderships(tables: Tables) -> DataFrame:
    """Return each leader epoch with leader, elected_ns, decided_ns, next_ns and place, from 1."""
    in_order = Window.partitionBy(*PARTITION).orderBy("leader_epoch")
    led = (
        timed_events(tables, "became_leader")
        .groupBy(*_LEADERSHIP)
        .agg(fn.min(fn.struct("at_ns", "node")).alias("first"))
        .select(
            *_LEADERSHIP,
            fn.col("first.node").alias("leader"),
            fn.col("first.at_ns").alias("elected_ns"),
        )
        .withColumn("next_ns", fn.lead("elected_ns").over(in_order))
        .withColumn("place", fn.row_number().over(in_order))
    )
    decided = (
        timed_events(tables, "leadership_decided")
        .groupBy(*_LEADERSHIP)
        .agg(fn.min("at_ns").alias("decided_ns"))
    )
    return led.join(decided, list(_LEADERSHIP), "left")


def _first_acknowledged(leaderships: DataFrame, tables: Tables) -> DataFrame:
    """Return the time of each leadership's first acknowledgement; few leaderships, many sends."""
    acknowledged = (
        tables[OPERATIONS].where("function = 'send' AND type = 'ok'").select(*PARTITION, "time_ns")
    )
    return _first_of_leadership(acknowledged, leaderships).withColumnRenamed(
        "first_ns", "acknowledged_ns"
    )


def _isr_restored(leaderships: DataFrame, tables: Tables) -> DataFrame:
    """Return the time at which each leader first had the largest ISR of its partition."""
    sizes = (
        timed_events(tables, "isr_changed", "became_leader")
        .withColumn("isr_size", fn.size("isr"))
        .select(*PARTITION, fn.col("at_ns").alias("time_ns"), "isr_size")
    )
    whole = fn.max("isr_size").over(Window.partitionBy(*PARTITION))
    restored = sizes.withColumn("whole", whole).where("isr_size = whole")
    return _first_of_leadership(restored, leaderships).withColumnRenamed("first_ns", "restored_ns")


def _first_of_leadership(moments: DataFrame, leaderships: DataFrame) -> DataFrame:
    """Return (leadership, first_ns): the first time_ns from elected_ns on and before next_ns."""
    spans = leaderships.select(*_LEADERSHIP, "elected_ns", "next_ns")
    return (
        moments.join(fn.broadcast(spans), list(PARTITION))
        .where("time_ns >= elected_ns AND (next_ns IS NULL OR time_ns < next_ns)")
        .groupBy(*_LEADERSHIP)
        .agg(fn.min("time_ns").alias("first_ns"))
    )
