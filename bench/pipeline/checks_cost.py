"""One engine's checks over made tables, one after the other: run as a process of its own.

`python -m bench.pipeline.checks_cost ENGINE STORE` prints a JSON line a check. DuckDB runs the SQL
texts that the tests hold the pipeline's checks against; it has none of the checks of looks.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import duckdb
import msgspec

from highwater.pipeline_runs import bytes_below
from highwater_pipeline.checks.registry import CHECKS
from highwater_pipeline.judging import judge
from highwater_pipeline.session import spark_session
from highwater_pipeline.tables import SMALL_BYTES, TABLES, read_tables
from tests.pipeline.duck import SQL
from tests.pipeline.event_judges import IN_SQL
from tests.pipeline.event_judges import SPARK as OF_EVENTS
from tests.pipeline.record_judges import SPARK as OF_RECORDS

SPARK_MEMORY = "4g"
DUCKDB_MEMORY = "4GB"
START = "(start)"
"""What comes before the first check, told as one."""
SQL_NAMES = {
    check.name: name
    for name, check in {**OF_RECORDS, **OF_EVENTS}.items()
    if name in OF_RECORDS or name in IN_SQL
}
"""By the check's name, its SQL text's."""


@dataclass(frozen=True, slots=True)
class Cost:
    """What one check took. peak_bytes: the most memory that the engine's process had meanwhile
    (of Spark the JVM's, whose heap does not shrink between checks)."""

    check: str
    seconds: float
    findings: int
    examined: int
    peak_bytes: int


def of_spark(store: Path) -> Iterator[Cost]:
    """Yield the cost of each check; the first one's begins before Spark does."""
    began = time.perf_counter()
    is_small = bytes_below([store]) <= SMALL_BYTES
    with spark_session(memory=SPARK_MEMORY, is_small=is_small) as spark:
        tables = read_tables(spark, store, are_small=is_small)
        yield Cost(START, time.perf_counter() - began, 0, 0, _peak_bytes(_java()))
        for check in CHECKS:
            pid = _java()
            _forget_peak(pid)
            began = time.perf_counter()
            judged = judge(check, tables)
            seconds = time.perf_counter() - began
            found, looked_at = sum(judged.found.values()), sum(judged.examined.values())
            yield Cost(check.name, seconds, found, looked_at, _peak_bytes(pid))


def of_duckdb(store: Path) -> Iterator[Cost]:
    """Yield the cost of each check that has an SQL text."""
    began = time.perf_counter()
    pid = os.getpid()
    for check in CHECKS:
        if check.name not in SQL_NAMES:
            continue
        with duckdb.connect(config={"memory_limit": DUCKDB_MEMORY}) as connection:
            _views(connection, store)
            if began:
                yield Cost(START, time.perf_counter() - began, 0, 0, _peak_bytes(pid))
                began = 0.0
            _forget_peak(pid)
            start = time.perf_counter()
            connection.execute((SQL / f"{SQL_NAMES[check.name]}.sql").read_text())
            found = _number(connection, "SELECT count(*) FROM findings")
            looked_at = _number(connection, "SELECT sum(#2) FROM examined")
            yield Cost(check.name, time.perf_counter() - start, found, looked_at, _peak_bytes(pid))


def _views(connection: duckdb.DuckDBPyConnection, store: Path) -> None:
    for table in TABLES:
        files = f"{store}/{table.name}/**/*.parquet"
        if any((store / table.name).glob("**/*.parquet")):
            source = f"read_parquet('{files}', hive_partitioning = true)"
        else:
            columns = ", ".join(
                f'NULL::{kind.simpleString().replace("array<int>", "INT[]")} AS "{name}"'
                for name, kind in table.columns.items()
            )
            source = f"(SELECT {columns}) WHERE false"
        connection.execute(f"CREATE VIEW {table.name} AS SELECT * FROM {source}")  # noqa: S608


def _number(connection: duckdb.DuckDBPyConnection, query: str) -> int:
    row = connection.execute(query).fetchone()
    return 0 if row is None or row[0] is None else int(row[0])


ENGINES: dict[str, Callable[[Path], Iterator[Cost]]] = {"Spark": of_spark, "DuckDB": of_duckdb}


# ---------------------------------------------------------------- a process's memory, by Linux


def _java() -> int:
    """Return the process id of this process's JVM."""
    for each in Path("/proc").glob("[0-9]*"):
        try:
            name, fields = (each / "stat").read_text().rsplit(")", 1)
        except OSError:
            continue
        if name.endswith("(java") and int(fields.split()[1]) == os.getpid():
            return int(each.name)
    raise LookupError("this process has no JVM")


def _forget_peak(pid: int) -> None:
    """Let the peak of the process's memory begin anew."""
    Path(f"/proc/{pid}/clear_refs").write_text("5")


def _peak_bytes(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    (peak,) = (line.split()[1] for line in status.splitlines() if line.startswith("VmHWM:"))
    return int(peak) * 1024


if __name__ == "__main__":
    engine, folder = sys.argv[1:]
    for cost in ENGINES[engine](Path(folder)):
        print(msgspec.json.encode(cost).decode(), flush=True)
