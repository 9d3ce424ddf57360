"""Bounds of the offsets that a leader had when it answered a probe.

They come from the looks before and after the probe, and from the leader's trace.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as fn

from highwater_core.events import EventKind
from highwater_pipeline.checks.evidence import PARTITION, looks_in_run, replica_looks_in_run
from highwater_pipeline.checks.traces import events_of, with_life
from highwater_pipeline.tables import Tables

LED = [*PARTITION, "broker", "incarnation"]
NO_EPOCH = -1
ANSWERED, LOOKED, ASKED = 0, 1, 2
"""The order of moments at one time: a look counts as after an answer and before a question."""


def leaders_asked(tables: Tables, probes: DataFrame) -> DataFrame:
    """Return the bounds of the leaders' offsets, one row a probe that has bounds.

    A probe has bounds if one leadership lasted from before it until the look after it: within a
    leadership neither log end nor high watermark falls.

    Row grain: (run_id, line) of the probe. Columns:
      least_end_offset, least_high_watermark: the leader had at least these.
      most_high_watermark, log_start_offset: of the look after.
      began: (offset, high_watermark) of its BECAME_LEADER, both null where no trace has it.
      led_throughout: whether it led in both looks.
    Source: highwater_checker.invariants.empty_fetches.
    """
    looks = _numbered_looks(tables)
    was_leader = fn.coalesce(fn.col("was.role") == "leader", fn.lit(False))
    in_one_epoch = (fn.col("was.leader_epoch") == fn.col("now.leader_epoch")) & fn.col(
        "was.topic_id"
    ).eqNullSafe(fn.col("now.topic_id"))
    return (
        _beside_looks(tables, probes.join(_bounds(looks, probes), ["run_id", "line"]), looks)
        .transform(lambda frame: _with_began(frame, tables))
        .withColumn("led_throughout", was_leader)
        .where(fn.when(was_leader, in_one_epoch).otherwise(fn.col("began.offset").isNotNull()))
        .select(
            "run_id",
            "line",
            _either("log_end_offset", "offset").alias("least_end_offset"),
            _either("high_watermark", "high_watermark").alias("least_high_watermark"),
            fn.col("now.high_watermark").alias("most_high_watermark"),
            fn.col("now.log_start_offset").alias("log_start_offset"),
            "began",
            "led_throughout",
        )
    )


def _either(of_look: str, of_event: str) -> Column:
    led_throughout = fn.col("led_throughout")
    return fn.when(led_throughout, fn.col(f"was.{of_look}")).otherwise(fn.col(f"began.{of_event}"))


def _numbered_looks(tables: Tables) -> DataFrame:
    """Return the looks of the run with position, from 0 on; damaged lines have no row."""
    in_order = Window.partitionBy("run_id").orderBy("look")
    return looks_in_run(tables).withColumn("position", fn.row_number().over(in_order) - 1)


def _bounds(looks: DataFrame, probes: DataFrame) -> DataFrame:
    """Return (run_id, line, first, last): the positions of the looks before and after a probe.

    first: the last look that was complete when the probe was sent.
    last: the second look that was complete at the answer or later: the first of these may have
      begun before the answer.
    """
    moments = fn.array(_moment("answered_ns", ANSWERED), _moment("asked_ns", ASKED))
    of_looks = looks.select(
        "run_id", fn.lit(None).cast("long").alias("line"), _moment("time_ns", LOOKED).alias("at")
    )
    all_moments = probes.select("run_id", "line", fn.explode(moments).alias("at")).unionByName(
        of_looks
    )
    so_far = Window.partitionBy("run_id").orderBy("at.time_ns", "at.turn")
    seen = fn.count(fn.when(fn.col("at.turn") == LOOKED, 1)).over(so_far)
    turn = fn.col("at.turn")
    return (
        all_moments.withColumn("seen", seen)
        .where(turn != LOOKED)
        .groupBy("run_id", "line")
        .agg(
            (fn.max(fn.when(turn == ASKED, fn.col("seen"))) - 1).alias("first"),
            (fn.max(fn.when(turn == ANSWERED, fn.col("seen"))) + 1).alias("last"),
        )
    )


def _moment(time_ns: str, turn: int) -> Column:
    return fn.struct(fn.col(time_ns).alias("time_ns"), fn.lit(turn).alias("turn"))


def _beside_looks(tables: Tables, probes: DataFrame, looks: DataFrame) -> DataFrame:
    """Return the probes of brokers that lead in the look after, with was, now and incarnation.

    was: the replica in the look before, null where the look has none. In that look the broker ran
      the same incarnation, or did not answer.
    now: the replica in the look after.
    """
    told = ["role", "leader_epoch", "topic_id"]
    told += ["high_watermark", "log_start_offset", "log_end_offset"]
    replicas = (
        replica_looks_in_run(tables)
        .withColumnRenamed("node", "broker")
        .join(fn.broadcast(looks.select("run_id", "look", "position")), ["run_id", "look"])
        .select("position", *LED, fn.struct(*told).alias("told"))
    )
    now = replicas.where(fn.col("told.role") == "leader").withColumnsRenamed(
        {"position": "last", "told": "now"}
    )
    was = replicas.drop("incarnation").withColumnsRenamed({"position": "first", "told": "was"})
    answers = fn.explode(fn.arrays_zip("answered", "incarnations")).alias("answer")
    before = looks.select("run_id", fn.col("position").alias("first"), answers).select(
        "run_id",
        "first",
        fn.col("answer.answered").alias("broker"),
        fn.col("answer.incarnations").alias("before"),
    )
    return (
        probes.where(fn.col("first") >= 0)
        .select(*PARTITION, "line", "broker", "first", "last")
        .join(now, [*PARTITION, "broker", "last"])
        .join(before, ["run_id", "broker", "first"], "left")
        .where(fn.col("before").isNull() | (fn.col("before") == fn.col("incarnation")))
        .join(was, [*PARTITION, "broker", "first"], "left")
    )


def _with_began(beside: DataFrame, tables: Tables) -> DataFrame:
    """Return the probes with began, the fields of the epoch's BECAME_LEADER.

    Both fields are null if the broker also led another epoch after the look was.
    """
    led = [*LED, "life"]
    epochs = Window.partitionBy(*led).orderBy("leader_epoch")
    begun = (
        with_life(tables, events_of(tables, EventKind.BECAME_LEADER))
        .dropna(subset=["topic", "partition", "leader_epoch", "life"])
        .withColumnRenamed("node", "broker")
        .groupBy(*led, "leader_epoch")
        .agg(fn.max_by(fn.struct("offset", "high_watermark"), "seq").alias("event"))
        .withColumn("epoch_before", fn.lag("leader_epoch", 1, NO_EPOCH).over(epochs))
    )
    is_same = fn.col("was.topic_id").eqNullSafe(fn.col("now.topic_id"))
    since = fn.coalesce(fn.when(is_same, fn.col("was.leader_epoch")), fn.lit(NO_EPOCH))
    fields = (
        fn.when(fn.col("epoch_before") <= since, fn.col(f"event.{name}")).alias(name)
        for name in ("offset", "high_watermark")
    )
    known = beside.select("*", "now.leader_epoch", "now.topic_id")
    return (
        with_life(tables, known)
        .join(fn.broadcast(begun), [*led, "leader_epoch"], "left")
        .withColumn("began", fn.struct(*fields))
    )
