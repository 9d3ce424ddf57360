"""Ingests runs into every table in this process, with the decoders of Spark's workers.

For a small run, Spark needs some twenty seconds to plan its jobs and to start Python in its
workers, and one second to read and write. The tables have the same rows either way.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet
from pyspark.sql.pandas.types import to_arrow_schema

from highwater_pipeline.ingest.decoding import Row, in_batches
from highwater_pipeline.ingest.documents import Documents, read_documents
from highwater_pipeline.ingest.inventory import Inventory
from highwater_pipeline.ingest.line_files import FORMATS, SEEN, rows_of_file
from highwater_pipeline.ingest.lives import with_lives
from highwater_pipeline.ingest.replica_logs import (
    FOLDER,
    HOSTED,
    NOT_COPIED,
    NOT_KNOWN,
    rows_of_replicas,
)
from highwater_pipeline.ingest.taking_in import Counts, kind_of, line_files_of, whole_files_of
from highwater_pipeline.tables import (
    EVENTS,
    EXCUSED,
    GROUP_MEMBERS,
    LOOKS,
    OPERATIONS,
    QUARANTINE,
    RECORDS,
    REPLICA_LOOKS,
    REPLICAS,
    RUNS,
    TRACE_BEGINS,
    Table,
)

_ESCAPED = re.compile(r"[\x01-\x1f\x7f\"#%'*/:=?\\{\[\]^]")
"""The characters that Spark escapes in the name of a partition's folder (ExternalCatalogUtils)."""


def take_in_small(runs: Sequence[Inventory], store: Path) -> Counts:
    """Write the runs' rows to every table of the store, and return their numbers.

    All rows of one run are in memory at once, in Arrow's format.
    """
    rows: dict[str, dict[str, int]] = {}
    quarantined: dict[str, dict[str, int]] = {}
    for run in runs:
        tables = _tables(read_documents(run))
        for table, found in tables.items():
            _write(found, table, run.run_id, store)
        rows[run.run_id] = {
            table.name: found.num_rows for table, found in tables.items() if found.num_rows
        }
        reasons = tables[QUARANTINE]["reason"].to_pylist()
        quarantined[run.run_id] = dict(sorted(Counter(map(kind_of, reasons)).items()))
    return Counts(rows, quarantined)


def _tables(documents: Documents) -> dict[Table, pa.Table]:
    """Return the run's rows of every table, in no order."""
    run = documents.inventory
    quarantine = whole_files_of(run, documents)
    files = line_files_of(run, documents)
    tables = {
        each.table: _table(
            each.table,
            _aside(
                (row for file in files[name] for row in rows_of_file(file, each.table)),
                "wrong",
                quarantine,
            ),
        )
        for name, each in FORMATS.items()
    }
    tables[OPERATIONS] = with_lives(tables[OPERATIONS], tables[EVENTS], documents.start_wall_ns)
    seen = pa.concat_tables([tables.pop(SEEN), _table(SEEN, documents.final_look)])
    is_look = pc.is_null(seen["topic"])
    looks = seen.filter(pc.invert(is_look)).select(list(REPLICA_LOOKS.columns))
    told: list[Row] = []
    records = _table(RECORDS, _aside(rows_of_replicas(run, documents.compacted), "log", told))
    logs = [log for log in told if log["unread"] is None]
    asked = _asked(looks.filter(looks["is_final"]).to_pylist(), documents.row)
    quarantine += _unread(told)
    quarantine += _not_copied(run.run_id, asked, told)
    return {
        RUNS: _table(RUNS, [documents.row]),
        **tables,
        LOOKS: seen.filter(is_look).select(list(LOOKS.columns)),
        REPLICA_LOOKS: looks,
        REPLICAS: _table(REPLICAS, _replicas(asked, logs)),
        RECORDS: records,
        EXCUSED: _table(EXCUSED, documents.excused),
        GROUP_MEMBERS: _table(GROUP_MEMBERS, documents.members),
        TRACE_BEGINS: _table(TRACE_BEGINS, documents.rows_of_begins()),
        QUARANTINE: _table(QUARANTINE, quarantine),
    }


def _aside(rows: Iterable[Row], name: str, aside: list[Row]) -> Iterator[Row]:
    """Yield the rows without a cell of this name; append the cells of the other rows to `aside`,
    with the names of run and replica."""
    for row in rows:
        if name in row:
            others = {key: cell for key, cell in row.items() if key != name}
            aside.append({**others, **row[name]})
        else:
            yield row


_Replica = tuple[str, int, int]
"""Topic, partition, broker."""


def _asked(final: Iterable[Row], run: Row) -> dict[_Replica, Row]:
    """Return the same rows as replica_logs.asked_of."""
    last = sorted(final, key=lambda row: (row["leader_epoch"], -row["node"]))
    leaders = {(row["topic"], row["partition"]): row for row in last if row["role"] == "leader"}
    topics, only_in_sync = run.get("topics"), run.get("only_in_sync")
    asked: dict[_Replica, Row] = {}
    for row in last:
        leader = leaders.get((row["topic"], row["partition"]))
        is_promised = topics is None or row["topic"] in topics
        if leader is None or not is_promised:
            continue
        in_sync = row["node"] in leader["isr"]
        is_assigned = row["node"] in leader["assigned_replicas"]
        is_asked = in_sync and run["saw_the_end"] if only_in_sync else in_sync or is_assigned
        if is_asked:
            asked[row["topic"], row["partition"], row["node"]] = {**row, "in_sync": in_sync}
    return asked


def _replicas(asked: Mapping[_Replica, Row], logs: Iterable[Row]) -> Iterator[Row]:
    """Yield the same rows as replica_logs.replicas_of."""
    for log in logs:
        told = asked.get((log["topic"], log["partition"], log["broker"]), NOT_KNOWN)
        start, end = told["log_start_offset"], log["end_offset"]
        yield {
            **log,
            "high_watermark": told["high_watermark"],
            "log_start_offset": start,
            "log_end_offset": start if end is None else end,
            "in_sync": told.get("in_sync"),
        }


def _unread(logs: Iterable[Row]) -> list[Row]:
    """Return the same rows as replica_logs.unread_of."""
    return [
        {
            "run_id": log["run_id"],
            "file": FOLDER % (log["broker"], log["topic"], log["partition"]),
            "line": -1,
            "reason": log["unread"],
        }
        for log in logs
        if log["unread"] is not None
    ]


def _not_copied(run_id: str, asked: Mapping[_Replica, Row], logs: Iterable[Row]) -> list[Row]:
    """Return the same rows as replica_logs.not_copied."""
    copied = {(log["topic"], log["partition"], log["broker"]) for log in logs}
    return [
        {
            "run_id": run_id,
            "file": FOLDER % (broker, topic, partition),
            "line": -1,
            "reason": NOT_COPIED,
        }
        for (topic, partition, broker), told in asked.items()
        if told["role"] in HOSTED and (topic, partition, broker) not in copied
    ]


def _table(table: Table, rows: Iterable[Row]) -> pa.Table:
    schema = to_arrow_schema(table.schema)
    return pa.Table.from_batches(in_batches(rows, schema), schema)


def _write(rows: pa.Table, table: Table, run_id: str, store: Path) -> None:
    """Write the run's rows to the same folder as Spark, in the order of the table's sort key."""
    folder = store / table.name / _partition("run_id", run_id)
    in_order = rows.sort_by([(name, "ascending") for name in table.sort_key])
    parts = {"": in_order}
    if "kind" in table.partitioned_by:
        parts = {
            _partition("kind", kind): in_order.filter(pc.equal(in_order["kind"], kind))
            for kind in pc.unique(in_order["kind"]).to_pylist()
        }
    kept = [name for name in table.columns if name not in table.partitioned_by]
    for place, part in parts.items():
        if part.num_rows:
            (folder / place).mkdir(parents=True)
            parquet.write_table(part.select(kept), folder / place / "part-0.parquet")


def _partition(column: str, value: str) -> str:
    escaped = _ESCAPED.sub(lambda found: f"%{ord(found[0]):02X}", value)
    return f"{column}={escaped}"
