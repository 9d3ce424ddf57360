"""Tables as declared: an empty store has them all, without rows."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from highwater_pipeline.tables import TABLES, read_tables


def test_an_empty_store_has_every_table_without_rows(spark: SparkSession, tmp_path: Path) -> None:
    tables = read_tables(spark, tmp_path)
    for table in TABLES:
        assert tables[table].schema == table.schema
        assert tables[table].count() == 0
