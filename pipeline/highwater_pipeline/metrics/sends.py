"""Clients' latency of sends and fetches, throughput, and outages."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as fn

from highwater_pipeline.metrics.percentiles import PERCENTS, percentiles
from highwater_pipeline.metrics.run_time import PARTITION, ms_between, with_fault_before
from highwater_pipeline.tables import OPERATIONS, PROBES, Tables

OUTAGE_MS = 500
"""How long a partition acknowledges nothing until that counts as an outage."""


def latencies(tables: Tables) -> DataFrame:
    """Return one row a run: latency and rate of acknowledged sends.

    Columns: run_id, acknowledged, records_per_s (null with fewer than two), p50_ms, p95_ms, p99_ms
    (of large tables to one part in 10,000), longest_ms.
    """
    of_operation = fn.struct("run_id", "process", "operation_id")
    times = (
        tables[OPERATIONS]
        .where("function = 'send' AND type IN ('invoke', 'ok')")
        .groupBy(of_operation.alias("operation"))
        .agg(
            fn.min(fn.when(fn.col("type") == "invoke", fn.col("time_ns"))).alias("invoked_ns"),
            fn.min(fn.when(fn.col("type") == "ok", fn.col("time_ns"))).alias("acknowledged_ns"),
        )
        .where("invoked_ns IS NOT NULL AND acknowledged_ns IS NOT NULL")
        .withColumn("latency_ms", ms_between("invoked_ns", "acknowledged_ns"))
    )
    span_ns = fn.try_subtract(fn.max("acknowledged_ns"), fn.min("acknowledged_ns"))
    span_s = span_ns / 1e9
    count = fn.count(fn.lit(1))
    return _by_run(
        times.withColumn("run_id", fn.col("operation.run_id")),
        tables,
        acknowledged=count,
        records_per_s=fn.when(span_s > 0, (count - 1) / span_s),
    )


def fetch_latencies(tables: Tables) -> DataFrame:
    """Return one row a run with timed fetches: their latency.

    These are the prober's fetches: one partition, one try, no waiting for more records. A
    consumer's poll has the time of a record's arrival, not of its request.
    Columns: run_id, fetches, p50_ms, p95_ms, p99_ms, longest_ms.
    """
    times = tables[PROBES].withColumn("latency_ms", ms_between("asked_ns", "answered_ns"))
    return _by_run(times, tables, fetches=fn.count(fn.lit(1)))


def _by_run(times: DataFrame, tables: Tables, **more: Column) -> DataFrame:
    """Return one row a run: run_id, the given aggregates, the percentiles, and longest_ms.

    times: rows with run_id and latency_ms.
    """
    return (
        times.groupBy("run_id")
        .agg(
            *(each.alias(name) for name, each in more.items()),
            percentiles("latency_ms", PERCENTS, are_small=tables.are_small).alias("of"),
            fn.max("latency_ms").alias("longest_ms"),
        )
        .select(
            "run_id",
            *more,
            *(
                fn.col("of")[place].alias(f"p{percent}_ms")
                for place, percent in enumerate(PERCENTS)
            ),
            "longest_ms",
        )
    )


def outages(tables: Tables, longer_than_ms: int = OUTAGE_MS) -> DataFrame:
    """Return one row for each outage: a time without acknowledgements of a partition.

    An outage lasts from one acknowledgement to the next. The last one lasts from the last
    acknowledgement, or from the first send if there was none, to the end of the run's sends. Only
    outages of at least the given length are returned. A time without sends counts as well, so the
    load must be steady.

    Columns:
        run_id, topic, partition.
        from_ns, to_ns: in the run's time.
        outage_ms.
        fault, fault_number, fault_ns: of the last proven fault that acted before the outage's end.
    Sort key: run_id, topic, partition, from_ns.
    """
    sends = tables[OPERATIONS].where("function = 'send'").select(*PARTITION, "type", "time_ns")
    paused = (
        _pauses(sends)
        .unionByName(_silences(sends))
        .withColumn("outage_ms", ms_between("from_ns", "to_ns"))
        .where(fn.col("outage_ms") >= longer_than_ms)
    )
    return with_fault_before(paused, "to_ns", tables).select(
        *PARTITION, "from_ns", "to_ns", "outage_ms", "fault", "fault_number", "fault_ns"
    )


def _pauses(sends: DataFrame) -> DataFrame:
    """Return from_ns and to_ns between a partition's acknowledgements; the first has no from_ns."""
    in_order = Window.partitionBy(*PARTITION).orderBy("time_ns")
    return (
        sends.where("type = 'ok'")
        .withColumn("from_ns", fn.lag("time_ns").over(in_order))
        .select(*PARTITION, "from_ns", fn.col("time_ns").alias("to_ns"))
    )


def _silences(sends: DataFrame) -> DataFrame:
    """Return from_ns and to_ns of each partition's last outage, of any length."""
    acknowledged_ns = fn.when(fn.col("type") == "ok", fn.col("time_ns"))
    last_of_each = sends.groupBy(*PARTITION).agg(
        fn.coalesce(fn.max(acknowledged_ns), fn.min("time_ns")).alias("from_ns")
    )
    end_of_run = sends.groupBy("run_id").agg(fn.max("time_ns").alias("to_ns"))
    return last_of_each.join(end_of_run, "run_id").select(*PARTITION, "from_ns", "to_ns")
