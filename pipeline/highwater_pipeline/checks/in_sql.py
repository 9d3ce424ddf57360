"""Checks that are texts of SQL, one file each in sql/, which Spark runs here and DuckDB in tests.

A text names its relations `examined`, the rows that the check looks at, and `findings`: columns of
FINDINGS, of which it may leave out topic, partition, offset, broker and operation where none is
meant, and the facts of its wordings. It may name `judged`, the runs to which the check applies;
else it applies to all. {name} is the table of that name, or a text of sql/shared, which several
texts read. Functions have Spark's names.
"""

from __future__ import annotations

import string
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from highwater_pipeline.checks.findings import Check, CheckFrames, count_by_run
from highwater_pipeline.tables import FINDINGS, RUNS, Tables

NO_PLACE: Mapping[str, int | str] = {
    "topic": "",
    "partition": -1,
    "offset": -1,
    "broker": -1,
    "operation": "",
}
"""A finding's values of the columns that its SQL text leaves out."""
TEXTS: Mapping[str, str] = {
    path.stem: path.read_text() for path in Path(__file__).with_name("sql").glob("*.sql")
}
"""By the short name of the check."""
SHARED: Mapping[str, str] = {
    path.stem: path.read_text() for path in Path(__file__).parent.glob("sql/shared/*.sql")
}
"""By its name: one relation, of tables alone."""


def check_in_sql(short_name: str, name: str) -> Check:
    """Return the check whose text has the short name; name: as the checker calls it."""
    text = TEXTS[short_name]

    def run(tables: Tables) -> CheckFrames:
        findings = _relation(text, "findings", tables)
        examined = count_by_run(tables, _relation(text, "examined", tables))
        if names_runs(text):
            judged = _relation(text, "judged", tables)
            examined = examined.join(judged, "run_id", "left_semi")
            findings = findings.join(judged, "run_id", "left_semi")
        return CheckFrames(_with_all_columns(findings), examined)

    return Check(name, run)


def shared(name: str, tables: Tables) -> DataFrame:
    """Return the relation of a text of sql/shared."""
    text = SHARED[name]
    frames: dict[str, Any] = {table: tables.frames[table] for table in tables_of(text)}
    return tables[RUNS].sparkSession.sql(text, **frames)


def tables_of(text: str) -> list[str]:
    """Return the names of the tables and shared relations that a text reads, each once."""
    return sorted({name for _, name, _, _ in string.Formatter().parse(text) if name})


def names_runs(text: str) -> bool:
    """Return whether a text says to which runs its check applies."""
    return ", judged AS (" in text


def _relation(text: str, name: str, tables: Tables) -> DataFrame:
    frames: dict[str, Any] = {
        each: shared(each, tables) if each in SHARED else tables.frames[each]
        for each in tables_of(text)
    }
    session = tables[RUNS].sparkSession
    return session.sql(f"{text} SELECT * FROM {name}", **frames)  # noqa: S608


def _with_all_columns(findings: DataFrame) -> DataFrame:
    facts = [name for name in findings.columns if name not in FINDINGS.columns]
    place = (
        (fn.col(name) if name in findings.columns else fn.lit(NO_PLACE[name]))
        .cast(kind)
        .alias(name)
        for name, kind in FINDINGS.columns.items()
    )
    return findings.select(*place, *facts)
