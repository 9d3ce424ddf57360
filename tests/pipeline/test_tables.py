"""Tables as declared: an empty store has them all, without rows."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from highwater_pipeline.reading import read_tables
from highwater_pipeline.tables import DATA_VERSION, RUNS, TABLES, runs_of_other_versions
from tests.pipeline.frames import tables_from_rows


def test_an_empty_store_has_every_table_without_rows(spark: SparkSession, tmp_path: Path) -> None:
    tables = read_tables(spark, tmp_path)
    for table in TABLES:
        assert tables[table].schema == table.schema
        assert tables[table].count() == 0


def test_runs_of_another_version_are_named(spark: SparkSession) -> None:
    versions = {"now": DATA_VERSION, "b": DATA_VERSION - 1, "a": None, "later": DATA_VERSION + 1}
    rows = [{"run_id": run_id, "data_version": number} for run_id, number in versions.items()]
    assert runs_of_other_versions(tables_from_rows(spark, {RUNS: rows})) == ["a", "b", "later"]
    assert runs_of_other_versions(tables_from_rows(spark, {RUNS: rows[:1]})) == []
