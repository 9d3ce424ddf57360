"""I1: no leader acknowledges a record that its successor's log does not have."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn

from highwater_checker.wording import Wording
from highwater_core.events import EventKind
from highwater_pipeline.checks.evidence import (
    PARTITION,
    PLACE,
    REPLICA,
    life_is_known,
    promised_sends,
    whole_replicas,
)
from highwater_pipeline.checks.findings import (
    Check,
    CheckFrames,
    count_by_run,
    findings_of,
    kept,
)
from highwater_pipeline.checks.traces import events_of, with_life
from highwater_pipeline.tables import RECORDS, Tables

INVARIANT = "I1"
LIFE = [*PARTITION, "life"]
ACKNOWLEDGEMENT = [*PLACE, "life", "process", "line", "operation", "value"]
NO_EPOCH = -1


def run(tables: Tables) -> CheckFrames:
    """Find acks=all records that a later leader's log did not reach when its epoch began.

    A record's epoch is that of its batch in the replica with the most committed; of a record that
    is not there, that of the only leader that traced an append at its offset and whose record is
    not there now. Each life of a topic is looked at by itself; of one that is over there is no
    final log. Deleted topics without ids are left out.
    Source: docs/reference/invariants.md, I1 and I4;
    highwater_checker.invariants.successors.
    """
    begun = _of_kind(tables, EventKind.BECAME_LEADER)
    appended = _of_kind(tables, EventKind.LOG_APPENDED)
    begun_at = fn.broadcast(begun.select(*LIFE).distinct())
    contents = _most_committed(tables)
    acknowledged = (
        promised_sends(tables)
        .where(life_is_known())
        .select(*ACKNOWLEDGEMENT, "is_over")
        .join(begun_at, LIFE, "left_semi")
        .join(fn.broadcast(contents), PARTITION, "left_semi")
    )
    held = _held(tables, contents)
    lacking = kept(_lacking(_with_epochs(acknowledged, held, appended), begun))
    findings = findings_of(
        _with_appends(lacking, appended),
        Wording.SUCCESSOR_LACKS,
        invariant=INVARIANT,
        offset="offset",
        broker="lacking.node",
        operation="operation",
        facts=[
            "value",
            "epoch",
            "appends",
            fn.col("lacking.epoch").alias("began"),
            fn.col("lacking.offset").alias("end_offset"),
        ],
    )
    return CheckFrames(findings, count_by_run(tables, acknowledged))


def _of_kind(tables: Tables, kind: EventKind) -> DataFrame:
    """Return the kind's events whose life is known, with epoch: the leader epoch or -1."""
    return (
        with_life(tables, events_of(tables, kind))
        .dropna(subset=LIFE)
        .withColumn("epoch", fn.coalesce("leader_epoch", fn.lit(NO_EPOCH)))
    )


def _most_committed(tables: Tables) -> DataFrame:
    """Return each partition's replica with the most committed, of equal ones the lowest."""
    most_committed = fn.struct("high_watermark", -fn.col("broker"))
    replicas = whole_replicas(tables).groupBy(*PARTITION)
    return replicas.agg(fn.max_by("broker", most_committed).alias("broker"))


def _held(tables: Tables, contents: DataFrame) -> DataFrame:
    """Return the records of the chosen replicas by PLACE: epoch_now, and held, the value."""
    return (
        tables[RECORDS]
        .join(fn.broadcast(contents), REPLICA, "left_semi")
        .select(
            *PLACE,
            fn.col("leader_epoch").alias("epoch_now"),
            fn.coalesce("value", fn.lit("")).alias("held"),
        )
    )


def _with_epochs(acknowledged: DataFrame, held: DataFrame, appended: DataFrame) -> DataFrame:
    """Return the acknowledgements whose epoch is known, with epoch."""
    beside = acknowledged.join(held.hint("shuffle_hash"), PLACE, "left").withColumns(
        {name: fn.when(~fn.col("is_over"), fn.col(name)) for name in ("epoch_now", "held")}
    )
    is_there = fn.coalesce("held", fn.lit("")) == fn.col("value")
    there = beside.where(is_there & fn.col("epoch_now").isNotNull())
    lost = (
        beside.where(~is_there)
        .join(_appends(appended), LIFE)
        .where(_covers("append") & ~fn.col("append.epoch").eqNullSafe(fn.col("epoch_now")))
        .groupBy(*ACKNOWLEDGEMENT)
        .agg(fn.min("append.epoch").alias("epoch"), fn.max("append.epoch").alias("last"))
        .where(fn.col("epoch") == fn.col("last"))
    )
    return there.select(*ACKNOWLEDGEMENT, fn.col("epoch_now").alias("epoch")).unionByName(
        lost.select(*ACKNOWLEDGEMENT, "epoch")
    )


def _lacking(with_epochs: DataFrame, begun: DataFrame) -> DataFrame:
    """Return the acknowledgements that a later leader began without.

    lacking: the start of the first such leader.
    """
    began = begun.select(*LIFE, fn.struct("epoch", "file", "seq", "node", "offset").alias("began"))
    return (
        with_epochs.join(fn.broadcast(began), LIFE)
        .where(fn.col("began.epoch") > fn.col("epoch"))
        .where(fn.col("began.offset") <= fn.col("offset"))
        .groupBy(*ACKNOWLEDGEMENT, "epoch")
        .agg(fn.min("began").alias("lacking"))
    )


def _with_appends(lacking: DataFrame, appended: DataFrame) -> DataFrame:
    """Return the acknowledgements with appends: who traced appends at their offset, or null."""
    traced = (
        lacking.select(*ACKNOWLEDGEMENT)
        .join(_appends(appended), LIFE)
        .where(_covers("append"))
        .groupBy(*ACKNOWLEDGEMENT)
        .agg(fn.sort_array(fn.collect_list("append")).alias("appends"))
    )
    by = fn.transform("appends", lambda append: fn.struct(append.node, append.epoch))
    return lacking.join(traced.withColumn("appends", by), ACKNOWLEDGEMENT, "left")


def _appends(appended: DataFrame) -> DataFrame:
    """Return LIFE and append, by ranges of offsets: only the few lost records are joined."""
    append = fn.struct("epoch", "file", "seq", "node", "offset", "end_offset")
    return appended.select(*LIFE, append.alias("append"))


def _covers(append: str) -> Column:
    offset = fn.col("offset")
    return (fn.col(f"{append}.offset") <= offset) & (offset < fn.col(f"{append}.end_offset"))


CHECK = Check("no leader lacks what older ones acknowledged (I1)", run)
