"""Copied logs of replicas: to records, and to one row a replica, by highwater_checker.segments.

A worker holds one replica's log in memory at a time, as the checker does.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

from highwater_checker.segments import Batch, DamagedLog, UnreadableRecords, read_batches
from highwater_pipeline.ingest.decoding import Row, decoded
from highwater_pipeline.ingest.inventory import SEGMENTS, Inventory, ReplicaFolder
from highwater_pipeline.tables import RECORDS, REPLICAS

REPLICA = ["run_id", "topic", "partition", "broker"]
UNREAD = "unreadable"
NOT_COPIED = "not copied: the final look tells of this replica, and its log is not there"
FOLDER = f"{SEGMENTS}/broker-%d/%s-%d"
"""Where in a run's folder the copy of a replica's log is: of broker, topic and partition."""
HOSTED = ("leader", "follower")
"""The roles of a replica that has a log."""
NOT_KNOWN = {"high_watermark": -1, "log_start_offset": 0}
"""Of a replica of which the final look told nothing."""

_FOLDERS = StructType(
    [
        StructField("run_id", StringType()),
        StructField("folder", StringType()),
        StructField("topic", StringType()),
        StructField("partition", IntegerType()),
        StructField("broker", IntegerType()),
    ]
)
_LOG = StructType(
    [
        StructField("end_offset", LongType()),
        StructField("batches", LongType()),
        StructField("damage", StringType()),
        StructField("unread", StringType()),
    ]
)
_SCHEMA = StructType([*RECORDS.schema.fields, StructField("log", _LOG)])


def decoded_logs(spark: SparkSession, runs: Sequence[Inventory], tasks: int) -> DataFrame:
    """Return RECORDS' columns and `log`, null in records; one row a replica has log instead.

    log: end_offset (null when it holds nothing), batches, damage, and unread: why not all of it
    could be read, though nothing says that it is wrong. tasks: over how many the replicas are
    spread at most.
    """
    folders = [_cells(run, each) for run in runs for each in run.replicas]
    rows = [tuple(cells[name] for name in _FOLDERS.names) for cells in folders]
    return decoded(spark, rows, _FOLDERS, _rows, _SCHEMA, tasks)


def rows_of_replica(run: Inventory, replica: ReplicaFolder) -> Iterator[Row]:
    """Yield the rows of decoded_logs' frame that are of one replica."""
    return _rows(_cells(run, replica))


def records_of(logs: DataFrame) -> DataFrame:
    """Return RECORDS' rows of decoded_logs' frame."""
    return logs.where("log IS NULL").select(*RECORDS.columns)


def asked_of(looks: DataFrame, runs: DataFrame) -> DataFrame:
    """Return the rows of the final look of those replicas that a verdict asks, with broker.

    looks: REPLICA_LOOKS' rows. runs: RUNS' rows.
    A replica is asked if its topic is promised and its partition has a leader. A run that asks
    only of replicas in sync asks those in that leader's ISR.
    Source: highwater_checker.run_folder.replica_logs.
    """
    final = looks.where("is_final").withColumnRenamed("node", "broker")
    leader = fn.struct("leader_epoch", -fn.col("broker"))
    partition = ["run_id", "topic", "partition"]
    led = (
        final.where(fn.col("role") == "leader")
        .groupBy(*partition)
        .agg(fn.max_by("isr", leader).alias("in_sync"))
    )
    promised = runs.select("run_id", "topics", "only_in_sync", "saw_the_end")
    is_promised = fn.coalesce(fn.array_contains("topics", fn.col("topic")), fn.lit(True))
    is_in_sync = fn.col("saw_the_end") & fn.array_contains("in_sync", fn.col("broker"))
    return (
        final.join(led, partition)
        .join(fn.broadcast(promised), "run_id")
        .where(is_promised & (~fn.coalesce("only_in_sync", fn.lit(False)) | is_in_sync))
    )


def replicas_of(logs: DataFrame, asked: DataFrame) -> DataFrame:
    """Return REPLICAS' rows: decoded_logs' frame with what the final look told of each replica.

    asked: as asked_of returns it. high_watermark is -1 of a replica that is not in there; a log
    that is empty or damaged ends where it starts.
    """
    told = asked.select(*REPLICA, "high_watermark", "log_start_offset")
    return (
        logs.where("log IS NOT NULL AND log.unread IS NULL")
        .select(*REPLICA, "log.*")
        .join(told, REPLICA, "left")
        .fillna(dict(NOT_KNOWN))
        .withColumn("log_end_offset", fn.coalesce("end_offset", "log_start_offset"))
        .select(*REPLICAS.columns)
    )


def unread_of(logs: DataFrame) -> DataFrame:
    """Return QUARANTINE's rows of replicas whose logs could not be read to their ends."""
    return logs.where("log.unread IS NOT NULL").select(
        "run_id",
        fn.format_string(FOLDER, "broker", "topic", "partition").alias("file"),
        fn.lit(-1).cast("long").alias("line"),
        fn.col("log.unread").alias("reason"),
        fn.lit(None).cast("string").alias("text"),
    )


def not_copied(logs: DataFrame, asked: DataFrame) -> DataFrame:
    """Return QUARANTINE's rows of replicas that are asked and whose logs were not copied."""
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


def _cells(run: Inventory, replica: ReplicaFolder) -> Row:
    return {
        "run_id": run.run_id,
        "folder": str(run.folder / replica.path),
        "topic": replica.topic,
        "partition": replica.partition,
        "broker": replica.broker,
    }


def _rows(folder: Row) -> Iterator[Row]:
    replica = {name: folder[name] for name in REPLICA}
    log: dict[str, Any] = {"end_offset": None, "batches": 0, "damage": None, "unread": None}
    try:
        batches = read_batches(Path(folder["folder"]))
        for batch in batches:
            yield from _records(replica, batch)
    except DamagedLog as error:
        log["damage"] = str(error)
    except (UnreadableRecords, OSError) as error:
        log["unread"] = f"{UNREAD}: {error}"
    else:
        log["end_offset"] = batches[-1].next_offset if batches else None
        log["batches"] = len(batches)
    yield {**replica, "log": log}


def _records(replica: Row, batch: Batch) -> Iterator[Row]:
    batch_crc = zlib.crc32(batch.data)
    for offset, key, value in batch.records():
        yield {
            **replica,
            "offset": offset,
            "leader_epoch": batch.leader_epoch,
            "base_offset": batch.base_offset,
            "batch_crc": batch_crc,
            "key": _text(key),
            "value": _text(value),
        }


def _text(data: bytes | None) -> str | None:
    return None if data is None else data.decode("utf-8", "replace")
