"""Order: a record lies after those acknowledged, or sent by the same client, before its send.

Source: docs/explanation/replication.md, "Histories", "realtime-send" and "nonmonotonic-send".
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as fn

from highwater_checker.wording import Wording
from highwater_pipeline.checks.evidence import (
    OPERATION,
    PARTITION,
    is_type,
    life_is_known,
    operations_of,
    promised_sends,
)
from highwater_pipeline.checks.findings import (
    Check,
    CheckFrames,
    all_of,
    count_by_run,
    findings_of,
)
from highwater_pipeline.tables import Tables

LIFE = [*PARTITION, "life"]
SENT_ONCE = 1
NO_OFFSET = -1


def run(tables: Tables) -> CheckFrames:
    """Find acks=all records at offsets that contradict the order in which they were sent.

    A record lies above every record that was acknowledged, to any client, before its send began.
    Records of a client with one request in flight lie in the order of their sends, if each was sent
    once. A send without its beginning in the tables is compared with no acknowledgement. Each life
    of a topic has its order.
    Source: highwater_checker.invariants.order.
    """
    acknowledged = promised_sends(tables).where(life_is_known())
    findings = all_of(
        _below_what_was_acknowledged(tables, acknowledged), _below_what_was_sent(acknowledged)
    )
    return CheckFrames(findings, count_by_run(tables, acknowledged))


def _below_what_was_acknowledged(tables: Tables, acknowledged: DataFrame) -> DataFrame:
    """Return the sends whose record lies at or below one acknowledged before they began.

    Each send is two moments of its partition, its beginning and its end. At each moment the highest
    offset acknowledged so far is known. At equal times a beginning comes before an end.
    """
    begun = (
        operations_of(tables, "send")
        .where(is_type("invoke"))
        .select(*OPERATION, fn.col("time_ns").alias("invoked_ns"))
    )
    moments = fn.array(
        fn.struct(fn.col("invoked_ns").alias("at_ns"), fn.lit(False).alias("is_end")),
        fn.struct(fn.col("time_ns").alias("at_ns"), fn.lit(True).alias("is_end")),
    )
    highest_first = fn.struct(
        (-fn.col("offset")).alias("negative_offset"), "time_ns", "file", "line", "value"
    )
    so_far = Window.partitionBy(*LIFE).orderBy("moment.at_ns", "moment.is_end")
    highest = fn.min(fn.when(fn.col("moment.is_end"), highest_first)).over(so_far)
    late = (
        acknowledged.join(begun.hint("shuffle_hash"), OPERATION, "left")
        .withColumn("moment", fn.explode(moments))
        .where(fn.col("moment.at_ns").isNotNull())
        .withColumn("highest", highest)
        .withColumn("first_offset", -fn.col("highest.negative_offset"))
        .where(~fn.col("moment.is_end") & (fn.col("offset") <= fn.col("first_offset")))
    )
    first_value = fn.col("highest.value").alias("first_value")
    return _findings(late, Wording.BELOW_ACKNOWLEDGED, "realtime-send", first_value, "first_offset")


def _below_what_was_sent(acknowledged: DataFrame) -> DataFrame:
    """Return the records that lie below one that the same client sent before them.

    A client's operations rise with its sends.
    """
    sent_before = (
        Window.partitionBy(*LIFE, "process")
        .orderBy("operation_id")
        .rowsBetween(Window.unboundedPreceding, -1)
    )
    highest = fn.coalesce(fn.max("offset").over(sent_before), fn.lit(NO_OFFSET))
    early = (
        acknowledged.where((fn.col("max_in_flight") == 1) & (fn.col("tries") == SENT_ONCE))
        .withColumn("highest", highest)
        .where(fn.col("offset") <= fn.col("highest"))
    )
    return _findings(early, Wording.BELOW_SENT, "nonmonotonic-send", "highest")


def _findings(
    misplaced: DataFrame, wording: Wording, invariant: str, *facts: str | Column
) -> DataFrame:
    return findings_of(
        misplaced,
        wording,
        invariant=invariant,
        offset="offset",
        operation="operation",
        facts=["value", *facts],
    )


CHECK = Check("records lie in the order of sends", run)
