"""Makes tables of a sound run, of any size, for the bench of the pipeline.

DuckDB makes them from row numbers, already in the order of their sort keys, so that 10^8 rows need
neither a run that long nor a sort. Record n of the run is sent, acknowledged and read once, and
lies on three brokers; its ten rows:

    operations  the send's begin and end, and a consumer's read
    events      one of each broker and one of a controller, so that every node's seq has no gap
    records     one of each broker
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql.pandas.types import to_arrow_schema

from highwater_core.events import EventKind
from highwater_core.ids import FIRST_CONTROLLER_ID
from highwater_pipeline.tables import (
    DATA_VERSION,
    EVENTS,
    LOOKS,
    OPERATIONS,
    RECORDS,
    REPLICA_LOOKS,
    REPLICAS,
    RUNS,
    Row,
    Table,
)

RUN_ID = "made"
TOPIC = "t"
ROWS_PER_RECORD = 10
BROKERS = (0, 1, 2)
_ISR = f'{{"isr":{list(BROKERS)}}}'
PRODUCERS = 4
BATCH = 10
"""Records of one partition in a batch."""
HOT_OF_TEN = 9
"""The number of records in partition 0, of every ten, where it is hot."""
LOOK_COUNT = 20
SEND_NS = 1_000
LATENCIES = 997
"""How many different latencies there are, of 1 ns and more: below SEND_NS, so that sends of one
partition do not overlap."""
LOST = 100
"""About how many of all records LACKING does not have, far from each other. A check of acknowledged
records has to find them."""
LACKING = 1
MEMORY = "4GB"
Rows = Iterable[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Shape:
    """The size of the tables.

    rows: of all tables together, about.
    partitions: of the topic.
    is_hot: whether partition 0 has nine of ten records; else all have equally many.
    """

    rows: int
    partitions: int = 48
    is_hot: bool = False

    @property
    def records(self) -> int:
        return max(self.rows // ROWS_PER_RECORD, 1)

    @property
    def lost_every(self) -> int:
        """LACKING lacks the last of this many records. It is odd, unlike other periods here."""
        return max(self.records // LOST | 1, 3)

    @property
    def lost(self) -> int:
        """The number of records that LACKING lacks: the findings of acknowledged_records."""
        return self.records // self.lost_every

    def end_offset(self, partition: int) -> int:
        """Return how many records the partition has."""
        if not self.is_hot:
            return len(range(partition, self.records, self.partitions))
        tens, rest = divmod(self.records, 10)
        if partition == 0:
            return tens * HOT_OF_TEN + min(rest, HOT_OF_TEN)
        return len(range(partition - 1, tens, self.partitions - 1))

    def place(self) -> tuple[str, str]:
        """Return the SQL for partition and offset of record n."""
        if not self.is_hot:
            return f"n % {self.partitions}", f"n // {self.partitions}"
        others = self.partitions - 1
        is_hot = f"n % 10 < {HOT_OF_TEN}"
        return (
            f"if({is_hot}, 0, 1 + n // 10 % {others})",
            f"if({is_hot}, n // 10 * {HOT_OF_TEN} + n % 10, n // 10 // {others})",
        )

    def number(self, partition: int) -> str:
        """Return the SQL for the n of the record at an offset of the partition."""
        if not self.is_hot:
            return f'"offset" * {self.partitions} + {partition}'
        if partition == 0:
            return f'"offset" // {HOT_OF_TEN} * 10 + "offset" % {HOT_OF_TEN}'
        return f'("offset" * {self.partitions - 1} + {partition - 1}) * 10 + {HOT_OF_TEN}'


def make_tables(shape: Shape, store: Path) -> None:
    """Write the run's tables below store, as an ingest lays them out, one file a partition."""
    began = list(_began(shape))
    for kind in {event["kind"] for event in began}:
        of_kind = [event for event in began if event["kind"] == kind]
        _write_rows(of_kind, EVENTS, _file(store, EVENTS, kind))
    small: dict[Table, Rows] = {
        RUNS: [
            {
                "outcome": "",
                "brokers": len(BROKERS),
                "data_version": DATA_VERSION,
                "consumers": ["c0"],
            }
        ],
        LOOKS: _looks(),
        REPLICA_LOOKS: _replica_looks(shape),
        REPLICAS: _replicas(shape),
    }
    for table, rows in small.items():
        _write_rows(rows, table, _file(store, table))
    with duckdb.connect(config={"memory_limit": MEMORY, "temp_directory": str(store)}) as engine:
        for kind, query in _events(shape).items():
            _copy(engine, query, _file(store, EVENTS, kind))
        _copy(engine, _operations(shape), _file(store, OPERATIONS))
        _copy(engine, _held(shape), _file(store, RECORDS))


def _file(store: Path, table: Table, kind: str | None = None) -> Path:
    folder = store / table.name / f"run_id={RUN_ID}"
    return (folder if kind is None else folder / f"kind={kind}") / "part-0.parquet"


# ---------------------------------------------------------------- large tables, in SQL

_SQL_TYPES = {
    "string": "VARCHAR", "int": "INTEGER", "bigint": "BIGINT", "boolean": "BOOLEAN",
    "array<int>": "INTEGER[]", "array<string>": "VARCHAR[]",
}  # fmt: skip
UNION = " UNION ALL "


def _copy(engine: duckdb.DuckDBPyConnection, query: str, file: Path) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    engine.execute(f"COPY ({query}) TO '{file}' (FORMAT parquet, COMPRESSION snappy)")


def _select(table: Table, values: Mapping[str, str], source: str) -> str:
    """Return a query for all columns of the table's files, null where no value is given."""
    cells = (
        f'CAST({values.get(name, "NULL")} AS {_SQL_TYPES[kind.simpleString()]}) AS "{name}"'
        for name, kind in table.columns.items()
        if name not in table.partitioned_by
    )
    return f"SELECT {', '.join(cells)} FROM {source}"  # noqa: S608


def _operations(shape: Shape) -> str:
    """Return the consumer's reads, then each producer's sends, two lines each."""
    partition, offset = shape.place()
    shared = {"topic": f"'{TOPIC}'", "partition": partition, "value": "'v' || n", "error": "''"}
    read = shared | {
        "process": "'c0'", "line": "n", "time_ns": f"(n + 1) * {SEND_NS}", "type": "'ok'",
        "operation_id": "n", "function": "'poll'", "offset": offset, "tries": "0",
        "high_watermark": f"{offset} + 1",
    }  # fmt: skip
    sent = shared | {
        "line": "line", "time_ns": f"n * {SEND_NS} + if(is_end, 1 + n % {LATENCIES}, 0)",
        "type": "if(is_end, 'ok', 'invoke')", "operation_id": "line // 2", "function": "'send'",
        "offset": f"if(is_end, {offset}, -1)", "tries": "if(is_end, 1, 0)",
        "high_watermark": "-1", "acks": "-1", "max_in_flight": "1",
    }  # fmt: skip
    reads = _select(OPERATIONS, read, _records(shape))
    sends = (
        _select(OPERATIONS, sent | {"process": f"'p{producer}'"}, _lines(shape, producer))
        for producer in range(PRODUCERS)
    )
    return UNION.join((reads, *sends))


def _records(shape: Shape) -> str:
    return f"(SELECT range AS n FROM range({shape.records}))"  # noqa: S608


def _lines(shape: Shape, producer: int) -> str:
    """Return line, is_end and n of the producer's history: it sends every PRODUCERS-th record."""
    count = 2 * len(range(producer, shape.records, PRODUCERS))
    return (
        f"(SELECT range AS line, range % 2 = 1 AS is_end, "  # noqa: S608
        f"range // 2 * {PRODUCERS} + {producer} AS n FROM range({count}))"
    )


def _events(shape: Shape) -> dict[str, str]:
    """Return queries by kind: leaders' appends, followers' high watermarks, commands."""
    partition, offset = shape.place()
    told = {
        "ts_ns": f"n * {SEND_NS}", "incarnation": "0", "seq": "n", "topic": f"'{TOPIC}'",
        "partition": partition, "leader_epoch": "0", "controller_epoch": "1", "offset": offset,
        "detail": "'{}'",
    }  # fmt: skip
    appended = told | {
        "detail": f"""'{{"end_offset":' || {offset} + 1 || '}}'""", "end_offset": f"{offset} + 1",
    }  # fmt: skip
    committed = told | {"detail": f"'{_ISR}'", "isr": str(list(BROKERS))}
    leader = f"{partition} % {len(BROKERS)}"

    def of_brokers(values: Mapping[str, str], condition: str) -> str:
        return UNION.join(
            _select(EVENTS, {**values, "node": str(node)}, _records(shape))
            + f" WHERE ({leader}) {condition} {node}"
            for node in BROKERS
        )

    commands = told | {"node": str(FIRST_CONTROLLER_ID)}
    return {
        EventKind.LOG_APPENDED.value: of_brokers(appended, "="),
        EventKind.HIGH_WATERMARK_ADVANCED.value: of_brokers(committed, "<>"),
        EventKind.COMMAND_SENT.value: _select(EVENTS, commands, _records(shape)),
    }


def _held(shape: Shape) -> str:
    """Return each partition's records on each broker, but for the records that LACKING lacks."""
    base = f'"offset" - "offset" % {BATCH}'
    held = {
        "topic": f"'{TOPIC}'", "partition": "partition", "broker": "broker",
        "offset": '"offset"', "leader_epoch": "0", "base_offset": base,
        "batch_crc": f"{base} + partition", "value": "'v' || n",
    }  # fmt: skip
    logs = (
        _select(RECORDS, held, _log(shape, partition, broker))
        + (f" WHERE (n + 1) % {shape.lost_every} <> 0" if broker == LACKING else "")
        for partition in range(shape.partitions)
        for broker in BROKERS
    )
    return UNION.join(logs)


def _log(shape: Shape, partition: int, broker: int) -> str:
    return (
        f"(SELECT {partition} AS partition, {broker} AS broker, "  # noqa: S608
        f"{shape.number(partition)} AS n, * "
        f'FROM range({shape.end_offset(partition)}) AS log("offset"))'
    )


# ---------------------------------------------------------------- small tables


def _write_rows(rows: Rows, table: Table, file: Path) -> None:
    names = [name for name in table.columns if name not in table.partitioned_by]
    declared = to_arrow_schema(table.schema)
    in_order = sorted(rows, key=lambda row: [row[name] for name in table.sort_key if name in names])
    made = pa.Table.from_pylist(in_order, pa.schema([declared.field(name) for name in names]))
    file.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(made, file)


def _began(shape: Shape) -> Rows:
    """Yield how each partition's only leader epoch began, each node's seq after its others."""
    seq = dict.fromkeys((*BROKERS, FIRST_CONTROLLER_ID), shape.records)

    def event(node: int, kind: EventKind, partition: int, detail: Row) -> Mapping[str, Any]:
        seq[node] += 1
        return {
            "kind": kind.value, "ts_ns": 0, "node": node, "incarnation": 0, "seq": seq[node] - 1,
            "topic": TOPIC, "partition": partition, "leader_epoch": 0, "controller_epoch": 1,
            "offset": 0, "detail": json.dumps(detail), **detail,
        }  # fmt: skip

    for partition in range(shape.partitions):
        leader = partition % len(BROKERS)
        yield event(FIRST_CONTROLLER_ID, EventKind.LEADER_ELECTED, partition, {"leader": leader})
        for broker in BROKERS:
            kind = EventKind.BECAME_LEADER if broker == leader else EventKind.BECAME_FOLLOWER
            yield event(broker, kind, partition, {"high_watermark": 0, "isr": list(BROKERS)})


def _looks() -> Rows:
    for look in range(LOOK_COUNT):
        yield {
            "look": look, "time_ns": look * SEND_NS, "answered": list(BROKERS),
            "incarnations": [0] * len(BROKERS), "is_final": look == LOOK_COUNT - 1,
        }  # fmt: skip


def _replica_looks(shape: Shape) -> Rows:
    for look in range(LOOK_COUNT):
        for partition in range(shape.partitions):
            end_offset = shape.end_offset(partition) * (look + 1) // LOOK_COUNT
            for broker in BROKERS:
                yield {
                    "look": look, "time_ns": look * SEND_NS, "node": broker, "incarnation": 0,
                    "topic": TOPIC, "partition": partition,
                    "role": "leader" if broker == partition % len(BROKERS) else "follower",
                    "leader": partition % len(BROKERS), "leader_epoch": 0, "partition_epoch": 0,
                    "high_watermark": end_offset, "log_start_offset": 0,
                    "log_end_offset": end_offset, "isr": list(BROKERS),
                    "assigned_replicas": list(BROKERS), "is_final": look == LOOK_COUNT - 1,
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
