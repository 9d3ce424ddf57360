"""Commands that brokers did not answer in time: the alerts of V3's discussion."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from highwater_core.events import EventKind
from highwater_pipeline.metrics.run_time import ms_between
from highwater_pipeline.tables import EVENTS, Tables


def alerts(tables: Tables) -> DataFrame:
    """Return one row for each command that a broker did not answer in a controller's term.

    Columns:
        run_id, controller, controller_epoch, broker, request.
        timeouts: how many times command_timeout_ms passed.
        span_ms: from the first of these times to the last.
    """
    told = tables[EVENTS].where(fn.col("kind") == EventKind.COMMAND_TIMED_OUT.value)
    return (
        told.select(
            "run_id",
            fn.col("node").alias("controller"),
            "controller_epoch",
            fn.get_json_object("detail", "$.broker").try_cast("int").alias("broker"),
            fn.get_json_object("detail", "$.request").alias("request"),
            "ts_ns",
        )
        .groupBy("run_id", "controller", "controller_epoch", "broker", "request")
        .agg(
            fn.count(fn.lit(1)).alias("timeouts"),
            fn.min("ts_ns").alias("first_ns"),
            fn.max("ts_ns").alias("last_ns"),
        )
        .withColumn("span_ms", ms_between("first_ns", "last_ns"))
        .drop("first_ns", "last_ns")
    )
