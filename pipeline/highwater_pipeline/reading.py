"""Reads a store's tables into an engine: Spark, or the local one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import pyarrow as pa
from pyarrow import dataset, parquet
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema

from highwater_pipeline.tables import RECORDS, TABLES, Table, Tables

RANGES_FROM_BYTES = 24 * 1024 * 1024
"""Of the files of RECORDS, from which on ranges are compared: 3 million records, about. A query of
fewer is sooner run than planned."""
SMALL_BYTES = 64 * 1024 * 1024
"""Of files of runs, up to which their tables are small."""


def read_tables(
    spark: SparkSession,
    store: Path,
    run_ids: Iterable[str] | None = None,
    *,
    are_small: bool = False,
    scratch: Path | None = None,
) -> Tables:
    """Return the store's tables, or their rows of some runs; a table without files is empty.

    are_small: this process reads the files, and each table is in memory as one partition. Joins and
        groups need no shuffle then, which would take most of the time for small tables; and Spark
        takes some 20 ms a file, of which each run has dozens.
    scratch: the local engine's folder. This process reads the files, and writes one of each table
        there: rows in memory would be sent to that engine with every query.
    """
    sizes = (file.stat().st_size for file in (store / RECORDS.name).glob("**/*.parquet"))
    by_ranges = sum(sizes) >= RANGES_FROM_BYTES
    if are_small or scratch is not None:
        wanted = None if run_ids is None else sorted(run_ids)
        frames = {table.name: _read_small(spark, store, table, wanted, scratch) for table in TABLES}
        return Tables(frames, by_ranges, are_small=True)
    tables = Tables({table.name: read_table(spark, store, table) for table in TABLES}, by_ranges)
    return tables if run_ids is None else tables.of_runs(run_ids)


def read_table(spark: SparkSession, store: Path, table: Table) -> DataFrame:
    """Return the store's rows of a table; an empty frame if it has no files."""
    folder = store / table.name
    if not any(folder.glob("**/*.parquet")):
        return spark.createDataFrame([], table.schema)
    frame = spark.read.schema(table.schema).parquet(str(folder))
    return frame.select(*table.columns)


def _read_small(
    spark: SparkSession,
    store: Path,
    table: Table,
    run_ids: Sequence[str] | None,
    scratch: Path | None,
) -> DataFrame:
    """Return a table that this process has read; one of an unknown version is left to the engine.

    The engine reads it when its rows are asked for: then the store's version has been looked at.
    """
    try:
        rows = _read_here(store, table, run_ids)
    except pa.ArrowException:
        frame = read_table(spark, store, table)
        return frame if run_ids is None else frame.where(frame["run_id"].isin(list(run_ids)))
    if scratch is None:
        return spark.createDataFrame(rows, table.schema).coalesce(1).cache()
    file = scratch / f"{table.name}.parquet"
    parquet.write_table(rows, file)
    return spark.read.schema(table.schema).parquet(str(file))


def _read_here(store: Path, table: Table, run_ids: Sequence[str] | None) -> pa.Table:
    """Return the store's rows of a table, or of it those of some runs, as read_table has them."""
    schema = to_arrow_schema(table.schema)
    folder = store / table.name
    if not any(folder.glob("**/*.parquet")):
        return schema.empty_table()
    names = pa.schema([schema.field(name) for name in table.partitioned_by])
    rows = dataset.dataset(
        folder,
        schema,
        format="parquet",
        partitioning=dataset.HivePartitioning(names, segment_encoding="uri"),
    )
    wanted = None
    if run_ids is not None:
        wanted = dataset.field("run_id").isin(pa.array(run_ids, pa.string()))
    found = rows.to_table(list(table.columns), filter=wanted)
    return found if found.num_rows else schema.empty_table()
