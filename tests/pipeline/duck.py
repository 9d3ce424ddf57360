"""Runs SQL texts in DuckDB over the rows that Spark gets: another engine's opinion."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import duckdb
import pyarrow as pa

from bench.pipeline.in_duckdb import SQL


def opinion(
    name: str, tables: Mapping[str, pa.Table], *wanted: str
) -> dict[str, list[tuple[Any, ...]]]:
    """Return the rows of the wanted relations that a check's text creates, each sorted.

    The tables go by their own names (arrow_tables of frames.py makes them).
    """
    return query(SQL[name], tables, *wanted)


def query(
    text: str, tables: Mapping[str, pa.Table], *wanted: str
) -> dict[str, list[tuple[Any, ...]]]:
    """Run the text's statements, then return each wanted relation's rows, sorted."""
    with duckdb.connect() as connection:
        for name, rows in tables.items():
            connection.register(name, rows)
        connection.execute(text)
        return {
            name: sorted(connection.execute(f"SELECT * FROM {name}").fetchall())  # noqa: S608
            for name in wanted
        }
