"""Builds the tables from the checker's own objects, so that both judge the same evidence.

A test makes a Run of HistoryEvents, ReplicaLogs, TraceEvents, looks and Probes; the rows that
ingestion would write of it go to Spark (tables_of) and, as the same Arrow tables, to DuckDB.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from typing import Any

import msgspec
import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import to_arrow_schema

from highwater_checker.history import (
    OF_MEMBERS,
    SEND,
    Acknowledged,
    HistoryEvent,
    client_of,
    sends_of,
    unmatched_of,
)
from highwater_checker.incomplete import Incomplete, incomplete_of
from highwater_checker.lives import deleted_topics
from highwater_checker.lives_of_records import UNKNOWN, LifeOfRecord, LivesOfRecords
from highwater_checker.looks import Look
from highwater_checker.probes import Probe
from highwater_checker.run_folder.documents import PromisedConsumer, PromisedGroup, Promises
from highwater_checker.run_folder.histories import last_process
from highwater_checker.segments import ReplicaLog
from highwater_core.events import TraceEvent
from highwater_core.ids import TopicPartition
from highwater_pipeline.ingest.details import typed_details
from highwater_pipeline.tables import (
    DATA_VERSION,
    EVENTS,
    GROUP_MEMBERS,
    LOOKS,
    OPERATIONS,
    PROBES,
    RECORDS,
    REPLICA_LOOKS,
    REPLICAS,
    RUNS,
    TABLES,
    Table,
    Tables,
)

Row = dict[str, object]
Rows = Iterable[Mapping[str, Any]]
"""Of one table, by column; a column that a row lacks is null."""


def tables_from_rows(spark: SparkSession, given: Mapping[Table, Rows]) -> Tables:
    """Return every table, with the rows that are given of some, as read_tables has small ones."""
    by_name = {table.name: rows for table, rows in given.items()}
    return Tables(
        {
            table.name: spark.createDataFrame(
                [tuple(row.get(name) for name in table.columns) for row in rows], table.schema
            )
            .coalesce(1)
            .cache()
            for table in TABLES
            for rows in (by_name.get(table.name, ()),)
        },
        are_small=True,
    )


@dataclass(frozen=True, slots=True)
class Damaged:
    """A replica whose log did not decode, and why."""

    topic: str
    partition: int
    broker: int
    damage: str


@dataclass(frozen=True, slots=True)
class Run:
    """The evidence of one run, as the checker gets it. Its clocks begin at 0.

    history: of all processes; a process's own events are in their order.
    acks, max_in_flight: by client ("p0", whose incarnations are p0, p0.2, ...); unknown for others.
    idempotent: clients; if empty, it is unknown which are.
    looks: the last one is the final look.
    cut_off: replicas that were copied and are not checked.
    """

    run_id: str
    history: Sequence[HistoryEvent] = ()
    acks: Mapping[str, int] = field(default_factory=dict)
    max_in_flight: Mapping[str, int] = field(default_factory=dict)
    replicas: Sequence[ReplicaLog] = ()
    damaged: Sequence[Damaged] = ()
    cut_off: Sequence[ReplicaLog] = ()
    only_in_sync: bool = False
    to_the_end: bool = True
    saw_the_end: bool = True
    events: Sequence[TraceEvent] = ()
    looks: Sequence[Look] = ()
    probes: Sequence[Probe] = ()
    idempotent: Collection[str] = ()
    incomplete: Collection[str] = ()
    start_wall_ns: int | None = None

    def is_idempotent(self, process: str) -> bool:
        return client_of(process) in self.idempotent

    def histories(self) -> dict[str, list[HistoryEvent]]:
        """Return each process's events, in the order of the files' names: p0.2.jsonl, p0.jsonl."""
        found: dict[str, list[HistoryEvent]] = {}
        for event in self.history:
            found.setdefault(event.process, []).append(event)
        return dict(sorted(found.items(), key=lambda each: f"{each[0]}.jsonl"))

    def readers(self, *, members: bool) -> list[str]:
        """Return the clients that do not send alone: members of a group, or consumers."""
        functions: dict[str, set[str]] = {}
        for event in self.history:
            functions.setdefault(client_of(event.process), set()).add(event.function)
        return [
            client
            for client, all_of_its in sorted(functions.items())
            if all_of_its != {SEND} and members is not all_of_its.isdisjoint(OF_MEMBERS)
        ]

    def promises(self) -> Promises:
        """Return the promise of a group and of consumers that the tables have."""
        consumers = tuple(PromisedConsumer(each, "t") for each in self.readers(members=False))
        groups = (PromisedGroup("g", "t", tuple(self.readers(members=True))),)
        return Promises(consumers=consumers, groups=groups)

    def incomplete_histories(self) -> Incomplete:
        return incomplete_of(self.incomplete, self.promises(), self.histories())

    def last_readers(self) -> list[tuple[str, str]]:
        """Return each consumer's last process, with each topic that its history names."""
        topics: dict[str, set[str]] = {}
        for event in self.history:
            topics.setdefault(client_of(event.process), set()).add(event.topic)
        return [
            (process, topic)
            for client in self.readers(members=False)
            for process in [last_process(client, self.histories())]
            if process is not None
            for topic in sorted(topics[client])
        ]

    def lives(self) -> LivesOfRecords:
        return LivesOfRecords(self.events, 0)

    def promised(self) -> list[Acknowledged]:
        """Return the records acknowledged with acks=all, each with its topic's life."""
        lives = self.lives()
        return [
            replace(each, life=_life(lives, each))
            for events in self.histories().values()
            for each in sends_of(events).acknowledged
            if self.acks.get(client_of(each.process), -1) == -1
        ]

    def reads(self) -> list[HistoryEvent]:
        histories = self.histories().values()
        return [each for events in histories for each in events if each.function == "poll"]

    def life_of_reads(self) -> Callable[[HistoryEvent], LifeOfRecord]:
        """Return the function that finds the life of a record that was read."""
        return partial(_life_of_read, self.lives())


def _life(lives: LivesOfRecords, ack: Acknowledged) -> LifeOfRecord:
    at = TopicPartition(ack.topic, ack.partition)
    return lives.of(at, ack.offset, ack.invoked_ns, ack.acknowledged_ns)


def _life_of_read(lives: LivesOfRecords, event: HistoryEvent) -> LifeOfRecord:
    at = TopicPartition(event.topic, event.partition)
    return lives.of_read(at, event.offset, event.time_ns)


def tables_of(spark: SparkSession, runs: Iterable[Run]) -> Tables:
    """Return all tables with the runs' rows; tables that a Run has no evidence for are empty."""
    return tables_from_arrow(spark, arrow_tables(runs))


def tables_from_arrow(spark: SparkSession, tables: Mapping[str, pa.Table]) -> Tables:
    """Return the tables of arrow_tables as Spark's."""
    schemas = {table.name: table.schema for table in TABLES}
    return Tables(
        {name: spark.createDataFrame(rows, schemas[name]) for name, rows in tables.items()},
        are_small=True,
    )


def arrow_tables(runs: Iterable[Run]) -> dict[str, pa.Table]:
    """Return the runs' rows by the tables' names, each table with its declared columns."""
    rows: dict[str, list[Row]] = {table.name: [] for table in TABLES}
    for run in runs:
        rows[RUNS.name] += _run(run)
        rows[GROUP_MEMBERS.name] += [
            {"run_id": run.run_id, "group_id": "g", "topic": "t", "client": client}
            for client in run.readers(members=True)
        ]
        rows[OPERATIONS.name] += _operations(run)
        rows[EVENTS.name] += _events(run)
        rows[LOOKS.name] += _looks(run)
        rows[REPLICA_LOOKS.name] += _replica_looks(run)
        rows[PROBES.name] += _probes(run)
        rows[REPLICAS.name] += _replicas(run)
        rows[RECORDS.name] += _records(run)
    return {
        table.name: pa.Table.from_pylist(rows[table.name], schema=to_arrow_schema(table.schema))
        for table in TABLES
    }


def _run(run: Run) -> Iterator[Row]:
    yield {
        "run_id": run.run_id,
        "outcome": "",
        "world": "docker",
        "data_version": DATA_VERSION,
        "start_wall_ns": run.start_wall_ns,
        "only_in_sync": run.only_in_sync,
        "to_the_end": run.to_the_end,
        "saw_the_end": run.saw_the_end,
        "consumers": run.readers(members=False),
        "incomplete": sorted(run.incomplete),
        "last_readers": [process for process, _ in run.last_readers()],
        "last_topics": [topic for _, topic in run.last_readers()],
        "compacted": sorted({log.topic for log in run.replicas if log.is_compacted}),
    }


def _operations(run: Run) -> Iterator[Row]:
    deleted, lives = deleted_topics(run.events), run.lives()
    for process, events in run.histories().items():
        unmatched = unmatched_of(events)
        lived = {each.operation_id: _life(lives, each) for each in sends_of(events).acknowledged}
        for line, event in enumerate(events):
            yield {
                "run_id": run.run_id,
                "line": line,
                **_fields(event),
                "type": event.type.value,
                "acks": run.acks.get(client_of(process)),
                "max_in_flight": run.max_in_flight.get(client_of(process)),
                "is_idempotent": run.is_idempotent(process) if run.idempotent else None,
                "is_unmatched": True if event in unmatched else None,
                **(_life_columns(event, lived, lives) if event.topic in deleted else {}),
            }


def _life_columns(
    event: HistoryEvent, lived: Mapping[int, LifeOfRecord], lives: LivesOfRecords
) -> Row:
    """Return the columns for a deleted topic's life, which is known for sends and reads alone."""
    match event.function, event.type.value:
        case "send", "ok":
            return _fields(lived.get(event.operation_id, UNKNOWN))
        case "poll", "ok":
            return _fields(_life_of_read(lives, event))
    return _fields(UNKNOWN)


def _events(run: Run) -> Iterator[Row]:
    for event in run.events:
        detail = msgspec.json.encode(event.detail).decode()
        yield {
            "run_id": run.run_id,
            **_fields(event),
            "kind": event.kind.value,
            "detail": detail,
            **typed_details(event.detail),
        }


def _looks(run: Run) -> Iterator[Row]:
    for number, look in enumerate(run.looks):
        answers = sorted((node, told) for node, told in look.nodes.items() if told is not None)
        yield {
            "run_id": run.run_id,
            "look": number,
            "time_ns": look.time_ns,
            "answered": [node for node, _ in answers],
            "incarnations": [told.incarnation for _, told in answers],
            "is_final": number == len(run.looks) - 1,
            "silent": sorted(node for node, told in look.nodes.items() if told is None),
        }


def _replica_looks(run: Run) -> Iterator[Row]:
    for number, look in enumerate(run.looks):
        for node, snapshot in look.nodes.items():
            for replica in () if snapshot is None else snapshot.replicas:
                yield {
                    "run_id": run.run_id,
                    "look": number,
                    "time_ns": look.time_ns,
                    "node": node,
                    "incarnation": -1 if snapshot is None else snapshot.incarnation,
                    **_fields(replica),
                    "topic": replica.topic_partition.topic,
                    "partition": replica.topic_partition.partition,
                    "is_final": number == len(run.looks) - 1,
                    "topic_id": replica.topic_id or None,
                }


def _probes(run: Run) -> Iterator[Row]:
    for line, probe in enumerate(run.probes):
        yield {"run_id": run.run_id, "line": line, **_fields(probe)}


def _replicas(run: Run) -> Iterator[Row]:
    for log in (*run.replicas, *run.cut_off):
        yield {
            "run_id": run.run_id,
            "topic": log.topic,
            "partition": log.partition,
            "broker": log.broker_id,
            "high_watermark": -1 if log in run.cut_off else log.high_watermark,
            "log_start_offset": log.log_start_offset,
            "log_end_offset": log.log_end_offset,
            "in_sync": None if log in run.cut_off else log.is_in_sync,
            "batches": len(log.batches),
            "damage": None,
        }
    for damaged in run.damaged:
        unread = {"high_watermark": 0, "log_start_offset": 0, "log_end_offset": 0, "batches": 0}
        yield {"run_id": run.run_id, **_fields(damaged), **unread}


def _records(run: Run) -> Iterator[Row]:
    for log in (*run.replicas, *run.cut_off):
        for batch in log.batches:
            for offset, key, value in batch.records():
                yield {
                    "run_id": run.run_id,
                    "topic": log.topic,
                    "partition": log.partition,
                    "broker": log.broker_id,
                    "offset": offset,
                    "leader_epoch": batch.leader_epoch,
                    "base_offset": batch.base_offset,
                    "batch_crc": zlib.crc32(batch.data),
                    "key": None if key is None else key.decode("utf-8", "replace"),
                    "value": None if value is None else value.decode("utf-8", "replace"),
                }


def _fields(value: Any) -> Row:
    """Return a dataclass's fields by name; the schema leaves out fields that are no column."""
    return {each.name: getattr(value, each.name) for each in fields(value)}
