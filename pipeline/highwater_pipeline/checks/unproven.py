"""Finds in the tables why a run's verdict is unknown: evidence not read, requirements not met.

The reasons in a run's small files are in RUNS (ingest/documents.py), lines that could not be read
in QUARANTINE.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as fn

from highwater_checker.history import OF_MEMBERS, POLL, SEND
from highwater_checker.requirements import COMMITTED, COMPARED, OWN_STARTS, STARTS_ARE_TOLD_SINCE
from highwater_checker.run_folder.intents import Phase
from highwater_checker.slices import EARLIER_KINDS
from highwater_core.events import BY_RETENTION, EventKind
from highwater_core.internal_topics import INTERNAL_TOPICS
from highwater_pipeline.checks.acknowledged_records import of_nobody
from highwater_pipeline.checks.evidence import (
    PARTITION,
    REPLICA,
    acknowledged_sends,
    client_of_process,
    held_records,
    is_promised,
    operations_of,
    reads_of_consumers,
    whole_replicas,
)
from highwater_pipeline.checks.findings import text
from highwater_pipeline.checks.ranges import doubts
from highwater_pipeline.checks.traces import deleted_topics, events_of, with_life
from highwater_pipeline.tables import (
    EVENTS,
    EXCUSED,
    FAULTS,
    GROUP_MEMBERS,
    LOOKS,
    OPERATIONS,
    RUNS,
    TRACE_BEGINS,
    Tables,
)

REASONS_MAX = 3
"""Of a run, how many reasons leave Spark."""
START = ["run_id", "node", "incarnation"]


def unproven(tables: Tables) -> Mapping[str, tuple[str, ...]]:
    """Return by the run the first reasons for which it would be unknown without findings."""
    parts = (
        _too_few(tables),
        _unmatched(tables),
        _readers_of_no_plan(tables),
        _untraced(tables),
        _earlier_events(tables),
        _unexplained_starts(tables),
        _uncommitted(tables),
        _records_of_no_log(tables),
        _starts_of_others(tables),
        _unsent(tables),
        _untold_lives(tables),
    )
    rows = functools.reduce(DataFrame.unionByName, parts)
    first = fn.slice(fn.sort_array(fn.collect_list("reason")), 1, REASONS_MAX)
    found = rows.groupBy("run_id").agg(first.alias("reasons")).collect()
    return {row["run_id"]: tuple(row["reasons"]) for row in found}


def _because(rows: DataFrame, reason: Column) -> DataFrame:
    return rows.select("run_id", reason.alias("reason"))


def _too_few(tables: Tables) -> DataFrame:
    """Return the runs that acknowledged fewer records than they promise, or none at all."""
    counted = acknowledged_sends(tables).groupBy("run_id").agg(fn.count(fn.lit(1)).alias("count"))
    runs = tables[RUNS].select(
        "run_id", fn.coalesce("least_acknowledged", fn.lit(1)).alias("least")
    )
    few = runs.join(counted, "run_id", "left").fillna(0, ["count"]).where("count < least")
    return _because(few, text("at least {least} records were acknowledged: {count}"))


def _unmatched(tables: Tables) -> DataFrame:
    """Return how many lines of each process's operations have no counterpart."""
    is_send = fn.col("function") == SEND
    counted = (
        tables[OPERATIONS]
        .where("is_unmatched")
        .groupBy("run_id", "process", is_send.alias("is_send"))
        .count()
    )
    of_sends = text("{process}.jsonl: {count} lines of sends without a counterpart or an offset")
    of_commits = text("{process}.jsonl: {count} lines of commits without a counterpart")
    return _because(counted, fn.when(fn.col("is_send"), of_sends).otherwise(of_commits))


def _readers_of_no_plan(tables: Tables) -> DataFrame:
    """Return the processes that read, were members of no group, and are nobody's promised consumer.

    Source: highwater_checker.run_folder.evidence.
    """
    is_poll = fn.col("function") == POLL
    readers = (
        tables[OPERATIONS]
        .groupBy("run_id", "process")
        .agg(
            fn.bool_or(is_poll).alias("reads"),
            fn.bool_or(fn.col("function").isin(*OF_MEMBERS)).alias("is_member"),
        )
        .where("reads AND NOT is_member")
        .withColumn("client", client_of_process())
        .join(fn.broadcast(tables[RUNS].select("run_id", "consumers")), "run_id")
        .where(~fn.array_contains("consumers", fn.col("client")))
        .join(fn.broadcast(tables[GROUP_MEMBERS]), ["run_id", "client"], "left_anti")
    )
    return _because(readers, text("{process}.jsonl: a consumer's that was not promised"))


def _untraced(tables: Tables) -> DataFrame:
    """Return the starts of nodes that looks saw and that left no trace."""
    seen = tables[LOOKS].select("run_id", fn.inline(fn.arrays_zip("answered", "incarnations")))
    starts = seen.select(
        "run_id", fn.col("answered").alias("node"), fn.col("incarnations").alias("incarnation")
    ).distinct()
    traced = tables[EVENTS].select(*START).unionByName(tables[TRACE_BEGINS].select(*START))
    missing = starts.join(traced.distinct(), START, "left_anti")
    return _because(missing, text("node {node}, incarnation {incarnation}: no trace"))


def _earlier_events(tables: Tables) -> DataFrame:
    """Return the starts with other events of the time before the run than are declared.

    Source: highwater_checker.slices.
    """
    begins = tables[TRACE_BEGINS]
    is_kept = fn.col("kind").isin(sorted(kind.value for kind in EARLIER_KINDS))
    counted = (
        tables[EVENTS]
        .join(fn.broadcast(begins), START)
        .where("seq < from_seq")
        .groupBy(*START)
        .agg(fn.count(fn.lit(1)).alias("found"), fn.bool_and(is_kept).alias("are_kept"))
    )
    is_wrong = (fn.col("found") != fn.col("earlier")) | ~fn.col("are_kept")
    wrong = begins.join(counted, START, "left").fillna(0, ["found"]).where(is_wrong)
    what = (
        "node {node}, incarnation {incarnation}: {found} events from before the run, where "
        "{earlier} are declared"
    )
    of_the_run = "node {node}, incarnation {incarnation}: the run is declared to begin later"
    is_short = fn.col("found") != fn.col("earlier")
    return _because(wrong, fn.when(is_short, text(what)).otherwise(text(of_the_run)))


def _unexplained_starts(tables: Tables) -> DataFrame:
    """Return the logs that start above all removals of records by retention that a broker traced.

    Disks that lost records from an offset on excuse starts above it.
    Source: highwater_checker.run_folder.evidence.
    """
    moved = (
        with_life(tables, events_of(tables, EventKind.LOG_START_MOVED))
        .where(fn.coalesce("reason", fn.lit(BY_RETENTION)) == BY_RETENTION)
        .groupBy(*PARTITION, "life")
        .agg(fn.max("offset").alias("moved"))
    )
    latest = (
        with_life(tables, events_of(tables, EventKind.BECAME_LEADER))
        .groupBy(*PARTITION)
        .agg(fn.max_by(fn.struct("life"), "ts_ns").alias("latest"))
    )
    lost_from = fn.min("start_offset").alias("lost_from")
    excused = tables[EXCUSED].groupBy(*PARTITION).agg(lost_from)
    high = (
        whole_replicas(tables)
        .where("log_start_offset > 0")
        .select(*REPLICA, "log_start_offset")
        .join(fn.broadcast(excused), PARTITION, "left")
        .where("lost_from IS NULL OR log_start_offset <= lost_from")
        .join(fn.broadcast(latest), PARTITION, "left")
        .withColumn("life", fn.when(fn.col("latest").isNull(), "").otherwise(fn.col("latest.life")))
        .join(fn.broadcast(moved), [*PARTITION, "life"], "left")
        .where(fn.col("log_start_offset") > fn.coalesce("moved", fn.lit(0)))
    )
    what = (
        "{topic}-{partition} of broker {broker}: it starts at {log_start_offset}, and no trace "
        "says that retention let go of as much"
    )
    return _because(high, text(what))


def _uncommitted(tables: Tables) -> DataFrame:
    """Return the partitions with an acknowledged record above the final high watermark.

    Where nodes may stay down it is the highest of the replicas', else the lowest.
    Source: highwater_checker.requirements.acknowledged_is_committed.
    """
    acknowledged = (
        acknowledged_sends(tables)
        .where(is_promised() & ~fn.col("is_over"))
        .groupBy(*PARTITION)
        .agg(fn.max("offset").alias("acknowledged"))
    )
    lowest, highest = (of("high_watermark") for of in (fn.min, fn.max))
    by_partition = whole_replicas(tables).groupBy(*PARTITION)
    marks = by_partition.agg(lowest.alias("low"), highest.alias("high"))
    runs = tables[RUNS].select("run_id", fn.coalesce("only_in_sync", fn.lit(False)).alias("few"))
    below = (
        marks.join(fn.broadcast(runs), "run_id")
        .withColumn("mark", fn.when(fn.col("few"), fn.col("high")).otherwise(fn.col("low")))
        .join(acknowledged, PARTITION)
        .join(fn.broadcast(tables[EXCUSED].select(*PARTITION)), PARTITION, "left_anti")
        .where("acknowledged >= mark")
    )
    what = "{topic}-{partition}: acknowledged up to {acknowledged}, high watermark {mark}"
    return _because(below, text(f"{COMMITTED}: {what}"))


def _records_of_no_log(tables: Tables) -> DataFrame:
    """Return the partitions whose records were acknowledged or read, and no replica's log was read.

    Records of a partition that no node had at the end are lost, and a finding.
    Source: highwater_checker.requirements.records_have_logs.
    """
    logs = whole_replicas(tables).select(*PARTITION)
    read = reads_of_consumers(tables).where(~fn.col("is_over")).select(*PARTITION)
    runs = tables[RUNS].where(~fn.coalesce("only_in_sync", fn.lit(False))).select("run_id")
    written = (
        acknowledged_sends(tables)
        .where(is_promised() & ~fn.col("is_over"))
        .select(*PARTITION)
        .join(fn.broadcast(runs), "run_id", "left_semi")
        .distinct()
        .join(logs, PARTITION, "left_anti")
    )
    written = written.join(of_nobody(tables, written), PARTITION, "left_anti")
    without = read.unionByName(written).distinct().join(logs, PARTITION, "left_anti")
    what = f"{COMPARED}: {{topic}}-{{partition}}: no replica was read"
    return _because(without, text(what))


def _starts_of_others(tables: Tables) -> DataFrame:
    """Return the nodes that were started again more often than the run's intents have starts.

    Source: highwater_checker.requirements.starts_are_the_runs_own.
    """
    runs = tables[RUNS].where(fn.col("format_version") >= STARTS_ARE_TOLD_SINCE).select("run_id")
    last = fn.max("incarnation").cast("long")
    again = last - fn.min("incarnation")
    node = ["run_id", "node"]
    before = tables[TRACE_BEGINS].groupBy(*node).agg(fn.max("incarnation").alias("incarnation"))
    of_before = fn.broadcast(before.withColumnRenamed("incarnation", "before"))
    traced = tables[EVENTS].select(*START).join(of_before, node, "left")
    traced = traced.where("before IS NULL OR incarnation >= before").drop("before")
    counted = traced.unionByName(before).groupBy(*node).agg(again.alias("again"))
    own = (
        tables[FAULTS]
        .where(fn.col("phase") == Phase.STARTING.value)
        .groupBy("run_id", fn.col("target").alias("node"))
        .agg(fn.count(fn.lit(1)).alias("own"))
    )
    strange = (
        counted.join(fn.broadcast(runs), "run_id", "left_semi")
        .join(fn.broadcast(own), ["run_id", "node"], "left")
        .fillna(0, ["own"])
        .where("again > own")
    )
    what = "node {node} was started again {again} times, by the run {own} times"
    return _because(strange, text(f"{OWN_STARTS}: {what}"))


def _unsent(tables: Tables) -> DataFrame:
    """Return how many records no known client sent, of runs whose writers are known.

    Of each partition the replica with the most committed is looked at. A killed process's records,
    whose values begin with its name, may lack their sends. Where the sums of a range of offsets are
    those of the acknowledged records, no record of the range is looked at.
    Source: highwater_checker.invariants.duplicates.
    """
    runs = tables[RUNS].where("writers_are_known").select("run_id", "topics", "followed")
    topics = runs.select("run_id", fn.explode("topics").alias("topic"))
    topics = topics.where(~fn.col("topic").isin(*INTERNAL_TOPICS))
    where = doubts(tables, acknowledged_sends(tables), PARTITION, reported_by=topics)
    sent = operations_of(tables, SEND).select("run_id", "value").distinct()
    prefixes = fn.transform("followed", lambda name: fn.concat(name, fn.lit("-")))
    may_be = fn.exists(prefixes, lambda prefix: fn.startswith(fn.col("value"), prefix))
    most = Window.partitionBy(*PARTITION).orderBy(fn.desc("high_watermark"), "broker")
    chosen = whole_replicas(tables).withColumn("place", fn.row_number().over(most))
    unsent = (
        where.doubted(held_records(tables))
        .join(fn.broadcast(chosen.where("place = 1").select(*REPLICA)), REPLICA, "left_semi")
        .join(fn.broadcast(topics), ["run_id", "topic"], "left_semi")
        .join(sent, ["run_id", "value"], "left_anti")
        .join(fn.broadcast(runs.select("run_id", "followed")), "run_id")
        .where(~fn.coalesce(may_be, fn.lit(False)))
        .groupBy(*REPLICA)
        .count()
    )
    what = "{topic}-{partition} of broker {broker}: nobody sent {count} of its records"
    return _because(unsent, text(what))


def _untold_lives(tables: Tables) -> DataFrame:
    """Return the topics that were deleted in runs without a clock."""
    timeless = tables[RUNS].where("start_wall_ns IS NULL").select("run_id")
    deleted = deleted_topics(tables[EVENTS]).join(fn.broadcast(timeless), "run_id", "left_semi")
    return _because(deleted, text("{topic} was deleted, and no clock tells when"))
