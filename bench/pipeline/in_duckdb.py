"""The checks as SQL texts for DuckDB, which the tests hold the checker against as well.

Some are the pipeline's own texts, which Spark runs too. The others are written again in sql/, as
another opinion and not for speed: where DuckDB takes long, the text may be the reason.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb

from bench.pipeline.cost import Answer, Engine, Job
from bench.pipeline.seven import LATENCIES
from highwater_pipeline.checks import in_sql
from highwater_pipeline.checks.in_sql import names_runs, tables_of
from highwater_pipeline.checks.registry import CHECKS
from highwater_pipeline.tables import TABLES, Table

MEMORY = "4GB"
LATENCIES_TEXT = """
CREATE VIEW sends AS
SELECT run_id, min(time_ns) FILTER ("type" = 'ok') - min(time_ns) FILTER ("type" = 'invoke') AS ns
FROM operations WHERE "function" = 'send' GROUP BY run_id, process, operation_id;

CREATE VIEW findings AS SELECT 0 WHERE false;

CREATE TABLE percentiles AS
SELECT run_id, count(ns) AS acknowledged, quantile_disc(ns, [0.5, 0.95, 0.99]) AS of
FROM sends GROUP BY run_id;

CREATE VIEW examined AS SELECT run_id, acknowledged FROM percentiles;
"""
SPARKS_FUNCTIONS = """
CREATE MACRO array_except(a, b) AS list_filter(a, lambda x: NOT list_contains(b, x));
CREATE MACRO explode(a) AS unnest(a);
CREATE MACRO get(a, place) AS a[place + 1];
CREATE MACRO shiftleft(a, bits) AS a << bits;
CREATE MACRO shiftright(a, bits) AS a >> bits;
CREATE MACRO size(a) AS len(a);
CREATE MACRO xxhash64(x) AS hash(x);
"""
"""Functions in the pipeline's texts that have other names in DuckDB."""


def _in_tables(text: str) -> str:
    """Return a text of the pipeline's with the names of its tables."""
    return text.format(**{name: name for name in tables_of(text)})


INCOMPLETE = f"\nCREATE VIEW incomplete AS {_in_tables(in_sql.SHARED['incomplete'])};\n"
"""The processes whose histories may lack lines, which several texts read."""


def in_views(text: str) -> str:
    """Return statements that make views of the relations of a text of the pipeline's."""
    relations = _in_tables(text)
    judged = f"{relations} FROM judged" if names_runs(text) else "FROM runs"
    return f"""{SPARKS_FUNCTIONS}{INCOMPLETE}
CREATE VIEW judged AS {judged};
CREATE VIEW findings AS {relations} SELECT * FROM findings SEMI JOIN judged USING (run_id);
CREATE VIEW looked_at AS {relations} SELECT run_id FROM examined;
CREATE VIEW examined AS
SELECT u.run_id, count(l.run_id) FROM judged u LEFT JOIN looked_at l USING (run_id) GROUP BY ALL;
"""  # noqa: S608


NEWEST = """
CREATE VIEW newest AS
SELECT run_id, topic, "partition", broker, key, max("offset") AS newest
FROM records JOIN replicas r USING (run_id, topic, "partition", broker) JOIN runs u USING (run_id)
WHERE key IS NOT NULL AND "offset" < r.high_watermark AND r.damage IS NULL
  AND list_contains(u.compacted, topic)
GROUP BY ALL;
"""
"""The newest committed record of each key in compacted logs, for texts that need it."""
SAID_AGAIN = {
    path.stem: SPARKS_FUNCTIONS + NEWEST + INCOMPLETE + path.read_text()
    for path in sorted(Path(__file__).with_name("sql").iterdir())
}
"""By the short name of the check that each says again."""
SQL = SAID_AGAIN | {name: in_views(text) for name, text in in_sql.TEXTS.items()}
"""By the check's short name, statements that create the views findings and examined."""
TEXTS = {CHECKS[name].name: text for name, text in SQL.items()} | {LATENCIES: LATENCIES_TEXT}
"""By the check's name; there is none for the checks of looks."""


@contextmanager
def duckdb_engine(job: Job) -> Iterator[Engine]:
    """Yield DuckDB with MEMORY; beyond that it writes temporary files beside the tables.

    Each check has a connection of its own: nothing is kept from one for another.
    """
    store = Path(job.store)
    running: list[duckdb.DuckDBPyConnection] = []

    def ask(text: str) -> Answer:
        with _opened(store) as connection:
            running.append(connection)
            connection.execute(text)
            found = _number(connection, "SELECT count(*) FROM findings")
            return found, _number(connection, "SELECT sum(#2) FROM examined")

    yield Engine(
        pid=os.getpid(),
        checks={name: functools.partial(ask, text) for name, text in TEXTS.items()},
        stop=lambda: running[-1].interrupt(),
        failures=(duckdb.Error,),
    )


def _opened(store: Path) -> duckdb.DuckDBPyConnection:
    spilled = str(store / "_spilled")
    connection = duckdb.connect(config={"memory_limit": MEMORY, "temp_directory": spilled})
    for table in TABLES:
        connection.execute(f"CREATE VIEW {table.name} AS SELECT * FROM {_source(store, table)}")  # noqa: S608
    return connection


_ARRAYS = {"array<int>": "INT[]", "array<string>": "STRING[]"}


def _source(store: Path, table: Table) -> str:
    if any((store / table.name).glob("**/*.parquet")):
        return f"read_parquet('{store}/{table.name}/**/*.parquet', hive_partitioning = true)"
    columns = ", ".join(
        f'NULL::{_ARRAYS.get(kind.simpleString(), kind.simpleString())} AS "{name}"'
        for name, kind in table.columns.items()
    )
    return f"(SELECT {columns}) WHERE false"


def _number(connection: duckdb.DuckDBPyConnection, query: str) -> int:
    row = connection.execute(query).fetchone()
    return 0 if row is None or row[0] is None else int(row[0])
