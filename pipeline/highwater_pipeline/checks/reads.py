"""I9: a record that was read was committed and stays; a committed record was read."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn

from highwater_checker.invariants.reads import CHECK as NAME
from highwater_checker.wording import Wording
from highwater_pipeline.checks.evidence import (
    PARTITION,
    PLACE,
    REPLICA,
    WHERE_DUE,
    client_of_process,
    held_records,
    life_is_known,
    operation_text,
    places_of,
    reads_of_consumers,
    where_due,
    whole_replicas,
    with_first,
    without_succeeded,
)
from highwater_pipeline.checks.findings import (
    Check,
    CheckFrames,
    all_of,
    findings_of,
    kept,
    sum_by_run,
)
from highwater_pipeline.checks.in_sql import shared
from highwater_pipeline.checks.ranges import doubts
from highwater_pipeline.tables import GROUP_MEMBERS, RECORDS, RUNS, Tables

INVARIANT = "I9"
READER = ["process", *PARTITION]
READ_PLACE = ["process", *PLACE]
READ_IN_LIFE = [*READ_PLACE, "life"]
READ = [
    *READ_IN_LIFE, "is_over", "line", "key", "value", "high_watermark", "function", "operation_id",
]  # fmt: skip
LINE = ["run_id", "process", "line"]


def run(tables: Tables) -> CheckFrames:
    """Find records that a consumer read and that a replica does not hold there, or the reverse.

    Judged are promised consumers and members of promised groups. Each consumer's process is judged
    alone, and is expected to have read every partition of its topics from its start. The last
    incarnation of a client has read its promised topic to the end, where the run let consumers read
    to the end (promises.json), unless its history is incomplete. Below a replica's
    log_start_offset retention removed the records. Records at its high watermark and above nobody
    can have read. Where the client reports the high watermark of an answer, the answer's records
    lie below it. Records of a topic's life that is over or unknown need not be held. A run with a
    consumer that read nothing counts as not examined.
    Source: docs/reference/invariants.md, I9; unseen;
    highwater_checker.invariants.reads.
    """
    all_reads = _of(_consumers(tables).union(_members(tables)), reads_of_consumers(tables))
    last = kept(_last_incarnations(tables))
    where = doubts(
        tables,
        all_reads,
        READER,
        reported_by=last,
        is_odd=_is_above_the_high_watermark(),
    )
    reads = where.doubted(all_reads.select(*READ)).withColumn("operation", operation_text())
    held = where.doubted(held_records(tables))
    places = places_of(reads, READ_PLACE)
    told = reads.where(life_is_known())
    beside = with_first(told, places_of(told, READ_IN_LIFE), READ_IN_LIFE, ["line"])
    changed = beside.where(fn.col("value") != fn.col("first.value"))
    findings = all_of(
        _read_twice(changed),
        _read_above_the_high_watermark(reads),
        _not_held(tables, reads, changed, held),
        _never_read(tables, reads, held, last),
    )
    looked_at = places.select("run_id", fn.lit(1).alias("rows"))
    if where.like is not None:
        looked_at = looked_at.unionByName(where.like.select("run_id", "rows"))
    silent = _silent(tables, all_reads).withColumn("is_silent", fn.lit(True))
    examined = sum_by_run(tables, looked_at, "rows").join(fn.broadcast(silent), "run_id", "left")
    counted = fn.when(fn.col("is_silent"), fn.lit(0).cast("long")).otherwise(fn.col("examined"))
    return CheckFrames(findings, examined.select("run_id", counted.alias("examined")))


def _consumers(tables: Tables) -> DataFrame:
    """Return (run_id, client) of the promised consumers."""
    return tables[RUNS].select("run_id", fn.explode("consumers").alias("client"))


def _members(tables: Tables) -> DataFrame:
    """Return (run_id, client) of the members of promised groups."""
    return tables[GROUP_MEMBERS].select("run_id", "client")


def _of(clients: DataFrame, operations: DataFrame) -> DataFrame:
    """Return the operations of the clients' processes."""
    own = fn.broadcast(clients.distinct())
    named = operations.withColumn("client", client_of_process())
    return named.join(own, ["run_id", "client"], "left_semi").drop("client")


def _silent(tables: Tables, reads: DataFrame) -> DataFrame:
    """Return (run_id) of the runs with a promised consumer that read nothing, each once."""
    read = reads.select("run_id", client_of_process().alias("client")).distinct()
    silent = _consumers(tables).join(read, ["run_id", "client"], "left_anti")
    return silent.select("run_id").distinct()


def _read_twice(changed: DataFrame) -> DataFrame:
    return findings_of(
        changed,
        Wording.READ_TWICE,
        invariant=INVARIANT,
        offset="offset",
        operation="operation",
        facts=["value", fn.col("first.value").alias("first_value")],
    )


def _is_above_the_high_watermark() -> Column:
    high_watermark = fn.col("high_watermark")
    return (high_watermark >= 0) & (high_watermark <= fn.col("offset"))


def _read_above_the_high_watermark(reads: DataFrame) -> DataFrame:
    return findings_of(
        reads.where(_is_above_the_high_watermark()),
        Wording.READ_UNCOMMITTED,
        invariant=INVARIANT,
        offset="offset",
        operation="operation",
        facts=["value", "high_watermark"],
    )


def _not_held(tables: Tables, reads: DataFrame, changed: DataFrame, held: DataFrame) -> DataFrame:
    """Return the first reads of places whose value a replica does not hold.

    changed: the reads of other values there.
    """
    first = fn.min_by(fn.struct("operation", "value", "held", "key"), "line")
    replicas = whole_replicas(tables).select(*REPLICA, *WHERE_DUE)
    read = reads.where(~fn.col("is_over"))
    gone = (
        where_due(read.join(fn.broadcast(replicas), PARTITION))
        .join(
            held.withColumnRenamed("value", "held").hint("shuffle_hash"),
            [*REPLICA, "offset"],
            "left",
        )
        .where(~fn.col("held").eqNullSafe(fn.col("value")))
        .join(fn.broadcast(changed.select(*LINE)), LINE, "left_anti")
        .groupBy(*READ_PLACE, "broker")
        .agg(first.alias("first"))
        .select(*READ_PLACE, "broker", "first.*")
    )
    return findings_of(
        without_succeeded(tables, gone),
        Wording.READ_AND_GONE,
        invariant=INVARIANT,
        offset="offset",
        broker="broker",
        operation="operation",
        facts=["value", "held"],
    )


def _never_read(tables: Tables, reads: DataFrame, held: DataFrame, last: DataFrame) -> DataFrame:
    replicas = whole_replicas(tables).select(*REPLICA, "log_start_offset", "high_watermark")
    unseen = (
        held.join(fn.broadcast(replicas), REPLICA)
        .where(fn.col("offset") >= fn.col("log_start_offset"))
        .where(fn.col("offset") < fn.col("high_watermark"))
        .drop("log_start_offset", "high_watermark")
        .join(fn.broadcast(last), ["run_id", "topic"])
        .join(reads.hint("shuffle_hash"), READ_PLACE, "left_anti")
    )
    # Such a record may have been compacted away on the replica that the consumer read from.
    keys = tables[RECORDS].select(*REPLICA, "offset", "key")
    keyed = unseen.join(keys, [*REPLICA, "offset"]).withColumn("held", fn.lit(None))
    return findings_of(
        without_succeeded(tables, keyed),
        Wording.NEVER_READ,
        invariant="unseen",
        offset="offset",
        broker="broker",
        facts=["value"],
    )


def _last_incarnations(tables: Tables) -> DataFrame:
    """Return (run_id, topic, process): each consumer's last process, with its topic.

    Runs that did not let consumers read to the end are left out, as are processes with an
    incomplete history, which may have read any record. So are members of groups, since each goes on
    where another ended: the judge checks all members together.
    """
    readers = (
        tables[RUNS]
        .where("to_the_end")
        .select("run_id", fn.inline(fn.arrays_zip("last_readers", "last_topics")))
        .select("run_id", "last_topics", "last_readers")
        .toDF("run_id", "topic", "process")
        .distinct()
    )
    return readers.join(
        fn.broadcast(shared("incomplete", tables)), ["run_id", "process"], "left_anti"
    )


CHECK = Check(NAME, run)
