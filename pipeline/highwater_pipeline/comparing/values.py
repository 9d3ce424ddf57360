"""The compared values of runs: failover times by the fault before them, latencies and outages."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from highwater_pipeline.metrics.confidence import comparison, medians
from highwater_pipeline.metrics.failovers import SPLITS, failovers
from highwater_pipeline.metrics.run_time import PARTITION
from highwater_pipeline.metrics.sends import latencies, outages
from highwater_pipeline.tables import RUNS, Tables

WHOLE_RUN = ""
"""The fault of measures that have one value a run."""
TOTAL = "total_ms"
LATENCY = "p99_ms"
OF_A_FAULT = SPLITS
OF_A_RUN = ("p50_ms", LATENCY, "longest_outage_ms")
MEASURES = (*OF_A_FAULT, *OF_A_RUN)
"""All of them grow as things get worse."""

_MEASURE = ["fault", "measure"]
_GROUP = ["group", *_MEASURE]


def values_of_runs(tables: Tables, by: str, fault: str | None = None) -> DataFrame:
    """Return one row for each compared value: group, run_id, fault, measure, value (ms or null).

    group: the run's value in the column `by`, as text, "" for null.
    fault: only failovers after such faults; None for all.

    Failovers give one value a run and kind of fault. Partitions that one fault moved waited for the
    same controller, and all faults of a run met the same cluster, so their times are not
    independent. The value is a median of medians: over the partitions that a fault moved, each with
    its first leader after the fault, then over the run's faults of the kind. It is null if one of
    the faults has no time, as when no acknowledgement came before the next leader.

    Whole runs, with fault WHOLE_RUN, give the median and the 99th percentile of the latency of
    acknowledged sends (null without any), and the longest outage of a partition (0 without one).
    """
    groups = tables[RUNS].select(
        "run_id", fn.coalesce(fn.col(by).cast("string"), fn.lit("")).alias("group")
    )
    values = _of_faults(tables, fault)
    if fault is None:
        values = values.unionByName(_of_runs(tables))
    return values.join(fn.broadcast(groups), "run_id")


def _of_faults(tables: Tables, fault: str | None) -> DataFrame:
    of_fault = ["run_id", "fault", "fault_number"]
    is_wanted = fn.col("fault").isNotNull() if fault is None else fn.col("fault") == fault
    moved = (
        failovers(tables)
        .where(is_wanted)
        .groupBy(*PARTITION, "fault", "fault_number")
        .agg(fn.min_by(fn.struct(*OF_A_FAULT), "leader_epoch").alias("first"))
    )
    each = moved.groupBy(*of_fault).agg(
        *(fn.median(f"first.{measure}").alias(measure) for measure in OF_A_FAULT)
    )
    of_run = each.groupBy("run_id", "fault").agg(
        *(
            fn.when(fn.count_if(fn.col(measure).isNull()) == 0, fn.median(measure)).alias(measure)
            for measure in OF_A_FAULT
        )
    )
    return of_run.unpivot(["run_id", "fault"], list(OF_A_FAULT), "measure", "value")


def _of_runs(tables: Tables) -> DataFrame:
    longest = outages(tables).groupBy("run_id").agg(fn.max("outage_ms").alias("longest"))
    return (
        tables[RUNS]
        .select("run_id")
        .join(latencies(tables), "run_id", "left")
        .join(longest, "run_id", "left")
        .withColumn("longest_outage_ms", fn.coalesce("longest", fn.lit(0.0)))
        .withColumn("fault", fn.lit(WHOLE_RUN))
        .unpivot(["run_id", "fault"], list(OF_A_RUN), "measure", "value")
    )


def measured(values: DataFrame) -> DataFrame:
    """Return one row a group, fault and measure: count, median, low, high and lacking.

    lacking: the number of runs without a value. The other columns are those of confidence.medians.
    """
    lacking = values.groupBy(*_GROUP).agg(fn.count_if(fn.col("value").isNull()).alias("lacking"))
    found = medians(values, _GROUP, "value")
    return lacking.join(found, _GROUP, "left").fillna(0, ["count"])


def tested(values: DataFrame, a: str, b: str) -> DataFrame:
    """Return one row a fault and measure: whether group b's values are greater than group a's.

    Columns: fault, measure, and those of confidence.comparison. There is no row where neither group
    has a value.
    """
    is_a, is_b = fn.col("group") == a, fn.col("group") == b
    side = fn.when(is_a, fn.lit("a")).when(is_b, fn.lit("b"))
    sides = values.withColumn("side", side).where(fn.col("side").isNotNull())
    return comparison(sides, "side", "value", _MEASURE)
