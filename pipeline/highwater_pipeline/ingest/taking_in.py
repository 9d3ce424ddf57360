"""A group of runs into every table: one pass over their files, one write a table."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn

from highwater_pipeline.at_once import queries_at_once
from highwater_pipeline.ingest.decoding import tasks_for
from highwater_pipeline.ingest.documents import Documents, read_documents
from highwater_pipeline.ingest.inventory import Inventory
from highwater_pipeline.ingest.line_files import FORMATS, LineFile, decoded_files
from highwater_pipeline.ingest.replica_logs import (
    decoded_logs,
    not_copied,
    records_of,
    replicas_of,
)
from highwater_pipeline.ingest.store import write
from highwater_pipeline.tables import (
    QUARANTINE,
    RECORDS,
    REPLICA_LOOKS,
    REPLICAS,
    RUNS,
    Table,
)

_REASON_WORDS = r"^([^:]*)"
"""Of a reason, what tells its kind: "not JSON: ..." and "torn: ..." """


@dataclass(frozen=True, slots=True)
class Counts:
    """By run: rows by table, and quarantined lines and files by kind of reason."""

    rows: Mapping[str, dict[str, int]]
    quarantined: Mapping[str, dict[str, int]]


def take_in(spark: SparkSession, runs: Sequence[Inventory], store: Path) -> Counts:
    """Write the runs' rows to every table of the store, and return how many they are.

    Files are read once: what was decoded stays in Spark, on disk where memory is short, until its
    rows and its wrong lines are written.
    """
    documents = {run.run_id: read_documents(run) for run in runs}
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
    """Return every table's rows; what is cached for them lasts until kept is closed."""

    def keep(frame: DataFrame) -> DataFrame:
        cached = frame.cache()
        kept.callback(cached.unpersist)
        return cached

    files = _files(runs, documents)
    tasks = tasks_for(sum(run.total_bytes for run in runs))
    decoded = {
        each.table: keep(decoded_files(spark, each.table, files[name], tasks))
        for name, each in FORMATS.items()
    }
    rows = {table: frame.where("wrong IS NULL") for table, frame in decoded.items()}
    logs = keep(decoded_logs(spark, runs, tasks))
    looks = rows[REPLICA_LOOKS]
    wrong = [
        frame.where("wrong IS NOT NULL").select("run_id", "wrong.*") for frame in decoded.values()
    ]
    quarantine = [_whole_files(spark, runs, documents), *wrong, not_copied(logs, looks)]
    return {
        RUNS: _runs(spark, documents),
        **rows,
        REPLICAS: replicas_of(logs, looks),
        RECORDS: records_of(logs),
        QUARANTINE: functools.reduce(DataFrame.unionByName, quarantine),
    }


def _files(
    runs: Sequence[Inventory], documents: Mapping[str, Documents]
) -> dict[str, list[LineFile]]:
    """Return all files of lines by the name of their table."""
    found: dict[str, list[LineFile]] = {name: [] for name in FORMATS}
    for run in runs:
        for file, table_name in run.line_files:
            settings = documents[run.run_id].settings_of(Path(file).stem)
            found[table_name].append(
                LineFile(run.run_id, str(run.folder), file, settings.acks, settings.max_in_flight)
            )
    return found


def _runs(spark: SparkSession, documents: Mapping[str, Documents]) -> DataFrame:
    rows = [tuple(each.row.get(name) for name in RUNS.columns) for each in documents.values()]
    return spark.createDataFrame(rows, RUNS.schema)


def _whole_files(
    spark: SparkSession, runs: Sequence[Inventory], documents: Mapping[str, Documents]
) -> DataFrame:
    """Return QUARANTINE's rows of files that are not read, or are wrong as a whole."""
    strange = [(run.run_id, file, -1, why, None) for run in runs for file, why in run.strangers]
    wrong = [
        (run_id, file, what.line, what.reason, what.text)
        for run_id, each in documents.items()
        for file, what in each.wrong
    ]
    return spark.createDataFrame([*strange, *wrong], QUARANTINE.schema)


def _count(frames: Mapping[Table, DataFrame]) -> Counts:
    """Count the rows of each run: one row leaves Spark for each run, table and kind of reason."""
    kind = fn.regexp_extract("reason", _REASON_WORDS, 1)
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
