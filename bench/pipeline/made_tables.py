"""Tables of a sound run, as large as is asked for: what the bench of the pipeline reads.

Spark makes them from row numbers, so that 10^8 rows need no run that long. Record n of the run is
sent, acknowledged and read once, and lies on three brokers; its ten rows:

    operations  the send's begin and end, and a consumer's read
    events      one of each broker and one of a controller, so that every node's seq has no gap
    records     one of each broker
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as fn

from highwater_core.events import EventKind
from highwater_core.ids import FIRST_CONTROLLER_ID
from highwater_pipeline.ingest.store import write
from highwater_pipeline.tables import (
    DATA_VERSION,
    EVENTS,
    OPERATIONS,
    RECORDS,
    REPLICA_LOOKS,
    REPLICAS,
    RUNS,
    Table,
)

RUN_ID = "made"
TOPIC = "t"
ROWS_PER_RECORD = 10
BROKERS = (0, 1, 2)
PRODUCERS = 4
BATCH = 10
"""Records of one partition in a batch."""
LOOKS = 20
SEND_NS = 1_000
LOST_EVERY = 1_009
"""Of records, which one LACKING does not have: what a check of acknowledged records has to find."""
LACKING = 1


@dataclass(frozen=True, slots=True)
class Shape:
    """rows: of all tables, about. partitions: of the topic. is_hot: whether half of all records
    are in partition 0; else each has as many as another."""

    rows: int
    partitions: int = 48
    is_hot: bool = False

    @property
    def records(self) -> int:
        return max(self.rows // ROWS_PER_RECORD, 1)

    @property
    def lost(self) -> int:
        """How many records LACKING does not have: the findings of acknowledged_records."""
        return len(range(LOST_EVERY - 1, self.records, LOST_EVERY))

    def end_offset(self, partition: int) -> int:
        """Return how many records the partition has."""
        count, partitions, first = self.records, self.partitions, partition
        if self.is_hot:
            if partition == 0:
                return (count + 1) // 2
            count, partitions, first = count // 2, partitions - 1, partition - 1
        return len(range(first, count, partitions))


def make_tables(spark: SparkSession, shape: Shape, store: Path) -> None:
    """Write the run's tables below store, as an ingest would."""
    records = _records(spark, shape)
    frames: Mapping[Table, DataFrame] = {
        RUNS: _rows(spark, RUNS, [{"outcome": "", "brokers": 3, "data_version": DATA_VERSION}]),
        OPERATIONS: _operations(records),
        EVENTS: _events(records).unionByName(_rows(spark, EVENTS, _began(shape))),
        REPLICA_LOOKS: _rows(spark, REPLICA_LOOKS, _looks(shape)),
        REPLICAS: _rows(spark, REPLICAS, _replicas(shape)),
        RECORDS: _held(records),
    }
    for table, frame in frames.items():
        write(frame, table, store)


def _records(spark: SparkSession, shape: Shape) -> DataFrame:
    """Return one row a record: n, partition, offset."""
    n, others = fn.col("id"), shape.partitions - 1
    partition, offset = n % shape.partitions, fn.floor(n / shape.partitions)
    if shape.is_hot:
        half = fn.floor(n / 2)
        is_hot = n % 2 == 0
        partition = fn.when(is_hot, 0).otherwise(1 + half % others)
        offset = fn.when(is_hot, half).otherwise(fn.floor(half / others))
    return spark.range(shape.records).select(
        n.alias("n"), partition.cast("int").alias("partition"), offset.alias("offset")
    )


def _operations(records: DataFrame) -> DataFrame:
    producer, place = fn.col("n") % PRODUCERS, fn.floor(fn.col("n") / PRODUCERS)
    value = fn.concat(fn.lit("v"), fn.col("n").cast("string"))
    none = fn.lit(None)

    def line(number: Column, at: Column, kind: str, tries: int, offset: Column) -> Column:
        return fn.struct(
            fn.concat(fn.lit("p"), producer.cast("string")).alias("process"),
            number.cast("long").alias("line"),
            at.cast("long").alias("time_ns"),
            fn.lit(kind).alias("type"),
            place.cast("long").alias("operation_id"),
            fn.lit("send").alias("function"),
            offset.cast("long").alias("offset"),
            fn.lit(tries).alias("tries"),
            fn.lit(-1).cast("long").alias("high_watermark"),
            fn.lit(-1).alias("acks"),
            fn.lit(1).alias("max_in_flight"),
        )

    begun = fn.col("n") * SEND_NS
    sent = line(2 * place, begun, "invoke", 0, fn.lit(-1))
    ended = line(2 * place + 1, begun + SEND_NS // 2, "ok", 1, fn.col("offset"))
    read = fn.struct(
        fn.lit("c0").alias("process"),
        fn.col("n").alias("line"),
        (begun + SEND_NS).cast("long").alias("time_ns"),
        fn.lit("ok").alias("type"),
        fn.col("n").alias("operation_id"),
        fn.lit("poll").alias("function"),
        fn.col("offset").cast("long").alias("offset"),
        fn.lit(0).alias("tries"),
        (fn.col("offset") + 1).cast("long").alias("high_watermark"),
        none.cast("int").alias("acks"),
        none.cast("int").alias("max_in_flight"),
    )
    return records.select(
        fn.lit(RUN_ID).alias("run_id"),
        fn.lit(TOPIC).alias("topic"),
        "partition",
        value.alias("value"),
        fn.lit("").alias("error"),
        fn.explode(fn.array(sent, ended, read)).alias("line"),
    ).select("run_id", "topic", "partition", "value", "error", "line.*")


def _events(records: DataFrame) -> DataFrame:
    """Return a leader's append, its followers' high watermarks, and a controller's command."""
    leader = fn.col("partition") % len(BROKERS)

    def event(node: int) -> Column:
        leads = leader == node
        kind = fn.when(leads, EventKind.LOG_APPENDED.value).otherwise(
            EventKind.HIGH_WATERMARK_ADVANCED.value
        )
        detail = fn.when(
            leads, fn.concat(fn.lit('{"end_offset":'), fn.col("offset") + 1, fn.lit("}"))
        ).otherwise("{}")
        return fn.struct(fn.lit(node).alias("node"), kind.alias("kind"), detail.alias("detail"))

    sent = fn.struct(
        fn.lit(FIRST_CONTROLLER_ID).alias("node"),
        fn.lit(EventKind.COMMAND_SENT.value).alias("kind"),
        fn.lit("{}").alias("detail"),
    )
    return (
        records.select(
            fn.lit(RUN_ID).alias("run_id"),
            (fn.col("n") * SEND_NS).alias("ts_ns"),
            fn.lit(0).alias("incarnation"),
            fn.col("n").alias("seq"),
            fn.lit(TOPIC).alias("topic"),
            "partition",
            fn.lit(0).alias("leader_epoch"),
            fn.lit(1).alias("controller_epoch"),
            fn.col("offset").cast("long").alias("offset"),
            fn.explode(fn.array(*(event(broker) for broker in BROKERS), sent)).alias("event"),
        )
        .select("*", "event.*")
        .drop("event")
    )


def _held(records: DataFrame) -> DataFrame:
    base = fn.col("offset") - fn.col("offset") % BATCH
    is_lost = (fn.col("n") % LOST_EVERY == LOST_EVERY - 1) & (fn.col("broker") == LACKING)
    brokers = fn.array(*(fn.lit(broker) for broker in BROKERS))
    return (
        records.withColumn("broker", fn.explode(brokers))
        .where(~is_lost)
        .select(
            fn.lit(RUN_ID).alias("run_id"),
            fn.lit(TOPIC).alias("topic"),
            "partition",
            "broker",
            fn.col("offset").cast("long").alias("offset"),
            fn.lit(0).alias("leader_epoch"),
            base.cast("long").alias("base_offset"),
            (base + fn.col("partition")).cast("long").alias("batch_crc"),
            fn.concat(fn.lit("v"), fn.col("n").cast("string")).alias("value"),
        )
    )


# ---------------------------------------------------------------- what is small

Rows = Iterable[Mapping[str, Any]]


def _rows(spark: SparkSession, table: Table, rows: Rows) -> DataFrame:
    cells = [tuple({"run_id": RUN_ID, **row}.get(name) for name in table.columns) for row in rows]
    return spark.createDataFrame(cells, table.schema)


def _began(shape: Shape) -> Rows:
    """Yield how each partition's only leader epoch began, each node's seq after its others."""
    seq = dict.fromkeys((*BROKERS, FIRST_CONTROLLER_ID), shape.records)

    def event(node: int, kind: EventKind, partition: int, detail: str) -> Mapping[str, Any]:
        seq[node] += 1
        return {
            "kind": kind.value, "ts_ns": 0, "node": node, "incarnation": 0, "seq": seq[node] - 1,
            "topic": TOPIC, "partition": partition, "leader_epoch": 0, "controller_epoch": 1,
            "offset": 0, "detail": detail,
        }  # fmt: skip

    for partition in range(shape.partitions):
        leader = partition % len(BROKERS)
        told = f'{{"leader":{leader}}}'
        yield event(FIRST_CONTROLLER_ID, EventKind.LEADER_ELECTED, partition, told)
        for broker in BROKERS:
            kind = EventKind.BECAME_LEADER if broker == leader else EventKind.BECAME_FOLLOWER
            yield event(broker, kind, partition, '{"high_watermark":0}')


def _looks(shape: Shape) -> Rows:
    for look in range(LOOKS):
        for partition in range(shape.partitions):
            end_offset = shape.end_offset(partition) * (look + 1) // LOOKS
            for broker in BROKERS:
                yield {
                    "look": look, "time_ns": look * SEND_NS, "node": broker, "incarnation": 0,
                    "topic": TOPIC, "partition": partition,
                    "role": "leader" if broker == partition % len(BROKERS) else "follower",
                    "leader": partition % len(BROKERS), "leader_epoch": 0, "partition_epoch": 0,
                    "high_watermark": end_offset, "log_start_offset": 0,
                    "log_end_offset": end_offset, "isr": list(BROKERS),
                    "assigned_replicas": list(BROKERS), "is_final": look == LOOKS - 1,
                }  # fmt: skip


def _replicas(shape: Shape) -> Rows:
    for partition in range(shape.partitions):
        end_offset = shape.end_offset(partition)
        for broker in BROKERS:
            yield {
                "topic": TOPIC, "partition": partition, "broker": broker,
                "high_watermark": end_offset, "log_start_offset": 0, "log_end_offset": end_offset,
                "batches": -(-end_offset // BATCH),
            }  # fmt: skip
