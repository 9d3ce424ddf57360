"""Ingests a group of runs into every table: one pass over their files, one write a table."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn

from highwater_pipeline.at_once import queries_at_once
from highwater_pipeline.checks.traces import deleted_topics
from highwater_pipeline.ingest.decoding import Row, tasks_for
from highwater_pipeline.ingest.documents import Documents, read_documents
from highwater_pipeline.ingest.inventory import Inventory
from highwater_pipeline.ingest.line_files import (
    FORMATS,
    SEEN,
    LineFile,
    decoded_files,
    looks_in,
    replicas_in,
)
from highwater_pipeline.ingest.lives import with_lives_by_topic
from highwater_pipeline.ingest.replica_logs import (
    asked_of,
    decoded_logs,
    not_copied,
    records_of,
    replicas_of,
    unread_of,
)
from highwater_pipeline.ingest.store import write
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


@dataclass(frozen=True, slots=True)
class Counts:
    """Numbers by run: rows by table, and quarantined lines and files by kind of reason."""

    rows: Mapping[str, dict[str, int]]
    quarantined: Mapping[str, dict[str, int]]


def take_in(spark: SparkSession, runs: Sequence[Inventory], store: Path) -> Counts:
    """Write the runs' rows to every table of the store, and return their numbers.

    Files are read once: decoded rows stay in Spark, on disk where memory is short, until the
    accepted rows and the wrong lines are written.
    """
    documents = {run.run_id: read_documents(run) for run in runs}
    runs = [each.inventory for each in documents.values()]
    with ExitStack() as kept:
        frames = _frames(spark, runs, documents, kept)
        with queries_at_once() as pool:
            written = [pool.submit(write, frame, table, store) for table, frame in frames.items()]
            for each in written:
                each.result()
        return _count(frames)


def _frames(
    spark: SparkSession,
    runs: Sequence[Inventory],
    documents: Mapping[str, Documents],
    kept: ExitStack,
) -> dict[Table, DataFrame]:
    """Return every table's rows; frames cached for them last until `kept` is closed."""

    def keep(frame: DataFrame) -> DataFrame:
        cached = frame.cache()
        kept.callback(cached.unpersist)
        return cached

    def small(table: Table, rows_of: Callable[[Documents], Iterable[Row]]) -> DataFrame:
        return _frame(spark, table, [row for each in documents.values() for row in rows_of(each)])

    files = [line_files_of(run, documents[run.run_id]) for run in runs]
    strange = [row for run in runs for row in whole_files_of(run, documents[run.run_id])]
    tasks = tasks_for(sum(run.total_bytes for run in runs))
    decoded = {
        each.table: keep(
            decoded_files(spark, each.table, [file for of in files for file in of[name]], tasks)
        )
        for name, each in FORMATS.items()
    }
    rows = {table: frame.where("wrong IS NULL") for table, frame in decoded.items()}
    compacted = {run_id: each.compacted for run_id, each in documents.items()}
    logs = keep(decoded_logs(spark, runs, compacted, tasks))
    ends = small(SEEN, lambda each: each.final_look)
    seen = rows.pop(SEEN).select(*SEEN.columns).unionByName(ends)
    looks = replicas_in(seen)
    found = small(RUNS, lambda each: [each.row])
    asked = asked_of(looks, found)
    deleted = deleted_topics(rows[EVENTS])
    rows[OPERATIONS] = with_lives_by_topic(rows[OPERATIONS], rows[EVENTS], found, deleted)
    wrong = [
        frame.where("wrong IS NOT NULL").select("run_id", "wrong.*") for frame in decoded.values()
    ]
    quarantine = [
        _frame(spark, QUARANTINE, strange),
        *wrong,
        unread_of(logs),
        not_copied(logs, asked),
    ]
    return {
        RUNS: found,
        **rows,
        LOOKS: looks_in(seen),
        REPLICA_LOOKS: looks,
        REPLICAS: replicas_of(logs, asked),
        RECORDS: records_of(logs),
        EXCUSED: small(EXCUSED, lambda each: each.excused),
        GROUP_MEMBERS: small(GROUP_MEMBERS, lambda each: each.members),
        TRACE_BEGINS: small(TRACE_BEGINS, Documents.rows_of_begins),
        QUARANTINE: functools.reduce(DataFrame.unionByName, quarantine),
    }


def line_files_of(run: Inventory, documents: Documents) -> dict[str, list[LineFile]]:
    """Return the run's files of lines, by every table's name in FORMATS."""
    found: dict[str, list[LineFile]] = {name: [] for name in FORMATS}
    begins = [(*each.start, each.from_seq) for each in documents.begins]
    for file, table_name in run.line_files:
        settings = documents.settings_of(Path(file).stem)
        found[table_name].append(
            LineFile(
                run.run_id,
                str(run.folder),
                file,
                *settings,
                ends_the_run=documents.last_look_is_final,
                begins=begins if table_name == EVENTS.name else (),
            )
        )
    return found


def whole_files_of(run: Inventory, documents: Documents) -> list[Row]:
    """Return the rows of QUARANTINE for files that are not read, or are wrong as a whole."""
    strange = [
        {"run_id": run.run_id, "file": file, "line": -1, "reason": why}
        for file, why in run.strangers
    ]
    wrong = [
        {
            "run_id": run.run_id,
            "file": file,
            "line": what.line,
            "reason": what.reason,
            "text": what.text,
        }
        for file, what in documents.wrong
    ]
    return [*strange, *wrong]


def kind_of(reason: str) -> str:
    """Return the kind of a reason: "not JSON" for "not JSON: ..."."""
    return reason.partition(":")[0]


def _frame(spark: SparkSession, table: Table, rows: Iterable[Row]) -> DataFrame:
    cells = [tuple(row.get(name) for name in table.columns) for row in rows]
    return spark.createDataFrame(cells, table.schema)


def _count(frames: Mapping[Table, DataFrame]) -> Counts:
    """Count the rows of each run in Spark; one row a run, table and kind of reason leaves it."""
    kind = fn.substring_index("reason", ":", 1)  # as kind_of
    each_row = [
        frame.select(
            "run_id",
            fn.lit(table.name).alias("table"),
            (kind if table is QUARANTINE else fn.lit("")).alias("kind"),
        )
        for table, frame in frames.items()
    ]
    of = ["run_id", "table", "kind"]
    counted = functools.reduce(DataFrame.unionByName, each_row).groupBy(*of).count()
    rows: dict[str, dict[str, int]] = {}
    quarantined: dict[str, dict[str, int]] = {}
    for run_id, table_name, reason, count in counted.orderBy(*of).collect():
        of_run = rows.setdefault(run_id, {})
        of_run[table_name] = of_run.get(table_name, 0) + count
        if table_name == QUARANTINE.name:
            quarantined.setdefault(run_id, {})[reason] = count
    return Counts(rows, quarantined)
