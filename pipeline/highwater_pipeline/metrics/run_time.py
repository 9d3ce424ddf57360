"""Events in the run's own time, and the faults before a moment; shared by the metrics."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn

from highwater_pipeline.tables import EVENTS, FAULTS, RUNS, Tables

PARTITION = ("run_id", "topic", "partition")
NS_PER_MS = 1_000_000


def ms_between(begin_ns: str, end_ns: str) -> Column:
    """Return the milliseconds from one column's time to the other's.

    Null if either is null, or 64 bits do not hold the difference: no run lasts so long.
    """
    return fn.try_subtract(fn.col(end_ns), fn.col(begin_ns)) / NS_PER_MS


def timed_events(tables: Tables, *kinds: str) -> DataFrame:
    """Return the events of these kinds with at_ns, their time in the run.

    Only for runs whose begin is known. Nodes trace the wall clock of their machine, on which the
    run's clients were, too. Across machines at_ns would be off by their clocks' difference.
    An event whose at_ns does not fit 64 bits is left out: its line is damaged.
    """
    began = tables[RUNS].where("start_wall_ns IS NOT NULL").select("run_id", "start_wall_ns")
    events = tables[EVENTS].where(fn.col("kind").isin(*kinds))
    return (
        events.join(fn.broadcast(began), "run_id")
        .withColumn("at_ns", fn.try_subtract(fn.col("ts_ns"), fn.col("start_wall_ns")))
        .where("at_ns IS NOT NULL")
        .drop("start_wall_ns")
    )


def proven_faults(tables: Tables) -> DataFrame:
    """Return (run_id, fault, fault_number, fault_ns): every proven fault, and when it acted.

    On a busy machine the proof comes a second later. Runs of earlier versions have its time alone.
    """
    faults = tables[FAULTS]
    intended = faults.where("phase = 'intended'").select("run_id", "number", "fault")
    acting = (
        faults.where("phase = 'acting'")
        .groupBy("run_id", "number")
        .agg(fn.min(fn.coalesce("acted_ns", "at_ns")).alias("fault_ns"))
    )
    return acting.join(intended, ["run_id", "number"]).select(
        "run_id", "fault", fn.col("number").alias("fault_number"), "fault_ns"
    )


def with_fault_before(frame: DataFrame, at_ns: str, tables: Tables) -> DataFrame:
    """Return the frame with the last proven fault that acted by at_ns, its number and time.

    They are null if there was none. The last fault is not certainly the cause. A run has few
    faults, so they are gathered in one array a run.
    """
    each = fn.struct("fault_ns", "fault_number", "fault")
    of_run = proven_faults(tables).groupBy("run_id").agg(fn.collect_list(each).alias("_faults"))
    before = fn.filter("_faults", lambda fault: fault["fault_ns"] <= fn.col(at_ns))
    return (
        frame.join(fn.broadcast(of_run), "run_id", "left")
        .withColumn("_last", fn.array_max(before))
        .withColumns(
            {name: fn.col(f"_last.{name}") for name in ("fault", "fault_number", "fault_ns")}
        )
        .drop("_faults", "_last")
    )
