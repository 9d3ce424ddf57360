"""Asks the checker's Python, Spark, and SQL in DuckDB for their opinions of the same runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql import SparkSession

from bench.pipeline.in_duckdb import SAID_AGAIN, SQL
from highwater_checker.finding import CheckResult, Finding
from highwater_pipeline.checks.findings import Check, in_words
from highwater_pipeline.checks.in_sql import NO_PLACE
from highwater_pipeline.tables import FINDINGS
from tests.pipeline.duck import query
from tests.pipeline.frames import Run, arrow_tables, tables_from_arrow

Row = tuple[object, ...]
"""A finding: FINDINGS' columns in their order, its message for its wording's name."""

Judges = Mapping[str, Callable[[Run], CheckResult | None]]
"""The checker's, by the check's name in SQL; None where it does not apply to the run."""


@dataclass(frozen=True, slots=True)
class Opinion:
    """One judge's findings in one run, sorted, and the count of records or events it examined."""

    findings: tuple[Row, ...]
    examined: int

    def without_messages(self) -> Opinion:
        return Opinion(tuple(sorted(row[:-1] for row in self.findings)), self.examined)


Opinions = dict[tuple[str, str], Opinion]
"""By the check's name in SQL and the run's id."""


def opinions_of_python(judges: Judges, runs: Iterable[Run]) -> Opinions:
    """Return the checker's opinions, of every check that applies and every run."""
    found: Opinions = {}
    for run in runs:
        for name, judge in judges.items():
            result = judge(run)
            if result is not None:
                rows = tuple(sorted(_row(run, each) for each in result.findings))
                found[name, run.run_id] = Opinion(rows, result.examined)
    return found


def opinions_of_spark(
    spark: SparkSession,
    checks: Mapping[str, Check],
    runs: Sequence[Run],
    *,
    by_ranges: bool = True,
) -> Opinions:
    """Return the pipeline's opinions: each check judges all runs at once."""
    tables = replace(tables_from_arrow(spark, arrow_tables(runs)), by_ranges=by_ranges)
    found: Opinions = {}
    for name, check in checks.items():
        frames = check.run(tables)
        place = frames.findings.schema[: len(FINDINGS.columns)]
        assert {each.name: each.dataType for each in place} == FINDINGS.columns
        both = frames.findings.unionByName(frames.examined, allowMissingColumns=True)
        rows = [row.asDict() for row in both.collect()]
        findings = [_with_message(row) for row in rows if row["examined"] is None]
        examined = [(row["run_id"], row["examined"]) for row in rows if row["examined"] is not None]
        found |= _by_run(name, findings, examined)
    return found


def opinions_of_duckdb(names: Iterable[str], runs: Sequence[Run]) -> Opinions:
    """Return the opinions of the SQL texts of these names.

    Findings of the texts that DuckDB alone has are without messages.
    """
    tables = arrow_tables(runs)
    found: Opinions = {}
    for name in names:
        findings, examined = query(SQL[name], tables, "findings", "examined")
        if name in SAID_AGAIN:
            rows = findings.rows
        else:
            rows = [_with_message({**NO_PLACE, **finding}) for finding in findings.by_name()]
        found |= _by_run(name, rows, examined.rows)
    return found


def _with_message(finding: Mapping[str, Any]) -> Row:
    """Return a finding's row with its message."""
    in_them = in_words(finding)
    return tuple(in_them[name] for name in (*FINDINGS.columns, "message") if name != "wording")


def _by_run(name: str, findings: Sequence[Row], examined: Sequence[Row]) -> Opinions:
    counts = {str(run_id): int(str(count)) for run_id, count in examined}
    assert len(counts) == len(examined), "one row a run"
    assert {row[0] for row in findings} <= counts.keys(), "findings of examined runs alone"
    return {
        (name, run_id): Opinion(tuple(sorted(row for row in findings if row[0] == run_id)), count)
        for run_id, count in counts.items()
    }


def _row(run: Run, each: Finding) -> Row:
    place = each.topic, each.partition, each.offset, each.broker
    return run.run_id, each.invariant, *place, each.operation, each.message
