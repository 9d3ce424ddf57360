"""I9: what a consumer read was committed and stays as it was, and what is there was read."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from highwater_pipeline.checks.evidence import (
    PARTITION,
    PLACE,
    REPLICA,
    places_of,
    reads_of_consumers,
    whole_replicas,
    with_first,
)
from highwater_pipeline.checks.findings import (
    Check,
    CheckFrames,
    count_by_run,
    findings_of,
    quoted,
    text,
)
from highwater_pipeline.tables import OPERATIONS, RECORDS, Tables

INVARIANT = "I9"
READ_PLACE = ["process", *PLACE]
LINE = ["run_id", "process", "line"]


def run(tables: Tables) -> CheckFrames:
    """Find records that a consumer read and that a replica does not hold there, or the reverse.

    Each consumer's process is judged alone, and is expected to have read every partition of its
    topics from its start; the last incarnation of a client, also to its end. A client's topics are
    those of which it wrote anything: one that wrote nothing is not judged. Below a replica's
    log_start_offset retention removed the records. Where the client tells the high watermark of
    the answer that a record came in, the record is below it.
    Source: replication.md section 2, I9; history-checks.md section 2, "unseen";
    highwater_checker.invariants.reads.
    """
    reads = reads_of_consumers(tables)
    places = places_of(reads, READ_PLACE)
    beside = with_first(reads, places, READ_PLACE, ["line"])
    changed = beside.where(fn.col("value") != fn.col("first.value"))
    held = tables[RECORDS].select(
        *REPLICA, "offset", fn.coalesce("value", fn.lit("")).alias("held")
    )
    findings = (
        _read_twice(changed)
        .unionByName(_read_above_the_high_watermark(reads))
        .unionByName(_not_held(tables, reads, changed, held))
        .unionByName(_never_read(tables, reads, held))
    )
    return CheckFrames(findings, count_by_run(tables, places))


def _read_twice(changed: DataFrame) -> DataFrame:
    return findings_of(
        changed,
        invariant=INVARIANT,
        offset="offset",
        operation="operation",
        message=text(
            "read {first}, then {value}", first=quoted("first.value"), value=quoted("value")
        ),
    )


def _read_above_the_high_watermark(reads: DataFrame) -> DataFrame:
    high_watermark = fn.col("high_watermark")
    return findings_of(
        reads.where((high_watermark >= 0) & (high_watermark <= fn.col("offset"))),
        invariant=INVARIANT,
        offset="offset",
        operation="operation",
        message=text(
            "{value} came with the high watermark {high_watermark}", value=quoted("value")
        ),
    )


def _not_held(tables: Tables, reads: DataFrame, changed: DataFrame, held: DataFrame) -> DataFrame:
    """Return the places whose first value a replica does not hold; changed: reads of others."""
    replicas = whole_replicas(tables).select(*REPLICA, "log_start_offset")
    gone = (
        reads.join(fn.broadcast(replicas), PARTITION)
        .where(fn.col("offset") >= fn.col("log_start_offset"))
        .join(held.hint("shuffle_hash"), [*REPLICA, "offset"], "left")
        .where(~fn.col("held").eqNullSafe(fn.col("value")))
        .join(fn.broadcast(changed.select(*LINE)), LINE, "left_anti")
        .dropDuplicates([*READ_PLACE, "broker"])
    )
    what = text(
        "{value} was read; broker {broker} holds {held}",
        value=quoted("value"),
        held=quoted("held"),
    )
    return findings_of(gone, invariant=INVARIANT, offset="offset", broker="broker", message=what)


def _never_read(tables: Tables, reads: DataFrame, held: DataFrame) -> DataFrame:
    replicas = whole_replicas(tables).select(*REPLICA)
    unseen = (
        held.join(fn.broadcast(replicas), REPLICA, "left_semi")
        .join(fn.broadcast(_last_incarnations(tables)), ["run_id", "topic"])
        .join(reads.hint("shuffle_hash"), READ_PLACE, "left_anti")
    )
    what = text("{held} on broker {broker} was never read", held=quoted("held"))
    return findings_of(unseen, invariant="unseen", offset="offset", broker="broker", message=what)


def _last_incarnations(tables: Tables) -> DataFrame:
    """Return (run_id, topic, process): each consumer's last process, with each of its topics.

    A process is named as its client, and from its second incarnation on with the number: c0, c0.2.
    Source: highwater_client.planned.process_name.
    """
    name = fn.split("process", r"\.", 2)
    number = fn.coalesce(fn.get(name, fn.lit(1)).try_cast("int"), fn.lit(1))
    return (
        tables[OPERATIONS]
        .where(fn.col("function") != "send")
        .groupBy("run_id", fn.get(name, fn.lit(0)).alias("client"))
        .agg(
            fn.max_by("process", number).alias("process"),
            fn.collect_set("topic").alias("topics"),
        )
        .select("run_id", "process", fn.explode("topics").alias("topic"))
    )


CHECK = Check("what was read stays, and all was read (I9)", INVARIANT, run)
