"""The lag of followers and of high watermarks, and the number of changes of ISRs."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn

from highwater_pipeline.checks.evidence import replica_looks_in_run
from highwater_pipeline.metrics.percentiles import PERCENTS, percentiles
from highwater_pipeline.tables import EVENTS, RUNS, Tables

STRETCHES = 200
"""The stretches of a run for which its lag is reported, at most."""


def lags(tables: Tables) -> DataFrame:
    """Return one row a follower in one look, beside its leader in the same look.

    Columns:
        run_id, look, time_ns, topic, partition, broker, is_in_isr.
        log_lag: leader's log end minus follower's, in records.
        high_watermark_lag: leader's high watermark minus follower's, in records.
    The nodes of a look are asked one after the other, so records written meanwhile make a lag
    wrong; it is never below 0, and null where 64 bits do not hold it.
    """
    looks = replica_looks_in_run(tables)
    place = ["run_id", "look", "topic", "partition", "leader_epoch"]
    leaders = looks.where("role = 'leader'").select(
        *place,
        fn.col("log_end_offset").alias("leader_end"),
        fn.col("high_watermark").alias("leader_high_watermark"),
        fn.col("isr").alias("leader_isr"),
    )
    followers = looks.where("role = 'follower'")
    return followers.join(leaders, place).select(
        "run_id",
        "look",
        "time_ns",
        "topic",
        "partition",
        fn.col("node").alias("broker"),
        fn.array_contains("leader_isr", fn.col("node")).alias("is_in_isr"),
        _behind("log_end_offset", "leader_end").alias("log_lag"),
        _behind("high_watermark", "leader_high_watermark").alias("high_watermark_lag"),
    )


def _behind(follower: str, leader: str) -> Column:
    """Return how many records the follower's offset is below the leader's, at least 0.

    Null if 64 bits do not hold it.
    """
    lag = fn.try_subtract(fn.col(leader), fn.col(follower))
    return fn.when(fn.col(leader) <= fn.col(follower), 0).otherwise(lag)


def lag_over_time(tables: Tables) -> DataFrame:
    """Return the largest lag of any follower, in each of up to 200 equal parts of each run.

    Row grain: (run_id, from_ns) with a look in it; from_ns is in the run's time. Columns: log_lag
    and high_watermark_lag, the largest of all looks, in records. Sort key: the grain.
    """
    of_looks = lags(tables)
    ends = replica_looks_in_run(tables).groupBy("run_id").agg(fn.max("time_ns").alias("end_ns"))
    length_ns = fn.floor(fn.col("end_ns") / STRETCHES) + 1
    return (
        of_looks.join(fn.broadcast(ends), "run_id")
        .withColumn("from_ns", fn.try_multiply(fn.floor(fn.col("time_ns") / length_ns), length_ns))
        .where("from_ns IS NOT NULL AND log_lag IS NOT NULL AND high_watermark_lag IS NOT NULL")
        .groupBy("run_id", "from_ns")
        .agg(*(fn.max(name).alias(name) for name in ("log_lag", "high_watermark_lag")))
    )


def replication(tables: Tables) -> DataFrame:
    """Return one row a run: percentiles of its lags, and the number of ISR changes by leaders.

    Columns: run_id, log_lag_p50, _p95, _p99 and _max, high_watermark_lag_p50, _p95, _p99 and _max
    (null without looks), isr_changes.
    """
    measures = ("log_lag", "high_watermark_lag")
    of_run = (
        lags(tables)
        .groupBy("run_id")
        .agg(
            *(
                percentiles(name, PERCENTS, are_small=tables.are_small).alias(name)
                for name in measures
            ),
            *(fn.max(name).alias(f"{name}_max") for name in measures),
        )
    )
    changes = (
        tables[EVENTS]
        .where("kind = 'isr_changed'")
        .groupBy("run_id")
        .agg(fn.count(fn.lit(1)).alias("changes"))
    )
    return (
        tables[RUNS]
        .select("run_id")
        .join(of_run, "run_id", "left")
        .join(changes, "run_id", "left")
        .select(
            "run_id",
            *(
                fn.col(name)[place].alias(f"{name}_p{percent}")
                for name in measures
                for place, percent in enumerate(PERCENTS)
            ),
            *(f"{name}_max" for name in measures),
            fn.coalesce("changes", fn.lit(0)).alias("isr_changes"),
        )
    )
