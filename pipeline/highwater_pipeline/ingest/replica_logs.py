"""Decodes copied logs of replicas to records, and to one row a replica, by the checker's segments.

A worker holds one replica's log in memory at a time, as the checker does.
"""

from __future__ import annotations

import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn
from pyspark.sql.types import (
    BooleanType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from highwater_checker.segments import (
    Batch,
    DamagedLog,
    UnreadableRecords,
    read_batches,
    records_in,
)
from highwater_core.internal_topics import INTERNAL_TOPICS
from highwater_pipeline.ingest.decoding import Row, decoded
from highwater_pipeline.ingest.inventory import SEGMENTS, UNREAD, Inventory
from highwater_pipeline.tables import RECORDS, REPLICAS

REPLICA = ["run_id", "topic", "partition", "broker"]
NOT_COPIED = "not copied: the final look tells of this replica, and its log is not there"
FOLDER = f"{SEGMENTS}/broker-%d/%s-%d"
"""Where in a run's folder the copy of a replica's log is: of broker, topic and partition."""
HOSTED = ("leader", "taking over", "follower")
"""The roles of a replica that has a log."""
NOT_KNOWN = {"high_watermark": -1, "log_start_offset": 0}
"""The offsets of a replica that is not in the final look."""

_FOLDERS = StructType(
    [
        StructField("run_id", StringType()),
        StructField("folder", StringType()),
        StructField("topic", StringType()),
        StructField("partition", IntegerType()),
        StructField("broker", IntegerType()),
        StructField("is_compacted", BooleanType()),
    ]
)
_LOG = StructType(
    [
        StructField("end_offset", LongType()),
        StructField("batches", LongType()),
        StructField("damage", StringType()),
        StructField("damage_offset", LongType()),
        StructField("unread", StringType()),
    ]
)
_SCHEMA = StructType([*RECORDS.schema.fields, StructField("log", _LOG)])


def decoded_logs(
    spark: SparkSession,
    runs: Sequence[Inventory],
    compacted: Mapping[str, Collection[str]],
    tasks: int,
) -> DataFrame:
    """Return one row a record, with RECORDS' columns, and one row a replica, with `log`.

    log:
        end_offset: null for an empty log.
        batches: their number.
        damage: why the log does not decode, else null.
        damage_offset: where the log ends before the damage, null where that is not known.
        unread: why the log could not be read whole, though it may be sound; else null.
    compacted: each run's compacted topics.
    tasks: at most so many tasks read the replicas.
    """
    folders = [cells for run in runs for cells in _folders_of(run, compacted[run.run_id])]
    rows = [tuple(cells[name] for name in _FOLDERS.names) for cells in folders]
    return decoded(spark, rows, _FOLDERS, _rows, _SCHEMA, tasks)


def rows_of_replicas(run: Inventory, compacted: Collection[str]) -> Iterator[Row]:
    """Yield the rows of decoded_logs of one run. compacted: its compacted topics."""
    for folder in _folders_of(run, compacted):
        yield from _rows(folder)


def records_of(logs: DataFrame) -> DataFrame:
    """Return the rows of RECORDS in the frame of decoded_logs."""
    return logs.where("log IS NULL").select(*RECORDS.columns)


def asked_of(looks: DataFrame, runs: DataFrame) -> DataFrame:
    """Return the final look's rows of the replicas on which a verdict rests, with broker.

    looks: rows of REPLICA_LOOKS. runs: rows of RUNS.
    These are the replicas of compared topics whose partition has a leader, assigned by that leader
    or in its ISR; in a run that judges only replicas in sync, those in its ISR.
    Source: highwater_checker.run_folder.replica_logs.
    """
    final = looks.where("is_final").withColumnRenamed("node", "broker")
    leader = fn.struct("leader_epoch", -fn.col("broker"))
    partition = ["run_id", "topic", "partition"]
    led = (
        final.where(fn.col("role") == "leader")
        .groupBy(*partition)
        .agg(
            fn.max_by("isr", leader).alias("in_sync"),
            fn.max_by("assigned_replicas", leader).alias("assigned"),
        )
    )
    promised = runs.select("run_id", "topics", "only_in_sync", "saw_the_end")
    is_promised = fn.coalesce(fn.array_contains("topics", fn.col("topic")), fn.lit(True))
    is_member = fn.array_contains("in_sync", fn.col("broker"))
    is_assigned = fn.array_contains("assigned", fn.col("broker"))
    only_in_sync = fn.coalesce("only_in_sync", fn.lit(False))
    is_asked = fn.when(only_in_sync, fn.col("saw_the_end") & is_member).otherwise(
        is_assigned | is_member
    )
    return (
        final.join(led, partition)
        .join(fn.broadcast(promised), "run_id")
        .where(is_promised & is_asked)
        .withColumn("in_sync", is_member)
    )


def replicas_of(logs: DataFrame, asked: DataFrame) -> DataFrame:
    """Return the rows of REPLICAS: the logs of decoded_logs with the final look's offsets.

    asked: as asked_of returns it.
    high_watermark: -1 for a replica that is not in asked.
    An empty or damaged log ends at its start.
    """
    told = asked.select(*REPLICA, "high_watermark", "log_start_offset", "in_sync")
    return (
        logs.where("log IS NOT NULL AND log.unread IS NULL")
        .select(*REPLICA, "log.*")
        .join(told, REPLICA, "left")
        .fillna(dict(NOT_KNOWN))
        .withColumn("log_end_offset", fn.coalesce("end_offset", "log_start_offset"))
        .select(*REPLICAS.columns)
    )


def unread_of(logs: DataFrame) -> DataFrame:
    """Return the rows of QUARANTINE for replicas whose logs could not be read to their ends."""
    return logs.where("log.unread IS NOT NULL").select(
        "run_id",
        fn.format_string(FOLDER, "broker", "topic", "partition").alias("file"),
        fn.lit(-1).cast("long").alias("line"),
        fn.col("log.unread").alias("reason"),
        fn.lit(None).cast("string").alias("text"),
    )


def not_copied(logs: DataFrame, asked: DataFrame) -> DataFrame:
    """Return the rows of QUARANTINE for replicas in asked whose logs were not copied."""
    folder = fn.format_string(FOLDER, "broker", "topic", "partition")
    return (
        asked.where(fn.col("role").isin(*HOSTED))
        .join(logs.where("log IS NOT NULL"), REPLICA, "left_anti")
        .select(
            "run_id",
            folder.alias("file"),
            fn.lit(-1).cast("long").alias("line"),
            fn.lit(NOT_COPIED).alias("reason"),
            fn.lit(None).cast("string").alias("text"),
        )
    )


def _folders_of(run: Inventory, compacted: Collection[str]) -> Iterator[Row]:
    for replica in run.replicas:
        yield {
            "run_id": run.run_id,
            "folder": str(run.folder / replica.path),
            "topic": replica.topic,
            "partition": replica.partition,
            "broker": replica.broker,
            "is_compacted": replica.topic in compacted,
        }


def _rows(folder: Row) -> Iterator[Row]:
    replica = {name: folder[name] for name in REPLICA}
    log: dict[str, Any] = {**dict.fromkeys(_LOG.names), "batches": 0}
    try:
        is_compacted = folder["is_compacted"]
        batches = read_batches(Path(folder["folder"]), is_compacted=is_compacted)
        yield from _records(replica, batches, is_compacted=is_compacted)
    except DamagedLog as error:
        log["damage"] = str(error)
        if error.offset >= 0:
            log["damage_offset"] = error.offset
    except (UnreadableRecords, OSError) as error:
        log["unread"] = f"{UNREAD}: {error}"
    else:
        log["end_offset"] = batches[-1].next_offset if batches else None
        log["batches"] = len(batches)
    yield {**replica, "log": log}


def _records(replica: Row, batches: Iterable[Batch], *, is_compacted: bool) -> Iterator[Row]:
    """Yield the log's rows of RECORDS.

    Records of the brokers' own topics are binary: their bytes that are no UTF-8 stay different.
    """
    errors = "backslashreplace" if replica["topic"] in INTERNAL_TOPICS else "replace"
    batch_crc, of_batch = 0, None
    for batch, offset, key, value in records_in(batches, is_compacted=is_compacted):
        if batch is not of_batch:
            batch_crc, of_batch = zlib.crc32(batch.data), batch
        yield {
            **replica,
            "offset": offset,
            "leader_epoch": batch.leader_epoch,
            "base_offset": batch.base_offset,
            "batch_crc": batch_crc,
            "key": _text(key, errors),
            "value": _text(value, errors),
        }


def _text(data: bytes | None, errors: str) -> str | None:
    return None if data is None else data.decode("utf-8", errors)
