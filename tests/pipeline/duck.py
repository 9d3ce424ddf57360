"""Runs SQL texts in DuckDB over the rows that Spark gets: another engine's opinion."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import duckdb
import pyarrow as pa

Row = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Relation:
    """A relation's rows, in no order, and the names of their columns."""

    columns: tuple[str, ...]
    rows: list[Row]

    def by_name(self) -> Iterator[dict[str, Any]]:
        """Yield each row's cells by their columns' names."""
        return (dict(zip(self.columns, row, strict=True)) for row in self.rows)


def query(text: str, tables: Mapping[str, pa.Table], *wanted: str) -> list[Relation]:
    """Run the text's statements, and return the wanted relations.

    The tables go by their own names (arrow_tables of frames.py makes them).
    """
    with duckdb.connect() as connection:
        for name, rows in tables.items():
            connection.register(name, rows)
        connection.execute(text)
        return [_relation(connection, name) for name in wanted]


def _relation(connection: duckdb.DuckDBPyConnection, name: str) -> Relation:
    found = connection.execute(f"SELECT * FROM {name}")  # noqa: S608
    columns = tuple(each[0] for each in found.description or ())
    return Relation(columns, found.fetchall())
